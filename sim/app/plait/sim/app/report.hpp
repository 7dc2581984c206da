// What a run was: a table for people, JSON for machines (keys: docs/report.md).
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <plait/sim/app/plan.hpp>
#include <plait/sim/app/scenario.hpp>
#include <plait/sim/app/simulate.hpp>

namespace plait::sim {

/// One variant of a scenario and what became of it.
struct RunReport {
    Scenario scenario;
    Plan plan;
    RunOutcome outcome;

    /// Complete, and nothing that was checked was wrong.
    bool succeeded() const;
    /// Succeeded, and every byte was checked: real payload.
    bool verified() const;
};

/// Runs of one scenario file. `runs` may be fewer than `variants` when the user ended it.
struct Report {
    size_t variants = 1;
    std::vector<RunReport> runs;  ///< At least one.

    bool complete() const;
    bool verified() const;
    bool succeeded() const;
    bool interrupted() const;
};

/// Deterministic: no wall-clock figure, keys in a fixed order.
nlohmann::ordered_json to_json(const Report& report);

/// The table. Wall-clock figures last, if `with_wall_clock`.
std::string to_text(const Report& report, bool with_wall_clock);

/// What `plait profile` shows of a run.
std::string profile_text(const Scenario& scenario, const RunOutcome& outcome);

/// The costs that fit measured handlers best, in the sense of least squares, kind by kind: none below zero,
/// and as many instructions in all as were measured.
HandlerCosts fit_costs(const CostSamples& samples);
/// The same as a scenario writes it: `[device.instructions]`. Kinds that did not come are left out.
std::string calibration_text(const CostSamples& samples);

}  // namespace plait::sim
