// Many small clusters, each with a workload and a schedule of faults drawn from its seed.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include <plait/sim/app/scenario.hpp>
#include <plait/sim/app/simulate.hpp>

namespace plait::sim {

struct CampaignOptions {
    uint64_t first_seed = 1;
    uint64_t seeds = 20;
    uint32_t jobs = 0;  ///< Processes at once; 0: as many as there are cores.
    bool show = false;  ///< Print the scenarios instead of running them.
};

/// A scenario in TOML: EP calls of a small group, with faults that it must survive. The same seed draws the
/// same text on every machine. Links and planes are all up again before a queue pair's time limit is over:
/// where no device dies, no host stops and no rank is absent every call must succeed.
std::string campaign_scenario(uint64_t seed);

/// What is wrong with a run: nothing lost, repeated, wrong or leaked, no hang. Where a device died calls may
/// end as rank_failed with rows missing, where a host stopped or a rank was absent as timeout or aborted, and
/// nothing else.
std::vector<std::string> judge(const Scenario& scenario, const RunOutcome& outcome);

/// Runs them, a process each. A seed that fails prints what was wrong and the command that repeats it.
/// Answers the exit status: 0 all right, 1 some failed, 130 ended by Ctrl-C.
int run_campaign(const CampaignOptions& options, std::ostream& out);

}  // namespace plait::sim
