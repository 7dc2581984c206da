#pragma once
// Control messages between the ranks of a group: over the planes to other nodes, over scale-up within the
// node.

#include <algorithm>
#include <cstring>
#include <plait/engines/bits.hpp>
#include <plait/firmware/ep_control_payload.hpp>
#include <plait/firmware/ep_group.hpp>
#include <plait/firmware/ep_state.hpp>
#include <plait/firmware/ep_weights.hpp>

namespace plait::firmware {

using regmap::EpControlKind;

/// `Core` is Ep<Context>.
template <class Core>
class EpControl {
  public:
    explicit EpControl(Core& core) : core_(core) {}

    /// A new call: what was not sent yet of the last one is of no use to anybody (aborts and what is of no
    /// call are).
    void begin(EpHandle& handle) {
        constexpr std::uint8_t kept =
            bit(EpControlKind::abort) | bit(EpControlKind::gone) | bit(EpControlKind::joined);
        handle.controls_left = 0;
        for (Destination& destination : handle.destination) destination.control_pending &= kept;
    }

    void send(EpGroup& group, EpHandle& handle, std::uint32_t rank, EpControlKind kind) {
        if (group.is_local(rank)) return send_local(group, handle, rank, kind);
        Destination& destination = handle.destination[rank];
        destination.control_pending |= bit(kind);
        if (kind == EpControlKind::abort) destination.abort_operation = handle.operation;
        if (must_arrive(kind)) ++handle.controls_left;
        flush(group, handle, rank);
    }

    /// To a rank of another node, unless it is on its way anyhow. The receiver does not mind to hear it
    /// twice.
    void send_again(EpGroup& group, EpHandle& handle, std::uint32_t rank, EpControlKind kind) {
        const Destination& destination = handle.destination[rank];
        if (((destination.control_pending | destination.control_in_flight) & bit(kind)) == 0)
            send(group, handle, rank, kind);
    }

    /// The call is given up here for `reason`, which `culprits` are blamed for: every rank learns it.
    void send_aborts(EpGroup& group, EpHandle& handle, regmap::Status reason, const RankMask& culprits) {
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            if (rank != group.parameters.rank && !group.has_failed(rank))
                send_abort(group, handle, rank, reason, culprits);
        }
    }

    void send_abort(EpGroup& group, EpHandle& handle, std::uint32_t rank, regmap::Status reason,
                    const RankMask& culprits) {
        handle.abort_status = reason;
        handle.abort_ranks = culprits;
        send(group, handle, rank, EpControlKind::abort);
    }

