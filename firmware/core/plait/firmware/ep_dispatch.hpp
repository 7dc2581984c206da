#pragma once
// Dispatch: top-k lists in, counts to everybody, then the rows: source -> entry device -> targets.
//
// A call ends when its rank has nothing to do for it any more, in none of these roles, and when every rank
// has the counts of all: so no rank is ever more than one call ahead of another, and nothing about a later
// call can be taken for this one's.

#include <plait/firmware/ep_load.hpp>
#include <plait/firmware/ep_receive.hpp>
#include <plait/firmware/ep_route.hpp>
#include <plait/firmware/ep_send.hpp>
#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// `Core` is Ep<Context>: groups, control messages, completion.
template <class Core>
class EpDispatch {
  public:
    explicit EpDispatch(Core& core) : core_(core), load_(core), send_(core), receive_(core) {}

    EpSend<Core>& send() { return send_; }
    EpReceive<Core>& receive() { return receive_; }

    /// The request has been checked. Cached: the routing is in the handle already.
    void begin(EpGroup& group, EpHandle& handle, bool cached) {
        handle.routing_operation = handle.operation;
        if (cached) return start_receiving(group, handle);
        handle.routed = handle.rows_known = false;
        handle.token_count = handle.request.tokens;
        if (group.is_low_latency()) {
            forget_counts(group, handle);
            start_receiving(group, handle);
            for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank)
                take_counts(group, handle, rank);
        } else {
            handle.state = HandleState::loading;
        }
        load_.begin(group, handle, true);
        if (handle.fetches_left == 0) loaded(group, handle);
    }

    /// Reads the weights that a combine brings along; begin_combine() follows.
    void load_weights(EpGroup& group, EpHandle& handle) {
        handle.state = HandleState::loading;
        load_.begin(group, handle, false);
        if (handle.fetches_left == 0) loaded(group, handle);
    }

    /// A piece of the top-k lists has come.
    void on_fetched(EpGroup& group, EpHandle& handle, bool weights, std::uint32_t piece,
                    regmap::Status status, std::span<const std::uint8_t> bytes) {
        if (handle.fetches_left == 0) return;
        --handle.fetches_left;
        if (is_loading(handle)) load_.take(group, handle, weights, piece, status, bytes);
        if (handle.fetches_left != 0) return;
        if (is_loading(handle)) loaded(group, handle);
        else core_.try_end(group, handle);
    }

    /// Counts of `rank` have come.
    void on_counts(EpGroup& group, EpHandle& handle, std::uint32_t rank) {
        if (!group.is_low_latency()) return check_counts(group, handle);
        take_counts(group, handle, rank);
        check_done(group, handle);
    }

    /// Counts of a peer have come, or a rank failed: go on when nobody is missing.
    void check_counts(EpGroup& group, EpHandle& handle) {
        if (handle.state != HandleState::counting) return;
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            if (!has_counts(group, handle, rank)) return;
        }
        const std::uint32_t own = group.own_experts();
        std::copy(handle.incoming_expert_rows.begin(), handle.incoming_expert_rows.end(),
                  handle.peer_expert_rows.begin());
        std::uint64_t slots = 0;
        std::uint64_t entries = 0;
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            PeerState& peer = handle.peer[rank];
            const bool alive = !group.has_failed(rank);
            peer.rows_to_me = alive ? peer.incoming.rows_to_me : 0;
            peer.rows_via_me = alive && !group.is_local(rank) ? peer.incoming.rows_via_me : 0;
            if (!alive) std::fill_n(handle.peer_expert_rows.begin() + rank * own, own, 0U);
            peer.base_slot = static_cast<std::uint32_t>(slots);
            peer.entry_base = static_cast<std::uint32_t>(entries);
            slots += peer.rows_to_me;
            entries += peer.rows_via_me;
        }
        if (slots > handle.request.receive_capacity)
            return core_.give_up(group, handle, regmap::Status::capacity_exceeded);
        if (entries > handle.entry_rows.size())
            return core_.give_up(group, handle, regmap::Status::limit_exceeded);
        handle.received_rows = static_cast<std::uint32_t>(slots);
        start_receiving(group, handle);
    }

    [[nodiscard]] bool has_counts(const EpGroup& group, const EpHandle& handle, std::uint32_t rank) const {
        const PeerCounts& counts = handle.peer[rank].incoming;
        return group.has_failed(rank) || (counts.valid && counts.operation == handle.routing_operation);
    }

    /// `rank` can place rows now: its node may be the next to get some.
    void on_ready(EpGroup& group, EpHandle& handle, std::uint32_t rank) {
        if (handle.state != HandleState::dispatching) return;
        send_.meet_links_of(group, handle, handle.peer[rank]);
        send_.start_node(group, handle, rank / group.parameters.ranks_per_node);
        check_done(group, handle);
    }

    void on_rank_failed(EpGroup& group, EpHandle& handle, std::uint32_t rank) {
        if (handle.state == HandleState::counting) return check_counts(group, handle);
        if (handle.state != HandleState::dispatching) return;
        PeerState& peer = handle.peer[rank];
        handle.entry_parts_left -= peer.entry_parts_missing;
        peer.entry_parts_missing = 0;
        if (group.is_low_latency() && !peer.counted) {  // nobody knows what else it had
            handle.parts_left -= peer.parts_missing;
            peer.parts_missing = 0;
        }
        send_.start_node(group, handle, rank / group.parameters.ranks_per_node);
        check_done(group, handle);
    }

    void row_acknowledged(EpGroup& group, EpHandle& handle, std::uint32_t number) {
        send_.acknowledged(group, handle, number);
        check_done(group, handle);
    }

    void local_row_sent(EpGroup& group, EpHandle& handle) {
        send_.local_sent(group, handle);
        check_done(group, handle);
    }

    void check_done(EpGroup& group, EpHandle& handle) {
        if (handle.state != HandleState::dispatching || !handle.rows_known || handle.parts_left != 0 ||
            handle.rows_unacknowledged != 0 || handle.local_left != 0 || handle.entry_parts_left != 0 ||
            handle.controls_left != 0) {
            return;
        }
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            if (!has_joined(group, handle, rank)) return;
        }
        core_.end(group, handle, core_.any_failed(group) ? regmap::Status::rank_failed : regmap::Status::ok);
    }

    /// Marks who kept the dispatch from ending.
    void missing_ranks(const EpGroup& group, const EpHandle& handle, RankMask& mask) const {
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            const PeerState& peer = handle.peer[rank];
            const bool late = handle.state == HandleState::counting
                                  ? !has_counts(group, handle, rank)
                                  : !has_joined(group, handle, rank) || peer.parts_missing != 0 ||
                                        peer.entry_parts_missing != 0 ||
                                        handle.destination[rank].rows_in_flight != 0;
            if (late) mark(mask, rank);
        }
    }

  private:
    /// It has said all that it has to say before the call can end.
    [[nodiscard]] bool has_joined(const EpGroup& group, const EpHandle& handle, std::uint32_t rank) const {
        return is_ready(group, handle, rank) &&
               (!group.is_low_latency() || handle.peer[rank].counted || group.has_failed(rank));
    }

    /// Top-k lists or weights are on their way.
    [[nodiscard]] static bool is_loading(const EpHandle& handle) {
        return handle.state == HandleState::loading ||
               (handle.state == HandleState::dispatching && !handle.rows_known);
    }

    /// Low latency: what an earlier routing expected of the peers.
    static void forget_counts(const EpGroup& group, EpHandle& handle) {
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            PeerState& peer = handle.peer[rank];
            peer.rows_to_me = peer.rows_via_me = 0;
            peer.entry_base = rank * group.parameters.max_tokens;
            peer.counted = false;
        }
        std::fill(handle.peer_expert_rows.begin(), handle.peer_expert_rows.end(), 0U);
        handle.received_rows = 0;
    }

    /// Low latency: what `rank` sends is known now, if it is. Some of it may be here already.
    void take_counts(EpGroup& group, EpHandle& handle, std::uint32_t rank) {
        PeerState& peer = handle.peer[rank];
        if (handle.state != HandleState::dispatching || peer.counted || group.has_failed(rank) ||
            !has_counts(group, handle, rank))
            return;
        const std::uint32_t own = group.own_experts();
        peer.counted = true;
        peer.rows_to_me = peer.incoming.rows_to_me;
        peer.rows_via_me = group.is_local(rank) ? 0 : peer.incoming.rows_via_me;
        std::copy_n(handle.incoming_expert_rows.begin() + rank * own, own,
                    handle.peer_expert_rows.begin() + rank * own);
        expect_rows(group, handle, peer);
        send_.meet_links(group, handle, peer.incoming.rows_away);
        for (const std::uint32_t rows : handle.peer_expert_rows.subspan(rank * own, own))
            handle.received_rows += rows;
    }

    void loaded(EpGroup& group, EpHandle& handle) {
        if (handle.load_status != regmap::Status::ok) return core_.give_up(group, handle, handle.load_status);
        if (handle.kind == CallKind::combine) return core_.begin_combine(group, handle);
        route_tokens(group, handle, handle.token_count);
        handle.rows_known = true;
        if (group.is_low_latency()) send_.line_up(group, handle);
        else handle.state = HandleState::counting;
        const std::uint32_t self = group.parameters.rank;
        handle.peer[self].incoming = {.valid = true,
                                      .operation = handle.operation,
                                      .rows_to_me = handle.destination[self].rows_to,
                                      .rows_via_me = 0,
                                      .rows_away = handle.rows_away};
        const std::uint32_t own = group.own_experts();
        std::copy_n(handle.expert_rows.begin() + self * own, own,
                    handle.incoming_expert_rows.begin() + self * own);
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            if (rank == self || group.has_failed(rank)) continue;
            core_.control().send(group, handle, rank, regmap::EpControlKind::counts);
        }
        if (!group.is_low_latency()) return check_counts(group, handle);
        take_counts(group, handle, self);
        start_sending(group, handle);
    }

    void start_sending(EpGroup& group, EpHandle& handle) {
        send_.start(group, handle);
        check_done(group, handle);
    }

    /// Rows may come now. What this rank knows of its own goes to nodes that say the same.
    void start_receiving(EpGroup& group, EpHandle& handle) {
        handle.state = HandleState::dispatching;
        handle.dispatch_number = core_.next_dispatch();
        std::fill_n(handle.parts_placed.begin(), output_slots(group, handle), std::uint8_t{0});
        handle.parts_left = handle.entry_parts_left = 0;
        handle.rows_lost = false;
        handle.busiest_rows = handle.most_contributions = 0;
        handle.rows_done = handle.rows_unacknowledged = handle.local_left = handle.local_in_flight = 0;
        std::uint32_t entries = 0;
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            PeerState& peer = handle.peer[rank];
            peer.parts_missing = peer.entry_parts_missing = 0;
            peer.rows_by_entry.fill(0);
            handle.destination[rank].next_row = no_index;
            if (!group.has_failed(rank)) expect_rows(group, handle, peer);
            entries += peer.rows_via_me;
        }
        if (handle.rows_known) send_.line_up(group, handle);
        if (!group.is_low_latency()) {  // whose calls are too short for a pace
            PeerState& self = handle.peer[group.parameters.rank];
            self.busiest_rows = std::max(handle.rows_unacknowledged, entries);
            self.contributions = static_cast<std::uint32_t>(handle.parts_left) / group.row_parts;
        }
        if (handle.in_a_hurry) core_.hurry(group, handle);
        core_.control().announce_ready(group, handle, true);
        if (handle.rows_known) start_sending(group, handle);
    }

    /// `peer` sends the rows that it says.
    static void expect_rows(const EpGroup& group, EpHandle& handle, PeerState& peer) {
        const auto parts = static_cast<std::int32_t>(peer.rows_to_me * group.row_parts);
        const auto entry_parts = static_cast<std::int32_t>(peer.rows_via_me * group.row_parts);
        peer.parts_missing += parts;
        peer.entry_parts_missing += entry_parts;
        handle.parts_left += parts;
        handle.entry_parts_left += entry_parts;
    }

    Core& core_;
    EpLoad<Core> load_;
    EpSend<Core> send_;
    EpReceive<Core> receive_;
};

}  // namespace plait::firmware
