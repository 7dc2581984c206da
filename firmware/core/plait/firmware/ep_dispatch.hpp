#pragma once
// Dispatch: top-k lists in, counts to everybody, then the rows: source -> entry device -> targets.
//
// A call ends when its rank has nothing to do for it any more, in none of these roles, and when every rank
// has the counts of all: so no rank is ever more than one call ahead of another, and nothing about a later
// call can be taken for this one's.

#include <plait/firmware/ep_load.hpp>
#include <plait/firmware/ep_receive.hpp>
#include <plait/firmware/ep_route.hpp>
#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// `Core` is Ep<Context>: groups, control messages, completion.
template <class Core>
class EpDispatch {
  public:
    static constexpr std::uint32_t rows_ahead =
        64;  ///< Rows handed to a queue pair and not yet acknowledged.
    /// Rows go out about in order of tokens, at most so many ahead of those that are done. Lists of rows
    /// differ in length, and ranks with like text have like lists: served evenly, the long ones would be left
    /// over and meet at few receivers.
    static std::uint32_t rows_window(const EpHandle& handle) {
        return std::clamp(handle.row_count / 8, 192U, 1536U);
    }
    static constexpr std::uint32_t local_ahead = 8;  ///< Own-node rows being multicast at once.

    explicit EpDispatch(Core& core) : core_(core), load_(core), receive_(core) {}

    EpReceive<Core>& receive() { return receive_; }

    /// The request has been checked. Cached: the routing is in the handle already.
    void begin(EpGroup& group, EpHandle& handle, bool cached) {
        handle.routing_operation = handle.operation;
        handle.load_status = regmap::Status::ok;
        if (cached) return start_receiving(group, handle);
        handle.routed = false;
        handle.token_count = handle.request.tokens;
        handle.state = HandleState::loading;
        load_.begin(group, handle);
        if (handle.fetches_left == 0) loaded(group, handle);
    }

    /// A piece of the top-k lists has come.
    void on_fetched(EpGroup& group, EpHandle& handle, bool weights, std::uint32_t piece,
                    regmap::Status status, std::span<const std::uint8_t> bytes) {
        if (handle.fetches_left == 0) return;
        --handle.fetches_left;
        if (handle.state == HandleState::loading) load_.take(group, handle, weights, piece, status, bytes);
        if (handle.fetches_left != 0) return;
        if (handle.state == HandleState::loading) loaded(group, handle);
        else core_.try_end(group, handle);
    }

