#include <gtest/gtest.h>

#include <array>
#include <map>
#include <plait/engines/forward.hpp>
#include <random>
#include <type_traits>
#include <vector>

#include "seed.hpp"

namespace plait::engines {
namespace {

static_assert(std::is_trivially_destructible_v<ForwardSet>);

TEST(Forward, VisitsTargetsInOrderOfRank) {
    const std::array<uint32_t, 3> indices{70, 80, 90};
    const auto set = ForwardSet::make(0b1010'0001, 8, 5, indices);
    ASSERT_TRUE(set.has_value());
    std::vector<std::pair<uint32_t, uint32_t>> visited;
    set->for_each([&](uint32_t rank, uint32_t index) { visited.emplace_back(rank, index); });
    EXPECT_EQ(visited, (std::vector<std::pair<uint32_t, uint32_t>>{{0, 70}, {5, 80}, {7, 90}}));
    EXPECT_TRUE(set->includes_own());
    EXPECT_EQ(set->remote_targets(), 0b1000'0001u);
    EXPECT_EQ(set->copies(), 3u);
    EXPECT_EQ(set->index_of(5), 80u);
    EXPECT_EQ(set->index_of(4), std::nullopt);
    EXPECT_EQ(set->index_of(64), std::nullopt);
}

TEST(Forward, RefusesWhatDoesNotFitTheNode) {
    const std::array<uint32_t, 2> two{1, 2};
    EXPECT_TRUE(ForwardSet::make(0b0011, 4, 0, two).has_value());
    EXPECT_FALSE(ForwardSet::make(0b10001, 4, 0, two).has_value()) << "target beyond the node";
    EXPECT_FALSE(ForwardSet::make(0b0111, 4, 0, two).has_value()) << "too few indices";
    EXPECT_FALSE(ForwardSet::make(0b0001, 4, 0, two).has_value()) << "too many indices";
    EXPECT_FALSE(ForwardSet::make(0, 4, 0, {}).has_value()) << "no target";
    EXPECT_FALSE(ForwardSet::make(0b0011, 4, 4, two).has_value()) << "own rank beyond the node";
    EXPECT_FALSE(ForwardSet::make(0b0011, 0, 0, two).has_value());
    EXPECT_FALSE(ForwardSet::make(0b0011, 65, 0, two).has_value());
}

TEST(Forward, AgreesWithAMapForEveryNodeSize) {
    const uint64_t seed = test::seed_or(22);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937_64 random(seed);
    for (uint32_t node = 1; node <= 64; ++node) {
        for (int round = 0; round < 20; ++round) {
            std::map<uint32_t, uint32_t> expected;
            const auto forced = static_cast<uint32_t>(random() % node);
            for (uint32_t rank = 0; rank < node; ++rank)
                if (rank == forced || random() % 2) expected[rank] = static_cast<uint32_t>(random());
            uint64_t mask = 0;
            std::vector<uint32_t> indices;
            for (const auto& [rank, index] : expected) {
                mask |= uint64_t{1} << rank;
                indices.push_back(index);
            }
            const auto own = static_cast<uint32_t>(random() % node);
            const auto set = ForwardSet::make(mask, node, own, indices);
            ASSERT_TRUE(set.has_value());
            std::map<uint32_t, uint32_t> visited;
            set->for_each([&](uint32_t rank, uint32_t index) { visited[rank] = index; });
            EXPECT_EQ(visited, expected);
            EXPECT_EQ(set->includes_own(), expected.count(own) == 1);
            for (uint32_t rank = 0; rank < node; ++rank) {
                const auto found = expected.find(rank);
                EXPECT_EQ(set->index_of(rank),
                          found == expected.end() ? std::nullopt : std::optional(found->second));
            }
        }
    }
}

}  // namespace
}  // namespace plait::engines
