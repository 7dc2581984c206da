#pragma once
// Requests of the host on EP groups: what is refused, how a call begins, and how long it waits.

#include <algorithm>
#include <plait/firmware/ep_control.hpp>
#include <plait/firmware/ep_request.hpp>
#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// `Core` is Ep<Context>.
template <class Core>
class EpCalls {
  public:
    explicit EpCalls(Core& core) : core_(core) {}

    /// A request that names no idle handle gets an error completion and changes nothing. A dispatch or
    /// combine that is refused for its parameters counts as a call nevertheless: the other ranks are told
    /// that it will not take place.
    void submit(EpGroup& group, const regmap::EpRequest& request, std::uint16_t request_index) {
        const regmap::Status status = check_handle(group, request);
        if (status != regmap::Status::ok) return core_.complete(group, request, request_index, status, 0);
        EpHandle& handle = group.handles[request.handle];
        if (request.opcode == regmap::EpOpcode::release_handle) {
            handle.state = HandleState::free;
            handle.routed = false;
            return core_.complete(group, request, request_index, regmap::Status::ok, 0);
        }
        ++handle.operation;
        const bool aborted = (handle.aborted & 1U) != 0;
        handle.aborted = static_cast<std::uint8_t>(handle.aborted >> 1);
        forget_old_news(handle);
        core_.control().begin(handle);
        const regmap::Status valid = check_call(group, handle, request, core_.context().memory_table());
        if (valid != regmap::Status::ok) core_.control().send_aborts(group, handle, valid, {});
        handle.disturbed = aborted && handle.aborted_status == regmap::Status::rank_failed;
        handle.in_a_hurry = false;
        if (!handle.disturbed) handle.blamed_ranks = {};
        handle.joined_ranks = {};
        handle.asked = 0;
        if (valid != regmap::Status::ok || (aborted && !handle.disturbed)) {
            return core_.complete(group, request, request_index,
                                  valid != regmap::Status::ok ? valid : handle.aborted_status, 0);
        }
        begin(group, handle, request, request_index);
    }

    /// The call in progress may never be complete: when nothing comes any more it is not waited for. Before
    /// rows travel it still waits for those who have not joined.
    void hurry(EpGroup& group, EpHandle& handle) {
        handle.in_a_hurry = true;
        if (!is_begun(handle)) return;
        handle.left_before = work_left(handle);
        handle.deadline_ns = std::min(handle.limit_ns, core_.hal().now_ns() + patience_ns());
        arm_timer(group, handle);
    }

    /// The timer of a call: its time limit, the end of its patience, or time to see whether those it waits
    /// for are alive.
    void on_timer(EpGroup& group, EpHandle& handle) {
        if (!core_.is_busy(handle)) return;
        const std::uint64_t now_ns = core_.hal().now_ns();
        if (now_ns >= handle.deadline_ns) {
            const bool has_absent = core_.absent_ranks(group, handle) != RankMask{};
            if (now_ns < handle.limit_ns && (has_absent || work_left(handle) != handle.left_before))
                return hurry(group, handle);
            // A routing without the counts of all is none, and a call that was not made by all is no call.
            const bool failed =
                is_begun(handle) && !has_absent && (core_.any_failed(group) || handle.disturbed);
            return core_.give_up(group, handle,
                                 failed ? regmap::Status::rank_failed : regmap::Status::timeout);
        }
        ask_missing(group, handle);
        arm_timer(group, handle);
    }

  private:
    [[nodiscard]] static bool is_begun(const EpHandle& handle) {
        return handle.state == HandleState::dispatching || handle.state == HandleState::combining;
    }

    /// What a call still waits for: when it changes there is progress.
    [[nodiscard]] static std::uint64_t work_left(const EpHandle& handle) {
        if (handle.state == HandleState::combining)
            return handle.tokens_left + handle.pulls_left + handle.partials_left;
        return handle.parts_left + handle.entry_parts_left + handle.rows_unacknowledged + handle.local_left;
    }