    /// Counts of a peer have come, or a rank failed: go on when nobody is missing.
    void check_counts(EpGroup& group, EpHandle& handle) {
        if (handle.state != HandleState::counting) return;
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            if (!has_counts(group, handle, rank)) return;
        }
        const std::uint32_t own = group.parameters.experts / group.parameters.ranks;
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
        meet_links_of(group, handle, handle.peer[rank]);
        start_node(group, handle, rank / group.parameters.ranks_per_node);
        check_done(group, handle);
    }

    void on_rank_failed(EpGroup& group, EpHandle& handle, std::uint32_t rank) {
        if (handle.state == HandleState::counting) return check_counts(group, handle);
        if (handle.state != HandleState::dispatching) return;
        PeerState& peer = handle.peer[rank];
        handle.entry_parts_left -= peer.entry_parts_missing;
        peer.entry_parts_missing = 0;
        start_node(group, handle, rank / group.parameters.ranks_per_node);
        check_done(group, handle);
    }

    /// Goes on with the rows that enter by `rank`, and with those that wait for their turn.
    void pump_rows(EpGroup& group, EpHandle& handle, std::uint32_t rank) {
        offer_rows(group, handle, rank);
        release_rows(group, handle);
    }

    void row_acknowledged(EpGroup& group, EpHandle& handle, std::uint32_t number) {
        const std::uint32_t rank = handle.rows[number].entry_rank;
        --handle.destination[rank].rows_in_flight;
        --handle.rows_unacknowledged;
        ++handle.rows_done;
        pump_rows(group, handle, rank);
        check_done(group, handle);
    }

    void local_row_sent(EpGroup& group, EpHandle& handle) {
        --handle.local_in_flight;
        --handle.local_left;
        ++handle.rows_done;
        release_rows(group, handle);
        pump_local(group, handle);
        check_done(group, handle);
    }

    /// Fills in the packet of a row for its bytes from `offset` on.
    void build_row(const EpGroup& group, const EpHandle& handle, const EpTag& tag, std::uint32_t offset,
                   Packet& packet, Payload& payload) const {
        const RowInfo& row = handle.rows[tag.index];
        packet.row.group = group.number;
        packet.row.handle = tag.handle;
        packet.row.operation = tag.operation;
        packet.row.token = row.token;
        packet.row.row = row.row;
        packet.row.targets = row.targets;
        const auto count = static_cast<std::uint32_t>(std::popcount(row.targets));
        for (std::uint32_t i = 0; i < count; ++i) packet.row.index[i] = handle.indices[row.first_index + i];
        packet.row.choice_count =
            offset == 0 ? choices_in_node(group, handle, row.token, row.node, packet.row.choices)
                        : std::uint8_t{0};
        fill_payload(group, handle, row.token, offset, packet.payload_bytes, payload);
    }

    void check_done(EpGroup& group, EpHandle& handle) {
        if (handle.state != HandleState::dispatching || handle.parts_left != 0 ||
            handle.rows_unacknowledged != 0 || handle.local_left != 0 || handle.entry_parts_left != 0 ||
            handle.controls_left != 0) {
            return;
        }
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            if (!is_ready(group, handle, rank)) return;
        }
        core_.end(group, handle, core_.any_failed(group) ? regmap::Status::rank_failed : regmap::Status::ok);
    }

    /// Marks who kept the dispatch from ending.
    void missing_ranks(const EpGroup& group, const EpHandle& handle, RankMask& mask) const {
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            const PeerState& peer = handle.peer[rank];
            const bool late = handle.state == HandleState::counting
                                  ? !has_counts(group, handle, rank)
                                  : !is_ready(group, handle, rank) || peer.parts_missing != 0 ||
                                        peer.entry_parts_missing != 0 ||
                                        handle.destination[rank].rows_in_flight != 0;
            if (late) mask[rank / 64] |= 1ULL << (rank % 64);
        }
    }

    [[nodiscard]] static bool is_ready(const EpGroup& group, const EpHandle& handle, std::uint32_t rank) {
        const PeerState& peer = handle.peer[rank];
        return group.has_failed(rank) ||
               (peer.ready_valid && !operation_before(peer.ready_operation, handle.operation));
    }

  private:
    /// Sends to a node whose devices can all place rows now.
    void start_node(EpGroup& group, EpHandle& handle, std::uint32_t node) {
        if (!node_ready(group, handle, node)) return;
        if (node == group.node) pump_local(group, handle);
        for (std::uint32_t i = 0; i < group.parameters.ranks_per_node; ++i)
            offer_rows(group, handle, group.rank_at(node, i));
        release_rows(group, handle);
    }

    [[nodiscard]] static bool node_ready(const EpGroup& group, const EpHandle& handle, std::uint32_t node) {
        for (std::uint32_t i = 0; i < group.parameters.ranks_per_node; ++i) {
            if (!is_ready(group, handle, group.rank_at(node, i))) return false;
        }
        return true;
    }

    void loaded(EpGroup& group, EpHandle& handle) {
        if (handle.load_status != regmap::Status::ok) return core_.give_up(group, handle, handle.load_status);
        route_tokens(group, handle);
        handle.state = HandleState::counting;
        const std::uint32_t self = group.parameters.rank;
        handle.peer[self].incoming = {.valid = true,
                                      .operation = handle.operation,
                                      .rows_to_me = handle.destination[self].rows_to,
                                      .rows_via_me = 0};
        const std::uint32_t own = group.parameters.experts / group.parameters.ranks;
        std::copy_n(handle.expert_rows.begin() + self * own, own,
                    handle.incoming_expert_rows.begin() + self * own);
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            if (rank == self || group.has_failed(rank)) continue;
            core_.control().send(group, handle, rank, regmap::EpControlKind::counts);
        }
        check_counts(group, handle);
    }

    /// Every slot is known: rows may come, and go to nodes that say the same.
    void start_receiving(EpGroup& group, EpHandle& handle) {
        handle.state = HandleState::dispatching;
        handle.parts_left = handle.entry_parts_left = 0;
        handle.rows_lost = false;
        handle.rows_done = handle.rows_unacknowledged = handle.local_in_flight = 0;
        std::uint32_t entries = 0;
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            PeerState& peer = handle.peer[rank];
            const bool alive = !group.has_failed(rank);
            peer.parts_missing = alive ? peer.rows_to_me * group.row_parts : 0;
            peer.entry_parts_missing = alive ? peer.rows_via_me * group.row_parts : 0;
            peer.rows_by_entry.fill(0);
            handle.parts_left += peer.parts_missing;
            handle.entry_parts_left += peer.entry_parts_missing;
            entries += peer.rows_via_me;
            Destination& destination = handle.destination[rank];
            destination.next_row = destination.first_row;
            destination.rows_in_flight = 0;
            if (!group.is_local(rank)) handle.rows_unacknowledged += destination.rows_via;
        }
        for (EntryRow& row : handle.entry_rows.first(entries)) row.arrived = false;
        std::fill_n(handle.parts_placed.begin(), handle.received_rows, std::uint8_t{0});
        handle.local_left = handle.destination[group.parameters.rank].rows_via;
        handle.peer[group.parameters.rank].busiest_rows = std::max(handle.rows_unacknowledged, entries);
        handle.pace.start(core_.hal().now_ns(), handle.row_count);
        handle.rows_released = handle.busiest_rows = 0;
        if (handle.in_a_hurry) core_.hurry(group, handle);
        core_.control().announce_ready(group, handle, true);
        for (const PeerState& peer : handle.peer) meet_links_of(group, handle, peer);
        for (std::uint32_t node = 0; node < group.nodes; ++node) start_node(group, handle, node);
        check_done(group, handle);
    }

    /// Hands rows that enter by `rank` to its queue pair, as far as it takes them.
    void offer_rows(EpGroup& group, EpHandle& handle, std::uint32_t rank) {
        Destination& destination = handle.destination[rank];
        if (handle.state != HandleState::dispatching || destination.next_row == no_index ||
            group.is_local(rank))
            return;
        if (!node_ready(group, handle, rank / group.parameters.ranks_per_node)) return;
        while (destination.next_row != no_index && destination.rows_in_flight < rows_ahead) {
            const std::uint32_t number = destination.next_row;
            if (number >= handle.rows_released) break;
            if (group.has_failed(rank)) {  // unreachable: what it would have forwarded is lost and reported
                --handle.rows_unacknowledged;
                ++handle.rows_done;
                report_lost_rows(group, handle);
            } else {
                const std::uint64_t tag =
                    core_.tag(group, handle, EpMessageKind::row, handle.routing_operation, number);
                if (!core_.enqueue(group, handle, rank, Opcode::mp_ep_row, tag, group.row_bytes)) return;
                ++destination.rows_in_flight;
                ++handle.table_messages;
            }
            destination.next_row = handle.rows[number].next;
        }
    }

    /// Once a call. Their targets may know of the failure since before the call: then nothing else hurries
    /// them.
    void report_lost_rows(EpGroup& group, EpHandle& handle) {
        if (handle.rows_lost) return;
        handle.rows_lost = true;
        core_.control().send_aborts(group, handle, regmap::Status::rank_failed, group.failed);
    }

    /// Offers the rows that may go now, and might not before, to their queue pairs.
    void release_rows(EpGroup& group, EpHandle& handle) {
        if (handle.state != HandleState::dispatching) return;
        while (handle.rows_released < std::min(rows_allowed(handle), handle.row_count)) {
            const std::uint32_t rank = handle.rows[handle.rows_released++].entry_rank;
            if (group.is_local(rank)) pump_local(group, handle);
            else offer_rows(group, handle, rank);
        }
    }

    /// Rows with a smaller number may be released. It may fall: a link that is busier still slows the pace.
    [[nodiscard]] std::uint32_t rows_allowed(const EpHandle& handle) {
        return std::min(handle.rows_done + rows_window(handle),
                        handle.pace.allowed(core_.hal().now_ns(), handle.rows_done));
    }

    /// Of a peer that is ready for this call: its busier link may be the group's busiest, which sets the
    /// pace.
    void meet_links_of(const EpGroup& group, EpHandle& handle, const PeerState& peer) {
        if (!peer.ready_valid || peer.ready_operation != handle.operation ||
            peer.busiest_rows <= handle.busiest_rows)
            return;
        handle.busiest_rows = peer.busiest_rows;
        handle.pace.set_duration(
            link_time_ns(core_.context().config(), peer.busiest_rows, group.row_bytes, group.row_parts));
    }

    void pump_local(EpGroup& group, EpHandle& handle) {
        if (!node_ready(group, handle, group.node)) return;
        Destination& self = handle.destination[group.parameters.rank];
        while (handle.state == HandleState::dispatching && self.next_row != no_index &&
               self.next_row < handle.rows_released && handle.local_in_flight < local_ahead) {
            const RowInfo& row = handle.rows[self.next_row];
            ++handle.local_in_flight;
            send_local(group, handle, row);
            self.next_row = row.next;
        }
    }

    void send_local(EpGroup& group, EpHandle& handle, const RowInfo& row) {
        const std::uint32_t mtu = group.parameters.mtu_bytes;
        for (std::uint32_t offset = 0; offset < group.row_bytes; offset += mtu) {
            const std::uint32_t length = std::min(mtu, group.row_bytes - offset);
            const bool last = offset + length == group.row_bytes;
            ScaleUpHeader frame =
                row_frame(group, static_cast<std::uint8_t>(core_.handle_number(group, handle)),
                          handle.operation, group.parameters.rank, row.token, offset, length);
            frame.tag = core_.notify_tag(group, handle);
            if (offset == 0)
                frame.choice_count = choices_in_node(group, handle, row.token, row.node, frame.choices);
            Payload payload;
            fill_payload(group, handle, row.token, offset, length, payload);
            core_.hal().scale_up(
                row.targets, frame,
                handle.indices.subspan(row.first_index, static_cast<std::size_t>(std::popcount(row.targets))),
                payload, last);
        }
    }

    /// A row is its elements, then its scales, which lie in two places of host memory.
    static void fill_payload(const EpGroup& group, const EpHandle& handle, std::uint32_t token,
                             std::uint32_t offset, std::uint32_t length, Payload& payload) {
        payload.segment_count = 0;
        if (offset < group.data_bytes) {
            const std::uint32_t part = std::min(length, group.data_bytes - offset);
            payload.segments[payload.segment_count++] =
                Segment{handle.request.x.address + std::uint64_t{token} * group.data_bytes + offset, part};
            length -= part;
            offset += part;
        }
        if (length != 0) {
            payload.segments[payload.segment_count++] =
                Segment{handle.request.x_scales.address + std::uint64_t{token} * group.scale_bytes +
                            (offset - group.data_bytes),
                        length};
        }
    }

    Core& core_;
    EpLoad<Core> load_;
    EpReceive<Core> receive_;
};

}  // namespace plait::firmware
