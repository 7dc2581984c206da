// The device: engines, memory, host interface and firmware cores, and the HAL that its firmware runs on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <plait/engines/spray.hpp>
#include <plait/firmware/receive_pipe.hpp>
#include <plait/sim/fabric/leaf_spine.hpp>
#include <plait/sim/fabric/scale_up.hpp>
#include <plait/sim/models/device_firmware.hpp>
#include <plait/sim/models/encode_engine.hpp>
#include <plait/sim/models/engine_blocks.hpp>
#include <plait/sim/models/engine_events.hpp>
#include <plait/sim/models/engine_memory.hpp>
#include <plait/sim/models/firmware_cores.hpp>
#include <plait/sim/models/host_interface.hpp>
#include <plait/sim/models/host_memory.hpp>
#include <plait/sim/models/packet_memory.hpp>
#include <plait/sim/models/parameters.hpp>
#include <plait/sim/models/plane_ports.hpp>
#include <plait/sim/models/reduce_engine.hpp>
#include <plait/sim/models/scale_up_port.hpp>
#include <plait/sim/models/spray_port.hpp>
#include <plait/sim/models/statistics.hpp>
#include <plait/sim/models/timers.hpp>
#include <systemc>

namespace plait::sim {

/// Indices and choices of a row's packet: WorkPart::size when it is sent or received.
inline uint32_t row_entries(const firmware::Packet& packet) {
    const bool is_row = packet.opcode == firmware::Opcode::mp_ep_row;
    return is_row ? uint32_t{packet.row.index_count} + packet.row.choice_count : 0;
}

/// What a device is connected to; all of it outlives the device.
struct DeviceSurroundings {
    EventQueue& queue;
    LeafSpine& fabric;
    ScaleUpSwitch& scale_up;
    PacketPools& pools;
    uint32_t device = 0;  ///< Number in the fabric.
    uint8_t local = 0;    ///< Port of the scale-up switch.
    bool virtual_payload = false;
    uint64_t seed = 1;
    const EngineBlocksFactory* make_blocks = nullptr;  ///< Null: all engines are C++ alone.
};

/// Two faces: to the host (registers, memory, interrupts; at the device's end of the host interface), and the
/// HAL. Handlers of firmware run when their event happens; their commands leave when the firmware core would
/// have finished them.
class DeviceModel : public sc_core::sc_module, private EngineEvents {
  public:
    DeviceModel(sc_core::sc_module_name module_name, const DeviceSurroundings& surroundings,
                const DeviceParameters& parameters, const FirmwareFactory& make_firmware);
    ~DeviceModel() override;

    // The host's side. Latencies of register accesses are the bridge's business.

    /// A register write has reached the device.
    void write_register(uint32_t offset, uint32_t value);
    /// A register read has reached the device. All ones when it is gone.
    uint32_t read_register(uint32_t offset);
    HostMemory& host_memory() { return memory_; }
    uint64_t host_latency_ps() const { return host_.latency_ps(); }
    void on_interrupt(HostInterface::InterruptSink sink) { host_.on_interrupt(sink); }

    /// The device dies: registers read all ones, nothing more reaches host memory, its ports go down (and are
    /// seen to). For good.
    void kill();
    bool is_dead() const { return dead_; }

    DeviceFirmware& firmware() { return *firmware_; }
    const firmware::DeviceConfig& config() const { return config_; }
    DeviceStatistics statistics() const;
    /// Null when the costs of handlers are declared.
    const CostSamples* cost_samples() const { return cores_.samples(); }
    EventQueue& queue() { return queue_; }
    /// Null when all engines are C++ alone.
    const EngineBlocks* engine_blocks() const { return blocks_.get(); }
    PacketMemory& packet_memory() { return packet_memory_; }
    ReduceEngine& reduce_engine() { return reduce_; }

    // For firmware that runs on a processor of its own.

    /// State of the receive pipe and of the spray selectors, which that firmware works on.
    EngineMemory& engine_memory() { return engine_memory_; }
    /// Instructions since the last command, before the next one: of the event being handled, or, if that
    /// command sends a data packet, of sending it. Without effect when costs are declared.
    void charge(uint64_t instructions) { cores_.charge(instructions); }
    void charge_send(uint64_t instructions) { cores_.charge_send(instructions); }
    /// Firmware has taken back the acceptance of the packet whose event is being handled.
    void acceptance_withdrawn() { accepted_ = false; }

    // HAL: see hal/hal.hpp.

