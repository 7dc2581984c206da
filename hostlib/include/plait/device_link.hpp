#pragma once
// The one way from the host library to a device: registers, shared memory and interrupts. Implementations:
// the simulator's (sim/bridge); an inter-process one belongs beside plaitd.

#include <cstddef>
#include <cstdint>
#include <optional>

namespace plait {

/// Memory that host and device both reach. The link owns it until `free` or its own end.
struct SharedMemory {
    std::byte* host = nullptr;         ///< Where the host reads and writes it.
    std::uint64_t device_address = 0;  ///< What the device calls its first byte.
    std::size_t length_bytes = 0;
};

/// A device as the driver sees it. One driver a link; calls from one thread at a time.
class DeviceLink {
  public:
    virtual ~DeviceLink() = default;

    /// Reads a 32-bit register. A device that is gone reads as all ones.
    virtual std::uint32_t read_register(std::uint32_t offset) = 0;

    /// Writes a 32-bit register. Posted: it returns before the device has seen it; memory written before it
    /// is visible to the device by then. Writes to a device that is gone are lost.
    virtual void write_register(std::uint32_t offset, std::uint32_t value) = 0;

    /// Zeroed shared memory, aligned to 4096 bytes. Nothing when there is none left.
    virtual std::optional<SharedMemory> allocate(std::size_t length_bytes) = 0;

    /// Gives memory back. The device must no longer use it.
    virtual void free(const SharedMemory& memory) = 0;

    /// Waits until the device raises an interrupt not yet consumed, at most `timeout_ns`. False: the time ran
    /// out or the device was removed. Memory the device wrote before the interrupt is visible then.
    virtual bool wait_interrupt(std::uint64_t timeout_ns) = 0;

    /// The link's clock. Simulated time in the simulator.
    [[nodiscard]] virtual std::uint64_t now_ns() const = 0;
};

}  // namespace plait
