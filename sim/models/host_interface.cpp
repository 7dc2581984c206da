#include <plait/sim/models/host_interface.hpp>

#include <algorithm>

namespace plait::sim {

namespace {
constexpr uint64_t interrupt_bytes = 16;  // a message-signalled interrupt with its header
}

HostInterface::HostInterface(sc_core::sc_module_name module_name, EventQueue& queue, HostMemory& memory,
                             const HostInterfaceParameters& parameters, EngineBlocks* blocks,
                             uint64_t engine_cycle_ps)
    : sc_module(module_name),
      queue_(queue),
      memory_(memory),
      clock_(parameters.rate_gbytes_per_s * 8),
      latency_ps_(parameters.latency_ns * 1000) {
    if (blocks != nullptr) {
        order_.emplace(queue, *blocks, engine_cycle_ps, ReleaseOrder::Sink{&HostInterface::released, this});
    }
}

uint64_t HostInterface::read(uint64_t issued_ps, uint64_t length_bytes) {
    read_bytes_ += length_bytes;
    const Slot slot = to_device_.take(queue_.now_ps(), issued_ps + latency_ps_, clock_.time_ps(length_bytes));
    const uint64_t arrival_ps = slot.end_ps + latency_ps_;
    last_read_ps_ = std::max(last_read_ps_, arrival_ps);
    return arrival_ps;
}

uint64_t HostInterface::fetch(uint64_t issued_ps, uint64_t length_bytes) {
    (void)read(issued_ps, length_bytes);
    return last_read_ps_;
}

Slot HostInterface::place(uint64_t issued_ps, uint64_t length_bytes) {
    const Slot slot = take(issued_ps, length_bytes);
    if (order_) order_->placement(slot.end_ps);
    return slot;
}

Slot HostInterface::take(uint64_t issued_ps, uint64_t length_bytes) {
    written_bytes_ += length_bytes;
    Slot slot = to_host_.take(queue_.now_ps(), issued_ps, clock_.time_ps(length_bytes));
    last_written_ps_ = std::max(last_written_ps_, slot.end_ps);  // what was posted first is seen first
    slot.end_ps = last_written_ps_;
    return slot;
}

void HostInterface::write(uint64_t issued_ps, uint64_t device_address, std::span<const uint8_t> bytes) {
    Posted* const posted = pool_.take();
    posted->device_address = device_address;
    posted->interrupt_bits = 0;
    posted->bytes.assign(bytes.begin(), bytes.end());
    post(posted, issued_ps, bytes.size());
}

void HostInterface::interrupt(uint64_t issued_ps, uint32_t bits) {
    if (bits == 0) {
        return;
    }
    Posted* const posted = pool_.take();
    posted->interrupt_bits = bits;
    posted->bytes.clear();
    post(posted, issued_ps, interrupt_bytes);
}

void HostInterface::post(Posted* posted, uint64_t issued_ps, uint64_t length_bytes) {
    posted->visible_ps = visible_ps(take(issued_ps, length_bytes));
    posted_.push(posted);
    if (order_) order_->release();
    arm();
}

void HostInterface::released(void* object, uint64_t time_ps) {
    auto& self = *static_cast<HostInterface*>(object);
    Posted& posted = *self.posted_[self.released_++];
    posted.visible_ps = std::max(posted.visible_ps, time_ps + self.latency_ps_);
    self.arm();
}

void HostInterface::arm() {
    if (!armed_ && may_arrive()) {
        armed_ = true;
        queue_.schedule(posted_.front()->visible_ps, 0, &HostInterface::arrive, this, 0);
    }
}

void HostInterface::arrive(void* object, uint64_t) {
    auto& self = *static_cast<HostInterface*>(object);
    self.armed_ = false;
    uint32_t bits = 0;
    while (self.may_arrive() && self.posted_.front()->visible_ps <= self.queue_.now_ps()) {
        Posted* const posted = self.posted_.front();
        self.posted_.pop();
        if (self.order_) --self.released_;
        if (posted->interrupt_bits != 0) {
            bits |= posted->interrupt_bits;
        } else {
            self.memory_.write(posted->device_address, std::as_bytes(std::span(posted->bytes)));
        }
        self.pool_.give_back(posted);
    }
    self.arm();
    if (bits != 0 && self.sink_.raise != nullptr) {
        self.sink_.raise(self.sink_.object, bits);
    }
}

void HostInterface::cut() {
    if (order_) order_->cut();
    while (!posted_.empty()) {
        pool_.give_back(posted_.front());
        posted_.pop();
    }
    released_ = 0;
    if (sink_.raise != nullptr) {
        sink_.raise(sink_.object, removed);
    }
}

void HostInterface::report(DeviceStatistics& statistics) const {
    statistics.host_read_bytes = read_bytes_;
    statistics.host_written_bytes = written_bytes_;
    statistics.host_faults = memory_.faults();
}

}  // namespace plait::sim
