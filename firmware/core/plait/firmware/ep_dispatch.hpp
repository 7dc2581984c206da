#pragma once
// Dispatch: top-k lists in, counts to everybody, then the rows: source -> entry device -> targets.
//
// A call ends when its rank has nothing to do for it any more, in none of these roles, and when every rank
// has the counts of all: so no rank is ever more than one call ahead of another, and nothing about a later
// call can be taken for this one's.

#include <cstring>
#include <plait/firmware/ep_route.hpp>
#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// `Core` is Ep<Context>: groups, control messages, completion.
template <class Core>
class EpDispatch {
  public:
    static constexpr std::uint32_t rows_ahead =
        64;  ///< Rows handed to a queue pair and not yet acknowledged.
    static constexpr std::uint32_t local_ahead = 8;  ///< Own-node rows being multicast at once.
    static constexpr std::uint32_t fetch_bytes = 4096;

    explicit EpDispatch(Core& core) : core_(core) {}

    /// The request has been checked. Cached: the routing is in the handle already.
    void begin(EpGroup& group, EpHandle& handle, bool cached) {
        handle.routing_operation = handle.operation;
        handle.load_status = regmap::Status::ok;
        if (cached) return start_receiving(group, handle);
        handle.routed = false;
        handle.token_count = handle.request.tokens;
        handle.state = HandleState::loading;
        handle.fetches_left = 0;
        fetch_all(group, handle, false, handle.request.topk_idx, sizeof(std::int64_t));
        if (handle.request.topk_weights.key != 0) {
            fetch_all(group, handle, true, handle.request.topk_weights, sizeof(float));
        } else {
            const std::span<float> unused = handle.weights.first(choice_count(group, handle));
            std::fill(unused.begin(), unused.end(), 0.0F);
        }
        if (handle.fetches_left == 0) loaded(group, handle);
    }

