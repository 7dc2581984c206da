#include <gtest/gtest.h>

#include <random>

#include <plait/sim/app/report.hpp>

namespace plait::sim {
namespace {

constexpr size_t index(WorkPart part) { return static_cast<size_t>(part); }

CostSamples::Parts parts_of(uint32_t places, uint32_t writes, uint32_t size) {
    CostSamples::Parts parts{};
    parts[index(WorkPart::place)] = places;
    parts[index(WorkPart::write)] = writes;
    parts[index(WorkPart::size)] = size;
    return parts;
}

uint32_t cost(const HandlerCosts& costs, Work work) { return costs.instructions[static_cast<size_t>(work)]; }
uint32_t cost(const HandlerCosts& costs, Work work, WorkPart part) {
    return costs.each[static_cast<size_t>(work)][index(part)];
}

// What handlers with these costs would have taken.
uint64_t charged(const HandlerCosts& costs, Work work, const CostSamples::Parts& parts) {
    uint64_t sum = cost(costs, work);
    for (size_t part = 0; part < work_parts; ++part)
        sum += uint64_t{costs.each[static_cast<size_t>(work)][part]} * parts[part];
    return sum;
}

TEST(FitCosts, FindsWhatHandlersWereMadeOf) {
    CostSamples samples;
    for (uint32_t i = 0; i < 60; ++i)
        samples.add(Work::timer, parts_of(i % 3, i % 5, i % 7),
                    90 + 40 * (i % 3) + 7 * (i % 5) + 11 * (i % 7));
    samples.add(Work::doorbell, {}, 123);
    const HandlerCosts costs = fit_costs(samples);
    EXPECT_EQ(cost(costs, Work::timer), 90U);
    EXPECT_EQ(cost(costs, Work::timer, WorkPart::place), 40U);
    EXPECT_EQ(cost(costs, Work::timer, WorkPart::write), 7U);
    EXPECT_EQ(cost(costs, Work::timer, WorkPart::size), 11U);
    EXPECT_EQ(cost(costs, Work::timer, WorkPart::fetch), 0U);
    EXPECT_EQ(cost(costs, Work::doorbell), 123U);
    EXPECT_EQ(cost(costs, Work::credit), 0U);
}

TEST(FitCosts, PartsThatAlwaysComeTogetherAreFittedTogether) {
    CostSamples samples;
    std::vector<CostSamples::Parts> all;
    for (uint32_t i = 0; i < 40; ++i) {
        all.push_back(parts_of(i % 4, i % 4, 1));
        samples.add(Work::fetched, all.back(), 50 + 30 * (i % 4));
    }
    const HandlerCosts costs = fit_costs(samples);
    for (uint32_t i = 0; i < 40; ++i) EXPECT_EQ(charged(costs, Work::fetched, all[i]), 50 + 30 * (i % 4));
}

TEST(FitCosts, NoPartIsBelowZeroAndTheSumStaysRight) {
    CostSamples samples;
    std::mt19937 engine(5);
    const auto random = [&engine] { return static_cast<uint32_t>(engine()); };
    std::vector<CostSamples::Parts> all;
    uint64_t measured = 0;
    for (uint32_t i = 0; i < 1000; ++i) {
        all.push_back(parts_of(random() % 6, random() % 6, random() % 30));
        const uint64_t taken = 400 + 35 * all.back()[index(WorkPart::place)] -
                               60 * all.back()[index(WorkPart::write)] + random() % 100;
        samples.add(Work::reduced, all.back(), taken);
        measured += taken;
    }
    const HandlerCosts costs = fit_costs(samples);
    EXPECT_EQ(cost(costs, Work::reduced, WorkPart::write), 0U);
    uint64_t sum = 0;
    for (const auto& parts : all) sum += charged(costs, Work::reduced, parts);
    EXPECT_NEAR(static_cast<double>(sum), static_cast<double>(measured), 1000);  // half an instruction each
}

}  // namespace
}  // namespace plait::sim
