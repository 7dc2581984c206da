#include <chrono>

#include <plait/sim/app/simulate.hpp>
#include <plait/sim/app/world.hpp>
#include <systemc>

namespace plait::sim {
namespace {

// SystemC keeps one simulation in a global; a new one for each run lets a process do several.
void renew_systemc() {
    delete sc_core::sc_curr_simcontext;
    sc_core::sc_curr_simcontext = nullptr;
    sc_core::sc_default_global_context = nullptr;
    sc_core::sc_get_curr_simcontext();
    sc_core::sc_set_time_resolution(1, sc_core::SC_PS);
}

}  // namespace

RunOutcome simulate(const Scenario& scenario, const RunOptions& options, Progress& progress) {
    static bool used = false;
    if (used) renew_systemc();
    used = true;
    sc_core::sc_report_handler::set_actions(sc_core::SC_INFO, sc_core::SC_DO_NOTHING);

    RunOutcome outcome;
    const auto begin = std::chrono::steady_clock::now();
    auto world = std::make_unique<World>(scenario, *options.plan, progress, outcome);
    if (scenario.workload == WorkloadKind::ep) spawn_ep(*world);
    else spawn_flows(*world);
    spawn_faults(*world);
    outcome.complete = world->run();
    collect(*world);
    world.reset();
    outcome.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return outcome;
}

}  // namespace plait::sim
