#include <algorithm>
#include <bit>
#include <numeric>
#include <plait/sim/fabric/leaf_spine.hpp>
#include <plait/sim/fabric/random.hpp>
#include <stdexcept>

namespace plait::sim {
namespace {

const FabricConfig& checked(const FabricConfig& config) {
    if (const std::string message = validate(config); !message.empty()) {
        throw std::invalid_argument(message);
    }
    return config;
}

uint64_t argument_of(FabricPacket* packet) { return reinterpret_cast<uintptr_t>(packet); }

// Position of the nth set bit, n from 0.
uint32_t select_bit(uint64_t mask, uint32_t n) {
    for (; n > 0; --n) {
        mask &= mask - 1;
    }
    return static_cast<uint32_t>(std::countr_zero(mask));
}

}  // namespace

uint64_t FabricTotals::dropped_total() const {
    return std::accumulate(dropped.begin(), dropped.end(), uint64_t{0});
}

LeafSpine::LeafSpine(EventQueue& queue, const FabricConfig& config)
    : queue_(queue),
      config_(checked(config)),
      topology_(config),
      clock_(config.rate_gbps),
      ecmp_seed_(hash_combine(config.seed, hash_name("ecmp"))),
      tie_seed_(hash_combine(config.seed, hash_name("fabric ties"))),
      cable_ps_(config.cable_ns * 1000),
      switch_latency_ps_(config.switch_latency_ns * 1000),
      buffer_ps_(clock_.time_ps(config.buffer_bytes)),
      ecn_threshold_ps_(clock_.time_ps(config.ecn_threshold_bytes)),
      trim_buffer_ps_(clock_.time_ps(config.trim_buffer_bytes)),
      ports_(topology_.ports()),
      trim_queues_(config.trim_bytes != 0 ? topology_.ports() : 0),
      drops_(topology_.ports()),
      spine_masks_(size_t{topology_.planes} * topology_.leaves,
                   topology_.spines == 64 ? UINT64_MAX : (uint64_t{1} << topology_.spines) - 1),
      receivers_(topology_.devices),
      injector_(config.faults, config.seed),
      device_links_(topology_.device_links()),
      spine_links_(topology_.spine_links()),
      leaves_(size_t{topology_.planes} * topology_.leaves),
      spines_(size_t{topology_.planes} * topology_.spines),
      planes_(topology_.planes),
      device_link_known_up_(topology_.device_links(), 1) {}

void LeafSpine::attach(uint32_t device, const FabricReceiver& receiver) {
    if (receiver.deliver == nullptr) {
        throw std::invalid_argument("a device cannot be attached without a deliver function");
    }
    receivers_.at(device) = receiver;
}

template <EventQueue::Function arrive>
void LeafSpine::leave_link(void* object, uint64_t argument) {
    auto& fabric = *static_cast<LeafSpine*>(object);
    FabricPacket* packet = packet_of(argument);
    const uint32_t number = packet->fabric_port;
    const OutputPort& port = fabric.ports_[number];
    if (port.lost_since(packet->fabric_epoch)) {
        fabric.drop(packet, number, DropReason::link_down);
    } else if (port.impaired) {
        fabric.suffer(packet, fabric.injector_.judge_link(number), arrive);
    } else {
        arrive(object, argument);
    }
}

Slot LeafSpine::transmit(uint32_t device, FabricPacket* packet, uint64_t ready_ps) {
    if (device >= topology_.devices || packet->plane >= topology_.planes) {
        throw std::out_of_range("device " + std::to_string(device) + " or plane " +
                                std::to_string(packet->plane) + " does not exist");
    }
    if (packet->size_bytes == 0 || packet->size_bytes > config_.buffer_bytes) {
        throw std::invalid_argument("a packet of " + std::to_string(packet->size_bytes) +
                                    " bytes cannot cross a switch with a buffer of " +
                                    std::to_string(config_.buffer_bytes));
    }
    if (packet->drop == nullptr) {
        throw std::invalid_argument("a packet without a drop function cannot be sent");
    }
    packet->source = device;
    packet->ecn = false;
    packet->corrupt = false;
    packet->trimmed = false;
    ++totals_.offered;
    const uint32_t port = topology_.device_to_leaf(device, packet->plane);
    const Slot slot = ports_[port].enqueue(std::max(ready_ps, queue_.now_ps()),
                                           clock_.time_ps(packet->size_bytes), packet->size_bytes);
    depart(packet, port, slot, {leave_link<arrive_at_first_leaf>, expect_at_first_leaf});
    return slot;
}

uint64_t LeafSpine::transmit_free_at_ps(uint32_t device, uint8_t plane) const {
    if (device >= topology_.devices || plane >= topology_.planes) {
        throw std::out_of_range("device " + std::to_string(device) + " or plane " + std::to_string(plane) +
                                " does not exist");
    }
    return ports_[topology_.device_to_leaf(device, plane)].free_ps;
}

// Tells what becomes of a packet once its last bit has left the port.
void LeafSpine::depart(FabricPacket* packet, uint32_t port, Slot slot, EventQueue::Handler arrival) {
    packet->fabric_port = port;
    packet->fabric_epoch = ports_[port].epoch;
    queue_.schedule(slot.end_ps + cable_ps_, tie_break(tie_seed_, port, ports_[port].packets), arrival, this,
                    argument_of(packet));
}

void LeafSpine::forward(FabricPacket* packet, uint32_t port_number, EventQueue::Handler arrival) {
    OutputPort& port = ports_[port_number];
    if (!port.up()) {
        drop(packet, port_number, DropReason::link_down);
        return;
    }
    // All packets of a switch wait the same latency, so the order of arrival is the order in the queue.
    const uint64_t enqueue_ps = queue_.now_ps() + switch_latency_ps_;
    const uint64_t backlog_ps = port.backlog_ps(enqueue_ps);
    const uint64_t duration_ps = clock_.time_ps(packet->size_bytes);
    if (packet->trimmed || backlog_ps + duration_ps > buffer_ps_) {
        trim(packet, port_number, enqueue_ps, arrival);
        return;
    }
    if (backlog_ps > ecn_threshold_ps_) {
        packet->ecn = true;
        ++port.ecn_marks;
        ++totals_.ecn_marks;
    }
    depart(packet, port_number, port.enqueue(enqueue_ps, duration_ps, packet->size_bytes), arrival);
}

// The way of a packet that found the queue full, here or at a switch before. What is left of it goes ahead of
// the queue, behind the packet that is on the wire, which is taken to have just begun and to be as long as
// this one was; those in the queue keep the times they were given, those to come are later by its length.
void LeafSpine::trim(FabricPacket* packet, uint32_t port_number, uint64_t enqueue_ps,
                     EventQueue::Handler arrival) {
    if (trim_queues_.empty()) {
        drop(packet, port_number, DropReason::queue_full);
        return;
    }
    OutputPort& port = ports_[port_number];
    TrimQueue& queue = trim_queues_[port_number];
    if (queue.epoch != port.epoch) {
        queue.epoch = port.epoch;
        queue.free_ps = 0;
    }
    const uint64_t on_wire_ps = std::min(port.backlog_ps(enqueue_ps), clock_.time_ps(packet->size_bytes));
    const uint64_t start_ps = std::max(enqueue_ps + on_wire_ps, queue.free_ps);
    const uint32_t left_bytes = std::min(packet->size_bytes, config_.trim_bytes);
    const uint64_t duration_ps = clock_.time_ps(left_bytes);
    if (start_ps + duration_ps > enqueue_ps + on_wire_ps + trim_buffer_ps_) {
        drop(packet, port_number, DropReason::queue_full);
        return;
    }
    if (left_bytes < packet->size_bytes) {
        packet->size_bytes = left_bytes;
        packet->trimmed = true;
        packet->ecn = true;
        ++queue.trimmed;
        ++totals_.trimmed;
    }
    queue.free_ps = start_ps + duration_ps;
    port.enqueue(enqueue_ps, duration_ps, left_bytes);
    depart(packet, port_number, {start_ps, queue.free_ps}, arrival);
}

void LeafSpine::drop(FabricPacket* packet, uint32_t port, DropReason reason) {
    ++drops_[port][static_cast<size_t>(reason)];
    ++totals_.dropped[static_cast<size_t>(reason)];
    packet->drop(packet, reason);
}

uint32_t LeafSpine::spine_of(uint32_t source, uint32_t destination, uint8_t plane, uint16_t entropy) const {
    const size_t row = size_t{plane} * topology_.leaves;
    const uint64_t mask =
        spine_masks_[row + topology_.leaf_of(source)] & spine_masks_[row + topology_.leaf_of(destination)];
    const auto count = static_cast<uint32_t>(std::popcount(mask));
    if (count == 0) {
        return no_spine;
    }
    const uint64_t flow = mix64(ecmp_seed_ + (uint64_t{source} << 32 | destination));
    const uint64_t hash = mix64(flow + (uint64_t{plane} << 16 | entropy) * golden_gamma);
    const uint32_t choice = scale_to(static_cast<uint32_t>(hash >> 32), count);
    return count == topology_.spines ? choice : select_bit(mask, choice);
}

void LeafSpine::route(FabricPacket* packet) {
    if (packet->destination >= topology_.devices) {
        drop(packet, packet->fabric_port, DropReason::no_route);
        return;
    }
    const uint32_t leaf = topology_.leaf_of(packet->source);
    if (leaf == topology_.leaf_of(packet->destination)) {
        forward(packet, topology_.leaf_to_device(packet->destination, packet->plane),
                {leave_link<arrive_at_device>, expect_at_device});
        return;
    }
    const uint32_t spine = spine_of(packet->source, packet->destination, packet->plane, packet->entropy);
    if (spine == no_spine) {
        drop(packet, packet->fabric_port, DropReason::no_route);
        return;
    }
    packet->fabric_spine = static_cast<uint16_t>(spine);
    forward(packet, topology_.leaf_to_spine(leaf, spine, packet->plane),
            {leave_link<arrive_at_spine>, expect_at_spine});
}

void LeafSpine::corrupt_if(FabricPacket* packet, bool hit) {
    totals_.corrupted += hit && !packet->corrupt ? 1 : 0;
    packet->corrupt = packet->corrupt || hit;
}

// A fault on a link or end to end. A duplicate is made here and shares no other fault with its original.
void LeafSpine::suffer(FabricPacket* packet, const FaultInjector::Verdict& verdict,
                       EventQueue::Function arrive) {
    if (verdict.drop) {
        drop(packet, packet->fabric_port, *verdict.drop);
        return;
    }
    FabricPacket* copy = nullptr;
    if (verdict.duplicate) {
        copy = packet->clone != nullptr ? packet->clone(packet) : nullptr;
        ++(copy != nullptr ? totals_.duplicated : totals_.not_duplicated);
    }
    corrupt_if(packet, verdict.corrupt);
    if (verdict.delay_ps != 0) {
        ++totals_.delayed;
        queue_.schedule(queue_.now_ps() + verdict.delay_ps,
                        tie_break(tie_seed_, topology_.ports(), ++delayed_ties_), arrive, this,
                        argument_of(packet));
    } else {
        arrive(this, argument_of(packet));
    }
    if (copy != nullptr) {
        arrive(this, argument_of(copy));
    }
}

FabricPacket* LeafSpine::packet_of(uint64_t argument) {
    return reinterpret_cast<FabricPacket*>(static_cast<uintptr_t>(argument));
}

void LeafSpine::arrive_at_first_leaf(void* object, uint64_t argument) {
    auto& fabric = *static_cast<LeafSpine*>(object);
    FabricPacket* packet = packet_of(argument);
    if (fabric.injector_.active()) {
        fabric.suffer(packet, fabric.injector_.judge(*packet), turn);
    } else {
        fabric.route(packet);
    }
}

// The ports that an arriving packet comes from and, where its way does not depend on a hash, goes to.
void LeafSpine::expect_at_first_leaf(void* object, uint64_t argument) {
    const auto& fabric = *static_cast<const LeafSpine*>(object);
    __builtin_prefetch(&fabric.ports_[packet_of(argument)->fabric_port]);
}

void LeafSpine::expect_at_spine(void* object, uint64_t argument) {
    const auto& fabric = *static_cast<const LeafSpine*>(object);
    const FabricPacket& packet = *packet_of(argument);
    __builtin_prefetch(&fabric.ports_[packet.fabric_port]);
    __builtin_prefetch(&fabric.ports_[fabric.topology_.spine_to_leaf(
        fabric.topology_.leaf_of(packet.destination), packet.fabric_spine, packet.plane)]);
}

void LeafSpine::expect_at_last_leaf(void* object, uint64_t argument) {
    const auto& fabric = *static_cast<const LeafSpine*>(object);
    const FabricPacket& packet = *packet_of(argument);
    __builtin_prefetch(&fabric.ports_[packet.fabric_port]);
    __builtin_prefetch(&fabric.ports_[fabric.topology_.leaf_to_device(packet.destination, packet.plane)]);
}

void LeafSpine::expect_at_device(void* object, uint64_t argument) {
    const auto& fabric = *static_cast<const LeafSpine*>(object);
    const FabricPacket* const packet = packet_of(argument);
    __builtin_prefetch(&fabric.ports_[packet->fabric_port]);
    const FabricReceiver& receiver = fabric.receivers_[packet->destination];
    if (receiver.expect != nullptr) {
        receiver.expect(receiver.object, packet);
    }
}

void LeafSpine::turn(void* object, uint64_t argument) {
    static_cast<LeafSpine*>(object)->route(packet_of(argument));
}

void LeafSpine::arrive_at_spine(void* object, uint64_t argument) {
    auto& fabric = *static_cast<LeafSpine*>(object);
    FabricPacket* packet = packet_of(argument);
    const Topology& topology = fabric.topology_;
    fabric.forward(
        packet,
        topology.spine_to_leaf(topology.leaf_of(packet->destination), packet->fabric_spine, packet->plane),
        {leave_link<arrive_at_last_leaf>, expect_at_last_leaf});
}

void LeafSpine::arrive_at_last_leaf(void* object, uint64_t argument) {
    auto& fabric = *static_cast<LeafSpine*>(object);
    FabricPacket* packet = packet_of(argument);
    fabric.forward(packet, fabric.topology_.leaf_to_device(packet->destination, packet->plane),
                   {leave_link<arrive_at_device>, expect_at_device});
}

void LeafSpine::arrive_at_device(void* object, uint64_t argument) {
    auto& fabric = *static_cast<LeafSpine*>(object);
    FabricPacket* packet = packet_of(argument);
    const FabricReceiver& receiver = fabric.receivers_[packet->destination];
    if (receiver.deliver == nullptr) {
        fabric.drop(packet, packet->fabric_port, DropReason::no_route);  // nobody is attached there
        return;
    }
    ++fabric.totals_.delivered;
    fabric.totals_.delivered_bytes += packet->size_bytes;
    receiver.deliver(receiver.object, packet);
}

PortStatistics LeafSpine::port_statistics(uint32_t number) const {
    const OutputPort& port = ports_.at(number);
    return {port.packets,
            port.bytes,
            port.ecn_marks,
            clock_.bytes(port.max_backlog_ps),
            port.busy_ps,
            drops_[number],
            trim_queues_.empty() ? 0 : trim_queues_[number].trimmed};
}

}  // namespace plait::sim
