// Making and destroying objects.

#include <plait/driver.hpp>

#include "implementation.hpp"

namespace plait {

using namespace regmap;

namespace {

std::size_t record_bytes(QueueKind kind) {
    switch (kind) {
        case QueueKind::send: return sizeof(WorkRequest);
        case QueueKind::receive: return sizeof(ReceiveRequest);
        case QueueKind::completion: return sizeof(Completion);
        case QueueKind::collective: return sizeof(EpRequest);
    }
    return 0;
}

AdminRequest command(AdminOpcode opcode, std::uint32_t object = 0) {
    AdminRequest request;
    request.opcode = opcode;
    request.object = object;
    return request;
}

/// May the device have carried the command out, or do so later? The words of an error may lack memory, too.
bool is_in_doubt(Status status) { return status == Status::timeout || status == Status::no_memory; }

Result<void> without_value(const Result<Completion>& result) {
    if (!result) return result.error();
    return {};
}

Result<std::uint32_t> object_of(const Result<Completion>& result) {
    if (!result) return result.error();
    return result.value().object;
}

}  // namespace

Result<Completion> Driver::Implementation::execute(const AdminRequest& request) {
    return guarded([&] { return admin->execute(request); });
}

Result<std::uint32_t> Driver::Implementation::create_queue(QueueKind kind, std::uint32_t log2_entries,
                                                           std::uint32_t completion_queue) {
    if (auto there = device.known(); !there) return there.error();
    if (log2_entries < 4 || log2_entries > 15)
        return Error{Status::invalid_parameter,
                     "log2_entries is " + std::to_string(log2_entries) + ", expected 4 .. 15"};
    std::uint32_t number = 1;
    while (number < max_queues && (queues[number] || in_doubt[number])) ++number;
    if (number == max_queues)
        return Error{Status::limit_exceeded,
                     "all " + std::to_string(max_queues - 1) + " queue numbers are in use"};
    auto memory = Memory::allocate(device.link(), record_bytes(kind) << log2_entries);
    if (!memory) return memory.error();
    AdminRequest request = command(AdminOpcode::create_queue, number);
    request.kind = kind;
    request.log2_entries = static_cast<std::uint8_t>(log2_entries);
    request.address = memory.value().device_address();
    request.completion_queue = completion_queue;
    auto queue = kind == QueueKind::completion
                     ? std::make_unique<Queue>(CompletionRing(std::move(memory.value()), log2_entries))
                     : std::make_unique<Queue>(
                           RequestRing(std::move(memory.value()), kind, record_bytes(kind), log2_entries));
    doubtful_memory.reserve(doubtful_memory.size() +
                            1);  // so that nothing fails once the device has been told
    const auto made = execute(request);
    if (made) {
        queues[number] = std::move(queue);
        return number;
    }
    if (is_in_doubt(made.status())) {
        in_doubt[number] = true;
        doubtful_memory.push_back(std::move(memory_of(*queue)));
    }
    return made.error();
}

Result<std::uint32_t> Driver::create_completion_queue(std::uint32_t log2_entries) {
    return guarded([&] { return implementation_->create_queue(QueueKind::completion, log2_entries, 0); });
}
Result<std::uint32_t> Driver::create_send_queue(std::uint32_t completion_queue, std::uint32_t log2_entries) {
    return guarded(
        [&] { return implementation_->create_queue(QueueKind::send, log2_entries, completion_queue); });
}
Result<std::uint32_t> Driver::create_receive_queue(std::uint32_t completion_queue,
                                                   std::uint32_t log2_entries) {
    return guarded(
        [&] { return implementation_->create_queue(QueueKind::receive, log2_entries, completion_queue); });
}
Result<std::uint32_t> Driver::create_collective_queue(std::uint32_t completion_queue,
                                                      std::uint32_t log2_entries) {
    return guarded(
        [&] { return implementation_->create_queue(QueueKind::collective, log2_entries, completion_queue); });
}

Result<void> Driver::destroy_queue(std::uint32_t queue) {
    return guarded([&]() -> Result<void> {
        if (auto there = implementation_->device.known(); !there) return there;
        if (queue == 0 || queue >= max_queues || !implementation_->queues[queue])
            return Error{Status::invalid_queue, "there is no queue " + std::to_string(queue)};
        const auto gone = implementation_->execute(command(AdminOpcode::destroy_queue, queue));
        // invalid_queue: an earlier attempt that was given up has destroyed it after all.
        if (!gone && gone.status() != Status::invalid_queue) return gone.error();
        implementation_->queues[queue].reset();
        return {};
    });
}

Result<Qp> Driver::create_qp(const QpOptions& options) {
    return guarded([&]() -> Result<Qp> {
        AdminRequest request = command(AdminOpcode::create_qp);
        request.transport = options.transport;
        request.spray_policy = options.spray_policy;
        request.mtu_bytes = options.mtu_bytes;
        request.window_packets = options.window_packets;
        request.entropy_values = options.entropy_values;
        request.send_queue = options.send_queue;
        request.receive_queue = options.receive_queue;
        const auto made = implementation_->execute(request);
        if (!made) return made.error();
        return Qp{.qpn = made.value().object, .first_psn = made.value().immediate};
    });
}

Result<void> Driver::connect_qp(std::uint32_t qpn, const PeerAddress& peer) {
    return guarded([&]() -> Result<void> {
        AdminRequest request = command(AdminOpcode::connect_qp, qpn);
        request.peer_device = peer.device;
        request.peer_qpn = peer.qpn;
        request.peer_psn = peer.first_psn;
        return without_value(implementation_->execute(request));
    });
}

Result<void> Driver::destroy_qp(std::uint32_t qpn) {
    return guarded([&]() -> Result<void> {
        return without_value(implementation_->execute(command(AdminOpcode::destroy_qp, qpn)));
    });
}

Result<std::uint32_t> Driver::register_memory(std::uint64_t device_address, std::uint64_t length_bytes,
                                              std::uint32_t access) {
    return guarded([&]() -> Result<std::uint32_t> {
        AdminRequest request = command(AdminOpcode::register_memory);
        request.address = device_address;
        request.length = length_bytes;
        request.access = access;
        return object_of(implementation_->execute(request));
    });
}

Result<void> Driver::deregister_memory(std::uint32_t key) {
    return guarded([&]() -> Result<void> {
        return without_value(implementation_->execute(command(AdminOpcode::deregister_memory, key)));
    });
}

Result<std::uint32_t> Driver::create_group(const GroupParameters& parameters,
                                           std::span<const std::uint32_t> qpns,
                                           std::uint32_t collective_queue) {
    return guarded([&]() -> Result<std::uint32_t> {
        Implementation& own = *implementation_;
        if (auto there = own.device.known(); !there) return there.error();
        if (qpns.empty() || qpns.size() > max_ranks || qpns.size() != parameters.ranks)
            return Error{Status::invalid_parameter,
                         std::to_string(qpns.size()) + " QPNs for " + std::to_string(parameters.ranks) +
                             " ranks, expected one each, 1 .. " + std::to_string(max_ranks)};
        AdminRequest request = command(AdminOpcode::create_group);
        request.length = sizeof parameters + qpns.size_bytes();
        request.send_queue = collective_queue;
        auto memory = Memory::allocate(own.device.link(), static_cast<std::size_t>(request.length));
        if (!memory) return memory.error();
        std::memcpy(memory.value().host(), &parameters, sizeof parameters);
        std::memcpy(memory.value().host() + sizeof parameters, qpns.data(), qpns.size_bytes());
        request.address = memory.value().device_address();
        own.doubtful_memory.reserve(own.doubtful_memory.size() + 1);
        const auto made = own.execute(request);
        if (is_in_doubt(made.status())) own.doubtful_memory.push_back(std::move(memory.value()));
        return object_of(made);
    });
}

Result<void> Driver::destroy_group(std::uint32_t group) {
    return guarded([&]() -> Result<void> {
        return without_value(implementation_->execute(command(AdminOpcode::destroy_group, group)));
    });
}

}  // namespace plait
