#pragma once
// The link, with the life of the device behind it: gone, stopped, or there.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <plait/barrier.hpp>
#include <plait/driver.hpp>

namespace plait {

/// Registers and waiting. Once the device is found gone or stopped, everything answers with that Error.
class Device {
  public:
    Device(DeviceLink& link, const DriverOptions& options) : link_(link), options_(options) {}

    [[nodiscard]] DeviceLink& link() const { return link_; }
    [[nodiscard]] const DriverOptions& options() const { return options_; }
    [[nodiscard]] DriverStatistics& statistics() { return statistics_; }
    [[nodiscard]] const DriverStatistics& statistics() const { return statistics_; }

    /// What is known without asking the device.
    [[nodiscard]] Result<void> known() const;
    [[nodiscard]] bool is_removed() const { return failure_ && failure_->status == Status::device_removed; }
    /// Asks the device: is it there, and has it not stopped?
    Result<void> look();

    Result<std::uint32_t> read(std::uint32_t offset);
    void write(std::uint32_t offset, std::uint32_t value);
    /// Publishes the ring, then tells the device its index.
    void ring_doorbell(std::uint32_t queue, std::uint16_t index);

    /// Resets the device and waits until it says that it is ready; a device that had stopped is fresh again.
    Result<void> reset();
    /// Waits until the state register has `bits` set, or for what `what` names it.
    Result<void> wait_state(std::uint32_t bits, std::uint32_t expected, const char* what);

    /// Waits until `ready()`, which looks at shared memory; false: not within `timeout_ns`.
    template <class Ready>
    Result<bool> wait_until(std::uint64_t timeout_ns, Ready ready);

  private:
    [[nodiscard]] std::uint64_t deadline_ns(std::uint64_t timeout_ns) const;
    /// Waits for an interrupt, at most until `deadline`, and now and then looks whether the device is still
    /// there.
    bool wait_interrupt(std::uint64_t deadline);

    DeviceLink& link_;
    DriverOptions options_;
    DriverStatistics statistics_;
    std::optional<Error> failure_;
};

template <class Ready>
Result<bool> Device::wait_until(std::uint64_t timeout_ns, Ready ready) {
    if (auto there = known(); !there) return there.error();
    const std::uint64_t deadline = deadline_ns(timeout_ns);
    while (!ready()) {
        if (link_.now_ns() >= deadline) return false;
        // The device raises no interrupt while its status bit is set, but one when the bit is cleared after
        // more has happened than it has announced: between the look above and the wait below nothing is
        // missed.
        write(regmap::reg::interrupt_status_offset, regmap::reg::interrupt_status_completion_mask);
        const bool interrupted = wait_interrupt(deadline);
        if (ready()) return true;
        if (interrupted) ++statistics_.idle_interrupts;
        if (auto there = look(); !there) return there.error();
    }
    return true;
}

}  // namespace plait
