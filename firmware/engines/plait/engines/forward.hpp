#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace plait::engines {

/// The multicast set of one row at its entry device: which GPUs of the node get a copy, and where each copy
/// goes.
///
/// Bit r of the target mask is local rank r; the indices (slots) lie in order of the set bits. They stay the
/// caller's.
class ForwardSet {
  public:
    static constexpr uint32_t max_node_size = 64;

    /// Checks what the network sent: a node of 1..64 GPUs, `own_rank` one of them, at least one target, no
    /// target outside the node, one index for each target. Nothing, if any of this fails.
    static constexpr std::optional<ForwardSet> make(uint64_t targets, uint32_t node_size, uint32_t own_rank,
                                                    std::span<const uint32_t> indices) {
        if (node_size == 0 || node_size > max_node_size || own_rank >= node_size || targets == 0)
            return std::nullopt;
        if (node_size < 64 && targets >> node_size != 0) return std::nullopt;
        if (indices.size() != static_cast<size_t>(std::popcount(targets))) return std::nullopt;
        return ForwardSet(targets, own_rank, indices);
    }

    /// Calls `visit(local_rank, index)` for each target, lowest rank first.
    template <typename Visit>
    constexpr void for_each(Visit&& visit) const {
        size_t ordinal = 0;
        for (uint64_t left = targets_; left != 0; left &= left - 1)
            visit(static_cast<uint32_t>(std::countr_zero(left)), indices_[ordinal++]);
    }

    /// The index of the copy for `local_rank`; nothing, if it is no target.
    constexpr std::optional<uint32_t> index_of(uint32_t local_rank) const {
        if (local_rank >= max_node_size || !(targets_ >> local_rank & 1)) return std::nullopt;
        const uint64_t below = targets_ & ((uint64_t{1} << local_rank) - 1);
        return indices_[static_cast<size_t>(std::popcount(below))];
    }

    /// The entry device's own GPU is a target: that copy takes no scale-up link.
    constexpr bool includes_own() const { return targets_ >> own_rank_ & 1; }

    /// Targets that are reached over scale-up.
    constexpr uint64_t remote_targets() const { return targets_ & ~(uint64_t{1} << own_rank_); }

    constexpr uint64_t targets() const { return targets_; }
    constexpr uint32_t copies() const { return static_cast<uint32_t>(indices_.size()); }

  private:
    constexpr ForwardSet(uint64_t targets, uint32_t own_rank, std::span<const uint32_t> indices)
        : targets_(targets), own_rank_(own_rank), indices_(indices) {}

    uint64_t targets_;
    uint32_t own_rank_;
    std::span<const uint32_t> indices_;
};

}  // namespace plait::engines
