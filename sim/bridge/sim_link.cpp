#include <plait/sim/bridge/sim_link.hpp>

#include <algorithm>
#include <utility>

namespace plait::sim {

SimLink::SimLink(Kernel& kernel, DeviceModel& device) : kernel_(kernel), device_(device) {
    device.on_interrupt({&SimLink::raise, this});
}

SimLink::~SimLink() {
    device_.on_interrupt({});
    kernel_.forget(raised_);
}

// Writes are scheduled on the device, not on the link: they arrive even when the link has gone.
void SimLink::write_arrives(void* object, uint64_t argument) {
    static_cast<DeviceModel*>(object)->write_register(static_cast<uint32_t>(argument >> 32),
                                                      static_cast<uint32_t>(argument));
}

void SimLink::write_register(uint32_t offset, uint32_t value) {
    pause();
    kernel_.queue().schedule(Kernel::now_ps() + device_.host_latency_ps(), 0, &SimLink::write_arrives,
                             &device_, uint64_t{offset} << 32 | value);
}

// The queue runs up to a time before the processes of that time: writes posted earlier have arrived by then.
// A program that is being killed cannot wait any more: to it the device is gone.
uint32_t SimLink::read_register(uint32_t offset) {
    pause();
    if (sc_core::sc_is_unwinding()) return ~uint32_t{0};
    const sc_core::sc_time one_way = sc_core::sc_time::from_value(device_.host_latency_ps());
    sc_core::wait(one_way);
    const uint32_t value = device_.read_register(offset);
    sc_core::wait(one_way);
    return value;
}

std::optional<SharedMemory> SimLink::allocate(size_t length_bytes) {
    return device_.host_memory().allocate(length_bytes);
}

void SimLink::free(const SharedMemory& memory) { device_.host_memory().unmap(memory.device_address); }

void SimLink::stop_until(uint64_t time_ps, std::function<void()> for_good) {
    stopped_until_ps_ = time_ps;
    for_good_ = std::move(for_good);
}

void SimLink::pause() {
    while (Kernel::now_ps() < stopped_until_ps_ && !sc_core::sc_is_unwinding()) {
        if (stopped_until_ps_ != EventQueue::never) {
            sc_core::wait(sc_core::sc_time::from_value(stopped_until_ps_ - Kernel::now_ps()));
            continue;
        }
        if (for_good_) std::exchange(for_good_, {})();
        sc_core::wait(never_);
    }
}

bool SimLink::wait_interrupt(uint64_t timeout_ns) {
    pause();
    if (!pending_ && !device_.is_dead() && timeout_ns != 0 && !sc_core::sc_is_unwinding()) {
        const uint64_t longest_ns = (EventQueue::never - Kernel::now_ps()) / 1000 - 1;
        sc_core::wait(sc_core::sc_time::from_value(std::min(timeout_ns, longest_ns) * 1000), raised_);
    }
    pause();
    const bool raised = pending_ && !device_.is_dead();
    pending_ = false;
    return raised;
}

void SimLink::raise(void* object, uint32_t) {
    auto& self = *static_cast<SimLink*>(object);
    self.pending_ = true;
    self.kernel_.notify(self.raised_);
}

}  // namespace plait::sim
