#pragma once
// Scale-up frames of EP: which module takes each.

#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// `Core` is Ep<Context>.
template <class Core>
class EpFrames {
  public:
    explicit EpFrames(Core& core) : core_(core) {}

    /// A frame has arrived. Its buffer stays the caller's. A pull is answered whatever it says.
    void take(const ScaleUpEvent& event) {
        const ScaleUpHeader& frame = event.header;
        EpGroup* group = core_.find(frame.group, frame.handle);
        auto& hal = core_.hal();
        if (frame.kind == regmap::ScaleUpKind::contribution)
            return core_.combine().gather().on_refusal(frame);
        if (group == nullptr || frame.source_local >= group->parameters.ranks_per_node ||
            frame.source_rank >= group->parameters.ranks) {
            if (frame.kind == regmap::ScaleUpKind::pull)
                core_.combine().contribute().refuse(frame, regmap::DropReason::unknown_operation);
            else hal.count_drop(regmap::DropReason::unknown_operation);
            return;
        }
        EpHandle& handle = group->handles[frame.handle];
        switch (frame.kind) {
            case regmap::ScaleUpKind::row: return core_.dispatch().receive().on_target(*group, handle, event);
            case regmap::ScaleUpKind::pull:
                return core_.combine().contribute().on_pull(*group, handle, frame);
            case regmap::ScaleUpKind::control:
                if (core_.control().take(*group, handle, group->rank_at(group->node, frame.source_local),
                                         frame.control, event.control)) {
                    return;
                }
                break;
            case regmap::ScaleUpKind::contribution: break;
        }
        hal.count_drop(regmap::DropReason::malformed);
    }

    /// The payload of a frame with notification has been read, and its last copy has left.
    void sent(std::uint32_t tag) {
        const std::span<EpGroup> groups = core_.mutable_groups();
        const std::uint32_t number = (tag >> 8) & 0x7f;
        const std::uint32_t handle_index = tag & 0xff;
        if ((tag & Core::local_row_tag) != 0) {
            if (number < groups.size() && handle_index < groups[number].handles.size()) {
                local_row_sent(groups[number], groups[number].handles[handle_index], (tag >> 16) & 0x7fff);
            }
            return;
        }
        for (EpGroup& group : groups) {
            for (EpHandle& handle : group.handles) {
                if (core_.combine().contribute().sent(group, handle, tag)) return;
            }
        }
    }

  private:
    void local_row_sent(EpGroup& group, EpHandle& handle, std::uint32_t operation) {
        if (operation != (handle.operation & 0x7fffU) || handle.local_in_flight == 0) return;
        if (handle.state == HandleState::dispatching) return core_.dispatch().local_row_sent(group, handle);
        --handle.local_in_flight;
        core_.try_end(group, handle);
    }

    Core& core_;
};

}  // namespace plait::firmware