    /// A piece of the top-k lists has come.
    void on_fetched(EpGroup& group, EpHandle& handle, bool weights, std::uint32_t piece,
                    regmap::Status status, std::span<const std::uint8_t> bytes) {
        if (handle.fetches_left == 0) return;
        --handle.fetches_left;
        if (handle.state == HandleState::loading) {
            if (status != regmap::Status::ok) handle.load_status = status;
            else if (weights) take_weights(group, handle, piece, bytes);
            else take_experts(group, handle, piece, bytes);
        }
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

    /// Hands rows that enter by `rank` to its queue pair, as far as it takes them.
    void pump_rows(EpGroup& group, EpHandle& handle, std::uint32_t rank) {
        Destination& destination = handle.destination[rank];
        if (handle.state != HandleState::dispatching || destination.next_row == no_index ||
            group.is_local(rank))
            return;
        if (!node_ready(group, handle, rank / group.parameters.ranks_per_node)) return;
        while (destination.next_row != no_index && destination.rows_in_flight < rows_ahead) {
            const std::uint32_t number = destination.next_row;
            if (group.has_failed(rank)) {  // unreachable: what it would have forwarded is lost and reported
                --handle.rows_unacknowledged;
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

    void row_acknowledged(EpGroup& group, EpHandle& handle, std::uint32_t number) {
        const std::uint32_t rank = handle.rows[number].entry_rank;
        --handle.destination[rank].rows_in_flight;
        --handle.rows_unacknowledged;
        pump_rows(group, handle, rank);
        check_done(group, handle);
    }

    void local_row_sent(EpGroup& group, EpHandle& handle) {
        --handle.local_in_flight;
        --handle.local_left;
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

    /// A row's packet has come from another node: this device is its entry. none: it was taken, with its
    /// buffer.
    regmap::NackReason on_row(EpGroup& group, EpHandle& handle, std::uint32_t source,
                              const PacketEvent& event) {
        const Packet& packet = event.packet;
        const RowHeader& row = packet.row;
        if (operation_before(handle.routing_operation, row.operation))
            return regmap::NackReason::unknown_operation;
        auto& hal = core_.hal();
        if (row.operation != handle.routing_operation || handle.state != HandleState::dispatching) {
            hal.count_drop(regmap::DropReason::unknown_operation);  // of a call that was given up here
            hal.release(event.buffer);
            return regmap::NackReason::none;
        }
        PeerState& peer = handle.peer[source];
        const std::uint32_t all = (1U << group.parameters.ranks_per_node) - 1;
        if (row.row >= peer.rows_via_me || row.targets == 0 || (row.targets & ~all) != 0 ||
            row.choice_count > regmap::max_topk || packet.message_bytes != group.row_bytes ||
            !is_part(group, packet.message_offset, packet.payload_bytes) || peer.entry_parts_missing == 0) {
            return regmap::NackReason::invalid_request;
        }
        EntryRow& entry = handle.entry_rows[peer.entry_base + row.row];
        entry.token = row.token;
        entry.arrived = true;
        entry.targets = row.targets;
        entry.index = row.index;
        ScaleUpHeader frame = row_frame(group, row.handle, row.operation, source, row.token,
                                        packet.message_offset, packet.payload_bytes);
        frame.choice_count = row.choice_count;
        std::copy_n(row.choices.begin(), row.choice_count, frame.choices.begin());
        Payload payload;
        payload.buffer = event.buffer;
        hal.scale_up(row.targets, frame,
                     {row.index.data(), static_cast<std::size_t>(std::popcount(row.targets))}, payload,
                     false);
        hal.release(event.buffer);
        --peer.entry_parts_missing;
        --handle.entry_parts_left;
        check_done(group, handle);
        return regmap::NackReason::none;
    }

    /// A row's part has come over scale-up: this device is a target. Places it. The buffer stays the
    /// caller's.
    void on_target(EpGroup& group, EpHandle& handle, const ScaleUpEvent& event) {
        const ScaleUpHeader& frame = event.header;
        auto& hal = core_.hal();
        if (handle.state != HandleState::dispatching || frame.operation != handle.operation) {
            return hal.count_drop(regmap::DropReason::unknown_operation);
        }
        PeerState& peer = handle.peer[frame.source_rank];
        if (frame.index >= peer.rows_to_me || !is_part(group, frame.offset, frame.length) ||
            peer.parts_missing == 0 || frame.choice_count > regmap::max_topk || event.buffer == 0) {
            return hal.count_drop(regmap::DropReason::malformed);
        }
        const std::uint32_t slot = peer.base_slot + frame.index;
        place_part(group, handle, slot, frame, event.buffer);
        if (frame.offset == 0) {
            write_choices(group, handle, slot, frame);
            ++peer.rows_by_entry[frame.source_local];
        }
        --peer.parts_missing;
        --handle.parts_left;
        check_done(group, handle);
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
    void missing_ranks(const EpGroup& group, const EpHandle& handle,
                       std::array<std::uint64_t, 4>& mask) const {
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
    [[nodiscard]] static std::size_t choice_count(const EpGroup& group, const EpHandle& handle) {
        return std::size_t{handle.token_count} * group.parameters.topk;
    }

    /// Bytes of a row as the transport cuts it.
    [[nodiscard]] static bool is_part(const EpGroup& group, std::uint32_t offset, std::uint32_t length) {
        const std::uint32_t mtu = group.parameters.mtu_bytes;
        return offset < group.row_bytes && offset % mtu == 0 &&
               length == std::min(mtu, group.row_bytes - offset);
    }

    /// Sends to a node whose devices can all place rows now.
    void start_node(EpGroup& group, EpHandle& handle, std::uint32_t node) {
        if (!node_ready(group, handle, node)) return;
        if (node == group.node) return pump_local(group, handle);
        for (std::uint32_t i = 0; i < group.parameters.ranks_per_node; ++i) {
            pump_rows(group, handle, group.rank_at(node, i));
        }
    }

    [[nodiscard]] static bool node_ready(const EpGroup& group, const EpHandle& handle, std::uint32_t node) {
        for (std::uint32_t i = 0; i < group.parameters.ranks_per_node; ++i) {
            if (!is_ready(group, handle, group.rank_at(node, i))) return false;
        }
        return true;
    }

    void fetch_all(EpGroup& group, EpHandle& handle, bool weights, const regmap::MemoryRange& range,
                   std::size_t element_bytes) {
        const std::uint64_t bytes = choice_count(group, handle) * element_bytes;
        const auto pieces = static_cast<std::uint32_t>((bytes + fetch_bytes - 1) / fetch_bytes);
        handle.fetches_left += pieces;
        for (std::uint32_t piece = 0; piece < pieces; ++piece) {
            const std::uint64_t offset = std::uint64_t{piece} * fetch_bytes;
            core_.hal().fetch(
                FetchTag{FetchOwner::ep, core_.fetch_label(group, handle, weights, piece)},
                Segment{range.address + offset,
                        static_cast<std::uint32_t>(std::min<std::uint64_t>(fetch_bytes, bytes - offset))});
        }
    }

    void take_experts(EpGroup& group, EpHandle& handle, std::uint32_t piece,
                      std::span<const std::uint8_t> bytes) {
        const std::size_t first = std::size_t{piece} * (fetch_bytes / sizeof(std::int64_t));
        const std::size_t count = bytes.size() / sizeof(std::int64_t);
        if (first + count > choice_count(group, handle)) {
            handle.load_status = regmap::Status::invalid_length;
            return;
        }
        for (std::size_t i = 0; i < count; ++i) {
            std::int64_t expert = 0;
            std::memcpy(&expert, bytes.data() + i * sizeof(expert), sizeof(expert));
            if (expert < -1 || expert >= static_cast<std::int64_t>(group.parameters.experts)) {
                handle.load_status = regmap::Status::invalid_expert;
                return;
            }
            handle.experts[first + i] = static_cast<std::int16_t>(expert);
        }
    }

    void take_weights(EpGroup& group, EpHandle& handle, std::uint32_t piece,
                      std::span<const std::uint8_t> bytes) {
        const std::size_t first = std::size_t{piece} * (fetch_bytes / sizeof(float));
        if (first + bytes.size() / sizeof(float) > choice_count(group, handle)) {
            handle.load_status = regmap::Status::invalid_length;
            return;
        }
        std::memcpy(handle.weights.data() + first, bytes.data(),
                    bytes.size() / sizeof(float) * sizeof(float));
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
        handle.rows_unacknowledged = handle.local_in_flight = 0;
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
        handle.local_left = handle.destination[group.parameters.rank].rows_via;
        core_.control().announce_ready(group, handle, true);
        for (std::uint32_t node = 0; node < group.nodes; ++node) start_node(group, handle, node);
        check_done(group, handle);
    }

    void pump_local(EpGroup& group, EpHandle& handle) {
        Destination& self = handle.destination[group.parameters.rank];
        while (handle.state == HandleState::dispatching && self.next_row != no_index &&
               handle.local_in_flight < local_ahead) {
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

    [[nodiscard]] static ScaleUpHeader row_frame(const EpGroup& group, std::uint8_t handle,
                                                 std::uint16_t operation, std::uint32_t source,
                                                 std::uint32_t token, std::uint32_t offset,
                                                 std::uint32_t length) {
        ScaleUpHeader frame;
        frame.kind = regmap::ScaleUpKind::row;
        frame.group = group.number;
        frame.handle = handle;
        frame.source_local = static_cast<std::uint8_t>(group.local);
        frame.operation = operation;
        frame.source_rank = static_cast<std::uint16_t>(source);
        frame.token = token;
        frame.offset = offset;
        frame.length = length;
        return frame;
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

    void place_part(const EpGroup& group, const EpHandle& handle, std::uint32_t slot,
                    const ScaleUpHeader& frame, BufferId buffer) {
        std::uint32_t offset = frame.offset;
        std::uint32_t length = frame.length;
        std::uint32_t taken = 0;
        if (offset < group.data_bytes) {
            taken = std::min(length, group.data_bytes - offset);
            core_.hal().place(
                buffer, 0,
                Segment{handle.request.recv_x.address + std::uint64_t{slot} * group.data_bytes + offset,
                        taken});
            offset += taken;
            length -= taken;
        }
        if (length != 0) {
            core_.hal().place(
                buffer, taken,
                Segment{handle.request.recv_x_scales.address + std::uint64_t{slot} * group.scale_bytes +
                            (offset - group.data_bytes),
                        length});
        }
    }

    /// The row's own top-k list, as far as its experts live here, and where it came from.
    void write_choices(const EpGroup& group, const EpHandle& handle, std::uint32_t slot,
                       const ScaleUpHeader& frame) {
        const std::uint32_t topk = group.parameters.topk;
        const std::uint32_t own = group.parameters.experts / group.parameters.ranks;
        std::array<std::int64_t, regmap::max_topk> experts{};
        std::array<float, regmap::max_topk> weights{};
        experts.fill(-1);
        for (std::uint32_t i = 0; i < frame.choice_count; ++i) {
            const Choice& choice = frame.choices[i];
            if (choice.position >= topk || choice.expert / own != group.parameters.rank) continue;
            experts[choice.position] = choice.expert % own;
            weights[choice.position] = choice.weight;
        }
        const std::uint64_t source = std::uint64_t{frame.source_rank} << 32 | frame.token;
        write_row(handle.request.recv_topk_idx, slot, experts.data(), topk * sizeof(std::int64_t));
        write_row(handle.request.recv_topk_weights, slot, weights.data(), topk * sizeof(float));
        write_row(handle.request.recv_source, slot, &source, sizeof(source));
    }

    void write_row(const regmap::MemoryRange& range, std::uint32_t slot, const void* data,
                   std::size_t bytes) {
        if (range.key == 0) return;
        core_.hal().write(range.address + std::uint64_t{slot} * bytes,
                          {static_cast<const std::uint8_t*>(data), bytes});
    }

    Core& core_;
};

}  // namespace plait::firmware
