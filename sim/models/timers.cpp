#include <plait/sim/models/timers.hpp>

#include <algorithm>

namespace plait::sim {

namespace {
constexpr uint64_t argument_of(firmware::TimerKind kind, uint32_t index) {
    return static_cast<uint64_t>(kind) << 32 | index;
}
}  // namespace

Timers::Timer& Timers::at(firmware::TimerId id) {
    auto& timers = timers_[static_cast<size_t>(id.kind)];
    const uint32_t index = id.number & ((1U << index_bits) - 1);
    if (index >= timers.size()) {
        timers.resize(index + 1);
    }
    return timers[index];
}

void Timers::set(firmware::TimerId id, uint64_t deadline_ps) {
    Timer& timer = at(id);
    timer.number = id.number;
    timer.deadline_ps = std::max(deadline_ps, queue_.now_ps());
    if (timer.deadline_ps < timer.event_ps) {
        arm(timer, argument_of(id.kind, id.number & ((1U << index_bits) - 1)));
    }
}

void Timers::cancel(firmware::TimerId id) {
    Timer& timer = at(id);
    if (timer.number == id.number) {
        timer.deadline_ps = never;
    }
}

void Timers::arm(Timer& timer, uint64_t argument) {
    timer.event_ps = timer.deadline_ps;
    queue_.schedule(timer.event_ps, tie_, &Timers::expire, this, argument);
}

void Timers::expire(void* object, uint64_t argument) {
    auto& self = *static_cast<Timers*>(object);
    const auto kind = static_cast<firmware::TimerKind>(argument >> 32);
    Timer& timer = self.timers_[static_cast<size_t>(kind)][static_cast<uint32_t>(argument)];
    if (timer.event_ps != self.queue_.now_ps()) {
        return;  // an earlier deadline took its place
    }
    timer.event_ps = never;
    if (timer.deadline_ps == never) {
        return;
    }
    if (timer.deadline_ps > self.queue_.now_ps()) {
        self.arm(timer, argument);
        return;
    }
    timer.deadline_ps = never;
    self.events_.timer_fired({kind, timer.number});
}

}  // namespace plait::sim
