// The device's packet memory: who holds which bytes, and how full it is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <plait/firmware/commands.hpp>
#include <plait/sim/fabric/event_queue.hpp>
#include <plait/sim/models/parameters.hpp>
#include <plait/sim/models/payload.hpp>
#include <plait/sim/models/statistics.hpp>
#include <systemc>

namespace plait::sim {

using firmware::BufferId;

/// Buffers are reference counted. A buffer refers to a payload block, which other devices may share in the
/// simulator; each device is charged for its own copy, in units of 64 bytes, from allocation to the last
/// release and the end of the last DMA out of it. A buffer that is not allocated: FirmwareError is thrown.
class PacketMemory : public sc_core::sc_module {
  public:
    enum class Use : uint8_t {
        refusable,  ///< Leaves the scale-up reserve alone.
        lossless,   ///< May take all of it.
        forced,  ///< Takes room even beyond the end: only a result whose contributions have all been skipped
                 ///< since.
    };

    PacketMemory(sc_core::sc_module_name module_name, EventQueue& queue, PayloadPool& pool,
                 const EngineParameters& parameters);
    ~PacketMemory() override;

    /// A buffer with one reference, which takes a reference of the block; 0 when there is no room.
    BufferId allocate(const PayloadSlice& slice, Use use);

    void retain(BufferId buffer) { ++at(buffer).references; }

    /// Gives one reference back; the room of the last one is free at `time_ps` at the earliest. Buffer 0 is
    /// ignored.
    void release(BufferId buffer, uint64_t time_ps);

    /// A DMA reads the buffer until then.
    void hold_until(BufferId buffer, uint64_t time_ps) {
        Buffer& entry = at(buffer);
        entry.held_until_ps = std::max(entry.held_until_ps, time_ps);
    }

    const PayloadSlice& slice(BufferId buffer) { return at(buffer).slice; }

    /// Other content instead, which takes the room that it needs, even beyond the end; takes a reference of
    /// the block.
    void replace(BufferId buffer, const PayloadSlice& slice);

    /// Brings into the cache what will be looked at soon: a buffer (0: none), or the one that is taken next.
    void expect(BufferId buffer) const {
        if (buffer != 0) __builtin_prefetch(&buffers_[buffer - 1]);
    }
    void expect_allocation() const { expect(next_free_); }

    /// Calls `handler` once, as an event, when room may have become free.
    void wait_for_room(EventQueue::Function handler, void* object);

    uint64_t used_bytes() {
        settle();
        return used_bytes_;
    }
    /// Buffers that somebody holds.
    uint32_t live() const { return live_; }
    void report(DeviceStatistics& statistics) const;

  private:
    struct Buffer {
        PayloadSlice slice;
        uint32_t references = 0;
        uint32_t charged_bytes = 0;  // free: the buffer that is free next, 0: none
        uint64_t held_until_ps = 0;
    };
    struct Leaving {
        uint64_t time_ps = 0;
        uint32_t bytes = 0;
    };

    Buffer& at(BufferId buffer);
    void settle();
    void tell_waiter(uint64_t time_ps);

    EventQueue& queue_;
    PayloadPool& pool_;
    const uint64_t capacity_bytes_;
    const uint64_t refusable_bytes_;
    std::vector<Buffer> buffers_;
    BufferId next_free_ = 0;
    Ring<Leaving> leaving_;  // room that is free at a time still to come; times do not decrease
    EventQueue::Function waiter_ = nullptr;
    void* waiter_object_ = nullptr;
    uint64_t used_bytes_ = 0;
    uint64_t high_water_bytes_ = 0;
    uint64_t refused_ = 0;
    uint32_t live_ = 0;
};

}  // namespace plait::sim
