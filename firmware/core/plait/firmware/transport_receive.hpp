#pragma once
// Transport: data packets in. Placed in whatever order they come; what tells the host of them waits for its
// turn.

#include <plait/firmware/transport_send.hpp>

namespace plait::firmware {

/// Its payload is the last of its message.
constexpr bool ends_message(const Packet& packet) {
    return std::uint64_t{packet.message_offset} + packet.payload_bytes == packet.message_bytes;
}

/// Why a refused packet is counted as dropped.
constexpr DropReason drop_reason_of(NackReason reason) {
    switch (reason) {
        case NackReason::no_bitmap_room: return DropReason::out_of_window;
        case NackReason::no_buffer: return DropReason::no_buffer;
        case NackReason::receiver_not_ready: return DropReason::receiver_not_ready;
        case NackReason::remote_access: return DropReason::remote_access;
        case NackReason::unknown_operation: return DropReason::unknown_operation;
        case NackReason::trimmed: return DropReason::trimmed;
        case NackReason::none:
        case NackReason::invalid_request: break;
    }
    return DropReason::malformed;
}

template <class Context>
void Transport<Context>::on_ack_packet(const Packet& packet) {
    const Handler handler(*this);
    QueuePair* qp = find(packet.qpn);
    if (qp == nullptr || qp->state == QpState::created) hal().count_drop(DropReason::unknown_qp);
    else if (!take_plain_ack(*qp, packet)) on_ack(*qp, packet);
}

template <class Context>
void Transport<Context>::on_packet(const PacketEvent& event) {
    if (event.packet.opcode == Opcode::mp_ack) return on_ack_packet(event.packet);
    const Handler handler(*this);
    const Packet& packet = event.packet;
    QueuePair* qp = find(packet.qpn);
    if (qp == nullptr || qp->state == QpState::created) {
        hal().count_drop(DropReason::unknown_qp);
        if (event.buffer != 0) hal().release(event.buffer);
        return;
    }
    switch (packet.opcode) {
        case Opcode::mp_write:
        case Opcode::mp_write_immediate:
        case Opcode::mp_send:
        case Opcode::mp_send_immediate:
        case Opcode::mp_ep_row:
        case Opcode::mp_ep_partial:
        case Opcode::mp_ep_control: on_data(*qp, event); return;
        case Opcode::mp_probe: on_probe(*qp, packet); return;
        case Opcode::mp_probe_reply: on_probe_reply(*qp, packet); return;
        case Opcode::mp_port_status: on_port_status(*qp, packet); return;
        case Opcode::mp_read_request:  // here READ and ATOMIC will be served, and below the opcodes of rc
        case Opcode::mp_read_response:
        case Opcode::mp_atomic_request:
        case Opcode::mp_atomic_response:
        default: break;
    }
    hal().count_drop(DropReason::opcode);
    if (is_data(packet.opcode) && event.window.verdict == engines::Verdict::accept)
        hal().window_refuse(qp->qpn, packet.psn);
    if (event.buffer != 0) hal().release(event.buffer);
}

template <class Context>
void Transport<Context>::on_data(QueuePair& qp, const PacketEvent& event) {
    const Packet& packet = event.packet;
    if (packet.trimmed && event.window.verdict != engines::Verdict::duplicate) {
        refuse(qp, event, NackReason::trimmed);
        return;
    }
    if (qp.state == QpState::error) {
        refuse(qp, event, NackReason::invalid_request);
        return;
    }
    if (event.window.verdict == engines::Verdict::out_of_window) {
        refuse(qp, event, NackReason::no_bitmap_room);
        return;
    }
    if (event.window.verdict == engines::Verdict::duplicate) {
        ++statistics_.duplicates;
        hal().count_drop(DropReason::duplicate);
        if (event.buffer != 0) hal().release(event.buffer);
        send_ack(qp, &packet, NackReason::none);  // its acknowledgement may have been lost
        return;
    }
    const auto position = static_cast<std::uint32_t>(engines::psn_diff(packet.psn, qp.expected_psn));
    const NackReason reason = take(qp, event, qp.received + position);
    if (reason != NackReason::none) {
        refuse(qp, event, reason);
        return;
    }
    if (qp.receives_arrived != 0) {
        catch_up(qp, event.window.cumulative_psn);
        if (event.window.advanced) complete_receives(qp);
    }
    if (packet.congestion) ++qp.since_ack_marked;
    const bool mark_changed = packet.congestion != qp.mark_reported;
    qp.mark_reported = packet.congestion;
    const bool ends = packet.opcode < Opcode::mp_ep_row && ends_message(packet);
    const bool acknowledge =
        account(qp, packet.psn, event.window, packet.ack_request || ends, mark_changed, now_ns());
    qp.takes_plain = qp.state == QpState::connected && !qp.mark_reported && qp.receives_arrived == 0;
    if (acknowledge) send_ack(qp, &packet, NackReason::none);
}

template <class Context>
template <class Window>
bool Transport<Context>::take_plain(const Packet& packet, BufferId buffer, const Window& window) {
    if (!is_untouched(packet, Opcode::mp_write) || buffer == 0) return false;
    QueuePair& qp = qps_[packet.qpn];  // there is one: it has a window
    if (!qp.takes_plain || !may_write(packet)) return false;
    const std::uint64_t now = now_ns();  // before the command: nothing is read twice
    const bool is_asked = ends_message(packet) || packet.ack_request;
    place(packet, buffer);
    if (account(qp, packet.psn, window, is_asked, false, now)) send_ack(qp, &packet, NackReason::none);
    return true;
}

/// What the window has received in order since it was last looked at.
template <class Context>
void Transport<Context>::catch_up(QueuePair& qp, std::uint32_t cumulative_psn) {
    qp.received += static_cast<std::uint32_t>(engines::psn_diff(cumulative_psn, qp.expected_psn));
    qp.expected_psn = cumulative_psn;
}

/// Places the packet, `position` packets after the first of the connection. none: taken, its buffer too;
/// anything else: nothing was done.
template <class Context>
NackReason Transport<Context>::take(QueuePair& qp, const PacketEvent& event, std::uint64_t position) {
    const Packet& packet = event.packet;
    if (packet.payload_bytes != 0 && event.buffer == 0 && packet.opcode != Opcode::mp_ep_control)
        return NackReason::no_buffer;
    switch (packet.opcode) {
        case Opcode::mp_ep_row: return context_.ep().on_row(event);
        case Opcode::mp_ep_partial: return context_.ep().on_partial(event);
        case Opcode::mp_ep_control: return context_.ep().on_control(event);
        case Opcode::mp_write:
            if (!may_write(packet)) return NackReason::remote_access;
            if (event.buffer != 0) place(packet, event.buffer);
            return NackReason::none;
        default: return take_receive(qp, event, position);
    }
}

/// All of its message: it is refused before its first byte is placed, whichever packet comes first.
template <class Context>
bool Transport<Context>::may_write(const Packet& packet) {
    return context_.memory_table().may_write(packet.remote_key, packet.address, packet.message_bytes);
}

template <class Context>
void Transport<Context>::place(const Packet& packet, BufferId buffer) {
    hal().place(buffer, 0U, Segment{packet.address + packet.message_offset, packet.payload_bytes}, true);
}

/// SEND and WRITE with immediate: the packet names its receive request.
template <class Context>
NackReason Transport<Context>::take_receive(QueuePair& qp, const PacketEvent& event, std::uint64_t position) {
    const Packet& packet = event.packet;
    const std::uint32_t behind_head = packet.receive_number - qp.receive_head;
    const std::uint32_t waiting = qp.receive_posted - qp.receive_head;
    if (static_cast<std::int32_t>(behind_head) < 0)
        return NackReason::invalid_request;  // that request is completed
    if (behind_head >= waiting) return NackReason::receiver_not_ready;
    ReceiveEntry& entry = qp.tables->receives[packet.receive_number % receive_ring];
    const std::uint64_t end =
        position + packets_of(packet.message_bytes - packet.message_offset, qp.mtu_bytes);
    if (entry.arrived &&
        (entry.message_number != packet.message_number || entry.message_bytes != packet.message_bytes ||
         entry.opcode != packet.opcode || entry.end != end || entry.immediate != packet.immediate))
        return NackReason::invalid_request;
    const bool is_write = packet.opcode == Opcode::mp_write_immediate;
    if (is_write) {
        if (!may_write(packet)) return NackReason::remote_access;
        if (event.buffer != 0) place(packet, event.buffer);
    } else {
        const regmap::ReceiveRequest& request = entry.request;
        entry.status = packet.message_bytes > request.length
                           ? Status::receive_too_small
                           : context_.memory_table().check(request.key, request.address, packet.message_bytes,
                                                           regmap::access_local_write);
        if (entry.status != Status::ok) {
            fail_later(qp, Status::flushed);
            return NackReason::invalid_request;
        }
        if (event.buffer != 0) {
            hal().place(event.buffer, 0U,
                        Segment{request.address + packet.message_offset, packet.payload_bytes}, true);
        }
    }
    if (entry.arrived) return NackReason::none;
    ++qp.receives_arrived;
    entry.arrived = true;
    entry.end = end;
    entry.message_number = packet.message_number;
    entry.message_bytes = packet.message_bytes;
    entry.opcode = packet.opcode;
    entry.immediate = packet.immediate;
    return NackReason::none;
}

template <class Context>
unsigned Transport<Context>::receive_room(std::uint32_t qpn) {
    QueuePair* qp = find(qpn);
    if (qp == nullptr) return 0;
    if (qp->state == QpState::error) return receive_ring;
    const std::uint32_t room = receive_ring - (qp->receive_posted - qp->receive_head);
    if (room == 0) qp->receive_starved = true;
    return room;
}

template <class Context>
void Transport<Context>::post_receive(std::uint32_t qpn, const regmap::ReceiveRequest& request,
                                      std::uint16_t request_index) {
    QueuePair* qp = find(qpn);
    if (qp == nullptr) return;
    const Handler handler(*this);
    ReceiveEntry entry{};
    entry.request = request;
    entry.index = request_index;
    Status status = Status::ok;
    if (qp->state == QpState::error) status = Status::flushed;
    else if (qp->receive_posted - qp->receive_head == receive_ring) status = Status::limit_exceeded;
    else if (request.reserved != 0) status = Status::invalid_parameter;
    else
        status = context_.memory_table().check(request.key, request.address, request.length,
                                               regmap::access_local_write);
    if (status != Status::ok) {  // no message is ever given to it
        complete_receive(*qp, entry, status);
        return;
    }
    qp->tables->receives[qp->receive_posted++ % receive_ring] = entry;
}

/// Completes, in order, the receive requests whose messages are in place with everything sent before them.
template <class Context>
void Transport<Context>::complete_receives(QueuePair& qp) {
    while (qp.receive_head != qp.receive_posted) {
        const ReceiveEntry& next = qp.tables->receives[qp.receive_head % receive_ring];
        if (!next.arrived || qp.received < next.end) break;
        const ReceiveEntry entry = next;
        ++qp.receive_head;
        --qp.receives_arrived;
        complete_receive(qp, entry, Status::ok);
    }
    if (qp.receive_starved && receive_ring - (qp.receive_posted - qp.receive_head) >= resume_room) {
        qp.receive_starved = false;
        context_.queues().resume(qp.receive_queue);
    }
}

template <class Context>
void Transport<Context>::complete_receive(QueuePair& qp, const ReceiveEntry& entry, Status status) {
    regmap::Completion completion;
    completion.user_data = entry.request.user_data;
    completion.object = qp.qpn;
    completion.request_index = entry.index;
    completion.opcode = regmap::completion_of_receive;
    completion.status = status;
    if (status == Status::ok) {
        const bool is_write = entry.opcode == Opcode::mp_write_immediate;
        const bool has_immediate = is_write || entry.opcode == Opcode::mp_send_immediate;
        const regmap::WorkOpcode opcode = is_write        ? regmap::WorkOpcode::write_immediate
                                          : has_immediate ? regmap::WorkOpcode::send_immediate
                                                          : regmap::WorkOpcode::send;
        completion.opcode =
            static_cast<std::uint8_t>(regmap::completion_of_receive + static_cast<std::uint8_t>(opcode));
        completion.length = entry.message_bytes;
        completion.immediate = has_immediate ? entry.immediate : 0;
        completion.flags = has_immediate ? regmap::completion_immediate : 0;
    }
    context_.queues().complete(qp.receive_queue, completion);
}

/// The packet never came: its place in the window is free again, and the sender is told why.
template <class Context>
void Transport<Context>::refuse(QueuePair& qp, const PacketEvent& event, NackReason reason) {
    if (event.window.verdict == engines::Verdict::accept) hal().window_refuse(qp.qpn, event.packet.psn);
    if (event.buffer != 0) hal().release(event.buffer);
    hal().count_drop(drop_reason_of(reason));
    ++statistics_.refused;
    send_ack(qp, &event.packet, reason);
}

/// Acknowledges now, or leaves it to a later arrival or the timer. At once: every few packets, on request, at
/// the end of a SEND or WRITE, when congestion begins or ends, when an old hole has closed (the sender's
/// window may stand still). What asks at once while packets are missing asks again when they have come. True:
/// acknowledge now.
template <class Context>
template <class Window>
bool Transport<Context>::account(QueuePair& qp, std::uint64_t psn, const Window& window, bool is_asked,
                                 bool mark_changed, std::uint64_t now) {
    bool at_once = is_asked || (qp.ack_urgent && !window.hole);
    if (at_once) [[unlikely]]
        qp.ack_urgent = window.hole;
    // Before it in 64 bits: one comparison tells the next one in order, one the ordinary ones ahead.
    const std::uint64_t ahead = psn - std::uint64_t{window.cumulative_psn};
    if (ahead + 1 != 0 && ahead > statistics_.out_of_order_max) [[unlikely]] {
        const std::int64_t packets = static_cast<std::int64_t>(ahead << 40) >> 40;  // PSNs have 24 bits
        if (packets <= 0) at_once |= packets <= -old_hole_packets;
        else
            statistics_.out_of_order_max =
                std::max(statistics_.out_of_order_max, static_cast<std::uint64_t>(packets));
    }
    const bool is_first = qp.since_ack++ == 0;
    if (at_once || mark_changed || qp.since_ack >= ack_every_packets || now >= qp.ack_at_ns) return true;
    if (is_first) {
        qp.ack_at_ns = now + ack_age_ns;
        arm(qp, now + ack_age_ns + ack_more_ns);
    }
    return false;
}

/// `cause` is the packet just handled; nullptr when the timer asks: the sender then must not take a
/// round-trip time from it, so no path is echoed (entropy 0).
template <class Context>
void Transport<Context>::send_ack(QueuePair& qp, const Packet* cause, NackReason reason) {
    constexpr std::int32_t bitmap_bits = 128;
    constexpr std::uint32_t bits_behind_cause = 96;  // neighbours on either side of it
    const engines::RxWindow& window = hal().window(qp.qpn);
    const std::uint32_t cumulative = window.next_expected();
    catch_up(qp, cumulative);
    Packet& packet = hal().draft().packet;
    packet.opcode = Opcode::mp_ack;
    packet.ack_request = false;
    packet.payload_bytes = 0;
    packet.ack = AckHeader{};
    packet.psn = cause != nullptr ? cause->psn : engines::psn_add(cumulative, ~0U);
    packet.plane = control_plane(qp, cause != nullptr ? cause->plane : std::uint8_t{0});
    packet.entropy = spray_of(qp).path(packet.plane).entropy;
    AckHeader& ack = packet.ack;
    ack.cumulative_psn = cumulative;
    ack.reason = reason;
    ack.bitmap_base = cumulative;
    if (engines::psn_diff(packet.psn, cumulative) >= bitmap_bits)
        ack.bitmap_base = engines::psn_add(packet.psn, 0U - bits_behind_cause);
    const std::int32_t span = engines::psn_diff(window.highest(), ack.bitmap_base);
    ack.bitmap_words = static_cast<std::uint8_t>(std::clamp((span + 63) / 64, 0, 2));
    window.bitmap(ack.bitmap_base, std::span(ack.bitmap).first(ack.bitmap_words));
    if (cause != nullptr) {
        ack.entropy = cause->entropy;
        ack.plane = cause->plane;
        ack.causing_marked = cause->congestion;
    }
    ack.marked = qp.since_ack_marked;
    ack.acknowledged = static_cast<std::uint16_t>(qp.since_ack);
    ack.receives_posted = qp.receive_posted;
    statistics_.received += qp.since_ack;
    qp.since_ack = 0;
    qp.since_ack_marked = 0;
    qp.ack_at_ns = never_ns;
    ++statistics_.acks_sent;
    if (address_control(qp, packet)) hal().send_draft();
}

}  // namespace plait::firmware
