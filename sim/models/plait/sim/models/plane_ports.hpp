// The device's ports to the planes: transmit and receive engines.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <plait/sim/fabric/leaf_spine.hpp>
#include <plait/sim/fabric/random.hpp>
#include <plait/sim/models/engine_blocks.hpp>
#include <plait/sim/models/engine_events.hpp>
#include <plait/sim/models/packet_memory.hpp>
#include <plait/sim/models/parameters.hpp>
#include <plait/sim/models/servers.hpp>
#include <plait/sim/models/statistics.hpp>
#include <systemc>

namespace plait::sim {

/// Data packets wait in a queue of their plane and go to the fabric when the wire is free; a packet without a
/// PSN goes to the fabric when it is ready and so passes the data that waits.
class PlanePorts : public sc_core::sc_module {
  public:
    /// `blocks` may be null; its ICRC then sees every frame that leaves or arrives, which must have bytes.
    PlanePorts(sc_core::sc_module_name module_name, EventQueue& queue, LeafSpine& fabric, PacketPools& pools,
               PacketMemory& memory, uint32_t device, const EngineParameters& parameters, uint64_t seed,
               EngineEvents& events, EngineBlocks* blocks);
    ~PlanePorts() override;

    /// Sends `header` by header.plane; takes over one reference of the payload's block and of `held` (0:
    /// none), which is given back when the packet starts. `ready_ps`: header and payload are in the transmit
    /// engine.
    void send(const firmware::Packet& header, const PayloadSlice& payload, firmware::BufferId held,
              uint64_t ready_ps);

    /// When a packet that is arriving now has passed the receive pipe, but for the receive window.
    uint64_t received_ps(const PlanePacket& packet);

    /// Announced state of the device's own port: a silent failure does not show.
    bool port_up(uint8_t plane) const { return plane < planes_.size() && planes_[plane].up; }

    /// The device is gone: what waits is given up.
    void cut();
    void report(DeviceStatistics& statistics) const;

  private:
    struct Waiting {
        uint64_t ready_ps = 0;  // beside the packet, which is in no cache while it waits
        PlanePacket* packet = nullptr;
    };
    struct Plane {
        Ring<Waiting> waiting;  // by the time they are ready
        uint64_t armed_ps = EventQueue::never;
        bool up = true;
    };

    static void start_data(void* object, uint64_t plane);
    static void expect_start(void* object, uint64_t plane);
    static void start_control(void* object, uint64_t packet);
    static void deliver(void* object, FabricPacket* packet);
    static void expect(void* object, const FabricPacket* packet);
    static void link_change(void* object, uint8_t plane, bool up);
    static void drop(FabricPacket* packet, sim::DropReason reason);
    static FabricPacket* clone(const FabricPacket* packet);

    static void insert(Plane& plane, const Waiting& packet);
    void arm(uint8_t plane);
    void free(PlanePacket* packet);
    uint64_t icrc_tail_ps(const firmware::Packet& header, const PayloadSlice& payload);
    uint32_t tie() { return tie_break(seed_, device_, ++ties_); }

    EventQueue& queue_;
    LeafSpine& fabric_;
    PacketPools& pools_;
    PacketMemory& memory_;
    EngineEvents& events_;
    EngineBlocks* const blocks_;
    const uint32_t device_;
    const uint64_t seed_;
    const CycleClock clock_;
    const uint64_t transmit_latency_ps_;
    const uint64_t receive_latency_ps_;
    ServerGroup receive_pipes_;
    std::vector<Plane> planes_;
    uint64_t ties_ = 0;
    PacketCount data_sent_;
    PacketCount control_sent_;
    uint64_t lost_ = 0;
};

}  // namespace plait::sim
