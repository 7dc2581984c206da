#include <plait/sim/models/plane_ports.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include <plait/firmware/wire_address.hpp>
#include <plait/firmware/wire_mp.hpp>

namespace plait::sim {

namespace {
uint64_t argument_of(PlanePacket* packet) { return reinterpret_cast<uint64_t>(packet); }
PlanePacket* packet_of(uint64_t argument) { return reinterpret_cast<PlanePacket*>(argument); }
}  // namespace

PlanePorts::PlanePorts(sc_core::sc_module_name module_name, EventQueue& queue, LeafSpine& fabric,
                       PacketPools& pools, PacketMemory& memory, uint32_t device,
                       const EngineParameters& parameters, uint64_t seed, EngineEvents& events,
                       EngineBlocks* blocks)
    : sc_module(module_name),
      queue_(queue),
      fabric_(fabric),
      pools_(pools),
      memory_(memory),
      events_(events),
      blocks_(blocks),
      device_(device),
      seed_(hash_combine(seed, hash_name("plane ports"))),
      clock_(parameters.clock_ghz, parameters.bytes_per_cycle),
      transmit_latency_ps_(
          beside_engines_ps(parameters.transmit_latency_ns * 1000, icrc_tail_cycles * clock_.cycle_ps())),
      receive_latency_ps_(beside_engines_ps(parameters.receive_latency_ns * 1000,
                                            (icrc_tail_cycles + window_cycles.latency) * clock_.cycle_ps())),
      receive_pipes_(parameters.scale_out_pipes),
      planes_(fabric.config().planes) {
    fabric.attach(device, {&PlanePorts::deliver, &PlanePorts::link_change, this, &PlanePorts::expect});
}

PlanePorts::~PlanePorts() { cut(); }

void PlanePorts::send(const firmware::Packet& header, const PayloadSlice& payload, firmware::BufferId held,
                      uint64_t ready_ps) {
    PlanePacket* const packet = pools_.packets.take();
    static_cast<FabricPacket&>(*packet) = FabricPacket{};
    packet->drop = &PlanePorts::drop;
    packet->clone = &PlanePorts::clone;
    packet->size_bytes = wire_bytes(firmware::frame_bytes(header));
    packet->destination = header.destination_device;
    packet->entropy = header.entropy;
    packet->plane = header.plane;
    firmware::copy_used(header, packet->header);
    packet->payload = payload;
    packet->held = held;
    packet->owner = this;
    const uint64_t complete_ps = ready_ps + clock_.time_ps(packet->size_bytes) + transmit_latency_ps_ +
                                 icrc_tail_ps(packet->header, payload);
    if (!firmware::is_data(header.opcode)) {
        packet->control = true;
        control_sent_.add(packet->size_bytes);
        queue_.schedule(complete_ps, tie(), &PlanePorts::start_control, this, argument_of(packet));
        return;
    }
    data_sent_.add(packet->size_bytes);
    Plane& plane = planes_[header.plane];
    insert(plane, {complete_ps, packet});
    if (plane.waiting.front().packet == packet) {
        arm(header.plane);
    }
}

// The packet that is complete first leaves first: one that waits for its payload must not keep the port from
// others.
void PlanePorts::insert(Plane& plane, const Waiting& packet) {
    plane.waiting.push(packet);
    for (size_t i = plane.waiting.size() - 1; i > 0 && plane.waiting[i - 1].ready_ps > packet.ready_ps; --i) {
        std::swap(plane.waiting[i - 1], plane.waiting[i]);
    }
}

void PlanePorts::arm(uint8_t number) {
    Plane& plane = planes_[number];
    const uint64_t time_ps = std::max(
        {plane.waiting.front().ready_ps, fabric_.transmit_free_at_ps(device_, number), queue_.now_ps()});
    if (plane.armed_ps > time_ps) {
        plane.armed_ps = time_ps;
        queue_.schedule(time_ps, tie(), {&PlanePorts::start_data, &PlanePorts::expect_start}, this, number);
    }
}

void PlanePorts::start_data(void* object, uint64_t argument) {
    auto& self = *static_cast<PlanePorts*>(object);
    const auto number = static_cast<uint8_t>(argument);
    Plane& plane = self.planes_[number];
    if (plane.armed_ps != self.queue_.now_ps()) {
        return;  // armed for another time since
    }
    plane.armed_ps = EventQueue::never;
    if (plane.waiting.empty()) {
        return;  // cut
    }
    if (self.fabric_.transmit_free_at_ps(self.device_, number) > self.queue_.now_ps()) {
        self.arm(number);  // a control packet took the port
        return;
    }
    PlanePacket* const packet = plane.waiting.front().packet;
    plane.waiting.pop();
    const uint32_t payload_bytes = packet->header.payload_bytes;
    const Slot slot = self.fabric_.transmit(self.device_, packet, self.queue_.now_ps());
    self.memory_.release(packet->held, slot.end_ps);
    packet->held = 0;
    if (!plane.waiting.empty()) self.arm(number);
    self.events_.plane_started(number, payload_bytes);
}

// A packet that waits for its turn does so in no cache.
void PlanePorts::expect_start(void* object, uint64_t argument) {
    const Plane& plane = static_cast<const PlanePorts*>(object)->planes_[argument];
    if (!plane.waiting.empty()) prefetch(plane.waiting.front().packet, 128);
}

void PlanePorts::start_control(void* object, uint64_t argument) {
    auto& self = *static_cast<PlanePorts*>(object);
    PlanePacket* const packet = packet_of(argument);
    const Slot slot = self.fabric_.transmit(self.device_, packet, self.queue_.now_ps());
    self.memory_.release(packet->held, slot.end_ps);
    packet->held = 0;
}

uint64_t PlanePorts::received_ps(const PlanePacket& packet) {
    // Of a trimmed packet the ICRC is gone, and one that was corrupted has been looked at.
    const uint64_t tail_ps = packet.trimmed || packet.corrupt ? icrc_tail_cycles * clock_.cycle_ps()
                                                              : icrc_tail_ps(packet.header, packet.payload);
    return receive_pipes_.take(queue_.now_ps(), queue_.now_ps(), clock_.time_ps(packet.size_bytes)).end_ps +
           receive_latency_ps_ + tail_ps;
}

// How long after its last bytes the ICRC of a packet is known.
uint64_t PlanePorts::icrc_tail_ps(const firmware::Packet& header, const PayloadSlice& payload) {
    if (blocks_ == nullptr) return icrc_tail_cycles * clock_.cycle_ps();
    std::array<uint8_t, firmware::max_frame_bytes> frame;
    const auto addresses =
        firmware::fabric_addresses(header.source_device, header.destination_device, header.plane);
    const std::span<const uint8_t> bytes = payload.length == 0
                                               ? std::span<const uint8_t>()
                                               : std::span(pools_.payload.bytes(payload), payload.length);
    const size_t length = addresses ? firmware::encode_frame(header, *addresses, bytes, frame) : 0;
    return icrc_tail(*blocks_, std::span(frame).first(length)) * clock_.cycle_ps();
}

void PlanePorts::deliver(void* object, FabricPacket* fabric_packet) {
    auto& self = *static_cast<PlanePorts*>(object);
    auto* const packet = static_cast<PlanePacket*>(fabric_packet);
    self.events_.plane_arrived(*packet);
    self.free(packet);
}

void PlanePorts::expect(void* object, const FabricPacket* packet) {
    static_cast<const PlanePorts*>(object)->events_.plane_expected(*static_cast<const PlanePacket*>(packet));
}

void PlanePorts::link_change(void* object, uint8_t plane, bool up) {
    auto& self = *static_cast<PlanePorts*>(object);
    if (self.planes_[plane].up != up) {
        self.planes_[plane].up = up;
        self.events_.plane_changed(plane, up);
    }
}

void PlanePorts::drop(FabricPacket* fabric_packet, sim::DropReason) {
    auto* const packet = static_cast<PlanePacket*>(fabric_packet);
    PlanePorts& sender = *static_cast<PlanePorts*>(packet->owner);
    ++sender.lost_;
    sender.free(packet);
}

FabricPacket* PlanePorts::clone(const FabricPacket* fabric_packet) {
    const auto* const packet = static_cast<const PlanePacket*>(fabric_packet);
    PacketPools& pools = static_cast<PlanePorts*>(packet->owner)->pools_;
    PlanePacket* const copy = pools.packets.take();
    *copy = *packet;
    if (copy->payload.block != nullptr) {
        pools.payload.retain(copy->payload.block);
    }
    return copy;
}

void PlanePorts::free(PlanePacket* packet) {
    if (packet->payload.block != nullptr) {
        pools_.payload.release(packet->payload.block);
    }
    packet->payload = {};
    pools_.packets.give_back(packet);
}

void PlanePorts::cut() {
    for (Plane& plane : planes_) {
        while (!plane.waiting.empty()) {
            PlanePacket* const packet = plane.waiting.front().packet;
            plane.waiting.pop();
            memory_.release(packet->held, queue_.now_ps());
            packet->held = 0;
            free(packet);
        }
    }
}

void PlanePorts::report(DeviceStatistics& statistics) const {
    statistics.scale_out_data_sent = data_sent_;
    statistics.scale_out_control_sent = control_sent_;
    statistics.lost_in_fabric = lost_;
}

}  // namespace plait::sim
