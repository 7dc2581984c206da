// Where the event queue and SystemC meet: one time, two schedulers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <plait/sim/fabric/event_queue.hpp>
#include <systemc>

namespace plait::sim {

/// Runs an EventQueue inside the SystemC simulation. The queue runs ahead only to the next SystemC activity,
/// and SystemC's time never lags behind: whenever a SystemC process runs, both clocks show the same time and
/// every event of the queue up to and including that time has been run, but for those that a notified process
/// gets to see first (notify()).
///
/// A process may schedule events at any time from now on. Handlers may not wait; they wake processes by
/// notify().
class Kernel : public sc_core::sc_module {
  public:
    /// `queue` outlives the kernel.
    Kernel(sc_core::sc_module_name module_name, EventQueue& queue);

    /// From a handler of the queue, or from a process: triggers `event` at the present time. Processes that
    /// wait for it run before any further event of the queue.
    void notify(sc_core::sc_event& event);

    /// The event is about to go: a notification that has not been given yet never will be.
    void forget(const sc_core::sc_event& event) { std::erase(notified_, &event); }

    /// Ends the simulation when the present handler or process returns control: sc_start() returns. Callable
    /// from handlers and processes. The kernel also ends it when nothing is left to happen.
    void stop();

    /// What is done in the end, while processes can still be killed.
    void on_end(std::function<void()> action) { on_end_ = std::move(action); }

    EventQueue& queue() { return queue_; }
    static uint64_t now_ps() { return sc_core::sc_time_stamp().value(); }

    /// For processes: waits `duration_ns` of simulated time.
    static void sleep(uint64_t duration_ns);

  private:
    void run();
    void let_processes_run();
    void advance_to(uint64_t time_ps);
    static uint64_t next_activity_ps();

    EventQueue& queue_;
    std::vector<sc_core::sc_event*> notified_;
    std::function<void()> on_end_;
    bool stopping_ = false;
    bool in_queue_ = false;
};

/// Host programs as SystemC threads. Each runs a function that may block in SimLink and Kernel::sleep. When
/// the last foreground program has returned, the kernel is stopped; background programs (progress, fault
/// schedules) are not waited for. Programs that have not returned when the simulation ends are killed: their
/// stacks are unwound. One for a kernel.
class HostPrograms : public sc_core::sc_module {
  public:
    HostPrograms(sc_core::sc_module_name module_name, Kernel& kernel);

    /// Before the simulation starts or during it. `body` is kept until the program has ended.
    void spawn(const std::string& name, std::function<void()> body);
    void spawn_background(const std::string& name, std::function<void()> body);

    /// The calling foreground program will never return: it is not waited for, nor taken apart when the run
    /// ends.
    void abandon();

    /// Foreground programs that have not returned.
    size_t running() const { return running_; }

  private:
    void one_less();
    void kill_all();
    void spawn_thread(const std::string& name, std::function<void()> body);

    Kernel& kernel_;
    std::vector<sc_core::sc_process_handle> threads_;
    size_t running_ = 0;
};

}  // namespace plait::sim
