#pragma once
// Transport: requests in, packets out, completions in order.

#include <plait/firmware/transport.hpp>

namespace plait::firmware {

constexpr bool consumes_receive(Opcode opcode) {
    return opcode == Opcode::mp_write_immediate || opcode == Opcode::mp_send ||
           opcode == Opcode::mp_send_immediate;
}

constexpr Opcode opcode_of(regmap::WorkOpcode opcode) {
    switch (opcode) {
        case regmap::WorkOpcode::send: return Opcode::mp_send;
        case regmap::WorkOpcode::send_immediate: return Opcode::mp_send_immediate;
        case regmap::WorkOpcode::write: return Opcode::mp_write;
        case regmap::WorkOpcode::write_immediate: return Opcode::mp_write_immediate;
    }
    return Opcode::mp_write;
}

/// Bytes of a checked work request's message.
constexpr std::uint32_t message_bytes_of(const regmap::WorkRequest& request) {
    return (request.flags & regmap::request_inline) != 0 ? request.inline_length : request.length;
}

template <class Context>
unsigned Transport<Context>::submit_room(std::uint32_t qpn) {
    QueuePair* qp = find(qpn);
    if (qp == nullptr) return 0;
    if (qp->state == QpState::error) return work_ring;
    const std::uint32_t free_messages = message_ring - (qp->message_tail - qp->message_head);
    const std::uint32_t free_work = work_ring - (qp->work_tail - qp->work_head);
    const std::uint32_t room = std::min(free_messages, free_work);
    if (room == 0) qp->submit_starved = true;
    return room;
}

template <class Context>
Status Transport<Context>::check_request(const QueuePair& qp, const regmap::WorkRequest& request) const {
    if (!is_known(request.opcode)) return Status::invalid_opcode;
    if ((request.flags & ~(regmap::request_signalled | regmap::request_inline)) != 0 ||
        request.reserved != 0 || request.reserved_atomic[0] != 0 || request.reserved_atomic[1] != 0)
        return Status::invalid_parameter;
    if (qp.state != QpState::connected) return Status::invalid_state;
    if ((request.flags & regmap::request_inline) != 0) {
        const bool agrees = request.length == 0 || request.length == request.inline_length;
        return request.inline_length <= regmap::inline_bytes && agrees ? Status::ok : Status::invalid_length;
    }
    if (request.length > regmap::max_message_bytes || request.inline_length != 0)
        return Status::invalid_length;
    return context_.memory_table().check(request.local_key, request.local_address, request.length, 0);
}

template <class Context>
void Transport<Context>::submit(std::uint32_t qpn, const regmap::WorkRequest& request,
                                std::uint16_t request_index) {
    QueuePair* qp = find(qpn);
    if (qp == nullptr) return;
    const Handler handler(*this);
    WorkEntry work{.request = request, .index = request_index, .status = Status::ok, .done = false};
    if (qp->state == QpState::error) {
        complete_work(*qp, work, Status::flushed);
        return;
    }
    if (qp->work_tail - qp->work_head == work_ring || qp->message_tail - qp->message_head == message_ring) {
        complete_work(*qp, work, Status::limit_exceeded);
        return;
    }
    work.status = check_request(*qp, request);
    work.done = work.status != Status::ok;
    WorkEntry& entry = qp->tables->work[qp->work_tail++ % work_ring];
    entry = work;
    if (work.done) {
        retire_work(*qp);
        return;
    }
    const Opcode opcode = opcode_of(request.opcode);
    add_message(*qp, {.work = &entry,
                      .tag = 0,
                      .length_bytes = message_bytes_of(request),
                      .receive_number = consumes_receive(opcode) ? qp->next_receive_number++ : 0,
                      .unacknowledged = 0,
                      .opcode = opcode});
}

template <class Context>
bool Transport<Context>::enqueue(std::uint32_t qpn, const EpMessage& message) {
    if (!is_usable(qpn) || room(qpn) == 0 || message.length_bytes > regmap::max_message_bytes) return false;
    const Handler handler(*this);
    add_message(qps_[qpn], {.work = nullptr,
                            .tag = message.tag,
                            .length_bytes = message.length_bytes,
                            .receive_number = 0,
                            .unacknowledged = 0,
                            .opcode = message.opcode});
    return true;
}

template <class Context>
unsigned Transport<Context>::room(std::uint32_t qpn) {
    if (!is_usable(qpn)) return 0;
    QueuePair& qp = qps_[qpn];
    const std::uint32_t room = message_ring - (qp.message_tail - qp.message_head);
    if (room == 0) qp.ep_starved = true;
    return room;
}

template <class Context>
void Transport<Context>::add_message(QueuePair& qp, const MessageEntry& message) {
    if (qp.message_head == qp.message_tail)
        qp.progress_ns = now_ns();  // the time limit starts with the first request
    qp.messages.prepare(qp.message_head, qp.message_tail, qp.small_tables->messages, qp.tables->messages);
    MessageEntry& entry = qp.messages[qp.message_tail++];
    entry = message;
    entry.unacknowledged = packets_of(message.length_bytes, qp.mtu_bytes);
    qp.cursor_message = &qp.messages[qp.message_cursor];
    make_ready(qp);
}

/// Gives the slots of acknowledged messages back, and tells who waits for them.
template <class Context>
void Transport<Context>::retire_messages(QueuePair& qp) {
    message_done_ = false;
    while (qp.message_head != qp.message_tail && qp.messages[qp.message_head].unacknowledged == 0)
        ++qp.message_head;
    retire_work(qp);
    const std::uint32_t free_messages = message_ring - (qp.message_tail - qp.message_head);
    if (qp.ep_starved && free_messages >= resume_room) {
        qp.ep_starved = false;
        context_.ep().refill(qp.qpn);
    }
}

template <class Context>
void Transport<Context>::retire_work(QueuePair& qp) {
    while (qp.work_head != qp.work_tail && qp.tables->work[qp.work_head % work_ring].done) {
        const WorkEntry work = qp.tables->work[qp.work_head++ % work_ring];
        if (work.status != Status::ok || (work.request.flags & regmap::request_signalled) != 0)
            complete_work(qp, work, work.status);
    }
    const std::uint32_t free_work = work_ring - (qp.work_tail - qp.work_head);
    const std::uint32_t free_messages = message_ring - (qp.message_tail - qp.message_head);
    if (qp.submit_starved && free_work >= resume_room && free_messages >= resume_room) {
        qp.submit_starved = false;
        context_.queues().resume(qp.send_queue);
    }
}

template <class Context>
void Transport<Context>::complete_work(QueuePair& qp, const WorkEntry& work, Status status) {
    regmap::Completion completion;
    completion.user_data = work.request.user_data;
    completion.object = qp.qpn;
    completion.length = status == Status::ok ? message_bytes_of(work.request) : 0;
    completion.request_index = work.index;
    completion.opcode = static_cast<std::uint8_t>(work.request.opcode);
    completion.status = status;
    context_.queues().complete(qp.send_queue, completion);
}

template <class Context>
bool Transport<Context>::has_packet(const QueuePair& qp) const {
    return !qp.lost.empty() || qp.message_cursor != qp.message_tail;
}

template <class Context>
void Transport<Context>::make_ready(QueuePair& qp) {
    if (qp.list == QpList::none && qp.state == QpState::connected && has_packet(qp)) ready_.push_back(qp);
}

/// One packet a queue pair in turn, while planes have credit. A queue pair that its windows hold back leaves
/// the ring until an acknowledgement or its timer; one that finds no plane until a credit comes or the planes
/// that it can use change.
template <class Context>
void Transport<Context>::pump() {
    while (offered_planes_ != 0) {
        hal().begin_send();
        QueuePair* qp = next_sender();
        if (qp == nullptr) return;
        switch (send_one(*qp)) {
            case SendResult::sent: ready_.push_back(*qp); break;
            case SendResult::no_plane: wait_for_plane(*qp); break;
            case SendResult::sent_last:
            case SendResult::blocked: break;
        }
    }
}

/// Those that wait for just a plane that is offered now have waited longest.
template <class Context>
QueuePair* Transport<Context>::next_sender() {
    for (std::uint32_t left = offered_planes_ & waiting_planes_; left != 0; left &= left - 1) {
        const std::uint32_t plane = engines::lowest_bit(left);
        if (!waiting_[plane].empty()) return waiting_[plane].pop_front();
        waiting_planes_ &= ~(1U << plane);
    }
    return ready_.pop_front();
}

template <class Context>
void Transport<Context>::wait_for_plane(QueuePair& qp) {
    waiting_[qp.awaited_plane].push_back(qp);
    waiting_planes_ |= 1U << qp.awaited_plane;
}

/// The planes that a queue pair can use have changed: it may wait for the wrong one.
template <class Context>
void Transport<Context>::wake(QueuePair& qp) {
    if (qp.list != QpList::waiting_for_plane) return;
    waiting_[qp.awaited_plane].remove(qp);
    ready_.push_back(qp);
}

template <class Context>
void Transport<Context>::on_transmit_credit(std::uint8_t plane, std::uint32_t payload_bytes) {
    if (plane >= context_.config().planes) return;
    const Handler handler(*this);
    std::uint32_t& ahead = ahead_bytes_[plane];
    ahead -= std::min(ahead, payload_bytes + packet_overhead_bytes);
    if (has_room(plane)) offered_planes_ |= ports_up_ & 1U << plane;
    auto& waiting = waiting_[any_plane];
    if (!waiting.empty()) ready_.take_all(waiting);
}

template <class Context>
typename Transport<Context>::SendResult Transport<Context>::send_one(QueuePair& qp) {
    if (!qp.sends_plain) [[unlikely]] {
        if (now_ns() < qp.pause_until_ns) {
            arm(qp, qp.pause_until_ns);
            return SendResult::blocked;
        }
        if (!qp.lost.empty()) return send_again(qp);
        if (qp.cautious && qp.in_flight_bytes != 0) return SendResult::blocked;
        qp.sends_plain = !qp.cautious && qp.rto_backoff == 0;
    }
    return send_packet<false>(qp);
}

/// The next new packet, or the one that was lost first.
template <class Context>
template <bool again>
typename Transport<Context>::SendResult Transport<Context>::send_packet(QueuePair& qp) {
    const std::uint64_t now = now_ns();
    std::uint64_t count = qp.next;
    const std::uint64_t outstanding = count - qp.base + (again ? 0 : 1);
    if (!again && (qp.message_cursor == qp.message_tail || outstanding > qp.window_packets))
        return SendResult::blocked;
    auto&& spray = spray_of(qp);
    const std::uint32_t due = spray.planes_due(ports_up_);
    if ((due & offered_planes_) == 0) {
        qp.awaited_plane = static_cast<std::uint8_t>(engines::lowest_bit(due));
        return SendResult::no_plane;
    }
    const std::uint16_t number = again ? qp.lost.head : number_of(count);
    const MessageEntry& message = again ? qp.messages[qp.packets[number].message] : *qp.cursor_message;
    PacketEntry& entry = again ? qp.packets[number] : prepare_packet(qp, message);
    const std::uint32_t bytes = entry.bytes + packet_overhead_bytes;
    const std::uint32_t in_flight_bytes = qp.in_flight_bytes;
    if (in_flight_bytes + bytes > qp.congestion.bytes() && in_flight_bytes != 0) return SendResult::blocked;
    if (again && qp.cautious && in_flight_bytes != 0) return SendResult::blocked;
    const auto path = spray.choose_due(due, offered_planes_, bytes);
    if (!path) {
        qp.awaited_plane = any_plane;
        return SendResult::no_plane;
    }
    const std::uint32_t behind_head = (entry.message - qp.message_head) % message_ring;
    const std::uint32_t message_number = again ? qp.message_head + behind_head : qp.message_cursor;
    if (again) {
        qp.lost.remove(qp.packets, number);
        qp.again.push_back(qp.packets, number);
        ++statistics_.retransmitted;
        if (entry.transmissions != 0xff) ++entry.transmissions;
        entry.state = PacketState::in_flight;
        count =
            qp.base + static_cast<std::uint16_t>(number - number_of(qp.base)) % regmap::max_window_packets;
    } else {
        entry.transmissions = 1;
        entry.state = PacketState::in_flight;
        qp.next = count + 1;
        if (outstanding > statistics_.window_high_water) [[unlikely]]
            statistics_.window_high_water = outstanding;
        qp.cursor_offset = entry.offset + entry.bytes;
        if (qp.cursor_offset == message.length_bytes) {
            qp.cursor_offset = 0;
            qp.cursor_message = &qp.messages[++qp.message_cursor];
        }
    }
    entry.sent_ns = static_cast<std::uint32_t>(now) + queued_ns(path->plane);
    entry.departure = ++qp.departures;
    entry.entropy_index = path->entropy_index;
    entry.plane = path->plane;
    qp.in_flight_bytes = in_flight_bytes + bytes;
    ahead_bytes_[path->plane] += bytes;
    if (!has_room(path->plane)) offered_planes_ &= ~(1U << path->plane);
    ++statistics_.data_packets_sent;

    auto& [packet, payload] = hal().draft();
    packet.opcode = message.opcode;
    packet.entropy = path->entropy;
    packet.plane = path->plane;
    packet.payload_bytes = entry.bytes;
    packet.psn = psn_of(qp, count);
    packet.message_number = message_number;
    packet.message_offset = entry.offset;
    packet.message_bytes = message.length_bytes;
    address(qp, packet);
    const bool is_last = again ? !has_packet(qp) : qp.message_cursor == qp.message_tail;
    packet.ack_request = asks_for_ack(qp, message, outstanding, is_last);
    if (message.work != nullptr) fill_work(message, *message.work, packet, payload);
    else context_.ep().build(message.tag, entry.offset, packet, payload);
    hal().send_draft();
    if (qp.timer_ns > now + min_rto_ns) arm(qp, now + rto_ns(qp));
    return is_last ? SendResult::sent_last : SendResult::sent;
}

template <class Context>
void Transport<Context>::prepare_packets(QueuePair& qp) {
    qp.packets.prepare(static_cast<std::uint32_t>(qp.base), static_cast<std::uint32_t>(qp.next),
                       qp.small_tables->packets, qp.tables->packets);
}

/// The next new packet's entry: the next piece of the message at the cursor.
template <class Context>
PacketEntry& Transport<Context>::prepare_packet(QueuePair& qp, const MessageEntry& message) {
    const std::uint64_t count = qp.next;
    if (qp.packets.must_prepare(count - qp.base)) [[unlikely]]
        prepare_packets(qp);
    PacketEntry& entry = qp.packets[static_cast<std::uint32_t>(count)];
    entry.message = static_cast<std::uint8_t>(qp.message_cursor % message_ring);
    entry.offset = qp.cursor_offset;
    const std::uint32_t left = message.length_bytes - qp.cursor_offset;
    entry.bytes = static_cast<std::uint16_t>(std::min<std::uint32_t>(left, qp.mtu_bytes));
    return entry;
}

/// From one queue pair to the other. All is read before anything is written: words of eight bytes.
template <class Context>
void Transport<Context>::address(const QueuePair& qp, Packet& packet) {
    const std::uint32_t source = qp.device;
    const std::uint32_t destination = qp.peer_device;
    const std::uint32_t peer = qp.peer_qpn;
    const std::uint32_t own = qp.qpn;
    packet.source_device = source;
    packet.destination_device = destination;
    packet.qpn = peer;
    packet.local_qpn = own;
}

/// The receiver gathers acknowledgements; it must not gather when nothing more comes before one.
template <class Context>
bool Transport<Context>::asks_for_ack(QueuePair& qp, const MessageEntry& message, std::uint64_t outstanding,
                                      bool is_last) {
    bool asks = (is_last && message.opcode != Opcode::mp_ep_partial) || outstanding >= qp.window_packets ||
                (!qp.sends_plain && (qp.cautious || qp.rto_backoff != 0));
    const std::uint32_t window = qp.congestion.bytes();
    // In a window of three and more every other packet will do, counted from the last one that asked: a burst
    // that fills the window must not end without a request.
    if (window < 8U * qp.mtu_bytes && qp.in_flight_bytes + qp.mtu_bytes + packet_overhead_bytes > window)
        asks |= window < 3U * qp.mtu_bytes || qp.departures - qp.requested_departure >= 2;
    if (asks) qp.requested_departure = qp.departures;
    return asks;
}

/// How long packets given to the plane before will keep its port: no sign of congestion, so not part of the
/// round trip.
template <class Context>
std::uint32_t Transport<Context>::queued_ns(std::uint8_t plane) const {
    return static_cast<std::uint32_t>(ahead_bytes_[plane] * byte_ns_ >> 32);
}

template <class Context>
void Transport<Context>::fill_work(const MessageEntry& message, const WorkEntry& work, Packet& packet,
                                   Payload& payload) {
    const regmap::WorkRequest& request = work.request;
    if (message.opcode != Opcode::mp_write) {
        packet.receive_number = message.receive_number;
        packet.immediate = request.immediate;
    }
    if (message.opcode == Opcode::mp_write || message.opcode == Opcode::mp_write_immediate) {
        packet.address = request.remote_address;
        packet.remote_key = request.remote_key;
    }
    if (packet.payload_bytes == 0) return;
    if ((request.flags & regmap::request_inline) != 0) {
        payload.inline_bytes = {request.inline_data, packet.payload_bytes};
    } else {
        payload.segments[0].address = request.local_address + packet.message_offset;
        payload.segments[0].length = packet.payload_bytes;
        payload.segment_count = 1;
    }
}

}  // namespace plait::firmware
