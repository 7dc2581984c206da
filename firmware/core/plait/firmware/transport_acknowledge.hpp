#pragma once
// Transport: acknowledgements in. They come late, twice, out of order, or made up; each says what has
// arrived, never what has not.

#include <plait/firmware/transport.hpp>

namespace plait::firmware {

/// Nothing in it lies beyond what was sent.
template <class Context>
bool Transport<Context>::is_plausible(const QueuePair& qp, const Packet& packet) const {
    const AckHeader& ack = packet.ack;
    const auto outstanding = static_cast<std::int64_t>(qp.next - qp.base);
    const std::uint32_t base_psn = psn_of(qp, qp.base);
    if (!is_known(ack.reason) || ack.bitmap_words > 2) return false;
    if (engines::psn_diff(ack.cumulative_psn, base_psn) > outstanding) return false;
    if (engines::psn_diff(packet.psn, base_psn) >= outstanding) return false;
    const std::int64_t first = engines::psn_diff(ack.bitmap_base, base_psn);
    for (std::uint32_t word = 0; word < ack.bitmap_words; ++word) {
        const std::int64_t end = first + 64 * word + (64 - std::countl_zero(ack.bitmap[word]));
        if (ack.bitmap[word] != 0 && end > outstanding) return false;
    }
    return true;
}

template <class Context>
void Transport<Context>::on_ack(QueuePair& qp, const Packet& packet) {
    if (qp.state != QpState::connected || qp.list == QpList::failing) return;
    const AckHeader& ack = packet.ack;
    if (!is_plausible(qp, packet)) {
        hal().count_drop(DropReason::stale_ack);
        return;
    }
    ++statistics_.acks_received;
    const std::uint64_t now = now_ns();
    const std::int64_t cause = engines::psn_diff(packet.psn, psn_of(qp, qp.base));
    const std::uint64_t cause_count = qp.base + static_cast<std::uint64_t>(cause);
    const std::uint32_t rtt_ns = round_trip_ns(qp, packet, cause);
    if (ack.causing_marked && cause >= 0)
        hal().spray(qp.qpn).on_ack(qp.packets[number_of(cause_count)].entropy_index, true);
    const std::int32_t advance = engines::psn_diff(ack.cumulative_psn, psn_of(qp, qp.base));
    std::uint32_t bytes = 0;
    if (advance > 0) {
        qp.progress_ns = now;
        bytes += take_cumulative(qp, qp.base + static_cast<std::uint32_t>(advance));
    }
    bytes += take_bitmap(qp, ack);
    if (bytes != 0) {
        // Not by what was sent again (Karn): its answer may be to the transmission before, so the time-out is
        // still too short.
        if (rtt_ns != 0) qp.rto_backoff = 0;
        qp.refusals = 0;
        qp.cautious = false;
        qp.congestion.on_ack(bytes, rtt_ns, ack.causing_marked || ack.marked != 0, now);
        retire_messages(qp);
    }
    if (ack.reason != NackReason::none) on_nack(qp, ack.reason, cause_count);
    if (qp.state != QpState::connected) return;
    find_losses(qp);
    make_ready(qp);
}

/// Of the causing packet, if it was sent once, by this path, and is not acknowledged yet; 0 otherwise. What
/// is left of a trimmed packet passes the queues, so its time says nothing about them.
template <class Context>
std::uint32_t Transport<Context>::round_trip_ns(const QueuePair& qp, const Packet& packet,
                                                std::int64_t cause) const {
    if (cause < 0 || packet.ack.entropy == 0 || packet.ack.reason == NackReason::trimmed) return 0;
    const PacketEntry& entry = qp.packets[number_of(qp.base + static_cast<std::uint64_t>(cause))];
    if (entry.state != PacketState::in_flight || entry.transmissions != 1 || entry.plane != packet.ack.plane)
        return 0;
    return std::max(age_ns(entry), 1U);
}

template <class Context>
std::uint32_t Transport<Context>::take_cumulative(QueuePair& qp, std::uint64_t cumulative) {
    std::uint32_t bytes = 0;
    for (; qp.base != cumulative; ++qp.base) {
        std::uint64_t& word = acknowledged_word(qp, qp.base);
        const std::uint64_t bit = std::uint64_t{1} << (qp.base % 64);
        if ((word & bit) == 0) bytes += packet_acknowledged(qp, qp.base);
        word &= ~bit;
        qp.packets[number_of(qp.base)].state = PacketState::free;
    }
    return bytes;
}

/// The acknowledged bits of the 64 packets from `first` packets after the base on.
template <class Context>
std::uint64_t Transport<Context>::pending_bits(const QueuePair& qp, std::int64_t first) const {
    const std::uint64_t count = qp.base + static_cast<std::uint64_t>(first);
    const std::uint32_t shift = count % 64;
    std::uint64_t bits = acknowledged_word(qp, count) >> shift;
    if (shift != 0) bits |= acknowledged_word(qp, count + 64) << (64 - shift);
    return bits;
}

template <class Context>
std::uint32_t Transport<Context>::take_bitmap(QueuePair& qp, const AckHeader& ack) {
    std::uint32_t bytes = 0;
    std::int64_t first = engines::psn_diff(ack.bitmap_base, psn_of(qp, qp.base));
    for (std::uint32_t i = 0; i < ack.bitmap_words; ++i, first += 64) {
        if (first <= -64) continue;
        const std::uint32_t behind = first < 0 ? static_cast<std::uint32_t>(-first) : 0;
        const std::int64_t from = first + behind;
        std::uint64_t bits = (ack.bitmap[i] >> behind) & ~pending_bits(qp, from);
        for (; bits != 0; bits &= bits - 1) {
            const std::uint64_t count = qp.base + static_cast<std::uint64_t>(from + std::countr_zero(bits));
            acknowledged_word(qp, count) |= std::uint64_t{1} << (count % 64);
            bytes += packet_acknowledged(qp, count);
        }
    }
    return bytes;
}

/// Called once a packet. Returns its bytes.
template <class Context>
std::uint32_t Transport<Context>::packet_acknowledged(QueuePair& qp, std::uint64_t count) {
    const std::uint16_t number = number_of(count);
    PacketEntry& entry = qp.packets[number];
    MessageEntry& message = qp.messages[entry.message];
    const std::uint32_t bytes = packet_bytes(qp, message, entry.offset) + overhead_bytes;
    const auto behind = static_cast<std::int32_t>(qp.acked_departure - entry.departure);
    if (entry.state == PacketState::lost) {
        ++statistics_.cancelled_retransmissions;
        qp.lost.remove(qp.packets, number);
        raise_threshold(qp, static_cast<std::uint32_t>(std::max(behind, 0)) + reordering_packets / 2);
    } else {
        qp.in_flight.remove(qp.packets, number);
        --qp.in_flight_by_plane[entry.plane];
        --qp.in_flight_packets;
        qp.in_flight_bytes -= bytes;
    }
    entry.state = PacketState::acknowledged;
    const bool is_first = entry.transmissions == 1;
    // An acknowledgement of an earlier transmission says nothing about the latest one: it would be too quick.
    const std::uint32_t min_rtt = qp.congestion.min_rtt_ns();
    const bool of_latest = is_first || (min_rtt != 0 && age_ns(entry) >= min_rtt);
    if (!of_latest && min_rtt != 0) raise_threshold(qp, qp.reordering_packets + reordering_packets / 2);
    if (of_latest && behind < 0) qp.acked_departure = entry.departure;
    if (is_first) hal().spray(qp.qpn).on_ack(entry.entropy_index, false);
    if (--message.unacknowledged == 0) message_acknowledged(qp, entry.message);
    return bytes;
}

/// A packet called lost was only late: be slower to say so.
template <class Context>
void Transport<Context>::raise_threshold(QueuePair& qp, std::uint32_t packets) {
    qp.reordering_packets = std::max(qp.reordering_packets, std::min(packets, max_reordering_packets));
}

template <class Context>
void Transport<Context>::message_acknowledged(QueuePair& qp, std::uint32_t slot) {
    const MessageEntry& message = qp.messages[slot];
    if (message.is_work) qp.tables->work[message.tag].done = true;
    else context_.ep().message_done(qp.qpn, message.tag, Status::ok);
}

/// The packet was refused. "Try later" proves that the peer lives: the time limit starts again.
template <class Context>
void Transport<Context>::on_nack(QueuePair& qp, NackReason reason, std::uint64_t count) {
    if (count < qp.base || count >= qp.next) return;  // about an earlier transmission, all is well now
    const std::uint16_t number = number_of(count);
    const PacketEntry& entry = qp.packets[number];
    if (entry.state != PacketState::in_flight) return;
    ++statistics_.nacks_received;
    if (reason == NackReason::remote_access || reason == NackReason::invalid_request) {
        fail(qp, reason == NackReason::remote_access ? Status::remote_access : Status::remote_invalid,
             entry.message);
        return;
    }
    requeue(qp, number);
    qp.progress_ns = now_ns();
    if (reason ==
        NackReason::trimmed) {  // it may go again at once, if that leaves less under way than before
        const std::uint32_t bytes = packet_bytes(qp, qp.messages[entry.message], entry.offset);
        if (!qp.congestion.on_trimmed(bytes + overhead_bytes)) pause(qp, reason);
        return;
    }
    if (reason == NackReason::no_buffer) qp.congestion.on_refusal(now_ns());
    qp.cautious = reason == NackReason::receiver_not_ready || reason == NackReason::unknown_operation;
    pause(qp, reason);
}

}  // namespace plait::firmware
