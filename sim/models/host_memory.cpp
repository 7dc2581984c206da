#include <plait/sim/models/host_memory.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <plait/sim/models/page_memory.hpp>

namespace plait::sim {

namespace {
// Below this, memory comes from the heap: a process may have only some tens of thousands of mappings.
constexpr size_t mapping_threshold_bytes = 256 * 1024;
}  // namespace

void FreeHostBytes::operator()(std::byte* bytes) const {
    if (length >= mapping_threshold_bytes) {
        munmap(bytes, length);
    } else {
        std::free(bytes);
    }
}

std::optional<SharedMemory> HostMemory::allocate(size_t length_bytes) {
    if (length_bytes == 0 || length_bytes > SIZE_MAX - page_bytes) {
        return std::nullopt;
    }
    const size_t rounded = whole_pages(length_bytes);
    void* bytes;
    if (rounded >= mapping_threshold_bytes) {
        bytes = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1, 0);
        if (bytes == MAP_FAILED) {
            return std::nullopt;
        }
    } else {
        bytes = std::aligned_alloc(page_bytes, rounded);
        if (bytes == nullptr) {
            return std::nullopt;
        }
        std::memset(bytes, 0, rounded);
    }
    Region region;
    region.length = length_bytes;
    region.bytes =
        std::unique_ptr<std::byte, FreeHostBytes>(static_cast<std::byte*>(bytes), FreeHostBytes{rounded});
    std::byte* const host = region.bytes.get();
    return SharedMemory{host, place(std::move(region)), length_bytes};
}

uint64_t HostMemory::map(uint64_t length_bytes, ReadHandler on_read, WriteHandler on_write) {
    Region region;
    region.length = length_bytes;
    region.on_read = on_read;
    region.on_write = on_write;
    return place(std::move(region));
}

// Addresses are never used twice and an unmapped page lies between regions, so that a stray access faults.
uint64_t HostMemory::place(Region region) {
    region.address = next_address_;
    next_address_ += whole_pages(region.length) + page_bytes;
    regions_.push_back(std::move(region));
    return regions_.back().address;
}

bool HostMemory::unmap(uint64_t device_address) {
    const auto found = std::ranges::lower_bound(regions_, device_address, {}, &Region::address);
    if (found == regions_.end() || found->address != device_address) {
        return false;
    }
    regions_.erase(found);
    last_found_ = 0;
    return true;
}

HostMemory::Region* HostMemory::holder(uint64_t address, uint64_t length) {
    const auto holds = [&](const Region& region) {
        return address >= region.address && length <= region.length &&
               address - region.address <= region.length - length;
    };
    if (last_found_ < regions_.size() && holds(regions_[last_found_])) {
        return &regions_[last_found_];
    }
    const auto after = std::ranges::upper_bound(regions_, address, {}, &Region::address);
    if (after == regions_.begin() || !holds(*std::prev(after))) {
        return nullptr;
    }
    last_found_ = static_cast<size_t>(std::prev(after) - regions_.begin());
    return &regions_[last_found_];
}

HostMemory::Region* HostMemory::find(uint64_t address, uint64_t length) {
    Region* const region = holder(address, length);
    faults_ += region == nullptr ? 1 : 0;
    return region;
}

bool HostMemory::is_produced(uint64_t device_address, uint64_t length_bytes) {
    const Region* const region = holder(device_address, length_bytes);
    return region != nullptr && region->on_read.produce != nullptr;
}

void HostMemory::expect(uint64_t device_address) {
    const Region* const region = holder(device_address, 1);
    if (region != nullptr && region->on_read.expect != nullptr)
        region->on_read.expect(region->on_read.object, device_address - region->address);
}

bool HostMemory::read(uint64_t device_address, std::span<std::byte> out) {
    if (out.empty()) {
        return true;
    }
    Region* const region = find(device_address, out.size());
    if (region != nullptr) {
        const uint64_t offset = device_address - region->address;
        if (region->on_read.produce != nullptr) {
            region->on_read.produce(region->on_read.object, offset, out);
            return true;
        }
        if (region->bytes) {
            std::memcpy(out.data(), region->bytes.get() + offset, out.size());
            return true;
        }
        ++faults_;
    }
    std::memset(out.data(), 0, out.size());
    return false;
}

bool HostMemory::write(uint64_t device_address, std::span<const std::byte> in) {
    if (in.empty()) {
        return true;
    }
    Region* const region = find(device_address, in.size());
    if (region == nullptr) {
        return false;
    }
    const uint64_t offset = device_address - region->address;
    if (region->on_write.check != nullptr) {
        region->on_write.check(region->on_write.object, offset, in);
        return true;
    }
    if (region->bytes) {
        std::memcpy(region->bytes.get() + offset, in.data(), in.size());
        return true;
    }
    ++faults_;
    return false;
}

bool HostMemory::touch_read(uint64_t device_address, uint64_t length_bytes) {
    if (length_bytes == 0) {
        return true;
    }
    const Region* const region = find(device_address, length_bytes);
    const bool mapped = region != nullptr && (region->bytes || region->on_read.produce != nullptr);
    faults_ += region != nullptr && !mapped ? 1 : 0;
    return mapped;
}

bool HostMemory::touch_write(uint64_t device_address, uint64_t length_bytes) {
    if (length_bytes == 0) {
        return true;
    }
    const Region* const region = find(device_address, length_bytes);
    const bool mapped = region != nullptr && (region->bytes || region->on_write.check != nullptr);
    faults_ += region != nullptr && !mapped ? 1 : 0;
    return mapped;
}

}  // namespace plait::sim