    regmap::Status check_handle(const EpGroup& group, const regmap::EpRequest& request) const {
        if (!group.active) return regmap::Status::invalid_group;
        if (!is_known(request.opcode)) return regmap::Status::invalid_opcode;
        if (request.handle >= group.handles.size()) return regmap::Status::invalid_handle;
        const HandleState state = group.handles[request.handle].state;
        return state == HandleState::free || state == HandleState::dispatched
                   ? regmap::Status::ok
                   : regmap::Status::invalid_handle;
    }

    void begin(EpGroup& group, EpHandle& handle, const regmap::EpRequest& request,
               std::uint16_t request_index) {
        const bool cached = (request.flags & regmap::ep_request_cached) != 0;
        handle.request = request;
        handle.request_index = request_index;
        (void)core_.hal().take_non_finite(
            core_.counter(group, handle));  // what came after the last call's end
        handle.kind = request.opcode == regmap::EpOpcode::combine ? CallKind::combine
                      : cached                                    ? CallKind::cached_dispatch
                                                                  : CallKind::dispatch;
        handle.deadline_ns = handle.limit_ns =
            core_.hal().now_ns() + std::uint64_t{request.timeout_us} * 1000;
        arm_timer(group, handle);
        if (handle.kind == CallKind::combine && request.topk_weights.key != 0) {
            core_.dispatch().load_weights(group, handle);
        } else if (handle.kind == CallKind::combine) {
            core_.begin_combine(group, handle);
        } else {
            core_.dispatch().begin(group, handle, cached);
        }
        if (handle.disturbed && core_.is_busy(handle)) hurry(group, handle);
        const bool disagrees =
            std::any_of(handle.peer.begin(), handle.peer.end(),
                        [&](const PeerState& peer) { return EpControl<Core>::disagrees(handle, peer); });
        if (core_.is_busy(handle) && disagrees)
            core_.give_up(group, handle, regmap::Status::parameter_mismatch);
    }

    /// As long as a silent peer is believed in.
    [[nodiscard]] std::uint64_t patience_ns() {
        return std::uint64_t{core_.context().registers().qp_time_limit_us()} * 1000;
    }

    void arm_timer(EpGroup& group, EpHandle& handle) {
        const std::uint64_t next_ns = core_.hal().now_ns() + patience_ns();
        core_.hal().set_timer(core_.timer(group, handle), std::min(next_ns, handle.deadline_ns));
    }

    /// A rank that this one only waits for would not be missed when it dies: it gets a message that it must
    /// acknowledge.
    void ask_missing(EpGroup& group, EpHandle& handle) {
        RankMask mask{};
        if (handle.state == HandleState::combining) {
            tell_all(group, handle);
            core_.combine().missing_ranks(group, handle, mask);
            core_.combine().contribute().mark_sources(handle, mask);
        } else if (handle.state != HandleState::loading) {
            core_.dispatch().missing_ranks(group, handle, mask);
        }
        const EpControlKind kind =
            handle.state == HandleState::counting ? EpControlKind::counts : EpControlKind::ready;
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            if (contains(mask, rank) && !group.is_local(rank) && !group.has_failed(rank))
                core_.control().send_again(group, handle, rank, kind);
        }
    }

    /// Only its node knows at once that a rank has joined a combine. When one takes long, all ranks learn it,
    /// so that those that never join it are known when the time runs out.
    void tell_all(EpGroup& group, EpHandle& handle) {
        if (handle.asked <= asked_enough) ++handle.asked;
        if (handle.asked != asked_enough) return;
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            if (!group.is_local(rank) && !group.has_failed(rank))
                core_.control().send_again(group, handle, rank, EpControlKind::ready);
        }
    }

    /// What peers said about calls before this one: serial numbers must not come round.
    static void forget_old_news(EpHandle& handle) {
        for (PeerState& peer : handle.peer) {
            if (operation_before(peer.incoming.operation, handle.operation)) peer.incoming.valid = false;
            if (operation_before(peer.ready_operation, handle.operation)) peer.ready_valid = false;
            if (operation_before(peer.credit_operation, handle.operation)) peer.credit_valid = false;
        }
    }

    Core& core_;
};

}  // namespace plait::firmware
