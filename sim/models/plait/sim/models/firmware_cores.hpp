// The cores that run firmware: when a handler has finished, and how busy they are.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <plait/sim/fabric/event_queue.hpp>
#include <plait/sim/models/parameters.hpp>
#include <plait/sim/models/servers.hpp>
#include <plait/sim/models/statistics.hpp>
#include <systemc>

namespace plait::sim {

/// A handler runs at once in the simulator, in the order of events; its effects leave when the core that it
/// belongs to (key % cores) would have finished it. All events of a queue pair have one core: its key is
/// home().
class FirmwareCores : public sc_core::sc_module {
  public:
    FirmwareCores(sc_core::sc_module_name module_name, const EventQueue& queue,
                  const CoreParameters& parameters);

    /// An event at `event_ps` is about to be handled; from now until the next begin(), ready_ps() is when its
    /// commands leave. Work that costs nothing waits for no core.
    void begin(Work work, uint64_t key, uint64_t event_ps) {
        const uint32_t cost = costs_[static_cast<size_t>(work)];
        count(work, cost);
        ready_ps_ =
            cost == 0 ? event_ps
                      : cores_[key % cores_.size()].take(queue_.now_ps(), event_ps, cost * cycle_ps_).end_ps;
    }

    /// A packet is sent by a handler whose commands leave at `ready_ps`, on the core of `key`; returns when
    /// it leaves.
    uint64_t send(uint64_t key, uint64_t ready_ps) {
        const uint32_t cost = costs_[static_cast<size_t>(Work::data_sent)];
        count(Work::data_sent, cost);
        return cores_[key % cores_.size()].take(queue_.now_ps(), ready_ps, cost * cycle_ps_).end_ps;
    }

    /// Core of a queue pair, by Fibonacci hashing: numbers in sequence and at any stride (the peers of a rank
    /// may be every eighth) spread about evenly.
    uint64_t home(uint32_t qpn) const {
        const uint32_t hash = qpn * 0x9E3779B1U;
        return (uint64_t{hash} * cores_.size()) >> 32;
    }

    uint64_t ready_ps() const { return ready_ps_; }

    void report(DeviceStatistics& statistics) const;

  private:
    void count(Work work, uint32_t cost) {
        WorkCount& entry = work_[static_cast<size_t>(work)];
        ++entry.events;
        entry.instructions += cost;
    }

    const EventQueue& queue_;
    std::vector<Server> cores_;
    std::array<uint32_t, work_kinds> costs_{};
    std::array<WorkCount, work_kinds> work_{};
    uint64_t cycle_ps_;
    uint64_t ready_ps_ = 0;
};

}  // namespace plait::sim
