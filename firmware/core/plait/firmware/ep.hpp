#pragma once
// EP groups: their life, requests of the host, and the way in for what the transport, scale-up and the
// engines report.

#include <algorithm>
#include <plait/firmware/arena.hpp>
#include <plait/firmware/ep_calls.hpp>
#include <plait/firmware/ep_combine.hpp>
#include <plait/firmware/ep_control.hpp>
#include <plait/firmware/ep_dispatch.hpp>
#include <plait/firmware/ep_ending.hpp>
#include <plait/firmware/ep_frames.hpp>
#include <plait/firmware/ep_group.hpp>
#include <plait/firmware/ep_names.hpp>
#include <plait/firmware/ep_partials.hpp>
#include <plait/firmware/ep_pools.hpp>
#include <plait/firmware/ep_setup.hpp>
#include <plait/firmware/memory_table.hpp>
#include <plait/firmware/transport.hpp>

namespace plait::firmware {

/// Needs of its Context: hal(), config(), memory_table(), queues(), transport(), admin(), registers().
///
/// Ranks run their calls on a handle in the same order, numbered from 1. A peer may be ahead: what it says
/// about a later call is kept until this rank gets there.
template <class Context>
class Ep : public EpNames {
  public:
    Ep(Context& context, Arena& arena)
        : context_(context),
          control_(*this),
          dispatch_(*this),
          combine_(*this),
          partials_(*this),
          ending_(*this),
          setup_(*this),
          calls_(*this),
          frames_(*this) {
        const DeviceConfig& config = context.config();
        const std::uint32_t groups = std::min(config.max_groups, max_groups);
        groups_ = arena.make<EpGroup>(groups);
        memory_ = arena.reserve<std::byte>(config.group_memory_bytes * groups);
        jobs_ = arena.make<AccumulatorJob>(std::min(config.accumulators, SumName::max_accumulators));
        slots_ = arena.make<PartialSlot>(EpPartials<Ep>::slot_count);
        if (jobs_.empty() || slots_.empty() || memory_.empty()) groups_ = {};  // no group can be made
        start();
    }

    /// Forgets every group; nothing completes.
    void reset() {
        for (AccumulatorPool* pool : {&token_pool_, &entry_pool_}) {
            pool->for_each(
                [&](std::uint32_t sum, const AccumulatorJob&) { context_.hal().reduce_close(sum); });
        }
        for (EpGroup& group : groups_) {
            for (std::uint32_t handle = 0; handle < group.handles.size(); ++handle) {
                context_.hal().cancel_timer(timer(group, group.handles[handle]));
                combine_.release_early_rows(group, group.handles[handle]);
            }
        }
        start();
    }

    // Administration.

    /// See EpSetup.
    void create_group(const regmap::AdminRequest& request, std::uint32_t command_id) {
        setup_.create_group(request, command_id);
    }

    /// Outstanding calls complete as aborted, once the device does not read their memory any more.
    /// invalid_group: nothing happened.
    Status destroy_group(std::uint32_t number) {
        if (number >= groups_.size() || !groups_[number].active) return Status::invalid_group;
        EpGroup& destroyed = groups_[number];
        for (EpHandle& handle : destroyed.handles) {
            if (is_busy(handle)) give_up(destroyed, handle, Status::aborted);
        }
        destroyed.active = false;
        return Status::ok;
    }

    // Requests of the host.

    [[nodiscard]] unsigned submit_room(std::uint32_t) const { return 8; }

    /// See EpCalls.
    void submit(std::uint32_t number, const regmap::EpRequest& request, std::uint16_t request_index) {
        calls_.submit(groups_[number], request, request_index);
    }

    // What the transport asks.

    void build(std::uint64_t packed, std::uint32_t offset, Packet& packet, Payload& payload) {
        const EpTag tag = EpTag::unpack(packed);
        const EpGroup& group = groups_[tag.group];
        const EpHandle& handle = group.handles[tag.handle];
        switch (tag.kind) {
            case EpMessageKind::row:
                dispatch_.send().build_row(group, handle, tag, offset, packet, payload);
                break;
            case EpMessageKind::control: control_.build(group, handle, tag, packet, payload); break;
            case EpMessageKind::partial: partials_.build(group, tag, offset, packet, payload); break;
        }
    }

