// Memory that a device reaches by device address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <plait/device_link.hpp>

namespace plait::sim {

/// Bytes that are made when the device reads them, or later: when somebody looks at what was read. The same
/// range must give the same bytes as long as it may be under way. `offset` counts from the region's first
/// byte. Must not call back into the simulator.
struct ReadHandler {
    void (*produce)(void* object, uint64_t offset, std::span<std::byte> out) = nullptr;
    void* object = nullptr;
    /// Bytes at `offset` will be made in a moment: what that takes is brought into the cache. May be null.
    void (*expect)(void* object, uint64_t offset) = nullptr;
};

/// Bytes that are looked at when the device writes them, and not stored.
struct WriteHandler {
    void (*check)(void* object, uint64_t offset, std::span<const std::byte> in) = nullptr;
    void* object = nullptr;
};

/// Gives the bytes of a region back to the system.
struct FreeHostBytes {
    size_t length = 0;
    void operator()(std::byte* bytes) const;
};

/// The host memory of one device. A region has real bytes, or a handler, for each direction; without either a
/// direction is unmapped, and access to it is refused and counted. Ranges lie within one region.
class HostMemory {
  public:
    HostMemory() = default;
    HostMemory(const HostMemory&) = delete;
    HostMemory& operator=(const HostMemory&) = delete;

    /// Zeroed real memory, aligned to 4096 bytes; pages that nobody touches cost nothing. Nothing when length
    /// is 0 or the system has none left.
    std::optional<SharedMemory> allocate(size_t length_bytes);

    /// A region without real bytes; returns its device address. A handler whose function is null leaves that
    /// direction unmapped. The objects are borrowed until unmap().
    uint64_t map(uint64_t length_bytes, ReadHandler on_read, WriteHandler on_write);

    /// Gives back what allocate() or map() gave; false when there is no region at this address.
    bool unmap(uint64_t device_address);

    /// Device reads. False: not mapped, `out` is zeroed and the fault counted.
    bool read(uint64_t device_address, std::span<std::byte> out);
    /// Device writes. False: not mapped, nothing written and the fault counted.
    bool write(uint64_t device_address, std::span<const std::byte> in);

    /// Whether a ReadHandler makes the bytes of this range, so that they can be read later.
    bool is_produced(uint64_t device_address, uint64_t length_bytes);

    /// That range will be read in a moment.
    void expect(uint64_t device_address);

    /// Like read() and write() without moving bytes (virtual payload).
    bool touch_read(uint64_t device_address, uint64_t length_bytes);
    bool touch_write(uint64_t device_address, uint64_t length_bytes);

    /// Accesses to unmapped addresses so far.
    uint64_t faults() const { return faults_; }

  private:
    struct Region {
        uint64_t address = 0;
        uint64_t length = 0;
        std::unique_ptr<std::byte, FreeHostBytes> bytes;
        ReadHandler on_read;
        WriteHandler on_write;
    };

    Region* holder(uint64_t address, uint64_t length);
    Region* find(uint64_t address, uint64_t length);
    uint64_t place(Region region);

    std::vector<Region> regions_;  // by address, which only grows
    size_t last_found_ = 0;
    uint64_t next_address_ = uint64_t{1} << 32;
    uint64_t faults_ = 0;
};

}  // namespace plait::sim
