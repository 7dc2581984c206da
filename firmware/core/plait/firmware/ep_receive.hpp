#pragma once
// Dispatch at the receiving node: the entry device forwards a row to its targets, a target places it.

#include <algorithm>
#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// Header of the scale-up frame that carries part of a row.
inline ScaleUpHeader row_frame(const EpGroup& group, std::uint8_t handle, std::uint16_t operation,
                               std::uint32_t source, std::uint32_t token, std::uint32_t offset,
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

/// `Core` is Ep<Context>.
template <class Core>
class EpReceive {
  public:
    explicit EpReceive(Core& core) : core_(core) {}

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
        core_.dispatch().check_done(group, handle);
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
        if (frame.offset == 0) write_choices(group, handle, slot, frame);
        if (++handle.parts_placed[slot] == group.row_parts) ++peer.rows_by_entry[frame.source_local];
        --peer.parts_missing;
        --handle.parts_left;
        core_.dispatch().check_done(group, handle);
    }

    /// The call may end with rows that are not in place, or not wholly; of a cached routing also those of
    /// sources that have failed since. Marks them as coming from nowhere, for no expert; answers how many
    /// there are.
    std::uint32_t mark_gaps(const EpGroup& group, const EpHandle& handle) {
        if (handle.parts_left == 0 && !core_.any_failed(group)) return 0;
        std::uint32_t gaps = 0;
        std::array<std::int64_t, regmap::max_topk> nowhere;
        nowhere.fill(-1);
        for (std::uint32_t slot = 0; slot < handle.received_rows; ++slot) {
            if (handle.parts_placed[slot] >= group.row_parts) continue;
            write_row(handle.request.recv_topk_idx, slot, nowhere.data(),
                      group.parameters.topk * sizeof(std::int64_t));
            write_row(handle.request.recv_source, slot, nowhere.data(), sizeof(std::uint64_t));
            ++gaps;
        }
        return gaps;
    }

  private:
    /// Bytes of a row as the transport cuts it.
    [[nodiscard]] static bool is_part(const EpGroup& group, std::uint32_t offset, std::uint32_t length) {
        const std::uint32_t mtu = group.parameters.mtu_bytes;
        return offset < group.row_bytes && offset % mtu == 0 &&
               length == std::min(mtu, group.row_bytes - offset);
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
