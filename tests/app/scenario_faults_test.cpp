// Faults that a scenario says in few words.
#include <map>
#include <set>

#include "app_test.hpp"

namespace plait::sim {
namespace {

using test::refusal;

constexpr const char* permutation = "workload = { kind = \"permutation\" }\n";

std::vector<Fault> faults_of(const std::string& faults, uint64_t seed = 1) {
    const std::string text = "seed = " + std::to_string(seed) + "\n" + permutation + faults;
    return parse_scenario(text, "case.toml").front().faults;
}

TEST(ScenarioFaults, ALinkThatFlapsGoesDownAndUpInTurn) {
    const auto faults = faults_of(
        "[[fault]]\nat_us = 10\nwhat = \"link_flap\"\ndevice = 3\nplane = 2\ndown_us = 5\nup_us = 20.5\n"
        "times = 3\nsilent = true\n");
    ASSERT_EQ(faults.size(), 6U);
    const uint64_t times_ns[] = {10'000, 15'000, 35'500, 40'500, 61'000, 66'000};
    for (size_t i = 0; i < faults.size(); ++i) {
        EXPECT_EQ(faults[i].what, i % 2 == 0 ? FaultKind::link_down : FaultKind::link_up);
        EXPECT_EQ(faults[i].at_ns, times_ns[i]);
        EXPECT_EQ(faults[i].device, 3U);
        EXPECT_EQ(faults[i].plane, 2U);
        EXPECT_TRUE(faults[i].silent);
    }
}

TEST(ScenarioFaults, FlapsAtRandomKeepTheirMeanAndTheSeed) {
    const std::string text =
        "[[fault]]\nat_us = 0\nwhat = \"link_flap\"\nleaf = 0\nspine = 1\nplane = 0\ndown_us = 10\nup_us = "
        "30\n"
        "times = 1000\nrandom = true\n";
    const auto faults = faults_of(text);
    ASSERT_EQ(faults.size(), 2000U);
    uint64_t down_ns = 0;
    for (size_t i = 0; i < faults.size(); i += 2) {
        const uint64_t one_ns = faults[i + 1].at_ns - faults[i].at_ns;
        EXPECT_LE(one_ns, 20'000U);
        EXPECT_TRUE(faults[i].between_switches);
        down_ns += one_ns;
    }
    EXPECT_NEAR(static_cast<double>(down_ns), 10e6, 0.6e6);
    EXPECT_NEAR(static_cast<double>(faults.back().at_ns), 40e6, 2.5e6);
    EXPECT_EQ(faults_of(text).back().at_ns, faults.back().at_ns);
    EXPECT_NE(faults_of(text, 2).back().at_ns, faults.back().at_ns);
}

TEST(ScenarioFaults, SeveralLinksFlapEachByItself) {
    const auto faults = faults_of(
        "[[fault]]\nat_us = 100\nwhat = \"link_flap\"\nlinks = 12\ndown_us = 5\nup_us = 10\ntimes = 4\n");
    std::map<std::pair<uint32_t, uint8_t>, std::vector<Fault>> by_link;
    std::set<uint64_t> begins_ns;
    for (const Fault& fault : faults) by_link[{fault.device, fault.plane}].push_back(fault);
    ASSERT_EQ(by_link.size(), 12U);
    for (const auto& [link, own] : by_link) {
        ASSERT_EQ(own.size(), 8U);
        EXPECT_GE(own.front().at_ns, 100'000U);
        EXPECT_LT(own.front().at_ns, 115'000U);
        begins_ns.insert(own.front().at_ns);
        for (size_t i = 0; i < own.size(); ++i)
            EXPECT_EQ(own[i].what, i % 2 == 0 ? FaultKind::link_down : FaultKind::link_up);
    }
    EXPECT_GT(begins_ns.size(), 6U);
    // All there are.
    EXPECT_EQ(
        faults_of("[[fault]]\nat_us = 0\nwhat = \"link_flap\"\nlinks = 64\ndown_us = 1\nup_us = 1\n").size(),
        128U);
}

TEST(ScenarioFaults, RatesAreEndToEndOrOfOneLink) {
    const auto faults = faults_of(
        "fault = [ { at_us = 0, what = \"loss\", rate = 0.1 },\n"
        "          { at_us = 1, what = \"duplication\", rate = 0.2, device = 4, plane = 1 },\n"
        "          { at_us = 2, what = \"reordering\", rate = 0.3, delay_ns = 50, leaf = 0, spine = 9, plane "
        "= 2 } ]\n");
    ASSERT_EQ(faults.size(), 3U);
    EXPECT_FALSE(faults[0].on_link);
    EXPECT_TRUE(faults[1].on_link);
    EXPECT_EQ(faults[1].device, 4U);
    EXPECT_FALSE(faults[1].between_switches);
    EXPECT_TRUE(faults[2].between_switches);
    EXPECT_EQ(faults[2].spine, 9U);
    EXPECT_EQ(faults[2].delay_ns, 50U);
}

TEST(ScenarioFaults, HostsOfAnEpWorkloadStopForAWhileOrForEver) {
    const std::string ep = "[workload]\nkind = \"ep\"\nabsent_ranks = [7, 2]\n";
    const std::string stop = "[[fault]]\nat_us = 4\nwhat = \"host_stops\"\ndevice = 3\n";
    const Scenario scenario = parse_scenario(ep + stop + "for_us = 2.5\n" + stop, "case.toml").front();
    ASSERT_EQ(scenario.faults.size(), 2U);
    EXPECT_EQ(scenario.faults[0].device, 3U);
    EXPECT_EQ(scenario.faults[0].for_ns, 2500U);
    EXPECT_EQ(scenario.faults[1].for_ns, 0U);
    EXPECT_EQ(scenario.ep.absent_ranks, (std::vector<uint32_t>{7, 2}));
    EXPECT_EQ(refusal([&] { (void)faults_of(stop); }),
              "case.toml:5: fault[0].what: only the hosts of workload.kind = \"ep\" can stop");
}

std::string refused(const std::string& fault) {
    return refusal([&] { (void)faults_of("[[fault]]\nat_us = 1\n" + fault + "\n"); });
}

TEST(ScenarioFaults, WhatDoesNotFitGetsOneClearLine) {
    const std::string flap = "what = \"link_flap\"\ndown_us = 1\nup_us = 1\n";
    EXPECT_EQ(refused(flap), "case.toml:3: fault[0].device: found nothing, expected an integer from 0 to 15");
    EXPECT_EQ(refused(flap + "links = 65"),
              "case.toml:8: fault[0].links: found integer 65, expected an integer from 1 to 64");
    EXPECT_EQ(
        refused(flap + "links = 2\ndevice = 1"),
        "case.toml:9: fault[0].device: unknown key, expected one of at_us, down_us, links, random, silent, "
        "times, up_us, what");
    EXPECT_EQ(refused(flap + "links = 64\ntimes = 10001"),
              "case.toml:9: fault[0].times: found integer 10001, expected an integer from 1 to 10000");
    EXPECT_EQ(refused("what = \"link_flap\"\nlinks = 2\nup_us = 1"),
              "case.toml:3: fault[0].down_us: found nothing, expected a number from 0.001 to 3600000000");
    EXPECT_EQ(refused("what = \"loss\"\nrate = 0.1\ndevice = 1"),
              "case.toml:7: fault[0].device: unknown key, expected one of at_us, plane, rate, what");
    EXPECT_EQ(refused("what = \"loss\"\nrate = 0.1\nplane = 1"),
              "case.toml:3: fault[0].device: found nothing, expected an integer from 0 to 15");
}

}  // namespace
}  // namespace plait::sim
