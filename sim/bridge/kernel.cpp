#include <plait/sim/bridge/kernel.hpp>

#include <stdexcept>
#include <utility>

namespace plait::sim {

namespace {
constexpr int stack_bytes = 512 * 1024;

sc_core::sc_time picoseconds(uint64_t time_ps) { return sc_core::sc_time::from_value(time_ps); }
}  // namespace

Kernel::Kernel(sc_core::sc_module_name module_name, EventQueue& queue)
    : sc_module(module_name), queue_(queue) {
    if (sc_core::sc_get_time_resolution() != sc_core::sc_time(1, sc_core::SC_PS)) {
        throw std::logic_error("the simulation needs a time resolution of 1 ps");
    }
    sc_core::sc_spawn_options options;
    options.set_stack_size(stack_bytes);
    sc_core::sc_spawn([this] { run(); }, "queue", &options);
}

void Kernel::notify(sc_core::sc_event& event) {
    if (in_queue_) {
        notified_.push_back(&event);
        queue_.stop();
    } else {
        event.notify();
    }
}

// The thread of the kernel runs whenever a process does, so it will see the wish.
void Kernel::stop() {
    stopping_ = true;
    if (in_queue_) {
        queue_.stop();
    }
}

void Kernel::sleep(uint64_t duration_ns) { sc_core::wait(picoseconds(duration_ns * 1000)); }

uint64_t Kernel::next_activity_ps() {
    const auto* const context = sc_core::sc_get_curr_simcontext();
    if (!sc_core::sc_pending_activity_at_future_time(context)) {
        return EventQueue::never;
    }
    return now_ps() + sc_core::sc_time_to_pending_activity(context).value();
}

void Kernel::let_processes_run() {
    do {
        sc_core::wait(sc_core::SC_ZERO_TIME);
    } while (sc_core::sc_pending_activity_at_current_time(sc_core::sc_get_curr_simcontext()));
}

void Kernel::advance_to(uint64_t time_ps) {
    if (time_ps > now_ps()) {
        sc_core::wait(picoseconds(time_ps - now_ps()));
    }
}

void Kernel::run() {
    let_processes_run();
    while (!stopping_) {
        const uint64_t limit_ps = next_activity_ps();
        in_queue_ = true;
        queue_.run_until(limit_ps);
        in_queue_ = false;
        advance_to(queue_.now_ps());
        const std::vector<sc_core::sc_event*> events = std::exchange(notified_, {});
        for (sc_core::sc_event* const event : events) {
            event->notify();
        }
        if (events.empty() && limit_ps == EventQueue::never && queue_.pending() == 0) {
            break;  // nothing is left to happen
        }
        let_processes_run();
    }
    if (on_end_) {
        on_end_();
    }
    // A usual end, not worth the line on the terminal.
    sc_core::sc_report_handler::set_actions("/OSCI/SystemC", sc_core::SC_INFO, sc_core::SC_DO_NOTHING);
    sc_core::sc_stop();
}

HostPrograms::HostPrograms(sc_core::sc_module_name module_name, Kernel& kernel)
    : sc_module(module_name), kernel_(kernel) {
    kernel.on_end([this] { kill_all(); });
}

void HostPrograms::spawn(const std::string& name, std::function<void()> body) {
    ++running_;
    spawn_thread(name, [this, program = std::move(body)] {
        program();
        one_less();
    });
}

// It may stand in a destructor, which must not be left by an exception: what it holds is left alone.
void HostPrograms::abandon() {
    std::erase(threads_, sc_core::sc_get_current_process_handle());
    one_less();
}

void HostPrograms::one_less() {
    if (--running_ == 0) {
        kernel_.stop();
    }
}

void HostPrograms::spawn_background(const std::string& name, std::function<void()> body) {
    spawn_thread(name, std::move(body));
}

void HostPrograms::spawn_thread(const std::string& name, std::function<void()> body) {
    sc_core::sc_spawn_options options;
    options.set_stack_size(stack_bytes);
    threads_.push_back(sc_core::sc_spawn(std::move(body), name.c_str(), &options));
}

void HostPrograms::kill_all() {
    for (sc_core::sc_process_handle& thread : threads_) {
        if (thread.valid() && !thread.terminated()) {
            thread.kill();
        }
    }
    threads_.clear();
}

}  // namespace plait::sim
