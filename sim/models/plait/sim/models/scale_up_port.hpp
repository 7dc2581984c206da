// The device's port to the scale-up switch of its node, and the way back into itself.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <plait/sim/fabric/scale_up.hpp>
#include <plait/sim/models/engine_blocks.hpp>
#include <plait/sim/models/engine_events.hpp>
#include <plait/sim/models/packet_memory.hpp>
#include <plait/sim/models/parameters.hpp>
#include <plait/sim/models/servers.hpp>
#include <plait/sim/models/statistics.hpp>
#include <systemc>

namespace plait::sim {

/// A frame leaves when its payload is there: one whose payload still comes from the host may be overtaken by
/// later ones. The network is lossless: a frame that finds no packet memory waits at the receiver, and those
/// behind it too.
class ScaleUpPort : public sc_core::sc_module {
  public:
    ScaleUpPort(sc_core::sc_module_name module_name, EventQueue& queue, ScaleUpSwitch& network,
                PacketPools& pools, PacketMemory& memory, uint8_t local, const EngineParameters& parameters,
                EngineEvents& events, EngineBlocks* blocks);
    ~ScaleUpPort() override;

    /// Sends a copy to each device whose bit is set in `targets`. `index` has an entry a target, or is empty.
    /// FirmwareError when there is no target or one that does not exist, or another number of indices.
    /// The caller keeps its references of payload and `held` (0: none). `ready_ps`: header and payload are in
    /// the device. With `notify`, frames_sent(header.tag) follows when no copy is left in the device, one
    /// that was lost included.
    void send(uint8_t targets, const firmware::ScaleUpHeader& header, std::span<const uint32_t> index,
              const PayloadSlice& payload, firmware::BufferId held, uint64_t ready_ps, bool notify);

    /// When a frame that is arriving now has passed the receive engine.
    uint64_t received_ps(const ScaleUpFrame& frame);

    void cut();
    void report(DeviceStatistics& statistics) const;

    /// Bytes on the link: header, choices, control header and payload.
    static uint32_t frame_bytes(const firmware::ScaleUpHeader& header, uint32_t payload_bytes);

  private:
    static void all_sent(void* object, uint64_t copies);
    static void enter(void* object, uint64_t frame);
    static void arrive_back(void* object, uint64_t frame);
    static void room(void* object, uint64_t argument);
    static void deliver(void* object, ScaleUpPacket* packet);
    static void expect(void* object, const ScaleUpPacket* packet);
    static void expect_back(void* object, uint64_t frame);
    static void port_change(void* object, uint16_t port, bool up);
    static void sent(ScaleUpPacket* packet);
    static void drop(ScaleUpPacket* packet, sim::DropReason reason);

    void arrived(ScaleUpFrame* frame);
    bool take(ScaleUpFrame* frame);
    void count_sent(const ScaleUpFrame& frame);
    void free(ScaleUpFrame* frame);

    EventQueue& queue_;
    ScaleUpSwitch& network_;
    PacketPools& pools_;
    PacketMemory& memory_;
    EngineEvents& events_;
    EngineBlocks* const blocks_;
    const uint8_t local_;
    const CycleClock clock_;
    const uint64_t transmit_latency_ps_;
    const uint64_t receive_latency_ps_;
    EngineTimer forward_;
    Server loopback_;
    ServerGroup receive_pipes_;
    Ring<ScaleUpFrame*> waiting_;  // for packet memory
    ObjectPool<LeavingCopies> leaving_;
    bool cut_ = false;
    PacketCount data_sent_;
    PacketCount control_sent_;
    PacketCount loopback_sent_;
    uint64_t lost_ = 0;
    uint64_t waited_ = 0;
};

}  // namespace plait::sim