    uint64_t now_ns() const { return queue_.now_ps() / 1000; }
    void set_timer(firmware::TimerId timer, uint64_t time_ns);
    void cancel_timer(firmware::TimerId timer) {
        cores_.add(WorkPart::timer);
        timers_.cancel(timer);
    }
    void send(const firmware::Packet& packet, const firmware::Payload& payload);
    void begin_send() {}
    firmware::Draft& draft() { return *std::construct_at(&draft_); }
    void send_draft() { send(draft_.packet, draft_.payload); }
    bool port_up(uint8_t plane) const { return planes_.port_up(plane); }
    void fetch(firmware::FetchTag tag, firmware::Segment segment);
    void place(BufferId buffer, uint32_t offset, firmware::Segment segment, bool release = false);
    void write(uint64_t device_address, std::span<const uint8_t> bytes);
    void interrupt(uint32_t bits);
    void retain(BufferId buffer) {
        cores_.add(WorkPart::reference);
        packet_memory_.retain(buffer);
    }
    void release(BufferId buffer) {
        cores_.add(WorkPart::reference);
        packet_memory_.release(buffer, ready_ps());
    }
    void scale_up(uint8_t targets, const firmware::ScaleUpHeader& header, std::span<const uint32_t> index,
                  const firmware::Payload& payload, bool notify);
    void reduce_open(uint32_t sum, const firmware::Reduction& reduction);
    void reduce_weigh(uint32_t sum, std::span<const float> weights);
    void reduce_add(uint32_t sum, uint8_t position, BufferId buffer);
    void reduce_read(uint32_t sum, uint8_t position, firmware::Segment row);
    void reduce_skip(uint32_t sum, uint8_t position);
    void reduce_close(uint32_t sum);
    uint32_t take_non_finite(uint32_t counter) { return non_finite_.take(counter); }
    void window_open(uint32_t qpn, uint32_t peer_device, uint32_t first_psn, uint16_t packets,
                     uint16_t mtu_bytes);
    void window_close(uint32_t qpn);
    void window_refuse(uint32_t qpn, uint32_t psn);
    const engines::RxWindow& window(uint32_t qpn);
    engines::SpraySelector& spray(uint32_t qpn) {
        const auto sprays = engine_memory_.sprays();
        return sprays[qpn & (sprays.size() - 1)];
    }
    SprayPort spray_port(uint32_t qpn, engines::SpraySelector& selector) {
        return {selector, qpn, blocks(EngineBlock::spray), choice_cycles_};
    }
    void count_drop(regmap::DropReason reason) {
        ++counters_.drops[static_cast<size_t>(reason)];
        firmware_->on_drop(reason);
    }

  private:
    struct Fetch {
        firmware::FetchTag tag;
        firmware::Segment segment;
    };
    struct RowRead {
        uint32_t sum;
        uint8_t position;
        BufferId buffer;
    };
    // Payload of a command that is on its way: when it is in the device, and what it is.
    struct Gathered {
        PayloadSlice slice;  // holds a reference of the block
        BufferId held = 0;   // and of the buffer it lies in
        uint64_t ready_ps = 0;
    };

    // EngineEvents
    void plane_started(uint8_t plane, uint32_t payload_bytes) override;
    void plane_arrived(PlanePacket& packet) override;
    void plane_changed(uint8_t plane, bool up) override;
    void frame_arrived(ScaleUpFrame& frame, BufferId buffer) override;
    void frames_sent(uint32_t tag) override;
    void scale_up_changed(uint8_t local, bool up) override;
    void reduced(uint32_t sum, BufferId result) override;
    void timer_fired(firmware::TimerId timer) override;
    void plane_expected(const PlanePacket& packet) override;
    void frame_expected(const ScaleUpFrame& frame) override;
    void reduction_expected(uint32_t sum) override;

    static void fetched(void* object, uint64_t argument);
    static void row_read(void* object, uint64_t argument);
    void place_bytes(BufferId buffer, uint32_t offset, firmware::Segment segment);

    uint64_t ready_ps() const { return std::max(cores_.ready_ps(), queue_.now_ps()); }
    Gathered gather(const firmware::Payload& payload, uint32_t length_bytes, uint64_t issued_ps);
    PayloadBlock* take_block(std::span<const firmware::Segment> segments,
                             std::span<const uint8_t> inline_bytes, uint32_t length_bytes);
    bool survives_corruption(PlanePacket& packet);
    void deliver_data(PlanePacket& packet, const engines::RxVerdict& verdict);
    EngineBlocks* blocks(EngineBlock block) const {
        return blocks_ != nullptr && blocks_->has(block) ? blocks_.get() : nullptr;
    }
    void credit_plane(uint8_t plane, uint32_t bytes);
    uint64_t departs_ps(uint64_t issued_ps);
    void ask_window(const WindowCommand& command);
    BlockCycles window_takes(const WindowCommand& command, const engines::RxVerdict& verdict);

    const firmware::DeviceConfig config_;
    EventQueue& queue_;
    LeafSpine& fabric_;
    ScaleUpSwitch& network_;
    PacketPools& pools_;
    const uint32_t device_;
    const uint8_t local_;
    const bool virtual_payload_;
    const std::unique_ptr<EngineBlocks> blocks_;  // null: all engines are C++ alone
    const CycleClock engine_clock_;
    EngineTimer windows_;
    EngineTimer sprays_;
    BlockCycles choice_cycles_ = spray_cycles;  // of the path that was chosen last
    HostMemory memory_;
    HostInterface host_;
    FirmwareCores cores_;
    PacketMemory packet_memory_;
    PlanePorts planes_;
    ScaleUpPort scale_up_;
    NonFiniteCounters non_finite_;  // before the engines that count
    EncodeEngine encoder_;
    ReduceEngine reduce_;
    Timers timers_;
    EngineMemory engine_memory_;
    firmware::ReceivePipe receive_pipe_;
    Random bit_errors_;
    ObjectPool<Fetch> fetches_;
    ObjectPool<RowRead> row_reads_;
    firmware::Draft draft_;
    DeviceStatistics counters_;
    bool accepted_ = false;  // the packet being handled was taken by the window and not refused since
    bool dead_ = false;
    std::unique_ptr<DeviceFirmware> firmware_;  // last: it may use the HAL when it is made
};

}  // namespace plait::sim
