#pragma once
// The two orderings between driver and device over shared memory. Every other access needs none.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace plait {

/// Before a doorbell is written: what was written to a ring is visible to whoever sees the doorbell, and what
/// was copied out of a ring was copied before its entries are given back. The fence comes after those
/// accesses and before the doorbell's store, so no compiler or CPU moves the doorbell ahead of them;
/// DeviceLink::write_register carries the order on to the device.
inline void publish_before_doorbell() { std::atomic_thread_fence(std::memory_order_release); }

/// After the phase of a completion was found new: the rest of the entry, and all payload that the device
/// placed before it, is visible. The device writes an entry's phase last, and payload before the entry; this
/// fence keeps later loads from being taken before the load of the phase.
inline void acquire_after_phase() { std::atomic_thread_fence(std::memory_order_acquire); }

/// One load of a byte that the device may be writing; acquire_after_phase() goes with it.
inline std::uint8_t load_phase(const std::byte* phase) {
    // atomic_ref takes no const object; nothing is written.
    auto* byte = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(phase));
    return std::atomic_ref<unsigned char>(*byte).load(std::memory_order_relaxed);
}

}  // namespace plait
