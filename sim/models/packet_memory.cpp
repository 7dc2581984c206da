#include <plait/sim/models/packet_memory.hpp>

#include <string>
#include <utility>

#include <plait/sim/models/firmware_error.hpp>

namespace plait::sim {

namespace {

uint32_t charge(const PayloadSlice& slice) { return (slice.length + 63) & ~63U; }

}  // namespace

PacketMemory::PacketMemory(sc_core::sc_module_name module_name, EventQueue& queue, PayloadPool& pool,
                           const EngineParameters& parameters)
    : sc_module(module_name),
      queue_(queue),
      pool_(pool),
      capacity_bytes_(parameters.packet_memory_bytes),
      refusable_bytes_(parameters.packet_memory_bytes - parameters.scale_up_reserve_bytes) {}

PacketMemory::~PacketMemory() {
    for (Buffer& buffer : buffers_) {
        if (buffer.references != 0) {
            pool_.release(buffer.slice.block);
        }
    }
}

BufferId PacketMemory::allocate(const PayloadSlice& slice, Use use) {
    settle();
    const uint32_t charged_bytes = charge(slice);
    const uint64_t limit = use == Use::refusable ? refusable_bytes_ : capacity_bytes_;
    if (use != Use::forced && used_bytes_ + charged_bytes > limit) {
        ++refused_;
        return 0;
    }
    if (next_free_ == 0) {
        buffers_.emplace_back();
        next_free_ = static_cast<BufferId>(buffers_.size());
    }
    const BufferId id = next_free_;
    next_free_ = std::exchange(buffers_[id - 1], {slice, 1, charged_bytes, 0}).charged_bytes;
    pool_.retain(slice.block);
    used_bytes_ += charged_bytes;
    high_water_bytes_ = std::max(high_water_bytes_, used_bytes_);
    ++live_;
    return id;
}

PacketMemory::Buffer& PacketMemory::at(BufferId buffer) {
    if (buffer == 0 || buffer > buffers_.size() || buffers_[buffer - 1].references == 0) {
        throw FirmwareError("buffer " + std::to_string(buffer) + ", which is not allocated");
    }
    return buffers_[buffer - 1];
}

void PacketMemory::release(BufferId buffer, uint64_t time_ps) {
    if (buffer == 0) {
        return;
    }
    Buffer& entry = at(buffer);
    entry.held_until_ps = std::max(entry.held_until_ps, time_ps);
    if (--entry.references != 0) {
        return;
    }
    pool_.release(entry.slice.block);
    entry.slice = {};
    const uint32_t charged_bytes = std::exchange(entry.charged_bytes, next_free_);
    next_free_ = buffer;
    --live_;
    // Times of different engines cross by some nanoseconds; the queue keeps the later one.
    const uint64_t free_at_ps = std::max(entry.held_until_ps, leaving_.empty() ? 0 : leaving_.back().time_ps);
    if (free_at_ps <= queue_.now_ps()) {
        used_bytes_ -= charged_bytes;
    } else {
        leaving_.push({free_at_ps, charged_bytes});
    }
    tell_waiter(free_at_ps);
}

void PacketMemory::replace(BufferId buffer, const PayloadSlice& slice) {
    Buffer& entry = at(buffer);
    pool_.retain(slice.block);
    pool_.release(entry.slice.block);
    entry.slice = slice;
    const uint32_t before_bytes = std::exchange(entry.charged_bytes, charge(slice));
    used_bytes_ += entry.charged_bytes;
    used_bytes_ -= before_bytes;
    if (entry.charged_bytes < before_bytes) {
        tell_waiter(queue_.now_ps());
    }
    high_water_bytes_ = std::max(high_water_bytes_, used_bytes_);
}

void PacketMemory::settle() {
    while (!leaving_.empty() && leaving_.front().time_ps <= queue_.now_ps()) {
        used_bytes_ -= leaving_.front().bytes;
        leaving_.pop();
    }
}

void PacketMemory::wait_for_room(EventQueue::Function handler, void* object) {
    waiter_ = handler;
    waiter_object_ = object;
    if (!leaving_.empty()) {
        tell_waiter(leaving_.front().time_ps);
    }
}

void PacketMemory::tell_waiter(uint64_t time_ps) {
    if (waiter_ != nullptr) {
        queue_.schedule(std::max(time_ps, queue_.now_ps()), 0, waiter_, waiter_object_, 0);
        waiter_ = nullptr;
    }
}

void PacketMemory::report(DeviceStatistics& statistics) const {
    statistics.packet_memory_high_water_bytes = high_water_bytes_;
    statistics.packet_memory_refused = refused_;
}

}  // namespace plait::sim
