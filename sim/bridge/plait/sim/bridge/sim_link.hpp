// DeviceLink to a simulated device.
#pragma once

#include <cstdint>
#include <functional>

#include <plait/device_link.hpp>
#include <plait/sim/bridge/kernel.hpp>
#include <plait/sim/models/device.hpp>

namespace plait::sim {

/// For code that runs in a SystemC thread: reads and waits block it while simulated time passes. A register
/// write takes the host interface one way, a read both ways. One link a device.
class SimLink final : public DeviceLink {
  public:
    /// Both outlive the link.
    SimLink(Kernel& kernel, DeviceModel& device);
    ~SimLink() override;
    SimLink(const SimLink&) = delete;
    SimLink& operator=(const SimLink&) = delete;

    uint32_t read_register(uint32_t offset) override;
    void write_register(uint32_t offset, uint32_t value) override;
    std::optional<SharedMemory> allocate(size_t length_bytes) override;
    void free(const SharedMemory& memory) override;
    bool wait_interrupt(uint64_t timeout_ns) override;
    uint64_t now_ns() const override { return Kernel::now_ps() / 1000; }

    DeviceModel& device() { return device_; }

    /// The host stops: its program goes no further in this link before `time_ps`. EventQueue::never: it never
    /// does, and calls `for_good` first. A time that has passed: it goes on.
    void stop_until(uint64_t time_ps, std::function<void()> for_good = {});

  private:
    void pause();
    static void raise(void* object, uint32_t bits);
    static void write_arrives(void* object, uint64_t argument);

    Kernel& kernel_;
    DeviceModel& device_;
    sc_core::sc_event raised_;
    bool pending_ = false;
    uint64_t stopped_until_ps_ = 0;
    std::function<void()> for_good_;
    sc_core::sc_event never_;
};

}  // namespace plait::sim