    [[nodiscard]] const std::uint32_t& messages() const { return messages_; }
    void message_done(std::uint32_t, std::uint64_t packed, Status) {
        const EpTag tag = EpTag::unpack(packed);
        EpGroup& group = groups_[tag.group];
        EpHandle& handle = group.handles[tag.handle];
        --handle.messages_in_flight;
        ++messages_;
        switch (tag.kind) {
            case EpMessageKind::row:
                --handle.table_messages;
                if (tag.operation == handle.operation && handle.state == HandleState::dispatching) {
                    dispatch_.row_acknowledged(group, handle, tag.index);
                }
                break;
            case EpMessageKind::control:
                control_.done(group, handle, tag);
                dispatch_.check_done(group, handle);
                break;
            case EpMessageKind::partial:
                partials_.done(group, handle, tag);
                combine_.check_done(group, handle);
                serve_all(group, handle);
                break;
        }
        try_end(group, handle);
    }

    void refill(std::uint32_t qpn) {
        partials_.retry();
        for (EpGroup& group : groups_) {
            const std::uint32_t rank = group.active ? rank_of_qp(group, qpn) : no_index;
            if (rank == no_index) continue;
            for (EpHandle& handle : group.handles) {
                control_.flush(group, handle, rank);
                dispatch_.send().pump_rows(group, handle, rank);
            }
        }
    }

    NackReason on_row(const PacketEvent& event) {
        const RowHeader& row = event.packet.row;
        EpGroup* group = find(row.group, row.handle);
        if (group == nullptr) return NackReason::unknown_operation;
        const std::uint32_t source = rank_of_sender(*group, event.packet);
        if (source == no_index || event.buffer == 0) return NackReason::invalid_request;
        return dispatch_.receive().on_row(*group, group->handles[row.handle], source, event);
    }

    NackReason on_partial(const PacketEvent& event) {
        const PartialHeader& partial = event.packet.partial;
        EpGroup* group = find(partial.group, partial.handle);
        if (group == nullptr) return NackReason::unknown_operation;
        const std::uint32_t entry = rank_of_sender(*group, event.packet);
        if (entry == no_index || event.buffer == 0) return NackReason::invalid_request;
        return combine_.on_partial(*group, group->handles[partial.handle], entry, event);
    }

    NackReason on_control(const PacketEvent& event) {
        const ControlHeader& control = event.packet.control;
        EpGroup* group = find(control.group, control.handle);
        if (group == nullptr) return NackReason::unknown_operation;
        const std::uint32_t rank = rank_of_sender(*group, event.packet);
        if (rank == no_index ||
            !control_.take(*group, group->handles[control.handle], rank, control, event.control)) {
            return NackReason::invalid_request;
        }
        if (event.buffer != 0) context_.hal().release(event.buffer);
        return NackReason::none;
    }

    void qp_failed(std::uint32_t qpn, Status) {
        for (EpGroup& group : groups_) {
            const std::uint32_t rank = group.active ? rank_of_qp(group, qpn) : no_index;
            if (rank != no_index) rank_failed(group, rank);
        }
    }

    // Events of the device.

    void on_scale_up(const ScaleUpEvent& event) {
        frames_.take(event);
        if (event.buffer != 0) context_.hal().release(event.buffer);
    }

    void on_scale_up_sent(std::uint32_t tag) { frames_.sent(tag); }

    void on_fetched(std::uint32_t label, Status status, std::span<const std::uint8_t> bytes) {
        if (label == create_label) return setup_.group_parameters(status, bytes);
        EpGroup& group = groups_[label >> 28];
        EpHandle& handle = group.handles[(label >> 24) & 0xf];
        dispatch_.on_fetched(group, handle, ((label >> 23) & 1U) != 0, label & 0x7fffff, status, bytes);
    }

