#pragma once
// What follows the header of a control message between ranks.

#include <algorithm>
#include <array>
#include <cstring>
#include <plait/firmware/ep_group.hpp>
#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// Payloads of counts, ready and abort. Those of a credit are CreditWeights'; the others have none.
class ControlPayload {
  public:
    /// Calls of low latency are too short for a pace, so nothing is said that it would be made of.
    static std::uint32_t ready_bytes(const EpGroup& group) {
        return group.is_low_latency() ? 0 : sizeof(std::uint32_t);
    }

    static std::uint32_t bytes(const EpGroup& group, regmap::EpControlKind kind) {
        switch (kind) {
            case regmap::EpControlKind::counts: return counts_bytes(group.parameters);
            case regmap::EpControlKind::ready: return ready_bytes(group);
            case regmap::EpControlKind::abort: return sizeof(RankMask);
            default: return 0;
        }
    }

    /// For `rank`, in memory that is read before the next one is made.
    std::span<const std::uint8_t> make(const EpGroup& group, const EpHandle& handle, std::uint32_t rank,
                                       regmap::EpControlKind kind) {
        const std::uint32_t length = bytes(group, kind);
        const void* from = words_.data();
        if (kind == regmap::EpControlKind::counts) put_counts(group, handle, rank);
        if (kind == regmap::EpControlKind::ready) from = &handle.peer[group.parameters.rank].contributions;
        if (kind == regmap::EpControlKind::abort) from = handle.abort_ranks.data();
        return {static_cast<const std::uint8_t*>(from), length};
    }

  private:
    void put_counts(const EpGroup& group, const EpHandle& handle, std::uint32_t rank) {
        const std::uint32_t own = group.own_experts();
        const Destination& destination = handle.destination[rank];
        words_[0] = destination.rows_to;
        words_[1] = destination.rows_via;
        words_[2] = handle.rows_away;
        std::copy_n(handle.expert_rows.begin() + rank * own, own, words_.begin() + 3);
    }

    std::array<std::uint32_t, regmap::max_control_bytes / sizeof(std::uint32_t)> words_{};
};

}  // namespace plait::firmware
