// The link between a device and its host.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <plait/sim/fabric/event_queue.hpp>
#include <plait/sim/models/host_memory.hpp>
#include <plait/sim/models/parameters.hpp>
#include <plait/sim/models/pools.hpp>
#include <plait/sim/models/release_order.hpp>
#include <plait/sim/models/servers.hpp>
#include <plait/sim/models/statistics.hpp>
#include <systemc>

namespace plait::sim {

/// A read takes a request one way, its serialisation on the to-device direction, and the data's way back.
/// Writes (payload, records, interrupts) take their serialisation on the to-host direction and one way; they
/// share one FIFO, so what was posted first is seen first.
class HostInterface : public sc_core::sc_module {
  public:
    /// Where interrupts go: the bits of one interrupt, at the time the host sees it.
    struct InterruptSink {
        void (*raise)(void* object, uint32_t bits) = nullptr;
        void* object = nullptr;
    };

    /// `blocks` may be null; its placement counters decide then when a write may follow placements.
    HostInterface(sc_core::sc_module_name module_name, EventQueue& queue, HostMemory& memory,
                  const HostInterfaceParameters& parameters, EngineBlocks* blocks, uint64_t engine_cycle_ps);

    /// When data of a read issued at `issued_ps` has arrived in the device.
    uint64_t read(uint64_t issued_ps, uint64_t length_bytes);
    /// The same, and that of all reads before it.
    uint64_t fetch(uint64_t issued_ps, uint64_t length_bytes);

    /// Payload to the host, posted at `issued_ps`: end_ps is when it has left the device, and visible_ps()
    /// when the host sees it. The caller moves the bytes.
    Slot place(uint64_t issued_ps, uint64_t length_bytes);
    uint64_t visible_ps(const Slot& slot) const { return slot.end_ps + latency_ps_; }

    /// A small write: the bytes are copied now and are in host memory when the host sees them.
    void write(uint64_t issued_ps, uint64_t device_address, std::span<const uint8_t> bytes);
    void interrupt(uint64_t issued_ps, uint32_t bits);
    void on_interrupt(InterruptSink sink) { sink_ = sink; }

    /// The device is gone: what has not been seen yet never will be. The sink hears `removed`.
    static constexpr uint32_t removed = UINT32_MAX;
    void cut();

    uint64_t latency_ps() const { return latency_ps_; }
    HostMemory& memory() { return memory_; }
    void report(DeviceStatistics& statistics) const;

  private:
    struct Posted {
        uint64_t visible_ps = 0;
        uint64_t device_address = 0;
        uint32_t interrupt_bits = 0;  // an interrupt, not a write, when not 0
        std::vector<uint8_t> bytes;
    };

    static void arrive(void* object, uint64_t argument);
    static void released(void* object, uint64_t time_ps);
    Slot take(uint64_t issued_ps, uint64_t length_bytes);
    void post(Posted* posted, uint64_t issued_ps, uint64_t length_bytes);
    void arm();
    [[nodiscard]] bool may_arrive() const { return !posted_.empty() && (!order_ || released_ != 0); }

    EventQueue& queue_;
    HostMemory& memory_;
    const RateClock clock_;
    const uint64_t latency_ps_;
    Server to_device_;
    Server to_host_;
    ObjectPool<Posted> pool_;
    Ring<Posted*> posted_;
    size_t released_ = 0;  // of them, from the front on: no placement before them is still in the device
    std::optional<ReleaseOrder> order_;
    InterruptSink sink_;
    bool armed_ = false;
    uint64_t last_written_ps_ = 0;
    uint64_t read_bytes_ = 0;
    uint64_t last_read_ps_ = 0;
    uint64_t written_bytes_ = 0;
};

}  // namespace plait::sim