    /// A sum is complete; the buffer is this function's. What it frees goes to the handles in turn, beginning
    /// with the next one.
    void on_reduced(std::uint32_t sum, BufferId buffer) {
        AccumulatorPool& pool = token_pool_.has(sum) ? token_pool_ : entry_pool_;
        if (!pool.has(sum)) return context_.hal().release(buffer);
        const AccumulatorJob job = pool.job(sum);
        pool.give_back(sum);
        EpGroup& group = groups_[job.group];
        EpHandle& handle = group.handles[job.handle];
        switch (job.use) {
            case AccumulatorUse::token: combine_.token_part_done(group, handle, job, buffer); break;
            case AccumulatorUse::local: combine_.local_part_done(group, handle, job, buffer); break;
            case AccumulatorUse::entry: partials_.send(group, handle, job, buffer); break;
            case AccumulatorUse::free: break;  // none that the pool has
        }
        combine_.check_done(group, handle);
        serve_all(group, handle);
    }

    void on_timer(std::uint32_t number) {
        if (number / regmap::max_handles >= groups_.size()) return;
        EpGroup& group = groups_[number / regmap::max_handles];
        if (number % regmap::max_handles < group.handles.size())
            calls_.on_timer(group, group.handles[number % regmap::max_handles]);
    }

    /// The link of a device of the node went down, or came back: a rank that failed stays failed.
    void on_scale_up_port(std::uint8_t local, bool up) {
        if (up) return;
        for (EpGroup& group : groups_) {
            if (local >= group.parameters.ranks_per_node || local == group.local) continue;
            combine_.gather().on_contributor_failed(group, local);
            if (!group.active) continue;
            rank_failed(group, group.rank_at(group.node, local));
            control_.send_gone(group);
        }
    }

    /// Accumulators and owed parts in use, for reports and tests.
    [[nodiscard]] std::uint32_t accumulators_in_use() const {
        return token_pool_.in_use() + entry_pool_.in_use();
    }
    [[nodiscard]] std::uint32_t partials_in_use() const { return partials_.in_use(); }
    [[nodiscard]] std::span<const EpGroup> groups() const { return groups_; }

    // What dispatch, combine, control and partials use.

    auto& hal() { return context_.hal(); }
    Context& context() { return context_; }
    EpControl<Ep>& control() { return control_; }
    EpDispatch<Ep>& dispatch() { return dispatch_; }
    EpCombine<Ep>& combine() { return combine_; }
    EpPartials<Ep>& partials() { return partials_; }
    AccumulatorPool& token_pool() { return token_pool_; }
    AccumulatorPool& entry_pool() { return entry_pool_; }
    EpGroup& group(std::uint32_t number) { return groups_[number]; }

    [[nodiscard]] static bool any_failed(const EpGroup& group) {
        return std::any_of(group.failed.begin(), group.failed.end(),
                           [](std::uint64_t word) { return word != 0; });
    }

    /// A call is in progress that can still succeed.
    [[nodiscard]] static bool is_busy(const EpHandle& handle) {
        return handle.state == HandleState::loading || handle.state == HandleState::counting ||
               handle.state == HandleState::dispatching || handle.state == HandleState::combining;
    }

    /// False, and nothing taken: no room now (refill() follows), or the rank is unreachable.
    bool enqueue(EpGroup& group, EpHandle& handle, std::uint32_t rank, Opcode opcode, std::uint64_t tag,
                 std::uint32_t length_bytes) {
        if (!context_.transport().enqueue(group.qpn[rank], EpMessage{opcode, tag, length_bytes}))
            return false;
        ++handle.messages_in_flight;
        ++messages_;
        return true;
    }

    std::span<EpGroup> mutable_groups() { return groups_; }

    /// nullptr: there is no such group or handle.
    EpGroup* find(std::uint32_t group, std::uint32_t handle) {
        if (group >= groups_.size() || !groups_[group].active || handle >= groups_[group].handles.size())
            return nullptr;
        return &groups_[group];
    }

    /// Counts the dispatches of the device.
    std::uint32_t next_dispatch() { return ++dispatches_; }

    void hurry(EpGroup& group, EpHandle& handle) { calls_.hurry(group, handle); }
    RankMask absent_ranks(const EpGroup& group, const EpHandle& handle) const {
        return ending_.absent_ranks(group, handle);
    }

    void begin_combine(EpGroup& group, EpHandle& handle) {
        ++combining_;
        combine_.begin(group, handle);
    }

