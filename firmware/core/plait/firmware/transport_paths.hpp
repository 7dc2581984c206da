#pragma once
// Transport: planes that fail and return. A plane is excluded for a queue pair by the own link, by the peer's
// word, or by silent loss; it returns when a probe comes back on it.

#include <plait/firmware/transport.hpp>

namespace plait::firmware {

/// No packet takes these planes until they are restored; what is in flight on them is in doubt. The
/// caller sees to the probes.
template <class Context>
void Transport<Context>::exclude(QueuePair& qp, std::uint32_t planes) {
    auto&& spray = spray_of(qp);
    for (std::uint32_t rest = planes & spray.usable_planes(); rest != 0; rest &= rest - 1)
        spray.exclude_plane(static_cast<std::uint32_t>(std::countr_zero(rest)));
    qp.usable_planes = static_cast<std::uint8_t>(spray.usable_planes());
    const std::uint64_t now = now_ns();
    qp.doubtful_planes = static_cast<std::uint8_t>(qp.doubtful_planes | planes);
    qp.doubt_before_ns = now;
    qp.doubt_ns = now + qp.congestion.smoothed_rtt_ns();
    arm(qp, qp.doubt_ns);
    wake(qp);
}

/// Starts to probe unless a probe is scheduled already.
template <class Context>
void Transport<Context>::probe_soon(QueuePair& qp) {
    if (qp.probe_ns != never_ns) return;
    qp.probe_interval_ns = min_probe_interval_ns;
    probe(qp);
}

/// Probes some of the paths that are out, repeats the announcement of the own ports, and schedules the next
/// time if anything is left to do.
template <class Context>
void Transport<Context>::probe(QueuePair& qp) {
    auto&& spray = spray_of(qp);
    const std::uint32_t all_planes = (1U << context_.config().planes) - 1;
    const auto excluded = static_cast<unsigned>(std::popcount(all_planes & ~spray.usable_planes()));
    const unsigned out = spray.assumed_bad_count() + excluded;
    if (out == 0 && qp.announcements == 0) {
        qp.probe_ns = never_ns;
        return;
    }
    for (unsigned sent = 0; sent < std::min(out, probes_at_once); ++sent) {
        const auto path = spray.next_to_probe();
        if (!path) break;
        if ((ports_up_ >> path->plane & 1) == 0) continue;
        Packet packet;
        packet.opcode = Opcode::mp_probe;
        packet.plane = path->plane;
        packet.entropy = path->entropy;
        packet.probe = {.source_qp = qp.qpn,
                        .plane = path->plane,
                        .entropy_index = path->entropy_index,
                        .sequence = ++qp.probe_sequence};
        ++statistics_.probes_sent;
        send_control(qp, packet);
    }
    if (qp.announcements != 0) announce(qp);
    // Not before this probe can be answered: when processors are slow, probes would only make them slower.
    qp.probe_ns = now_ns() + std::max<std::uint64_t>(
                                 qp.probe_interval_ns,
                                 (qp.answers_late ? rto_ns(qp) : 2U * qp.congestion.smoothed_rtt_ns()));
    qp.probe_interval_ns = std::min(2 * qp.probe_interval_ns, max_probe_interval_ns);
    arm(qp, qp.probe_ns);
}

/// The reply takes the way the probe came.
template <class Context>
void Transport<Context>::on_probe(QueuePair& qp, const Packet& packet) {
    if (packet.probe.plane != packet.plane) {
        hal().count_drop(DropReason::malformed);
        return;
    }
    if ((ports_up_ >> packet.plane & 1) == 0) return;
    Packet reply;
    reply.opcode = Opcode::mp_probe_reply;
    reply.plane = packet.plane;
    reply.entropy = packet.entropy;
    reply.probe = packet.probe;
    send_control(qp, reply);
}

template <class Context>
void Transport<Context>::on_probe_reply(QueuePair& qp, const Packet& packet) {
    if (qp.state != QpState::connected) return;
    const ProbeHeader& probe_header = packet.probe;
    const std::uint8_t planes = context_.config().planes;
    if (probe_header.source_qp != qp.qpn || probe_header.plane != packet.plane || packet.plane >= planes ||
        probe_header.entropy_index >= qp.entropy_values ||
        probe_header.entropy_index % planes != packet.plane) {
        hal().count_drop(DropReason::malformed);
        return;
    }
    auto&& spray = spray_of(qp);
    spray.on_probe_returned(probe_header.entropy_index);
    qp.probe_interval_ns = min_probe_interval_ns;
    if ((spray.usable_planes() >> packet.plane & 1) != 0 || (ports_up_ >> packet.plane & 1) == 0) return;
    spray.restore_plane(packet.plane);
    qp.usable_planes = static_cast<std::uint8_t>(spray.usable_planes());
    ++statistics_.planes_restored;
    wake(qp);
    make_ready(qp);
}

/// The peer's ports changed. An announcement older than the latest is ignored.
template <class Context>
void Transport<Context>::on_port_status(QueuePair& qp, const Packet& packet) {
    if (qp.state != QpState::connected) return;
    const PortStatusHeader& status = packet.port_status;
    if (status.source_device != qp.peer_device) {
        hal().count_drop(DropReason::peer_mismatch);
        return;
    }
    const auto newer = static_cast<std::int16_t>(status.sequence - qp.peer_port_sequence);
    if (qp.peer_announced && newer <= 0) return;
    qp.peer_announced = true;
    qp.peer_port_sequence = status.sequence;
    const std::uint32_t all_planes = (1U << context_.config().planes) - 1;
    const std::uint32_t down = all_planes & ~std::uint32_t{status.planes_up};
    qp.peer_planes = status.planes_up;
    if (down != 0) exclude(qp, down);
    qp.probe_interval_ns = min_probe_interval_ns;
    probe(qp);
}

/// On every plane left, so that one lost packet does not matter.
template <class Context>
void Transport<Context>::announce(QueuePair& qp) {
    --qp.announcements;
    auto&& spray = spray_of(qp);
    for (std::uint32_t planes = ports_up_ & spray.usable_planes(); planes != 0; planes &= planes - 1) {
        const auto plane = static_cast<std::uint8_t>(std::countr_zero(planes));
        Packet packet;
        packet.opcode = Opcode::mp_port_status;
        packet.plane = plane;
        packet.entropy = spray.path(plane).entropy;
        packet.port_status = {.source_device = context_.config().device_number,
                              .planes_up = static_cast<std::uint8_t>(ports_up_),
                              .sequence = port_sequence_};
        send_control(qp, packet);
    }
}

template <class Context>
void Transport<Context>::on_port_change(std::uint8_t plane, bool up) {
    if (plane >= context_.config().planes || (ports_up_ >> plane & 1) == (up ? 1U : 0U)) return;
    const Handler handler(*this);
    const std::uint32_t bit = 1U << plane;
    ports_up_ ^= bit;
    offered_planes_ = up && has_room(plane) ? offered_planes_ | bit : offered_planes_ & ~bit;
    ++port_sequence_;
    for (QueuePair& qp : qps_) {
        if (qp.state != QpState::connected) continue;
        qp.announcements = announcement_count;
        qp.probe_interval_ns = min_probe_interval_ns;
        if (up) wake(qp);
        else exclude(qp, bit);
        probe(qp);
    }
}

template <class Context>
void Transport<Context>::send_control(const QueuePair& qp, Packet& packet) {
    if (address_control(qp, packet)) hal().send(packet, Payload{});
}

/// False: no plane is left. Like a packet that is lost, it is made up for.
template <class Context>
bool Transport<Context>::address_control(const QueuePair& qp, Packet& packet) {
    address(qp, packet);
    return (ports_up_ >> packet.plane & 1) != 0;
}

/// `preferred` while it is good: the packet answered has just come that way. Otherwise the next good plane,
/// or any whose port is up.
template <class Context>
std::uint8_t Transport<Context>::control_plane(const QueuePair& qp, std::uint8_t preferred) {
    const std::uint32_t usable = ports_up_ & qp.usable_planes;
    const std::uint32_t planes = usable != 0 ? usable : ports_up_;
    if (planes == 0 || (planes >> preferred & 1) != 0) return preferred;
    const std::uint32_t after = planes >> preferred << preferred;
    return static_cast<std::uint8_t>(std::countr_zero(after != 0 ? after : planes));
}

}  // namespace plait::firmware
