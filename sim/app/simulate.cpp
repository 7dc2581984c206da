#include <chrono>

#include <plait/sim/app/simulate.hpp>
#include <plait/sim/app/world.hpp>
#include <systemc>

namespace plait::sim {
namespace {

// SystemC keeps its one simulation in globals. The first run has the process's own; every further one has a
// context of its own, and the first is put back afterwards, because SystemC's static objects belong to it.
class SystemcContext {
  public:
    SystemcContext() {
        static bool used = false;
        if (used) {
            first_ = sc_core::sc_get_curr_simcontext();
            own_ = new sc_core::sc_simcontext;
            set(own_);
            sc_core::sc_set_time_resolution(1, sc_core::SC_PS);
        }
        used = true;
    }
    ~SystemcContext() {
        if (own_ == nullptr) return;
        delete own_;
        set(first_);
    }
    SystemcContext(const SystemcContext&) = delete;
    SystemcContext& operator=(const SystemcContext&) = delete;

  private:
    static void set(sc_core::sc_simcontext* context) {
        sc_core::sc_curr_simcontext = context;
        sc_core::sc_default_global_context = context;
    }

    sc_core::sc_simcontext* first_ = nullptr;
    sc_core::sc_simcontext* own_ = nullptr;
};

}  // namespace

RunOutcome simulate(const Scenario& scenario, const RunOptions& options, Progress& progress) {
    const SystemcContext context;
    sc_core::sc_report_handler::set_actions(sc_core::SC_INFO, sc_core::SC_DO_NOTHING);

    RunOutcome outcome;
    const auto begin = std::chrono::steady_clock::now();
    auto world = std::make_unique<World>(scenario, options, progress, outcome);
    if (scenario.workload == WorkloadKind::ep) spawn_ep(*world);
    else spawn_flows(*world);
    spawn_faults(*world);
    outcome.complete = world->run() && world->errors() == 0;
    collect(*world);
    world.reset();
    outcome.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return outcome;
}

}  // namespace plait::sim
