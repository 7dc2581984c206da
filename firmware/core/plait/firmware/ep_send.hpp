#pragma once
// Dispatch at the source: a rank's rows leave in order of its tokens and at the pace of the call.

#include <algorithm>
#include <plait/engines/bits.hpp>
#include <plait/firmware/ep_receive.hpp>
#include <plait/firmware/ep_route.hpp>
#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// `Core` is Ep<Context>.
template <class Core>
class EpSend {
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

    explicit EpSend(Core& core) : core_(core) {}

    /// From the first to the last; they go as soon as start() is called.
    void line_up(const EpGroup& group, EpHandle& handle) {
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            Destination& destination = handle.destination[rank];
            destination.next_row = destination.first_row;
            destination.rows_in_flight = 0;
            if (!group.is_local(rank)) handle.rows_unacknowledged += destination.rows_via;
        }
        handle.local_left = handle.destination[group.parameters.rank].rows_via;
        handle.rows_released = 0;
        // In a short call it counts that no link is busy when it begins.
        const std::uint32_t lead_ns = group.is_low_latency() ? core_.context().config().base_rtt_ns / 2 : 0;
        handle.pace.start(core_.hal().now_ns() - lead_ns, handle.row_count);
    }

    void start(EpGroup& group, EpHandle& handle) {
        set_pace(group, handle);
        for (const PeerState& peer : handle.peer) meet_links_of(group, handle, peer);
        for (std::uint32_t node = 0; node < group.nodes; ++node) start_node(group, handle, node);
    }

    /// Sends to a node whose devices can all place rows now.
    void start_node(EpGroup& group, EpHandle& handle, std::uint32_t node) {
        if (!node_ready(group, handle, node)) return;
        if (node == group.node) pump_local(group, handle);
        for (std::uint32_t i = 0; i < group.parameters.ranks_per_node; ++i)
            offer_rows(group, handle, group.rank_at(node, i));
        release_rows(group, handle);
    }

    /// Goes on with the rows that enter by `rank`, and with those that wait for their turn.
    void pump_rows(EpGroup& group, EpHandle& handle, std::uint32_t rank) {
        offer_rows(group, handle, rank);
        release_rows(group, handle);
    }

    void acknowledged(EpGroup& group, EpHandle& handle, std::uint32_t number) {
        const std::uint32_t rank = handle.rows[number].entry_rank;
        --handle.destination[rank].rows_in_flight;
        --handle.rows_unacknowledged;
        ++handle.rows_done;
        pump_rows(group, handle, rank);
    }

    void local_sent(EpGroup& group, EpHandle& handle) {
        --handle.local_in_flight;
        --handle.local_left;
        ++handle.rows_done;
        release_rows(group, handle);
        pump_local(group, handle);
    }

    /// A peer that is ready for this call has said how many rows its busier link carries.
    void meet_links_of(const EpGroup& group, EpHandle& handle, const PeerState& peer) {
        if (!peer.ready_valid || peer.ready_operation != handle.operation) return;
        handle.most_contributions = std::max(handle.most_contributions, peer.contributions);
        meet_links(group, handle, peer.busiest_rows);
    }

    /// A link of the group has so many rows to carry. The busiest one sets the pace.
    void meet_links(const EpGroup& group, EpHandle& handle, std::uint32_t rows) {
        if (rows <= handle.busiest_rows) return;
        handle.busiest_rows = rows;
        set_pace(group, handle);
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
        const std::span<const std::uint32_t> indices = indices_of(group, handle, row);
        packet.row.index_count = static_cast<std::uint8_t>(indices.size());
        std::copy(indices.begin(), indices.end(), packet.row.index.begin());
        packet.row.choice_count = carries_choices(group, offset)
                                      ? choices_of(group, handle, row, packet.row.choices)
                                      : std::uint8_t{0};
        fill_payload(group, handle, row.token, offset, packet.payload_bytes, payload);
    }

  private:
    [[nodiscard]] static bool node_ready(const EpGroup& group, const EpHandle& handle, std::uint32_t node) {
        for (std::uint32_t i = 0; i < group.parameters.ranks_per_node; ++i) {
            if (!is_ready(group, handle, group.rank_at(node, i))) return false;
        }
        return true;
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

    void set_pace(const EpGroup& group, EpHandle& handle) {
        handle.pace.set_duration(link_time_ns(core_.context().config().planes_rate_gbps(),
                                              handle.busiest_rows, group.row_bytes, group.row_parts));
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
            if (carries_choices(group, offset))
                frame.choice_count = choices_of(group, handle, row, frame.choices);
            Payload payload;
            fill_payload(group, handle, row.token, offset, length, payload);
            core_.hal().scale_up(row.targets, frame, indices_of(group, handle, row), payload, last);
        }
    }

    /// Where the row lies at its targets. Low latency: the choices say that, in every packet.
    [[nodiscard]] static std::span<const std::uint32_t> indices_of(const EpGroup& group,
                                                                   const EpHandle& handle,
                                                                   const RowInfo& row) {
        if (group.is_low_latency()) return {};
        return handle.indices.subspan(row.first_index, engines::count_bits(row.targets));
    }

    [[nodiscard]] static bool carries_choices(const EpGroup& group, std::uint32_t offset) {
        return offset == 0 || group.is_low_latency();
    }

    /// A row is its codes, then its scales, which lie in two places of host memory, or come of its BF16.
    void fill_payload(const EpGroup& group, const EpHandle& handle, std::uint32_t token, std::uint32_t offset,
                      std::uint32_t length, Payload& payload) const {
        payload.segment_count = 0;
        if (group.x.format != group.parameters.dispatch_format) {
            payload.encoding = {group.parameters.dispatch_format, offset, core_.counter(group, handle)};
            payload.segments[payload.segment_count++] = Segment{
                handle.request.x.address + std::uint64_t{token} * group.x.data_bytes, group.x.data_bytes};
            return;
        }
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
};

}  // namespace plait::firmware
