// Firmware's one-shot timers.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <plait/firmware/commands.hpp>
#include <plait/sim/fabric/event_queue.hpp>
#include <plait/sim/models/engine_events.hpp>

namespace plait::sim {

/// At most one useful event a timer is pending: a later deadline only moves the deadline, and the event that
/// comes too early schedules the next one. Retransmission timers, which are set with every packet, so cost
/// almost nothing.
class Timers {
  public:
    Timers(EventQueue& queue, EngineEvents& events, uint32_t tie)
        : queue_(queue), events_(events), tie_(tie) {}

    void set(firmware::TimerId id, uint64_t deadline_ps);
    void cancel(firmware::TimerId id);

  private:
    static constexpr uint64_t never = EventQueue::never;
    static constexpr uint32_t index_bits = 16;  // QPNs carry a generation above their index

    struct Timer {
        uint64_t deadline_ps = never;
        uint64_t event_ps = never;  // of the event that counts
        uint32_t number = 0;
    };

    static void expire(void* object, uint64_t argument);
    Timer& at(firmware::TimerId id);
    void arm(Timer& timer, uint64_t argument);

    EventQueue& queue_;
    EngineEvents& events_;
    const uint32_t tie_;
    std::array<std::vector<Timer>, 3> timers_;
};

}  // namespace plait::sim
