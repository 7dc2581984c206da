#include <plait/sim/app/campaign.hpp>

#include <algorithm>
#include <set>
#include <tuple>

#include "app_test.hpp"

namespace plait::sim {
namespace {

Scenario drawn(uint64_t seed) { return parse_scenario(campaign_scenario(seed), "campaign.toml").front(); }

TEST(Campaign, DrawsTheSameTextForASeedAndOthersForOthers) {
    EXPECT_EQ(campaign_scenario(7), campaign_scenario(7));
    std::set<std::string> texts;
    for (uint64_t seed = 0; seed < 100; ++seed) texts.insert(campaign_scenario(seed));
    EXPECT_EQ(texts.size(), 100U);
}

TEST(Campaign, DrawsOnlyScenariosThatAreAccepted) {
    std::set<FaultKind> kinds;
    std::set<regmap::EntryPolicy> policies;
    for (uint64_t seed = 0; seed < 1000; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const Scenario scenario = drawn(seed);
        EXPECT_EQ(scenario.seed, seed);
        policies.insert(scenario.ep.entry_policy);
        for (const Fault& fault : scenario.faults) kinds.insert(fault.what);
    }
    EXPECT_EQ(policies.size(), 4U);
    for (const FaultKind kind :
         {FaultKind::loss, FaultKind::corruption, FaultKind::duplication, FaultKind::reordering,
          FaultKind::link_down, FaultKind::link_up, FaultKind::plane_down, FaultKind::plane_up,
          FaultKind::device_down, FaultKind::host_stops})
        EXPECT_EQ(kinds.count(kind), 1U) << static_cast<int>(kind);
}

TEST(Campaign, EverythingIsUpAgainBeforeAQueuePairGivesUp) {
    uint32_t links_at_once = 0;
    for (uint64_t seed = 0; seed < 300; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const Scenario scenario = drawn(seed);
        std::set<std::tuple<bool, uint32_t, uint32_t>> down;
        uint64_t last_ns = 0;
        for (const Fault& fault : scenario.faults) {
            const bool whole = fault.what == FaultKind::plane_down || fault.what == FaultKind::plane_up;
            const std::tuple link{whole, whole ? 0 : fault.device, uint32_t{fault.plane}};
            if (fault.what == FaultKind::link_down || fault.what == FaultKind::plane_down) down.insert(link);
            else if (fault.what == FaultKind::link_up || fault.what == FaultKind::plane_up) down.erase(link);
            else continue;
            last_ns = fault.at_ns;
            links_at_once = std::max(links_at_once, static_cast<uint32_t>(down.size()));
        }
        EXPECT_TRUE(down.empty());
        EXPECT_LE(last_ns, uint64_t{scenario.transport.qp_time_limit_us} * 1000);
    }
    EXPECT_GE(links_at_once, 6U);
}

TEST(Campaign, DrawsAllThatCanHappen) {
    uint32_t trimming = 0, losing = 0, absent = 0, for_ever = 0, for_a_while = 0, of_links = 0;
    for (uint64_t seed = 0; seed < 300; ++seed) {
        const Scenario scenario = drawn(seed);
        const bool shallow = scenario.scale_out.buffer_bytes < 262144;
        trimming += scenario.scale_out.trimming ? 1 : 0;
        losing += shallow && !scenario.scale_out.trimming ? 1 : 0;
        absent += scenario.ep.absent_ranks.empty() ? 0 : 1;
        for (const Fault& fault : scenario.faults) {
            if (fault.what == FaultKind::host_stops) ++(fault.for_ns == 0 ? for_ever : for_a_while);
            of_links += fault.on_link ? 1 : 0;
        }
    }
    for (const uint32_t count : {trimming, losing, absent, for_ever, for_a_while, of_links})
        EXPECT_GT(count, 5U);
}

TEST(Campaign, JudgesByWhatWasToBeExpected) {
    Scenario scenario;
    RunOutcome outcome;
    outcome.complete = true;
    EXPECT_TRUE(judge(scenario, outcome).empty());
    outcome.complete = false;
    EXPECT_EQ(judge(scenario, outcome).size(), 1U);
    outcome.errors = {"rank 1: combine ended as rank_failed with 3 rows, expected 4"};
    EXPECT_EQ(judge(scenario, outcome), outcome.errors);  // nobody died
    scenario.faults.push_back({});
    scenario.faults.back().what = FaultKind::device_down;
    EXPECT_TRUE(judge(scenario, outcome).empty());
    outcome.errors.emplace_back("rank 1: wrong bytes in combined row 2");
    EXPECT_EQ(judge(scenario, outcome).size(), 1U);
    outcome.errors = {"rank 1: dispatch ended as timeout with 3 rows, expected 4"};
    EXPECT_EQ(judge(scenario, outcome), outcome.errors);
    scenario.ep.absent_ranks = {2};
    EXPECT_TRUE(judge(scenario, outcome).empty());
    outcome.errors.emplace_back("rank 1: dispatch blames rank 3");
    EXPECT_EQ(judge(scenario, outcome).size(), 1U);
    scenario = {};
    scenario.faults.push_back({});
    scenario.faults.back().what = FaultKind::host_stops;
    EXPECT_EQ(judge(scenario, outcome).size(), 1U);
}

}  // namespace
}  // namespace plait::sim
