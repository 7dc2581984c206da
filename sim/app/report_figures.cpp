#include <plait/sim/app/report_figures.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace plait::sim {
namespace {

const PhasePlan& plan_of(const RunReport& run, const PhaseOutcome& phase) {
    const PhasePlan* plan = run.plan.phase(phase.name, phase.micro_batch);
    if (plan == nullptr) throw std::logic_error("a phase was run that was not planned: " + phase.name);
    return *plan;
}

}  // namespace

bool RunReport::succeeded() const {
    return outcome.complete && outcome.errors.empty() && !outcome.phases.empty() &&
           std::all_of(outcome.phases.begin(), outcome.phases.end(),
                       [](const PhaseOutcome& phase) { return phase.complete && phase.verified; });
}

bool RunReport::verified() const { return succeeded() && scenario.payload == PayloadMode::real; }

bool Report::complete() const {
    return runs.size() == variants &&
           std::all_of(runs.begin(), runs.end(), [](const RunReport& run) { return run.outcome.complete; });
}

bool Report::verified() const {
    return runs.size() == variants &&
           std::all_of(runs.begin(), runs.end(), [](const RunReport& run) { return run.verified(); });
}

bool Report::succeeded() const {
    return runs.size() == variants &&
           std::all_of(runs.begin(), runs.end(), [](const RunReport& run) { return run.succeeded(); });
}

bool Report::interrupted() const {
    return std::any_of(runs.begin(), runs.end(),
                       [](const RunReport& run) { return run.outcome.interrupted; });
}

PhaseFigures::PhaseFigures(const RunReport& run, const PhaseOutcome& phase) : plan(plan_of(run, phase)) {
    time_us = static_cast<double>(phase.time_ps) / 1e6;
    if (phase.complete && phase.time_ps != 0) {
        efficiency = plan.floor_us / time_us;
        goodput_gbytes_per_s =
            static_cast<double>(plan.payload_bytes) / run.scenario.ranks() / time_us / 1000;
    }
    const auto naive = static_cast<double>(plan.scale_out_bytes_with_duplicates);
    if (naive > 0) saved_share = 1 - static_cast<double>(plan.scale_out_bytes) / naive;
    if (phase.exact_energy > 0) noise = std::sqrt(phase.error_energy / phase.exact_energy);
}

FlowFigures::FlowFigures(const RunReport& run) {
    const auto& planned = run.plan.flows;
    double sum_us = 0;
    for (size_t i = 0; i < planned.size(); ++i) {
        const FlowOutcome flow = i < run.outcome.flows.size() ? run.outcome.flows[i] : FlowOutcome{};
        const double time_us = static_cast<double>(flow.time_ps) / 1e6;
        if (planned[i].is_victim) {
            if (flow.complete) victim_time_us = time_us;
            continue;
        }
        ++count;
        if (!flow.complete) continue;
        time_us_min = complete == 0 ? time_us : std::min(time_us_min, time_us);
        time_us_max = std::max(time_us_max, time_us);
        sum_us += time_us;
        ++complete;
    }
    if (complete != 0) time_us_mean = sum_us / static_cast<double>(complete);
}

double instructions_per_packet(const FirmwareFigures& firmware) {
    return firmware.data_packets == 0
               ? 0
               : static_cast<double>(firmware.instructions) / static_cast<double>(firmware.data_packets);
}

double cores_for_line_rate(const RunReport& run) {
    double floor_ns = 0;
    for (const auto& phase : run.outcome.phases) floor_ns += plan_of(run, phase).floor_us * 1000;
    const double cycles = static_cast<double>(run.outcome.firmware.instructions) / run.scenario.ranks() *
                          run.scenario.device.cycles_per_instruction;
    return floor_ns == 0 ? 0 : cycles / floor_ns;
}

}  // namespace plait::sim
