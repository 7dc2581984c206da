#include <gtest/gtest.h>

#include <cmath>
#include <plait/sim/fabric/random.hpp>
#include <vector>

namespace plait::sim {
namespace {

// Published values: the first outputs of splitmix64 with seed 1234567 (Rosetta Code, "Pseudo-random
// numbers/Splitmix64"). The generator adds the constant to its state and returns the mix of it.
TEST(Random, MixIsTheFinaliserOfSplitmix64) {
    const uint64_t expected[] = {6457827717110365317ULL, 3203168211198807973ULL, 9817491932198370423ULL,
                                 4593380528125082431ULL, 16408922859458223821ULL};
    for (uint64_t i = 0; i < 5; ++i) {
        EXPECT_EQ(mix64(1234567 + (i + 1) * golden_gamma), expected[i]);
    }
}

// Published FNV-1a 64-bit test vectors (Noll).
TEST(Random, NamesAreHashedWithFnv1a) {
    EXPECT_EQ(hash_name(""), 0xcbf29ce484222325ULL);
    EXPECT_EQ(hash_name("a"), 0xaf63dc4c8601ec8cULL);
    EXPECT_EQ(hash_name("foobar"), 0x85944171f73967e8ULL);
}

TEST(Random, StreamsOfOneSeedDiffer) {
    Random first(7, "loss"), again(7, "loss"), other_name(7, "delay"), other_seed(8, "loss");
    for (int i = 0; i < 100; ++i) {
        const uint64_t value = first.next();
        EXPECT_EQ(value, again.next());
        EXPECT_NE(value, other_name.next());
        EXPECT_NE(value, other_seed.next());
    }
}

TEST(Random, UniformCoversItsRangeEvenly) {
    Random random(3, "uniform");
    constexpr uint64_t bound = 7;
    constexpr int draws = 70'000;
    std::vector<int> counts(bound);
    for (int i = 0; i < draws; ++i) {
        ++counts.at(random.uniform(bound));
    }
    for (const int count : counts) {
        EXPECT_NEAR(count, draws / 7.0, 5 * std::sqrt(draws / 7.0));
    }
    EXPECT_EQ(random.uniform(1), 0U);
}

TEST(Random, BernoulliKeepsItsProbability) {
    Random random(4, "bernoulli");
    int hits = 0;
    for (int i = 0; i < 100'000; ++i) {
        hits += random.bernoulli(0.1) ? 1 : 0;
        EXPECT_FALSE(random.bernoulli(0));
        EXPECT_TRUE(random.bernoulli(1));
    }
    EXPECT_NEAR(hits, 10'000, 5 * std::sqrt(9'000.0));
}

// Of two sources that make events for the same instants, each is first about half of the time.
TEST(Random, NoSourceWinsAllTies) {
    constexpr int rounds = 10'000;
    int first_wins = 0;
    for (uint64_t count = 0; count < rounds; ++count) {
        first_wins += tie_break(1, 10, count) < tie_break(1, 11, count) ? 1 : 0;
    }
    EXPECT_NEAR(first_wins, rounds / 2, 5 * std::sqrt(rounds / 4.0));
}

}  // namespace
}  // namespace plait::sim
