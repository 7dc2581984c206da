// The placement counters keep their contract, over the C++ engine and as plait_order, and the two agree.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "../../engines/seed.hpp"
#include "agreement.hpp"
#include "order_backends.hpp"

namespace plait::contract {
namespace {

using regmap::OrderOpcode;
using regmap::Status;
using Tags = std::vector<uint64_t>;

template <typename Table>
class OrderContract : public testing::Test {
  protected:
    OrderAnswer run(OrderOpcode opcode, uint32_t counter, uint64_t count = 0, uint64_t tag = 0) {
        const OrderCommand command{opcode, counter, count, tag};
        return table_.run(std::span(&command, 1)).front();
    }
    OrderAnswer place(uint32_t counter, uint64_t amount) { return run(OrderOpcode::place, counter, amount); }
    OrderAnswer release(uint32_t counter, uint64_t required, uint64_t tag) {
        return run(OrderOpcode::release, counter, required, tag);
    }
    OrderAnswer reset(uint32_t counter) { return run(OrderOpcode::reset, counter); }
    OrderAnswer read(uint32_t counter) { return run(OrderOpcode::read, counter); }

    Table table_;
};

using Backends = testing::Types<OrderReference, OrderRtl>;
TYPED_TEST_SUITE(OrderContract, Backends);

TYPED_TEST(OrderContract, TheFirstCommandAfterResetWorks) {
    EXPECT_TRUE(this->release(order_counters - 1, 1, 5).kept);
    EXPECT_EQ(this->place(order_counters - 1, 1).tags, Tags{5});
}

TYPED_TEST(OrderContract, AllCountsBeginAtZero) {
    for (uint32_t counter = 0; counter < order_counters; ++counter)
        ASSERT_EQ(this->read(counter), OrderAnswer{}) << counter;
}

TYPED_TEST(OrderContract, FiresExactlyAtTheRequirement) {
    EXPECT_EQ(this->release(0, 0, 1), OrderAnswer{}) << "nothing is required";
    EXPECT_TRUE(this->release(0, 10, 42).kept);
    EXPECT_EQ(this->place(0, 9).tags, Tags{});
    EXPECT_EQ(this->place(0, 1).tags, Tags{42});
    EXPECT_EQ(this->place(0, 1), (OrderAnswer{.placed = 11}));
    EXPECT_EQ(this->release(0, 11, 3), (OrderAnswer{.placed = 11}));
}

TYPED_TEST(OrderContract, FiresInOrderOfRequirementThenOfArrival) {
    this->release(0, 30, 1);
    this->release(0, 10, 2);
    this->release(0, 20, 3);
    this->release(0, 10, 4);
    this->release(0, 40, 5);
    this->release(0, 30, 6);
    EXPECT_EQ(this->place(0, 30).tags, (Tags{2, 4, 3, 1, 6}));
    EXPECT_EQ(this->place(0, 30), (OrderAnswer{.placed = 60, .tags = {5}}));
}

TYPED_TEST(OrderContract, RefusesWhenFullAndReusesFreedPlaces) {
    for (uint32_t i = 0; i < order_releases; ++i) ASSERT_TRUE(this->release(i % 3, 1 + i, i).kept);
    const OrderAnswer full{.status = Status::limit_exceeded, .waiting = order_releases};
    EXPECT_EQ(this->release(1, 2, 1000), full);
    EXPECT_EQ(this->release(1, 500, 1001), full);
    EXPECT_EQ(this->release(1, 0, 1002).status, Status::ok) << "needs no place";
    EXPECT_EQ(this->place(0, 4).tags, (Tags{0, 3}));
    EXPECT_TRUE(this->release(1, 2, 1003).kept);
    EXPECT_TRUE(this->release(1, 500, 1004).kept);
    EXPECT_EQ(this->release(1, 3, 1005), full);
    Tags expected;
    for (uint32_t i = 1; i < order_releases; i += 3) {
        expected.push_back(i);
        if (i == 1) expected.push_back(1003);
    }
    EXPECT_EQ(this->place(1, 499).tags, expected) << "what was refused left nothing behind";
    EXPECT_EQ(this->place(1, 1).tags, Tags{1004});
}

TYPED_TEST(OrderContract, RefusedCommandsChangeNothing) {
    this->release(7, ~uint64_t{0}, 9);
    this->place(7, ~uint64_t{0} - 1);
    const OrderAnswer before = this->read(7);
    const auto refused = [&](Status status, OrderOpcode opcode, uint32_t counter, uint64_t count) {
        EXPECT_EQ(this->run(opcode, counter, count, 1), (OrderAnswer{.status = status, .waiting = 1}));
        EXPECT_EQ(this->read(7), before);
    };
    refused(Status::out_of_range, OrderOpcode::place, 7, 2);
    refused(Status::out_of_range, OrderOpcode::place, 7, ~uint64_t{0});
    refused(Status::invalid_opcode, static_cast<OrderOpcode>(4), 7, 1);
    refused(Status::invalid_opcode, static_cast<OrderOpcode>(255), 7, 1);
    for (const OrderOpcode opcode :
         {OrderOpcode::place, OrderOpcode::release, OrderOpcode::reset, OrderOpcode::read}) {
        refused(Status::invalid_parameter, opcode, order_counters + 7, 1);
        refused(Status::invalid_parameter, opcode, ~uint32_t{0}, 1);
    }
    EXPECT_EQ(this->place(7, 1).tags, Tags{9});
}

TYPED_TEST(OrderContract, ResetDropsWhatWaits) {
    this->release(3, 5, 1);
    this->release(3, 4, 2);
    this->release(4, 4, 3);
    this->place(3, 3);
    EXPECT_EQ(this->reset(3), (OrderAnswer{.waiting = 1, .tags = {2, 1}}));
    EXPECT_EQ(this->reset(3), (OrderAnswer{.waiting = 1}));
    EXPECT_TRUE(this->release(3, 1, 4).kept);
    EXPECT_EQ(this->place(3, 1).tags, Tags{4});
    EXPECT_EQ(this->place(4, 4).tags, Tags{3});
}

// While the table fills, much is required and little placed.
OrderCommand random_command(std::mt19937_64& random, const OrderReference& table, bool fills) {
    // Few counters, so that they meet, the first and the last among them; now and then one that does not
    // exist.
    const auto counter = static_cast<uint32_t>(random() % 4 * 341 + (random() % 64 ? 0 : order_counters));
    const uint64_t placed = table.placed(counter);
    switch (random() % 128) {
        case 0:
        case 1: return {fills ? OrderOpcode::read : OrderOpcode::reset, counter, 0, 0};
        case 2: return {OrderOpcode::place, counter, ~placed + random() % 16, 0};  // to the end, or past it
        case 3: return {static_cast<OrderOpcode>(random() % 6), counter, random() % 100, random()};
        default: break;
    }
    if (random() % 5 < 3)
        return {OrderOpcode::release, counter, placed + random() % (fills ? 1000 : 60), random()};
    return {OrderOpcode::place, counter, random() % (fills ? 3 : 12), 0};
}

void agree_at_random(uint64_t transactions) {
    const uint64_t seed = engines::test::seed_or(52);
    SCOPED_TRACE(engines::test::seed_message(seed));
    std::mt19937_64 random(seed);
    OrderReference reference;
    OrderRtl rtl(seed);
    constexpr size_t batch = 200;
    uint64_t kept = 0, tags = 0, full = 0, overflows = 0;
    for (uint64_t done = 0; done < transactions; done += batch) {
        std::vector<OrderCommand> commands;
        std::vector<OrderAnswer> expected;
        while (commands.size() < batch) {
            commands.push_back(random_command(random, reference, done / 2000 % 2 == 0));
            expected.push_back(reference.run(commands.back()));
            kept += expected.back().kept;
            tags += expected.back().tags.size();
            full += expected.back().status == Status::limit_exceeded;
            overflows += expected.back().status == Status::out_of_range;
        }
        const Stalls rates = random_stalls(random);
        const std::vector<OrderAnswer> answers = rtl.run(commands, rates);
        for (size_t i = 0; i < batch; ++i)
            ASSERT_EQ(answers[i], expected[i])
                << "transaction " << done + i << ", opcode " << static_cast<int>(commands[i].opcode)
                << " counter " << commands[i].counter << " count " << commands[i].count;
    }
    EXPECT_GT(std::min(kept, tags), transactions / 10);
    EXPECT_GT(std::min(full, overflows), transactions / 500);
}

TEST(OrderAgreement, RandomCommandsUnderRandomStalls) { agree_at_random(20'000); }
TEST(OrderAgreement, AMillionRandomCommands) { agree_at_random(1'000'000); }

TEST(OrderRate, OneCommandACycleThatNeedNotWalk) {
    constexpr uint64_t latency_cycles = 2;
    std::vector<OrderCommand> commands;  // all of one counter: each needs what the one before it left
    for (uint64_t i = 1; i <= 5'000; ++i) {
        commands.push_back({OrderOpcode::place, 8, 1, 0});
        commands.push_back({OrderOpcode::release, 8, i, 0});
    }
    OrderRtl rtl;
    const uint64_t before = rtl.cycles();
    const std::vector<OrderAnswer> answers = rtl.run(commands);
    EXPECT_EQ(rtl.cycles() - before, commands.size() + latency_cycles);
    EXPECT_EQ(answers.back(), (OrderAnswer{.placed = 5'000}));
}

// A release that waits costs a cycle for each before it and two more, giving them all up one for each and one
// more.
TEST(OrderRate, WalksTakeACycleForEachRelease) {
    constexpr uint64_t latency_cycles = 2;
    OrderRtl rtl;
    const auto cycles = [&](OrderOpcode opcode, uint64_t count) {
        const OrderCommand command{opcode, 2, count, count};
        const uint64_t before = rtl.cycles();
        rtl.run(std::span(&command, 1));
        return rtl.cycles() - before - latency_cycles;
    };
    EXPECT_EQ(cycles(OrderOpcode::release, 100), 1u);
    for (uint64_t before_it = 1; before_it < 20; ++before_it)
        EXPECT_EQ(cycles(OrderOpcode::release, 100 + before_it), 1 + before_it + 2);
    EXPECT_EQ(cycles(OrderOpcode::release, 99), 1u) << "before all others";
    EXPECT_EQ(cycles(OrderOpcode::place, 200), 1u + 21 + 1);
}

}  // namespace
}  // namespace plait::contract
