#pragma once
// Transport: the life of a queue pair.

#include <plait/firmware/transport.hpp>

namespace plait::firmware {

/// A 32-bit value that differs with each of its parts (finaliser of SplitMix64).
constexpr std::uint32_t derive_seed(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
    std::uint64_t value = seed + 0x9e37'79b9'7f4a'7c15 * (a + 1) + 0xd1b5'4a32'd192'ed03 * (b + 1);
    value = (value ^ value >> 30) * 0xbf58'476d'1ce4'e5b9;
    value = (value ^ value >> 27) * 0x94d0'49bb'1331'11eb;
    return static_cast<std::uint32_t>((value ^ value >> 31) >> 16);
}

template <class Context>
Transport<Context>::Transport(Context& context, Arena& arena)
    : context_(context),
      qps_(arena.make<QueuePair>(std::min(context.config().max_qps, 65536U))),
      small_tables_(arena.reserve<QpSmallTables>(qps_.size())),
      tables_(arena.reserve<QpTables>(qps_.size())) {
    if (small_tables_.empty() || tables_.empty()) qps_ = {};
    reset();
}

template <class Context>
void Transport<Context>::reset() {
    for (std::uint32_t qpn = 1; qpn < qps_.size(); ++qpn) {
        if (qps_[qpn].state == QpState::free) continue;
        if (qps_[qpn].peer_qpn != 0) hal().window_close(qpn);
        hal().cancel_timer({TimerKind::qp, qpn});
        qps_[qpn] = QueuePair{};
    }
    ready_ = {};
    waiting_ = {};
    failing_ = {};
    ahead_bytes_.fill(0);
    byte_ns_ = (std::uint64_t{8} << 32) / context_.config().plane_rate_gbps + 1;
    ports_up_ = 0;
    for (std::uint8_t plane = 0; plane < context_.config().planes; ++plane)
        if (hal().port_up(plane)) ports_up_ |= 1U << plane;
    offered_planes_ = context_.config().transmit_ahead_bytes != 0 ? ports_up_ : 0;
}

template <class Context>
QueuePair* Transport<Context>::find(std::uint32_t qpn) {
    if (qpn >= qps_.size() || qps_[qpn].state == QpState::free) return nullptr;
    return &qps_[qpn];
}

template <class Context>
QpCreated Transport<Context>::create_qp(const regmap::AdminRequest& request) {
    const DeviceConfig& config = context_.config();
    const bool valid = request.transport == regmap::Transport::mp && is_known(request.spray_policy) &&
                       std::has_single_bit(request.mtu_bytes) && request.mtu_bytes >= regmap::min_mtu_bytes &&
                       request.mtu_bytes <= regmap::max_mtu_bytes &&
                       std::has_single_bit(request.window_packets) &&
                       request.window_packets >= regmap::min_window_packets &&
                       request.window_packets <= regmap::max_window_packets && request.entropy_values != 0 &&
                       request.entropy_values <= regmap::max_entropy_values &&
                       request.entropy_values % config.planes == 0 && request.reserved == 0;
    if (!valid) return {.status = Status::invalid_parameter};
    // The number used longest ago comes first, so that packets of a former queue pair find nobody.
    const auto count = static_cast<std::uint32_t>(qps_.size());
    for (std::uint32_t tried = 1; tried < count; ++tried) {
        const std::uint32_t qpn = (last_created_ + tried - 1) % (count - 1) + 1;
        QueuePair& qp = qps_[qpn];
        if (qp.state != QpState::free) continue;
        last_created_ = qpn;
        qp = QueuePair{};
        qp.small_tables = &small_tables_[qpn];
        qp.tables = &tables_[qpn];
        qp.state = QpState::created;
        qp.qpn = qpn;
        qp.device = config.device_number;
        qp.spray = &hal().spray(qpn);
        qp.first_psn = derive_seed(config.seed, config.device_number, ++connections_) & engines::psn_mask;
        qp.mtu_bytes = request.mtu_bytes;
        qp.window_packets = request.window_packets;
        qp.entropy_values = request.entropy_values;
        qp.spray_policy = request.spray_policy;
        qp.send_queue = request.send_queue;
        qp.receive_queue = request.receive_queue;
        // The planes' own transmit queues already put a packet behind so many that left after it.
        const std::uint32_t packet_bytes = qp.mtu_bytes + packet_overhead_bytes;
        const std::uint32_t ahead = (config.transmit_ahead_bytes + packet_bytes - 1) / packet_bytes;
        qp.reordering_packets = reordering_packets + ahead * (config.planes - 1U);
        return {.qpn = qpn, .first_psn = qp.first_psn};
    }
    return {.status = Status::limit_exceeded};
}

template <class Context>
Status Transport<Context>::connect_qp(const regmap::AdminRequest& request) {
    QueuePair* qp = find(request.object);
    if (qp == nullptr) return Status::invalid_qp;
    if (qp->state != QpState::created) return Status::invalid_state;
    if (request.peer_qpn == 0 || request.peer_qpn > engines::psn_mask || request.peer_psn > engines::psn_mask)
        return Status::invalid_parameter;
    const Handler handler(*this);
    qp->peer_device = request.peer_device;
    qp->peer_qpn = request.peer_qpn;
    qp->expected_psn = request.peer_psn;
    start_sending(*qp);
    return Status::ok;
}

template <class Context>
void Transport<Context>::start_sending(QueuePair& qp) {
    const DeviceConfig& config = context_.config();
    qp.state = QpState::connected;
    qp.takes_plain = true;
    qp.progress_ns = now_ns();
    qp.small_tables->acknowledged.fill(0);
    qp.congestion.reset({config.base_rtt_ns, config.planes_rate_gbps(), qp.mtu_bytes});
    hal().window_open(qp.qpn, qp.peer_device, qp.expected_psn, qp.window_packets, qp.mtu_bytes);
    spray_of(qp).configure({.policy = static_cast<engines::SprayPolicy>(qp.spray_policy),
                            .planes = config.planes,
                            .entropy_values = qp.entropy_values,
                            .seed = derive_seed(config.seed, config.device_number, qp.first_psn)});
    qp.usable_planes = static_cast<std::uint8_t>(spray_of(qp).usable_planes());
    const std::uint32_t down = ((1U << config.planes) - 1) & ~ports_up_;
    if (down == 0) return;
    qp.announcements = announcement_count;
    exclude(qp, down);
    probe_soon(qp);
}

template <class Context>
Status Transport<Context>::destroy_qp(std::uint32_t qpn) {
    QueuePair* qp = find(qpn);
    if (qp == nullptr) return Status::invalid_qp;
    const Handler handler(*this);
    fail(*qp, Status::flushed, message_ring);
    if (qp->peer_qpn != 0) hal().window_close(qpn);
    qp->state = QpState::free;
    return Status::ok;
}

/// The queue pair fails: the work request of message slot `message_slot` (none such: the oldest one under
/// way) completes with `first`, the others as flushed, in order; also one that was acknowledged but whose
/// turn had not come, for nothing succeeds after a failure.
template <class Context>
void Transport<Context>::fail(QueuePair& qp, Status first, std::uint32_t message_slot) {
    if (qp.state == QpState::error || qp.state == QpState::free) return;
    const bool was_connected = qp.state == QpState::connected;
    if (qp.list == QpList::ready) ready_.remove(qp);
    if (qp.list == QpList::waiting_for_plane) waiting_[qp.awaited_plane].remove(qp);
    if (qp.list == QpList::failing) failing_.remove(qp);
    qp.state = QpState::error;
    qp.takes_plain = qp.sends_plain = false;
    if (first != Status::flushed) ++statistics_.qp_errors;
    hal().cancel_timer({TimerKind::qp, qp.qpn});
    qp.timer_ns = never_ns;
    flush_sends(qp, first, message_slot);
    flush_receives(qp);
    if (was_connected) context_.ep().qp_failed(qp.qpn, first);
}

/// As fail(), at the end of the outermost handler: nobody up the call chain sees the queue pair change.
template <class Context>
void Transport<Context>::fail_later(QueuePair& qp, Status status) {
    if (qp.state == QpState::error || qp.list == QpList::failing) return;
    if (qp.list == QpList::ready) ready_.remove(qp);
    if (qp.list == QpList::waiting_for_plane) waiting_[qp.awaited_plane].remove(qp);
    qp.failure = status;
    qp.sends_plain = false;
    failing_.push_back(qp);
}

template <class Context>
void Transport<Context>::flush_sends(QueuePair& qp, Status first, std::uint32_t message_slot) {
    qp.again = qp.lost = {};
    qp.in_flight_bytes = qp.acknowledged_ahead = 0;
    spray_of(qp).forget_in_flight();
    qp.base = qp.next;
    const auto& messages = qp.messages;
    auto& work_entries = qp.tables->work;
    std::uint32_t failed_slot = 0;
    if (message_slot < message_ring) {
        const WorkEntry* const work = messages[message_slot].work;
        failed_slot = work != nullptr ? static_cast<std::uint32_t>(work - work_entries.data()) : work_ring;
    } else {
        std::uint32_t oldest = qp.work_head;
        while (oldest != qp.work_tail && work_entries[oldest % work_ring].done) ++oldest;
        failed_slot = oldest % work_ring;
    }
    while (qp.message_head != qp.message_tail) {
        const MessageEntry message = messages[qp.message_head++];
        if (message.work == nullptr && message.unacknowledged != 0)
            context_.ep().message_done(qp.qpn, message.tag, Status::flushed);
    }
    qp.message_cursor = qp.message_tail;
    while (qp.work_head != qp.work_tail) {
        const std::uint32_t slot = qp.work_head++ % work_ring;
        const WorkEntry work = work_entries[slot];
        const Status status = slot == failed_slot ? first : Status::flushed;
        complete_work(qp, work, work.status != Status::ok ? work.status : status);
    }
}

template <class Context>
void Transport<Context>::flush_receives(QueuePair& qp) {
    while (qp.receive_head != qp.receive_posted) {
        const ReceiveEntry entry = qp.tables->receives[qp.receive_head++ % receive_ring];
        complete_receive(qp, entry, entry.status == Status::ok ? Status::flushed : entry.status);
    }
    qp.receives_arrived = 0;
}

template <class Context>
void Transport<Context>::give_up(std::uint32_t qpn, Status status) {
    QueuePair* qp = find(qpn);
    if (qp == nullptr) return;
    const Handler handler(*this);
    fail_later(*qp, status);
}

template <class Context>
bool Transport<Context>::is_usable(std::uint32_t qpn) const {
    const QueuePair* qp = queue_pair(qpn);
    return qp != nullptr && qp->state == QpState::connected && qp->list != QpList::failing;
}

template <class Context>
std::uint32_t Transport<Context>::peer_of(std::uint32_t qpn) const {
    const QueuePair* qp = queue_pair(qpn);
    return qp == nullptr ? 0 : qp->peer_device;
}

template <class Context>
void Transport<Context>::finish() {
    while (!failing_.empty()) {
        QueuePair* const qp = failing_.pop_front();
        fail(*qp, qp->failure, message_ring);
    }
    if (offered_planes_ != 0 && (!ready_.empty() || (offered_planes_ & waiting_planes_) != 0)) pump();
}

}  // namespace plait::firmware
