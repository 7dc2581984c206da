#include <plait/sim/app/campaign.hpp>

#include <set>

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
    for (const FaultKind kind : {FaultKind::loss, FaultKind::corruption, FaultKind::duplication,
                                 FaultKind::reordering, FaultKind::link_down, FaultKind::link_up,
                                 FaultKind::plane_down, FaultKind::plane_up, FaultKind::device_down})
        EXPECT_EQ(kinds.count(kind), 1U) << static_cast<int>(kind);
}

TEST(Campaign, WhatGoesDownComesBackWithinAMillisecond) {
    for (uint64_t seed = 0; seed < 300; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        uint64_t down_since_ns = 0;
        bool is_down = false;
        for (const Fault& fault : drawn(seed).faults) {
            if (fault.what == FaultKind::link_down || fault.what == FaultKind::plane_down) {
                EXPECT_FALSE(is_down);
                is_down = true;
                down_since_ns = fault.at_ns;
            } else if (fault.what == FaultKind::link_up || fault.what == FaultKind::plane_up) {
                EXPECT_TRUE(is_down);
                EXPECT_LE(fault.at_ns - down_since_ns, 1'000'000U);
                is_down = false;
            }
        }
        EXPECT_FALSE(is_down);
    }
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
}

}  // namespace
}  // namespace plait::sim
