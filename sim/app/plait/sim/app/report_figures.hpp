// Figures that both forms of the report derive from what was measured and planned.
#pragma once

#include <optional>

#include <plait/sim/app/report.hpp>

namespace plait::sim {

/// Of one phase. Throws std::logic_error when the plan has no such phase.
struct PhaseFigures {
    PhaseFigures(const RunReport& run, const PhaseOutcome& phase);

    const PhasePlan& plan;
    double time_us = 0;
    double efficiency = 0;  ///< floor_us / time_us; 0 for an incomplete phase.
    double goodput_gbytes_per_s =
        0;  ///< Payload over scale-out, each row once, of the mean GPU; 0 for an incomplete phase.
    double saved_share = 0;       ///< Of the scale-out bytes that one copy for each target rank would take.
    std::optional<double> noise;  ///< Of combined rows: root of the error's energy over the sums' energy.
};

struct FlowFigures {
    explicit FlowFigures(const RunReport& run);

    size_t count = 0;  ///< Without the victim.
    size_t complete = 0;
    double time_us_min = 0;  ///< Of complete flows.
    double time_us_mean = 0;
    double time_us_max = 0;
    std::optional<double> victim_time_us;
};

double instructions_per_packet(const FirmwareFigures& firmware);

/// Cores of 1 GHz that a device needs to do the run's firmware work in the time of its phases' floors,
/// perfectly spread. 0 when nothing was run.
double cores_for_line_rate(const RunReport& run);

}  // namespace plait::sim
