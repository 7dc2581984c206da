#pragma once
// Shared memory together with its registration.

#include <cstddef>
#include <cstdint>
#include <plait/device_link.hpp>
#include <plait/result.hpp>
#include <span>

namespace plait {

class Driver;

/// A place in registered memory; the caller owns it and keeps it untouched while a call uses it. Empty = not
/// given.
struct BufferView {
    std::uint64_t device_address = 0;
    std::uint64_t length_bytes = 0;
    std::uint32_t key = 0;
    std::byte* host = nullptr;  ///< Where the host reaches its first byte; null when it does not.

    [[nodiscard]] bool empty() const { return length_bytes == 0; }
};

/// Memory of the link, registered with the device. The destructor takes both back: no call may use it then,
/// and the driver must still live. Memory that the device does not let go of stays allocated until the link
/// ends.
class RegisteredMemory {
  public:
    /// Holds nothing.
    RegisteredMemory() = default;

    /// `length_bytes` zeroed bytes, aligned to 4096, for `access` (access_... bits of requests.hpp; 0 = only
    /// read by the device). Errors, nothing allocated: no_memory, and those of Driver::register_memory.
    static Result<RegisteredMemory> allocate(Driver& driver, std::size_t length_bytes, std::uint32_t access);

    ~RegisteredMemory();
    RegisteredMemory(RegisteredMemory&& other) noexcept;
    RegisteredMemory& operator=(RegisteredMemory&& other) noexcept;

    [[nodiscard]] std::span<std::byte> bytes() { return {memory_.host, memory_.length_bytes}; }
    [[nodiscard]] std::span<const std::byte> bytes() const { return {memory_.host, memory_.length_bytes}; }
    [[nodiscard]] BufferView view() const {
        return {memory_.device_address, memory_.length_bytes, key_, memory_.host};
    }

  private:
    RegisteredMemory(Driver& driver, const SharedMemory& memory, std::uint32_t key)
        : driver_(&driver), memory_(memory), key_(key) {}

    Driver* driver_ = nullptr;
    SharedMemory memory_;
    std::uint32_t key_ = 0;
};

}  // namespace plait
