#include <algorithm>
#include <plait/sim/fabric/random.hpp>
#include <plait/sim/fabric/scale_up.hpp>
#include <stdexcept>
#include <utility>

namespace plait::sim {
namespace {

const ScaleUpConfig& checked(const ScaleUpConfig& config) {
    if (const std::string message = ScaleUpSwitch::validate(config); !message.empty()) {
        throw std::invalid_argument(message);
    }
    return config;
}

uint64_t argument_of(ScaleUpPacket* packet) { return reinterpret_cast<uintptr_t>(packet); }
ScaleUpPacket* packet_of(uint64_t argument) {
    return reinterpret_cast<ScaleUpPacket*>(static_cast<uintptr_t>(argument));
}

}  // namespace

std::string ScaleUpSwitch::validate(const ScaleUpConfig& config) {
    if (config.ports == 0 || config.ports > 1024) {
        return "the scale-up switch has " + std::to_string(config.ports) + " ports, not 1 to 1024";
    }
    if (!(config.rate_gbytes_per_s >= 0.125 && config.rate_gbytes_per_s <= 12'500)) {
        return "rate_gbytes_per_s is " + std::to_string(config.rate_gbytes_per_s) + ", not 0.125 to 12500";
    }
    if (config.latency_ns > 1'000'000'000) {
        return "latency_ns is more than a second";
    }
    if (config.credit_bytes == 0 || config.credit_bytes > 1U << 30) {
        return "credit_bytes is " + std::to_string(config.credit_bytes) + ", not 1 to " +
               std::to_string(1U << 30);
    }
    return {};
}

ScaleUpSwitch::ScaleUpSwitch(EventQueue& queue, const ScaleUpConfig& config)
    : queue_(queue),
      config_(checked(config)),
      clock_(config.rate_gbytes_per_s * 8),
      latency_ps_(config.latency_ns * 1000),
      egresses_(config.ports),
      outputs_(config.ports),
      pairs_(size_t{config.ports} * config.ports),
      receivers_(config.ports),
      drops_(config.ports) {}

void ScaleUpSwitch::attach(uint16_t port, const ScaleUpReceiver& receiver) {
    if (receiver.deliver == nullptr) {
        throw std::invalid_argument("a device cannot be attached without a deliver function");
    }
    receivers_.at(port) = receiver;
}

ScaleUpSwitch::Pair& ScaleUpSwitch::pair_of(const ScaleUpPacket& packet) {
    return pairs_[size_t{packet.source} * config_.ports + packet.destination];
}

const ScaleUpSwitch::Pair& ScaleUpSwitch::pair_at(uint16_t source, uint16_t destination) const {
    if (source >= config_.ports || destination >= config_.ports) {
        throw std::out_of_range("port " + std::to_string(std::max(source, destination)) + " does not exist");
    }
    return pairs_[size_t{source} * config_.ports + destination];
}

uint64_t ScaleUpSwitch::waiting_bytes(uint16_t source, uint16_t destination) const {
    return pair_at(source, destination).waiting_bytes;
}

uint64_t ScaleUpSwitch::outstanding_bytes(uint16_t source, uint16_t destination) const {
    return pair_at(source, destination).outstanding_bytes;
}

uint32_t ScaleUpSwitch::tie(uint32_t server) {
    return tie_break(config_.seed, config_.node << 16 | server, ++ties_);
}

void ScaleUpSwitch::send(ScaleUpPacket* packet, uint64_t ready_ps) {
    pair_at(packet->source, packet->destination);  // throws when one does not exist
    if (packet->size_bytes == 0 || packet->size_bytes > config_.credit_bytes) {
        throw std::invalid_argument("a packet of " + std::to_string(packet->size_bytes) +
                                    " bytes does not fit the scale-up switch's " +
                                    std::to_string(config_.credit_bytes) + " bytes of credit");
    }
    if (packet->drop == nullptr) {
        throw std::invalid_argument("a packet without a drop function cannot be sent");
    }
    ++totals_.offered;
    packet->next = nullptr;
    packet->ready_ps = ready_ps;
    Pair& pair = pair_of(*packet);
    if (pair.head == nullptr && pair.outstanding_bytes + packet->size_bytes <= config_.credit_bytes) {
        start(pair, packet);
        return;
    }
    ++totals_.blocked;
    pair.waiting_bytes += packet->size_bytes;
    (pair.head == nullptr ? pair.head : pair.tail->next) = packet;
    pair.tail = packet;
}

// Takes the credits and a place on the source's link.
void ScaleUpSwitch::start(Pair& pair, ScaleUpPacket* packet) {
    pair.outstanding_bytes += packet->size_bytes;
    OutputPort& egress = egresses_[packet->source];
    packet->source_epoch = egress.epoch;
    packet->destination_epoch = outputs_[packet->destination].epoch;
    const Slot slot = egress.enqueue(std::max(packet->ready_ps, queue_.now_ps()),
                                     clock_.time_ps(packet->size_bytes), packet->size_bytes);
    queue_.schedule(slot.end_ps, tie(packet->source), {leave_source, expect_leaving}, this,
                    argument_of(packet));
}

void ScaleUpSwitch::return_credits(const ScaleUpPacket& packet) {
    Pair& pair = pair_of(packet);
    pair.outstanding_bytes -= packet.size_bytes;
    while (pair.head != nullptr && pair.outstanding_bytes + pair.head->size_bytes <= config_.credit_bytes) {
        ScaleUpPacket* next = std::exchange(pair.head, pair.head->next);
        next->next = nullptr;
        pair.waiting_bytes -= next->size_bytes;
        start(pair, next);
    }
}

bool ScaleUpSwitch::lost(const ScaleUpPacket& packet) const {
    return egresses_[packet.source].lost_since(packet.source_epoch) ||
           outputs_[packet.destination].lost_since(packet.destination_epoch);
}

void ScaleUpSwitch::drop(ScaleUpPacket* packet) {
    ++totals_.dropped;
    ++drops_[packet->destination];
    packet->drop(packet, DropReason::link_down);
}

void ScaleUpSwitch::leave_source(void* object, uint64_t argument) {
    auto& self = *static_cast<ScaleUpSwitch*>(object);
    ScaleUpPacket* packet = packet_of(argument);
    if (self.lost(*packet)) {
        self.return_credits(*packet);
        self.drop(packet);
        return;
    }
    // All packets wait the same latency, so the order here is the order in the output's queue.
    const Slot slot = self.outputs_[packet->destination].enqueue(
        self.queue_.now_ps() + self.latency_ps_, self.clock_.time_ps(packet->size_bytes), packet->size_bytes);
    self.queue_.schedule(slot.end_ps, self.tie(self.config_.ports + packet->destination),
                         {arrive, expect_arrival}, object, argument);
    if (packet->sent != nullptr) {
        packet->sent(packet);
    }
}

void ScaleUpSwitch::arrive(void* object, uint64_t argument) {
    auto& self = *static_cast<ScaleUpSwitch*>(object);
    ScaleUpPacket* packet = packet_of(argument);
    self.return_credits(*packet);
    const ScaleUpReceiver& receiver = self.receivers_[packet->destination];
    // A packet that has left its source no longer depends on it.
    if (self.outputs_[packet->destination].lost_since(packet->destination_epoch) ||
        receiver.deliver == nullptr) {
        self.drop(packet);
        return;
    }
    ++self.totals_.delivered;
    self.totals_.delivered_bytes += packet->size_bytes;
    receiver.deliver(receiver.object, packet);
}

void ScaleUpSwitch::expect_leaving(void* object, uint64_t argument) {
    const auto& self = *static_cast<const ScaleUpSwitch*>(object);
    const ScaleUpPacket* const packet = packet_of(argument);
    __builtin_prefetch(&self.egresses_[packet->source]);
    __builtin_prefetch(&self.outputs_[packet->destination]);
    const ScaleUpReceiver& sender = self.receivers_[packet->source];
    if (sender.expect != nullptr) {
        sender.expect(sender.object, packet);
    }
}

void ScaleUpSwitch::expect_arrival(void* object, uint64_t argument) {
    const auto& self = *static_cast<const ScaleUpSwitch*>(object);
    const ScaleUpPacket* const packet = packet_of(argument);
    __builtin_prefetch(&self.pairs_[size_t{packet->source} * self.config_.ports + packet->destination]);
    const ScaleUpReceiver& receiver = self.receivers_[packet->destination];
    if (receiver.expect != nullptr) {
        receiver.expect(receiver.object, packet);
    }
}

void ScaleUpSwitch::set_port(uint16_t port, bool up, bool silent) {
    if (up == outputs_.at(port).up()) {
        return;
    }
    egresses_[port].set_up(up, queue_.now_ps());
    outputs_[port].set_up(up, queue_.now_ps());

    // What waits from or to the port is taken out first: the callbacks may send.
    ScaleUpPacket* waiting = nullptr;
    ScaleUpPacket** end = &waiting;
    for (uint32_t other = 0; !up && other < config_.ports; ++other) {
        for (const size_t index :
             {size_t{other} * config_.ports + port, size_t{port} * config_.ports + other}) {
            Pair& pair = pairs_[index];
            if (pair.head != nullptr) {
                *end = pair.head;
                end = &pair.tail->next;
                pair.head = nullptr;
                pair.waiting_bytes = 0;
            }
        }
    }
    while (waiting != nullptr) {
        drop(std::exchange(waiting, waiting->next));
    }
    for (uint16_t other = 0; !silent && other < config_.ports; ++other) {
        if (other != port && receivers_[other].port_change != nullptr) {
            receivers_[other].port_change(receivers_[other].object, port, up);
        }
    }
}

PortStatistics ScaleUpSwitch::statistics(const OutputPort& port) const {
    return {port.packets, port.bytes, port.ecn_marks, clock_.bytes(port.max_backlog_ps), port.busy_ps, {}};
}

PortStatistics ScaleUpSwitch::egress_statistics(uint16_t port) const {
    return statistics(egresses_.at(port));
}

PortStatistics ScaleUpSwitch::output_statistics(uint16_t port) const {
    PortStatistics result = statistics(outputs_.at(port));
    result.drops[static_cast<size_t>(DropReason::link_down)] = drops_[port];
    return result;
}

}  // namespace plait::sim
