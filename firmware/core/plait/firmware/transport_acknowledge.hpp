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
    if (engines::psn_diff(ack.cumulative_psn, base_psn) > outstanding) return false;
    if (engines::psn_diff(packet.psn, base_psn) >= outstanding) return false;
    if (ack.reason == NackReason::none && ack.bitmap_words == 0) return true;
    if (!is_known(ack.reason) || ack.bitmap_words > 2) return false;
    const std::int64_t first = engines::psn_diff(ack.bitmap_base, base_psn);
    for (std::uint32_t word = 0; word < ack.bitmap_words; ++word) {
        const std::int64_t end = first + 64 * word + (64 - std::countl_zero(ack.bitmap[word]));
        if (ack.bitmap[word] != 0 && end > outstanding) return false;
    }
    return true;
}

/// The same as on_ack(), in a straight line, while all that is outstanding is in flight for the first time.
/// What left first has the lowest numbers then. False: nothing was done, it is for on_ack().
template <class Context>
bool Transport<Context>::take_plain_ack(QueuePair& qp, const Packet& packet) {
    const AckHeader& ack = packet.ack;
    if (!qp.sends_plain || !is_plain(ack) || qp.acknowledged_ahead != 0 || !qp.again.empty()) return false;
    const std::uint64_t base = qp.base;
    const std::uint64_t outstanding = qp.next - base;
    const std::uint32_t base_psn = qp.first_psn + static_cast<std::uint32_t>(base);
    const std::int64_t advance = engines::psn_diff(ack.cumulative_psn, base_psn);
    const std::int64_t cause = engines::psn_diff(packet.psn, base_psn);
    if (static_cast<std::uint64_t>(advance - 1) >= outstanding ||
        static_cast<std::uint64_t>(cause) >= outstanding)
        return false;
    ++statistics_.acks_received;
    const std::uint64_t now = now_ns();
    const PacketEntry& causing =
        qp.packets[static_cast<std::uint32_t>(base + static_cast<std::uint64_t>(cause))];
    const bool is_measured = ack.entropy != 0 && causing.plane == ack.plane;
    const std::uint32_t rtt_ns = is_measured ? std::max(age_ns(causing), 1U) : 0;
    const std::uint64_t end = base + static_cast<std::uint64_t>(advance);
    qp.base = end;
    qp.progress_ns = now;
    const std::uint32_t acked_before = qp.acked_departure;
    const std::uint32_t first_departure = qp.packets[static_cast<std::uint32_t>(base)].departure;
    std::uint32_t departure = 0;
    std::uint32_t bytes = 0;
    for (std::uint64_t count = base; count != end; ++count) {
        const PacketEntry& entry = qp.packets[static_cast<std::uint32_t>(count)];
        spray_of(qp).on_gone(entry.plane, true);
        bytes += entry.bytes + packet_overhead_bytes;
        departure = entry.departure;
        MessageEntry& message = qp.messages[entry.message];
        if (--message.unacknowledged == 0) message_acknowledged(qp, message);
    }
    if (static_cast<std::int32_t>(acked_before - departure) < 0) qp.acked_departure = departure;
    qp.in_flight_bytes -= bytes;
    qp.refusals = 0;
    qp.congestion.on_ack(bytes, rtt_ns, ack.marked != 0, now);
    if (message_done_) retire_messages(qp);
    const bool is_orderly = static_cast<std::int32_t>(acked_before - first_departure) < 0;
    if (!is_orderly) find_losses(qp);
    make_ready(qp);
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
    if (qp.rto_backoff != 0) qp.answers_late |= is_late_answer(qp, packet, cause);
    if (ack.causing_marked && cause >= 0)
        spray_of(qp).on_ack(qp.packets[number_of(cause_count)].entropy_index, true);
    const std::int32_t advance = engines::psn_diff(ack.cumulative_psn, psn_of(qp, qp.base));
    Confirmed confirmed;
    if (advance > 0) {
        qp.progress_ns = now;
        confirmed = take_cumulative(qp, qp.base + static_cast<std::uint32_t>(advance));
    }
    if (ack.bitmap_words != 0) confirmed = take_bitmap(qp, ack, confirmed);
    if (confirmed.packets != 0) {
        const std::uint32_t bytes = confirmed.payload_bytes + confirmed.packets * packet_overhead_bytes;
        qp.in_flight_bytes -= bytes;
        if (!qp.answers_late || rtt_ns != 0) qp.rto_backoff = 0;
        qp.refusals = 0;
        qp.cautious = false;
        qp.congestion.on_ack(bytes, rtt_ns, ack.causing_marked || ack.marked != 0, now);
        if (message_done_) retire_messages(qp);
    }
    if (ack.reason != NackReason::none) on_nack(qp, ack.reason, cause_count);
    if (qp.state != QpState::connected) return;
    // While packets are acknowledged in the order of their departures, none was overtaken.
    const bool is_orderly = confirmed.is_orderly && qp.acknowledged_ahead == 0 && qp.again.empty();
    if (!is_orderly) find_losses(qp);
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

/// Did a transmission of the causing packet arrive that was called lost? What is sent again takes another
/// path, and the answer names the path.
template <class Context>
bool Transport<Context>::is_late_answer(const QueuePair& qp, const Packet& packet, std::int64_t cause) const {
    if (cause < 0 || packet.ack.entropy == 0) return false;
    const PacketEntry& entry = qp.packets[number_of(qp.base + static_cast<std::uint64_t>(cause))];
    if (entry.state == PacketState::lost) return true;
    return entry.state == PacketState::in_flight && entry.transmissions > 1 &&
           qp.spray_policy != regmap::SprayPolicy::single_path &&
           qp.spray->path(entry.entropy_index).entropy != packet.ack.entropy;
}

template <class Context>
typename Transport<Context>::Confirmed Transport<Context>::take_cumulative(QueuePair& qp,
                                                                           std::uint64_t cumulative) {
    Confirmed confirmed;
    std::uint64_t count = qp.base;
    qp.base = cumulative;
    for (; count != cumulative; ++count) {
        if (qp.acknowledged_ahead != 0) {
            std::uint64_t& word = acknowledged_word(qp, count);
            const std::uint64_t bit = std::uint64_t{1} << (count % 64);
            if ((word & bit) != 0) {
                word &= ~bit;
                --qp.acknowledged_ahead;
                continue;
            }
        }
        packet_acknowledged(qp, static_cast<std::uint32_t>(count), confirmed);
    }
    return confirmed;
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
typename Transport<Context>::Confirmed Transport<Context>::take_bitmap(QueuePair& qp, const AckHeader& ack,
                                                                       Confirmed confirmed) {
    std::int64_t first = engines::psn_diff(ack.bitmap_base, psn_of(qp, qp.base));
    for (std::uint32_t i = 0; i < ack.bitmap_words; ++i, first += 64) {
        if (first <= -64) continue;
        const std::uint32_t behind = first < 0 ? static_cast<std::uint32_t>(-first) : 0;
        const std::int64_t from = first + behind;
        std::uint64_t bits = (ack.bitmap[i] >> behind) & ~pending_bits(qp, from);
        for (; bits != 0; bits &= bits - 1) {
            const std::uint64_t count = qp.base + static_cast<std::uint64_t>(from + std::countr_zero(bits));
            acknowledged_word(qp, count) |= std::uint64_t{1} << (count % 64);
            ++qp.acknowledged_ahead;
            packet_acknowledged(qp, static_cast<std::uint32_t>(count), confirmed);
        }
    }
    return confirmed;
}

/// Called once a packet. The caller takes what was confirmed from what is in flight.
template <class Context>
void Transport<Context>::packet_acknowledged(QueuePair& qp, std::uint32_t count, Confirmed& confirmed) {
    PacketEntry& entry = qp.packets[count];
    bool of_latest = true;
    if (!entry.is_first_in_flight()) [[unlikely]] {
        of_latest = late_acknowledged(qp, number_of(count));
        confirmed.is_orderly = false;
    } else {
        spray_of(qp).on_gone(entry.plane, true);
    }
    if (of_latest) {
        if (static_cast<std::int32_t>(qp.acked_departure - entry.departure) < 0)
            qp.acked_departure = entry.departure;
        else confirmed.is_orderly = false;
    }
    entry.state = PacketState::acknowledged;
    confirmed.payload_bytes += entry.bytes;
    ++confirmed.packets;
    MessageEntry& message = qp.messages[entry.message];
    if (--message.unacknowledged == 0) message_acknowledged(qp, message);
}

/// It was sent again, or waited for that, and so is put among those in flight. True: its latest transmission
/// is what was acknowledged.
template <class Context>
bool Transport<Context>::late_acknowledged(QueuePair& qp, std::uint16_t number) {
    PacketEntry& entry = qp.packets[number];
    const bool is_first = entry.transmissions == 1;
    auto&& spray = spray_of(qp);
    if (entry.state == PacketState::lost) {
        const auto behind = static_cast<std::int32_t>(qp.acked_departure - entry.departure);
        ++statistics_.cancelled_retransmissions;
        qp.lost.remove(qp.packets, number);
        qp.in_flight_bytes += entry.bytes + packet_overhead_bytes;
        raise_threshold(qp, static_cast<std::uint32_t>(std::max(behind, 0)) + reordering_packets / 2);
        if (is_first) spray.on_ack(entry.entropy_index, false);
    } else {
        qp.again.remove(qp.packets, number);
        spray.on_gone(entry.plane, false);
    }
    // An acknowledgement of an earlier transmission says nothing about the latest one: it would be too quick.
    const std::uint32_t min_rtt = qp.congestion.min_rtt_ns();
    const bool of_latest = is_first || (min_rtt != 0 && age_ns(entry) >= min_rtt);
    if (!of_latest && min_rtt != 0) raise_threshold(qp, qp.reordering_packets + reordering_packets / 2);
    return of_latest;
}

/// A packet called lost was only late: be slower to say so.
template <class Context>
void Transport<Context>::raise_threshold(QueuePair& qp, std::uint32_t packets) {
    qp.reordering_packets = std::max(qp.reordering_packets, std::min(packets, max_reordering_packets));
}

template <class Context>
void Transport<Context>::message_acknowledged(QueuePair& qp, const MessageEntry& message) {
    message_done_ = true;
    if (message.work != nullptr) message.work->done = true;
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
        if (!qp.congestion.on_trimmed(entry.bytes + packet_overhead_bytes)) pause(qp, reason);
        return;
    }
    if (reason == NackReason::no_buffer) qp.congestion.on_refusal(now_ns());
    qp.cautious = reason == NackReason::receiver_not_ready || reason == NackReason::unknown_operation;
    pause(qp, reason);
}

}  // namespace plait::firmware
