// The cores that run firmware: when a handler has finished, and how busy they are.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <plait/sim/fabric/event_queue.hpp>
#include <plait/sim/models/cost_samples.hpp>
#include <plait/sim/models/parameters.hpp>
#include <plait/sim/models/servers.hpp>
#include <plait/sim/models/statistics.hpp>
#include <systemc>

namespace plait::sim {

/// A handler runs at once in the simulator, in the order of events; its effects leave when the core that it
/// belongs to (key % cores) would have finished it. All events of a queue pair have one core: its key is
/// home(). What a handler costs is declared by kind, or measured while it runs: then the instructions before
/// each of its commands are charged before the command is carried out.
class FirmwareCores : public sc_core::sc_module {
  public:
    FirmwareCores(sc_core::sc_module_name module_name, const EventQueue& queue,
                  const CoreParameters& parameters);

    /// An event at `event_ps` is about to be handled; from now until the next begin(), ready_ps() is when its
    /// commands leave. Work that costs nothing waits for no core. The event has `size` of a part.
    void begin(Work work, uint64_t key, uint64_t event_ps, uint32_t size = 0,
               WorkPart part = WorkPart::size) {
        if (counter_ != nullptr) add_messages();
        if (samples_ != nullptr) end_sample();
        work_now_ = work;
        core_ = &cores_[key % cores_.size()];
        ready_ps_ = event_ps;
        ++work_[static_cast<size_t>(work)].events;
        spend(costs_.instructions[static_cast<size_t>(work)]);
        if (size != 0) add(part, size);
    }

    /// The handler gives a command of this kind, which leaves when what it took has been executed.
    void add(WorkPart part, uint32_t count = 1) {
        if (counter_ != nullptr) add_messages();
        charge_parts(part, count);
    }

    /// Where firmware counts WorkPart::message; it outlives the cores.
    void count_messages(const uint32_t& counter);

    /// A packet is sent by a handler whose commands leave at `ready_ps`, on the core of `key`; returns when
    /// it leaves. `size`: see WorkPart.
    uint64_t send(uint64_t key, uint64_t ready_ps, uint32_t size) {
        constexpr auto kind = static_cast<size_t>(Work::data_sent);
        constexpr auto size_part = static_cast<size_t>(WorkPart::size);
        const uint64_t cost = measured_ ? std::exchange(send_cost_, 0)
                                        : costs_.instructions[kind] + costs_.each[kind][size_part] * size;
        if (samples_ != nullptr) samples_->add_size(Work::data_sent, size, cost);
        WorkCount& entry = work_[kind];
        ++entry.events;
        entry.instructions += cost;
        return cores_[key % cores_.size()].take(queue_.now_ps(), ready_ps, cost * instruction_ps_).end_ps;
    }

    /// The handler has executed so many instructions more. Nothing when costs are declared.
    void charge(uint64_t instructions) {
        if (measured_) spend(std::exchange(send_cost_, 0) + instructions);
    }
    /// Likewise, for the packet that is sent next.
    void charge_send(uint64_t instructions) { send_cost_ += instructions; }

    /// Core of a queue pair, by Fibonacci hashing: numbers in sequence and at any stride (the peers of a rank
    /// may be every eighth) spread about evenly.
    uint64_t home(uint32_t qpn) const {
        const uint32_t hash = qpn * 0x9E3779B1U;
        return (uint64_t{hash} * cores_.size()) >> 32;
    }

    uint64_t ready_ps() const { return ready_ps_; }

    void report(DeviceStatistics& statistics) const;
    /// Of handlers whose costs are measured, but for the latest one; null when they are declared.
    const CostSamples* samples() const { return samples_.get(); }

  private:
    void charge_parts(WorkPart part, uint32_t count) {
        spend(uint64_t{costs_.each[static_cast<size_t>(work_now_)][static_cast<size_t>(part)]} * count);
        if (samples_ != nullptr) parts_[static_cast<size_t>(part)] += count;
    }
    void add_messages() {
        const uint32_t count = *counter_ - std::exchange(messages_, *counter_);
        if (count != 0) charge_parts(WorkPart::message, count);
    }
    void end_sample() {
        if (has_handler_) samples_->add(work_now_, parts_, handler_instructions_);
        has_handler_ = true;
        parts_ = {};
        handler_instructions_ = 0;
    }

    void spend(uint64_t instructions) {
        if (instructions == 0) return;
        work_[static_cast<size_t>(work_now_)].instructions += instructions;
        handler_instructions_ += instructions;
        ready_ps_ = core_->take(queue_.now_ps(), ready_ps_, instructions * instruction_ps_).end_ps;
    }

    const EventQueue& queue_;
    const bool measured_;
    std::vector<Server> cores_;
    HandlerCosts costs_;  // all 0 when they are measured
    std::array<WorkCount, work_kinds> work_{};
    uint64_t instruction_ps_;
    Work work_now_ = Work::timer;
    Server* core_ = nullptr;  // of the event being handled
    uint64_t ready_ps_ = 0;
    uint64_t send_cost_ = 0;
    std::unique_ptr<CostSamples> samples_;
    bool has_handler_ = false;
    const uint32_t* counter_ = nullptr;  // of messages; null when they cost nothing
    uint32_t messages_ = 0;              // that were seen
    CostSamples::Parts parts_{};         // of the handler
    uint64_t handler_instructions_ = 0;
};

}  // namespace plait::sim
