#pragma once
// What timers, messages, frames and fetches of a call are called, so that their ends find it again.

#include <cstdint>
#include <plait/firmware/commands.hpp>
#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

struct EpNames {
    static constexpr std::uint32_t local_row_tag = 0x80000000U;  ///< Bit of the tags of own-node rows.
    static constexpr std::uint32_t create_label = 0xffffffffU;   ///< Of the fetch of a group's parameters.

    [[nodiscard]] static std::uint8_t handle_number(const EpGroup& group, const EpHandle& handle) {
        return static_cast<std::uint8_t>(&handle - group.handles.data());
    }

    [[nodiscard]] static TimerId timer(const EpGroup& group, const EpHandle& handle) {
        return {TimerKind::ep_call, group.number * regmap::max_handles + handle_number(group, handle)};
    }

    /// Of infinities and NaN met in the call.
    [[nodiscard]] static std::uint32_t counter(const EpGroup& group, const EpHandle& handle) {
        return timer(group, handle).number;
    }

    [[nodiscard]] static std::uint64_t tag(const EpGroup& group, const EpHandle& handle, EpMessageKind kind,
                                           std::uint16_t operation, std::uint32_t index) {
        return EpTag{kind, group.number, handle_number(group, handle), operation, index}.pack();
    }

    [[nodiscard]] static std::uint32_t notify_tag(const EpGroup& group, const EpHandle& handle) {
        return local_row_tag | (handle.operation & 0x7fffU) << 16 | std::uint32_t{group.number} << 8 |
               handle_number(group, handle);
    }

    [[nodiscard]] static std::uint32_t fetch_label(const EpGroup& group, const EpHandle& handle, bool weights,
                                                   std::uint32_t piece) {
        return std::uint32_t{group.number} << 28 | std::uint32_t{handle_number(group, handle)} << 24 |
               (weights ? 1U << 23 : 0U) | piece;
    }
};

}  // namespace plait::firmware