    /// A device of the node is gone, which the node alone sees at once: the other nodes learn it, so that
    /// they do not wait until their queue pairs to it have given up. The first handle carries it.
    void send_gone(EpGroup& group) {
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            if (!group.is_local(rank) && !group.has_failed(rank))
                send(group, group.handles[0], rank, EpControlKind::gone);
        }
    }

    /// Every rank (dispatch), or the node's (combine), learns that this one has joined the call.
    void announce_ready(EpGroup& group, EpHandle& handle, bool everywhere) {
        PeerState& self = handle.peer[group.parameters.rank];
        self.ready_valid = true;
        self.ready_operation = handle.operation;
        self.ready_kind = handle.kind;
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            if (rank == group.parameters.rank || group.has_failed(rank)) continue;
            if (everywhere || group.is_local(rank)) send(group, handle, rank, EpControlKind::ready);
        }
    }

    /// Hands what waits for `rank` to its queue pair, as far as it takes it. One message of a kind is under
    /// way at once.
    void flush(EpGroup& group, EpHandle& handle, std::uint32_t rank) {
        Destination& destination = handle.destination[rank];
        const auto waiting =
            static_cast<std::uint8_t>(destination.control_pending & ~destination.control_in_flight);
        for (std::uint32_t left = waiting; left != 0; left &= left - 1) {
            const auto kind = static_cast<EpControlKind>(std::countr_zero(left));
            const bool counts = kind == EpControlKind::counts;
            const std::uint16_t operation = kind == EpControlKind::abort    ? destination.abort_operation
                                            : kind == EpControlKind::joined ? destination.joined_operation
                                                                            : handle.operation;
            const std::uint64_t tag = core_.tag(group, handle, EpMessageKind::control, operation,
                                                rank << 8 | static_cast<std::uint32_t>(kind));
            const std::uint32_t length = kind == EpControlKind::credit
                                             ? weights_.tell(group, handle, destination)
                                             : ControlPayload::bytes(group, kind);
            if (!core_.enqueue(group, handle, rank, Opcode::mp_ep_control, tag, length)) return;
            if (counts) ++handle.table_messages;
            destination.control_pending = static_cast<std::uint8_t>(destination.control_pending & ~bit(kind));
            destination.control_in_flight |= bit(kind);
        }
    }

    /// The transport is done with a message.
    void done(EpGroup& group, EpHandle& handle, const EpTag& tag) {
        const std::uint32_t rank = tag.index >> 8;
        const auto kind = static_cast<EpControlKind>(tag.index & 0xff);
        Destination& destination = handle.destination[rank];
        destination.control_in_flight = static_cast<std::uint8_t>(destination.control_in_flight & ~bit(kind));
        if (kind == EpControlKind::counts) --handle.table_messages;
        if (must_arrive(kind) && tag.operation == handle.operation) --handle.controls_left;
        if (kind == EpControlKind::credit && tag.operation == handle.operation &&
            CreditWeights::arrived(handle, destination))
            destination.control_pending |= bit(kind);
        flush(group, handle, rank);
    }

    /// What waits for a rank that is gone is not sent.
    void on_rank_failed(EpHandle& handle, std::uint32_t rank) {
        Destination& destination = handle.destination[rank];
        for (const EpControlKind kind : {EpControlKind::counts, EpControlKind::ready}) {
            if ((destination.control_pending & bit(kind)) != 0) --handle.controls_left;
        }
        destination.control_pending = 0;
    }

    /// Fills in the packet of a message. Counts whose call was given up are gone: an abort takes their place,
    /// without a mask of ranks.
    void build(const EpGroup& group, const EpHandle& handle, const EpTag& tag, Packet& packet,
               Payload& payload) {
        const std::uint32_t rank = tag.index >> 8;
        auto kind = static_cast<EpControlKind>(tag.index & 0xff);
        packet.ack_request = true;
        if (kind == EpControlKind::counts) {
            const bool current =
                tag.operation == handle.operation &&
                (handle.state == HandleState::counting || handle.state == HandleState::dispatching ||
                 (handle.state == HandleState::ending && handle.tables_busy));
            if (!current) kind = EpControlKind::abort;
            payload.inline_bytes = payload_.make(group, handle, rank, EpControlKind::counts);
        }
        if (kind == EpControlKind::credit && packet.payload_bytes != 0) {
            const bool current = tag.operation == handle.operation && handle.state == HandleState::combining;
            if (!current) kind = EpControlKind::abort;
            payload.inline_bytes =
                weights_.payload(group, handle, handle.destination[rank]).first(packet.payload_bytes);
        }
        packet.control = header(group, handle, rank, kind, tag.operation);
        if (payload.inline_bytes.empty()) put_payload(group, handle, rank, packet.control, payload);
    }

    /// A message from `rank`. False: malformed, nothing taken. What is about a call that is over here is
    /// taken and forgotten; what is about a later one is kept.
    bool take(EpGroup& group, EpHandle& handle, std::uint32_t rank, const ControlHeader& control,
              std::span<const std::uint8_t> bytes) {
        switch (control.kind) {
            case EpControlKind::counts: return take_counts(group, handle, rank, control, bytes);
            case EpControlKind::ready: return take_ready(group, handle, rank, control, bytes);
            case EpControlKind::credit: return take_credit(group, handle, rank, control, bytes);
            case EpControlKind::abort: return take_abort(group, handle, control, bytes);
            case EpControlKind::gone: return take_gone(group, rank, control);
            case EpControlKind::joined:
                if (control.operation == handle.operation) mark(handle.joined_ranks, rank);
                return true;
        }
        return false;
    }

    /// Has a peer said something that does not fit this rank's call? Then not all ranks have posted the same.
    [[nodiscard]] static bool disagrees(const EpHandle& handle, const PeerState& peer) {
        const std::uint16_t operation = handle.operation;
        return (peer.incoming.valid && peer.incoming.operation == operation &&
                handle.kind != CallKind::dispatch) ||
               (peer.ready_valid && peer.ready_operation == operation && handle.kind != peer.ready_kind) ||
               (peer.credit_valid && peer.credit_operation == operation && handle.kind != CallKind::combine);
    }

  private:
    static constexpr unsigned calls_ahead = 8;  // a peer's aborts are remembered so far

    [[nodiscard]] static constexpr std::uint8_t bit(EpControlKind kind) {
        return static_cast<std::uint8_t>(1U << static_cast<unsigned>(kind));
    }

    /// Counts and ready: the call does not end before the peer has them.
    [[nodiscard]] static constexpr bool must_arrive(EpControlKind kind) {
        return kind == EpControlKind::counts || kind == EpControlKind::ready;
    }

    ControlHeader header(const EpGroup& group, const EpHandle& handle, std::uint32_t rank, EpControlKind kind,
                         std::uint16_t operation) const {
        ControlHeader control{.group = group.number,
                              .handle = core_.handle_number(group, handle),
                              .operation = operation,
                              .kind = kind};
        switch (kind) {
            case EpControlKind::counts: control.value = group.hash; break;
            case EpControlKind::ready:
                control.call = static_cast<std::uint8_t>(handle.kind);
                control.value = handle.peer[group.parameters.rank].busiest_rows;
                break;
            case EpControlKind::credit: {
                const Destination& entry = handle.destination[rank];
                control.value = handle.sends_weights ? entry.weights_telling : entry.credited;
                break;
            }
            case EpControlKind::abort: control.status = handle.abort_status; break;
            case EpControlKind::joined: break;
            case EpControlKind::gone:
                for (std::uint32_t local = 0; local < group.parameters.ranks_per_node; ++local) {
                    if (group.has_failed(group.rank_at(group.node, local))) control.value |= 1U << local;
                }
                break;
        }
        return control;
    }

    void put_payload(const EpGroup& group, const EpHandle& handle, std::uint32_t rank, ControlHeader& control,
                     Payload& payload) {
        payload.inline_bytes = payload_.make(group, handle, rank, control.kind);
        if (control.kind == EpControlKind::abort) control.value = sizeof(RankMask);
    }

    void send_local(EpGroup& group, EpHandle& handle, std::uint32_t rank, EpControlKind kind) {
        ScaleUpHeader frame;
        frame.kind = regmap::ScaleUpKind::control;
        frame.group = group.number;
        frame.handle = core_.handle_number(group, handle);
        frame.source_local = static_cast<std::uint8_t>(group.local);
        frame.source_rank = static_cast<std::uint16_t>(group.parameters.rank);
        frame.operation = handle.operation;
        frame.control = header(group, handle, rank, kind, handle.operation);
        Payload payload;
        put_payload(group, handle, rank, frame.control, payload);
        frame.length = static_cast<std::uint32_t>(payload.inline_bytes.size());
        core_.hal().scale_up(static_cast<std::uint8_t>(1U << (rank % group.parameters.ranks_per_node)), frame,
                             {}, payload, false);
    }

    /// A message about the call in progress that does not fit it ends the call for everybody.
    bool checked(EpGroup& group, EpHandle& handle, const PeerState& peer) {
        if (!core_.is_busy(handle) || !disagrees(handle, peer)) return true;
        core_.give_up(group, handle, regmap::Status::parameter_mismatch);
        return false;
    }

    bool take_counts(EpGroup& group, EpHandle& handle, std::uint32_t rank, const ControlHeader& control,
                     std::span<const std::uint8_t> bytes) {
        if (control.value != group.hash) {
            if (core_.is_busy(handle)) core_.give_up(group, handle, regmap::Status::parameter_mismatch);
            return true;
        }
        PeerState& peer = handle.peer[rank];
        if (bytes.size() != counts_bytes(group.parameters)) return false;
        if (peer.incoming.valid && operation_before(control.operation, peer.incoming.operation)) return true;
        std::uint32_t words[3];
        std::memcpy(words, bytes.data(), sizeof(words));
        if (words[0] > group.parameters.max_tokens || words[1] > group.parameters.max_tokens ||
            words[2] > handle.rows.size())
            return false;
        peer.incoming = {.valid = true,
                         .operation = control.operation,
                         .rows_to_me = words[0],
                         .rows_via_me = words[1],
                         .rows_away = words[2]};
        const std::uint32_t own = group.own_experts();
        std::memcpy(handle.incoming_expert_rows.data() + std::size_t{rank} * own,
                    bytes.data() + sizeof(words), own * sizeof(std::uint32_t));
        if (checked(group, handle, peer)) core_.dispatch().on_counts(group, handle, rank);
        return true;
    }

    bool take_ready(EpGroup& group, EpHandle& handle, std::uint32_t rank, const ControlHeader& control,
                    std::span<const std::uint8_t> bytes) {
        PeerState& peer = handle.peer[rank];
        std::uint32_t contributions = 0;
        if (bytes.size() != ControlPayload::ready_bytes(group)) return false;
        if (!bytes.empty()) std::memcpy(&contributions, bytes.data(), sizeof contributions);
        if (contributions > handle.parts_placed.size()) return false;
        if (control.call == 0 || control.call > static_cast<std::uint8_t>(CallKind::combine)) return false;
        if (control.value > std::max(handle.rows.size(), handle.entry_rows.size())) return false;
        answer_late_ready(group, handle, rank, control);
        if (peer.ready_valid && !operation_before(peer.ready_operation, control.operation)) return true;
        peer.ready_valid = true;
        peer.ready_operation = control.operation;
        peer.ready_kind = static_cast<CallKind>(control.call);
        peer.busiest_rows = control.value;
        peer.contributions = contributions;
        if (!checked(group, handle, peer)) return true;
        core_.dispatch().on_ready(group, handle, rank);
        if (group.is_local(rank)) core_.combine().on_ready(group, handle);
        return true;
    }

    /// A rank of another node is still in a combine that is over here, and looks for those that never joined
    /// it.
    void answer_late_ready(EpGroup& group, EpHandle& handle, std::uint32_t rank,
                           const ControlHeader& control) {
        const bool is_over = operation_before(control.operation, handle.operation) ||
                             (control.operation == handle.operation && !core_.is_busy(handle));
        if (!is_over || group.is_local(rank) || static_cast<CallKind>(control.call) != CallKind::combine)
            return;
        handle.destination[rank].joined_operation = control.operation;
        send_again(group, handle, rank, EpControlKind::joined);
    }

    bool take_credit(EpGroup& group, EpHandle& handle, std::uint32_t rank, const ControlHeader& control,
                     std::span<const std::uint8_t> bytes) {
        PeerState& peer = handle.peer[rank];
        if (group.is_local(rank)) return false;
        const bool known = peer.credit_valid &&
                           (operation_before(control.operation, peer.credit_operation) ||
                            (control.operation == peer.credit_operation && control.value <= peer.credit));
        if (known) return true;
        const bool is_first = !peer.credit_valid || peer.credit_operation != control.operation;
        if (!bytes.empty() &&
            !take_weights(group, handle, peer, is_first ? 0 : peer.credit, control.value, bytes))
            return false;
        peer.credit_valid = true;
        peer.credit_operation = control.operation;
        peer.credit = control.value;
        if (checked(group, handle, peer)) core_.combine().on_credit(group, handle, rank);
        return true;
    }

    /// A peer gave the call up. With rank_failed it has its result, but not a complete one: what this rank
    /// still expects of it may not come. A peer's time that ran out counts as this rank's, if it is in the
    /// call.
    bool take_abort(EpGroup& group, EpHandle& handle, const ControlHeader& control,
                    std::span<const std::uint8_t> bytes) {
        const bool has_mask = control.value != 0;
        if (has_mask && (control.value != sizeof(RankMask) || bytes.size() != sizeof(RankMask))) return false;
        const bool is_current = control.operation == handle.operation;
        const auto ahead = static_cast<std::uint16_t>(control.operation - handle.operation - 1);
        if (is_current ? !core_.is_busy(handle) : ahead >= calls_ahead) return true;
        if (has_mask) blame(group, handle, bytes);
        const bool keep = control.status == regmap::Status::parameter_mismatch ||
                          control.status == regmap::Status::rank_failed ||
                          (control.status == regmap::Status::timeout && is_current);
        const regmap::Status status = keep ? control.status : regmap::Status::aborted;
        if (!is_current) {
            handle.aborted = static_cast<std::uint8_t>(handle.aborted | 1U << ahead);
            handle.aborted_status = status;
        } else if (status != regmap::Status::rank_failed) {
            core_.end(group, handle, status);
        } else {
            if (!handle.disturbed) core_.hurry(group, handle);
            handle.disturbed = true;
        }
        return true;
    }

    /// Of its own node's devices a peer knows best; itself it does not count out.
    bool take_gone(EpGroup& group, std::uint32_t rank, const ControlHeader& control) {
        if (group.is_local(rank) || control.value >> group.parameters.ranks_per_node != 0) return false;
        const std::uint32_t node = rank / group.parameters.ranks_per_node;
        for (std::uint32_t left = control.value; left != 0; left &= left - 1) {
            const std::uint32_t gone = group.rank_at(node, engines::lowest_bit(left));
            if (gone != rank && !group.has_failed(gone))
                core_.context().transport().give_up(group.qpn[gone], regmap::Status::retry_exceeded);
        }
        return true;
    }

    /// A peer names ranks. It may be wrong about this one, and about ranks that there are not.
    static void blame(const EpGroup& group, EpHandle& handle, std::span<const std::uint8_t> bytes) {
        RankMask mask;
        std::memcpy(mask.data(), bytes.data(), sizeof(mask));
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            if (rank != group.parameters.rank && contains(mask, rank)) mark(handle.blamed_ranks, rank);
        }
    }

    Core& core_;
    ControlPayload payload_;
    CreditWeights weights_;
};

}  // namespace plait::firmware
