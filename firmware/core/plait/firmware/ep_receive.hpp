#pragma once
// Dispatch at the receiving node: the entry device forwards a row to its targets, a target places it.

#include <algorithm>
#include <plait/engines/bits.hpp>
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
        const bool fits =
            group.is_low_latency() ? fits_slots(group, peer, row) : fits_counts(group, peer, row);
        if (!fits || packet.message_bytes != group.row_bytes ||
            !is_part(group, packet.message_offset, packet.payload_bytes))
            return regmap::NackReason::invalid_request;
        keep_entry_row(group, handle, peer, row);
        ScaleUpHeader frame = row_frame(group, row.handle, row.operation, source, row.token,
                                        packet.message_offset, packet.payload_bytes);
        frame.choice_count = row.choice_count;
        std::copy_n(row.choices.begin(), row.choice_count, frame.choices.begin());
        Payload payload;
        payload.buffer = event.buffer;
        hal.scale_up(row.targets, frame, {row.index.data(), engines::count_bits(row.targets)}, payload,
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
        if (frame.choice_count > regmap::max_topk || !is_part(group, frame.offset, frame.length) ||
            event.buffer == 0) {
            return hal.count_drop(regmap::DropReason::malformed);
        }
        const bool placed = group.is_low_latency() ? place_by_choices(group, handle, peer, event)
                                                   : place_by_index(group, handle, peer, event);
        if (!placed) return hal.count_drop(regmap::DropReason::malformed);
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
        for_each_row(group, handle, [&](std::uint32_t slot) {
            if (handle.parts_placed[slot] >= group.row_parts) return;
            write_row(handle.request.recv_topk_idx, slot, nowhere.data(),
                      group.parameters.topk * sizeof(std::int64_t));
            write_row(handle.request.recv_source, slot, nowhere.data(), sizeof(std::uint64_t));
            ++gaps;
        });
        return gaps;
    }

  private:
    /// Normal mode: the row is one of those that its source has announced.
    [[nodiscard]] static bool fits_counts(const EpGroup& group, const PeerState& peer, const RowHeader& row) {
        const std::uint32_t all = (1U << group.parameters.ranks_per_node) - 1;
        return row.row < peer.rows_via_me && row.targets != 0 && (row.targets & ~all) == 0 &&
               row.index_count == engines::count_bits(row.targets) && row.choice_count <= regmap::max_topk &&
               peer.entry_parts_missing > 0;
    }

    /// Low latency: the row has a place at its entry, its choices have theirs at the experts of just its
    /// targets, and what came before does not make it too many.
    [[nodiscard]] static bool fits_slots(const EpGroup& group, const PeerState& peer, const RowHeader& row) {
        const std::uint32_t limit = peer.counted ? peer.rows_via_me : group.parameters.max_tokens;
        if (row.row >= limit || row.index_count != 0 || row.choice_count == 0 ||
            row.choice_count > group.row_choices || !may_come(group, peer, peer.entry_parts_missing))
            return false;
        std::uint32_t targets = 0;
        for (const Choice& choice : std::span(row.choices).first(row.choice_count)) {
            const std::uint32_t local = group.rank_of_expert(choice.expert) - group.rank_at(group.node, 0);
            if (local >= group.parameters.ranks_per_node || choice.position >= group.parameters.max_tokens)
                return false;
            targets |= 1U << local;
        }
        return row.targets == targets;
    }

    /// One more of the packets of which so many are missing, or, below zero, came before the counts.
    [[nodiscard]] static bool may_come(const EpGroup& group, const PeerState& peer, std::int32_t missing) {
        const auto most = static_cast<std::int32_t>(group.parameters.max_tokens * group.row_parts);
        return peer.counted ? missing > 0 : missing > -most;
    }

    /// The entry of a node's share of the combine must know what the row was.
    void keep_entry_row(const EpGroup& group, EpHandle& handle, const PeerState& peer, const RowHeader& row) {
        const std::uint32_t number = peer.entry_base + row.row;
        EntryRow& entry = handle.entry_rows[number];
        entry.dispatch = handle.dispatch_number;
        entry.token = row.token;
        entry.targets = row.targets;
        if (!group.is_low_latency()) {
            entry.index = row.index;
            return;
        }
        entry.choice_count = row.choice_count;
        std::copy_n(row.choices.begin(), row.choice_count, choices_at(group, handle, number).begin());
    }

    /// False: malformed, nothing was placed.
    bool place_by_index(const EpGroup& group, EpHandle& handle, PeerState& peer, const ScaleUpEvent& event) {
        const ScaleUpHeader& frame = event.header;
        if (frame.index >= peer.rows_to_me || peer.parts_missing <= 0) return false;
        const std::uint32_t slot = peer.base_slot + frame.index;
        place_part(group, handle, slot, frame, event.buffer);
        if (frame.offset == 0) write_choices(group, handle, slot, frame);
        part_placed(group, handle, peer, slot, frame);
        return true;
    }

    /// Once for each of this rank's experts that the row is for. False: malformed, nothing was placed.
    bool place_by_choices(const EpGroup& group, EpHandle& handle, PeerState& peer,
                          const ScaleUpEvent& event) {
        const ScaleUpHeader& frame = event.header;
        const std::span choices = std::span(frame.choices).first(frame.choice_count);
        const auto is_own = [&](const Choice& choice) {
            return group.rank_of_expert(choice.expert) == group.parameters.rank;
        };
        const bool sound = std::all_of(choices.begin(), choices.end(), [&](const Choice& choice) {
            return choice.position < group.parameters.max_tokens;
        });
        if (!sound || std::none_of(choices.begin(), choices.end(), is_own) ||
            !may_come(group, peer, peer.parts_missing))
            return false;
        const std::uint64_t source = std::uint64_t{frame.source_rank} << 32 | frame.token;
        for (const Choice& choice : choices) {
            if (!is_own(choice)) continue;
            const std::uint32_t slot =
                expert_slot(group, frame.source_rank, choice.expert % group.own_experts(), choice.position);
            place_part(group, handle, slot, frame, event.buffer);
            if (frame.offset == 0) write_row(handle.request.recv_source, slot, &source, sizeof(source));
            part_placed(group, handle, peer, slot, frame);
        }
        return true;
    }

    /// A row counts for its entry when all of it is here.
    static void part_placed(const EpGroup& group, EpHandle& handle, PeerState& peer, std::uint32_t slot,
                            const ScaleUpHeader& frame) {
        if (++handle.parts_placed[slot] == group.row_parts) ++peer.rows_by_entry[frame.source_local];
    }

    /// Every slot of the outputs that a row is expected in.
    template <class Visitor>
    static void for_each_row(const EpGroup& group, const EpHandle& handle, Visitor&& visitor) {
        if (!group.is_low_latency()) {
            for (std::uint32_t slot = 0; slot < handle.received_rows; ++slot) visitor(slot);
            return;
        }
        const std::uint32_t own = group.own_experts();
        for (std::uint32_t number = 0; number < group.parameters.experts; ++number) {
            for (std::uint32_t row = 0; row < handle.peer_expert_rows[number]; ++row)
                visitor(expert_slot(group, number / own, number % own, row));
        }
    }

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
                        taken},
                false);
            offset += taken;
            length -= taken;
        }
        if (length != 0) {
            core_.hal().place(
                buffer, taken,
                Segment{handle.request.recv_x_scales.address + std::uint64_t{slot} * group.scale_bytes +
                            (offset - group.data_bytes),
                        length},
                false);
        }
    }

    /// The row's own top-k list, as far as its experts live here, and where it came from.
    void write_choices(const EpGroup& group, const EpHandle& handle, std::uint32_t slot,
                       const ScaleUpHeader& frame) {
        const std::uint32_t topk = group.parameters.topk;
        const std::uint32_t own = group.own_experts();
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
