#pragma once
// Transport: what is lost is found and sent again; what stays unanswered fails. Loss after Falcon: overtaken
// by more than the reordering threshold, and a (long) round trip old.

#include <plait/firmware/transport.hpp>

namespace plait::firmware {

template <class Context>
void Transport<Context>::on_timer(TimerId timer) {
    QueuePair* qp = timer.kind == TimerKind::qp ? find(timer.number) : nullptr;
    if (qp == nullptr || qp->state != QpState::connected) return;
    const Handler handler(*this);
    qp->timer_ns = never_ns;
    on_qp_timer(*qp);
}

template <class Context>
void Transport<Context>::on_qp_timer(QueuePair& qp) {
    const std::uint64_t now = now_ns();
    if (qp.ack_at_ns != never_ns && now >= qp.ack_at_ns + ack_more_ns)
        send_ack(qp, nullptr, NackReason::none);
    if (now >= qp.doubt_ns) check_doubts(qp);
    find_losses(qp);
    check_timeout(qp);
    if (qp.state != QpState::connected) return;
    if (now >= qp.probe_ns) probe(qp);
    make_ready(qp);
    rearm(qp);
}

/// The timer runs out at `time_ns` at the latest. Handlers look at all that may be due, so it is never set
/// back.
template <class Context>
void Transport<Context>::arm(QueuePair& qp, std::uint64_t time_ns) {
    if (time_ns >= qp.timer_ns) return;
    qp.timer_ns = time_ns;
    hal().set_timer({TimerKind::qp, qp.qpn}, time_ns);
}

template <class Context>
void Transport<Context>::rearm(QueuePair& qp) {
    const std::uint64_t now = now_ns();
    std::uint64_t next = std::min(qp.doubt_ns, qp.probe_ns);
    if (qp.ack_at_ns != never_ns) next = std::min(next, qp.ack_at_ns + ack_more_ns);
    if (now < qp.pause_until_ns) next = std::min(next, qp.pause_until_ns);
    if (qp.in_flight_bytes != 0) {
        const std::uint32_t age = age_ns(qp.packets[oldest_in_flight(qp)]);
        const std::uint64_t rto = rto_ns(qp);
        next = std::min(next, now + (rto > age ? rto - age : 1));
    }
    if (qp.message_head != qp.message_tail)
        next = std::min(next, qp.progress_ns + std::uint64_t{context_.registers().qp_time_limit_us()} * 1000);
    if (next != never_ns) arm(qp, std::max(next, now + 1));
}

template <class Context>
std::uint64_t Transport<Context>::rto_ns(const QueuePair& qp) const {
    const std::uint32_t longest =
        std::max({4 * qp.congestion.smoothed_rtt_ns(), 8 * qp.congestion.base_rtt_ns(), min_rto_ns});
    // Backed off it stays a small part of the time limit: a queue pair gets tries_in_limit tries before it
    // fails, and does not sleep on long after the congestion that it met has gone.
    const std::uint32_t tries = qp.answers_late ? tries_when_late : tries_in_limit;
    const std::uint64_t most = std::uint64_t{context_.registers().qp_time_limit_us()} * 1000 / tries;
    return std::max<std::uint64_t>(
        longest, std::min(std::uint64_t{longest} << std::min<unsigned>(qp.rto_backoff, 6), most));
}

/// Since its latest departure; packets in flight are never so old that 32 bits do not hold it.
template <class Context>
std::uint32_t Transport<Context>::age_ns(const PacketEntry& entry) const {
    const auto age = static_cast<std::int32_t>(static_cast<std::uint32_t>(now_ns()) - entry.sent_ns);
    return age > 0 ? static_cast<std::uint32_t>(age) : 0;  // it may still wait in the plane's own queue
}

/// A packet that left later is known to have arrived.
template <class Context>
bool Transport<Context>::is_overtaken(const QueuePair& qp, const PacketEntry& entry) const {
    return static_cast<std::int32_t>(qp.acked_departure - entry.departure) > 0;
}

/// The one that left first; there is one.
template <class Context>
std::uint16_t Transport<Context>::oldest_in_flight(QueuePair& qp) {
    qp.first_sent = std::max(qp.first_sent, qp.base);
    while (qp.first_sent != qp.next && !qp.packets[number_of(qp.first_sent)].is_first_in_flight())
        ++qp.first_sent;
    if (qp.first_sent == qp.next) return qp.again.head;
    const std::uint16_t first = number_of(qp.first_sent);
    if (qp.again.empty()) return first;
    const std::uint32_t later = qp.packets[qp.again.head].departure - qp.packets[first].departure;
    return static_cast<std::int32_t>(later) < 0 ? qp.again.head : first;
}

template <class Context>
void Transport<Context>::find_losses(QueuePair& qp) {
    while (qp.in_flight_bytes != 0) {
        const std::uint16_t oldest = oldest_in_flight(qp);
        const PacketEntry& entry = qp.packets[oldest];
        const std::uint32_t overtaken_by = qp.acked_departure - entry.departure;
        if (!is_overtaken(qp, entry) || overtaken_by <= qp.reordering_packets) return;
        const std::uint32_t age = age_ns(entry);
        const std::uint32_t rtt = qp.congestion.long_rtt_ns();
        if (age < rtt) {
            arm(qp, now_ns() + (rtt - age));
            return;
        }
        packet_lost(qp, oldest);
    }
}

template <class Context>
void Transport<Context>::check_timeout(QueuePair& qp) {
    if (qp.message_head == qp.message_tail) return;
    const std::uint64_t limit = std::uint64_t{context_.registers().qp_time_limit_us()} * 1000;
    if (now_ns() - qp.progress_ns >= limit) {
        fail(qp, Status::retry_exceeded, message_ring);
        return;
    }
    const std::uint64_t rto = rto_ns(qp);
    bool is_silent = false;
    while (qp.in_flight_bytes != 0) {
        const std::uint16_t oldest = oldest_in_flight(qp);
        const PacketEntry& entry = qp.packets[oldest];
        if (age_ns(entry) < rto) break;
        is_silent |= !is_overtaken(qp, entry);
        packet_lost(qp, oldest);
    }
    if (!is_silent) return;
    // Nothing that left since came back either: not a single loss.
    ++statistics_.rto_count;
    if (qp.rto_backoff < 6) ++qp.rto_backoff;
    qp.congestion.on_timeout();
}

/// A round trip after planes were excluded: what left on them before, and is not acknowledged, is lost.
template <class Context>
void Transport<Context>::check_doubts(QueuePair& qp) {
    const auto since = static_cast<std::uint32_t>(now_ns() - qp.doubt_before_ns);
    const auto doubt = [&](std::uint16_t number) {
        const PacketEntry& entry = qp.packets[number];
        if ((qp.doubtful_planes >> entry.plane & 1) == 0 || age_ns(entry) < since) return;
        ++statistics_.losses;
        requeue(qp, number);
    };
    for (std::uint64_t count = qp.base; count != qp.next; ++count)
        if (qp.packets[number_of(count)].is_first_in_flight()) doubt(number_of(count));
    for (std::uint16_t number = qp.again.head; number != PacketList::none;) {
        const std::uint16_t next = qp.packets[number].next;
        doubt(number);
        number = next;
    }
    qp.doubt_ns = never_ns;
    qp.doubtful_planes = 0;
}

/// A packet in flight waits to be sent again. Its path is not blamed.
template <class Context>
void Transport<Context>::requeue(QueuePair& qp, std::uint16_t number) {
    PacketEntry& entry = qp.packets[number];
    if (entry.transmissions != 1) qp.again.remove(qp.packets, number);
    spray_of(qp).on_gone(entry.plane, false);
    qp.in_flight_bytes -= entry.bytes + packet_overhead_bytes;
    entry.state = PacketState::lost;
    qp.lost.push_back(qp.packets, number);
    qp.sends_plain = false;
}

template <class Context>
void Transport<Context>::packet_lost(QueuePair& qp, std::uint16_t number) {
    const PacketEntry& entry = qp.packets[number];
    ++statistics_.losses;
    requeue(qp, number);
    auto&& spray = spray_of(qp);
    if ((spray.usable_planes() >> entry.plane & 1) == 0) return;
    spray.on_loss(entry.entropy_index);
    if (spray.plane_suspect(entry.plane)) {
        ++statistics_.planes_excluded;
        exclude(qp, 1U << entry.plane);
    }
    probe_soon(qp);
}

/// The peer asked to be tried later: the queue pair is silent for 4 .. 10 us, longer with each refusal in a
/// row. After trimming up to 32 us: there are more senders than packets that the network can hold.
template <class Context>
void Transport<Context>::pause(QueuePair& qp, NackReason reason) {
    const std::uint64_t now = now_ns();
    if (now >= qp.pause_until_ns && qp.refusals < 4) ++qp.refusals;
    const std::uint64_t factor = reason == NackReason::trimmed ? 1U << qp.refusals : qp.refusals + 1U;
    qp.pause_until_ns = now + min_backoff_ns * factor;
    qp.sends_plain = false;
    arm(qp, qp.pause_until_ns);
}

}  // namespace plait::firmware