    [[nodiscard]] bool holds_accumulators(std::uint32_t group) const {
        return std::any_of(jobs_.begin(), jobs_.end(), [&](const AccumulatorJob& job) {
            return job.use != AccumulatorUse::free && job.group == group;
        });
    }

    /// The call cannot go on here: everybody is told, and the host gets `status`.
    void give_up(EpGroup& group, EpHandle& handle, Status status) {
        control_.send_aborts(group, handle, status, ending_.failed_ranks(group, handle, status));
        end(group, handle, status);
    }

    void end(EpGroup& group, EpHandle& handle, Status status) {
        const bool combining = handle.state == HandleState::combining;
        ending_.end(group, handle, status);
        if (!combining) return;
        --combining_;
        serve_all(group, handle);
    }
    void try_end(EpGroup& group, EpHandle& handle) { ending_.try_end(group, handle); }
    void complete(const EpGroup& group, const regmap::EpRequest& request, std::uint16_t request_index,
                  Status status, std::uint32_t length) {
        ending_.complete(group, request, request_index, status, length);
    }

  private:
    static constexpr std::uint32_t max_groups =
        15;  // fetch labels have four bits for the group; the 16th is create_label

    void start() {
        setup_.start(groups_, memory_);
        const std::size_t tokens = jobs_.size() / 2;
        token_pool_ = AccumulatorPool(jobs_.first(tokens), 0);
        entry_pool_ = AccumulatorPool(jobs_.subspan(tokens), static_cast<std::uint32_t>(tokens));
        partials_.reset(slots_);
        combining_ = 0;
    }

    [[nodiscard]] std::uint32_t rank_of_qp(const EpGroup& group, std::uint32_t qpn) const {
        const std::uint32_t rank = rank_of_device(group, context_.transport().peer_of(qpn));
        return rank != no_index && group.qpn[rank] == qpn ? rank : no_index;
    }

    /// Accumulators, or slots of parts owed, have become free: the other handles come first, `last` is the
    /// last.
    void serve_all(const EpGroup& group, const EpHandle& last) {
        const auto count = static_cast<std::uint32_t>(groups_.size()) * regmap::max_handles;
        std::uint32_t next = timer(group, last).number;
        const std::uint32_t others =
            combining_ > (last.state == HandleState::combining ? 1U : 0U) ? count - 1 : 0;
        for (std::uint32_t i = 0; i < others; ++i) {
            next = next + 1 == count ? 0 : next + 1;
            serve(next);
        }
        serve(timer(group, last).number);
    }

    void serve(std::uint32_t number) {
        EpGroup& group = groups_[number / regmap::max_handles];
        if (number % regmap::max_handles >= group.handles.size()) return;
        EpHandle& handle = group.handles[number % regmap::max_handles];
        if (handle.state != HandleState::combining) return;
        combine_.admit_tokens(group, handle);
        combine_.gather().pump(group, handle);
    }

    void rank_failed(EpGroup& group, std::uint32_t rank) {
        if (group.has_failed(rank)) return;
        mark(group.failed, rank);
        partials_.retry();
        for (EpHandle& handle : group.handles) {
            control_.on_rank_failed(handle, rank);
            if (!is_busy(handle)) continue;
            hurry(group, handle);
            dispatch_.on_rank_failed(group, handle, rank);
            combine_.on_rank_failed(group, handle, rank);
        }
    }

    Context& context_;
    EpControl<Ep> control_;
    EpDispatch<Ep> dispatch_;
    EpCombine<Ep> combine_;
    EpPartials<Ep> partials_;
    EpEnding<Ep> ending_;
    EpSetup<Ep> setup_;
    EpCalls<Ep> calls_;
    EpFrames<Ep> frames_;
    std::span<EpGroup> groups_;
    std::span<std::byte> memory_;
    std::span<AccumulatorJob> jobs_;
    std::span<PartialSlot> slots_;
    AccumulatorPool token_pool_;
    AccumulatorPool entry_pool_;
    std::uint32_t combining_ = 0;  ///< Handles in a combine.
    std::uint32_t dispatches_ = 0;
    std::uint32_t messages_ = 0;  ///< Given to the transport and got back, modulo 2^32.
};

}  // namespace plait::firmware
