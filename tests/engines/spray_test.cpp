#include <gtest/gtest.h>

#include <array>
#include <map>
#include <plait/engines/spray.hpp>
#include <set>
#include <type_traits>
#include <vector>

namespace plait::engines {
namespace {

static_assert(std::is_trivially_destructible_v<SpraySelector>);
static_assert(std::is_trivially_copyable_v<SpraySelector>);

SpraySelector make(SprayPolicy policy, uint32_t planes, uint32_t values, uint32_t seed = 1) {
    SpraySelector selector;
    EXPECT_TRUE(selector.configure({policy, planes, values, seed, 4}));
    return selector;
}

// How often each index comes up in `count` choices; fails the test if there is none.
std::map<uint32_t, uint32_t> indices(SpraySelector& selector, uint32_t offered, uint32_t count) {
    std::map<uint32_t, uint32_t> seen;
    for (uint32_t i = 0; i < count; ++i) {
        const auto choice = selector.choose(offered);
        if (!choice) {
            ADD_FAILURE() << "no path at choice " << i;
            break;
        }
        EXPECT_TRUE(offered >> choice->plane & 1);
        ++seen[choice->entropy_index];
    }
    return seen;
}

TEST(Spray, RefusesImpossibleConfigurations) {
    SpraySelector selector = make(SprayPolicy::spray, 2, 4);
    for (const auto& [planes, values, losses] : std::vector<std::array<uint32_t, 3>>{
             {0, 8, 4}, {9, 9, 4}, {4, 0, 4}, {4, 257, 4}, {4, 6, 4}, {4, 260, 4}, {4, 8, 0}})
        EXPECT_FALSE(selector.configure({SprayPolicy::spray, planes, values, 0, losses}));
    EXPECT_EQ(selector.usable_planes(), 0b11u) << "the former configuration stays";
    EXPECT_EQ(indices(selector, 0b11, 4).size(), 4u);
}

TEST(Spray, ValuesAreDistinctWithinAPlaneAndDifferBySeed) {
    std::set<std::vector<uint16_t>> sequences;
    for (uint32_t seed = 0; seed < 50; ++seed) {
        for (uint32_t planes : {1u, 2u, 4u, 8u}) {
            const SpraySelector selector = make(SprayPolicy::spray, planes, 256, seed);
            std::map<uint32_t, std::set<uint16_t>> by_plane;
            std::vector<uint16_t> sequence;
            for (uint32_t index = 0; index < 256; ++index) {
                const PathChoice path = selector.path(index);
                EXPECT_EQ(path.entropy_index, index);
                EXPECT_EQ(path.plane, index % planes);
                EXPECT_GE(path.entropy, 0xC000);
                by_plane[path.plane].insert(path.entropy);
                sequence.push_back(path.entropy);
            }
            for (const auto& [plane, values] : by_plane) EXPECT_EQ(values.size(), 256 / planes);
            sequences.insert(sequence);
        }
    }
    EXPECT_EQ(sequences.size(), 200u);
}

TEST(Spray, ValuesSpreadOverBuckets) {
    // Switches choose among 16 uplinks by a hash of the value; modulo is the plainest one. 50 QPs x 256
    // values: 800 a bucket.
    std::array<uint32_t, 16> bucket{};
    for (uint32_t seed = 0; seed < 50; ++seed) {
        const SpraySelector selector = make(SprayPolicy::spray, 4, 256, seed);
        for (uint32_t index = 0; index < 256; ++index) ++bucket[selector.path(index).entropy % 16];
    }
    for (uint32_t count : bucket) EXPECT_NEAR(count, 800, 5 * 28);  // five standard deviations of a fair draw
}

TEST(Spray, UsesEveryValueEquallyOften) {
    for (SprayPolicy policy : {SprayPolicy::spray, SprayPolicy::round_robin})
        for (uint32_t planes : {1u, 2u, 3u, 4u, 8u})
            for (uint32_t per_plane : {1u, 5u, 32u}) {
                SpraySelector selector = make(policy, planes, planes * per_plane, 99);
                const auto seen = indices(selector, 0xFF, 3 * planes * per_plane);
                EXPECT_EQ(seen.size(), planes * per_plane);
                for (const auto& [index, count] : seen) EXPECT_EQ(count, 3u);
            }
}

TEST(Spray, TakesTheOfferedPlanesInTurn) {
    SpraySelector selector = make(SprayPolicy::spray, 4, 32);
    std::array<uint32_t, 4> by_plane{};
    for (int i = 0; i < 300; ++i) ++by_plane[selector.choose(0b1101)->plane];
    EXPECT_EQ(by_plane, (std::array<uint32_t, 4>{100, 0, 100, 100}));
    EXPECT_EQ(selector.choose(0), std::nullopt);
    EXPECT_EQ(selector.choose(0xF0), std::nullopt) << "there are no such planes";
}

TEST(Spray, ACongestedValueSitsOutOneRotation) {
    SpraySelector selector = make(SprayPolicy::spray, 2, 8);
    selector.on_ack(5, true);
    EXPECT_EQ(selector.state(5), EntropyState::skip);
    EXPECT_EQ(indices(selector, 0b10, 3).count(5), 0u);
    const auto seen = indices(selector, 0b10, 8);
    EXPECT_GE(seen.at(5), 1u);
    EXPECT_EQ(selector.state(5), EntropyState::good);
}

TEST(Spray, AllCongestedIsAsGoodAsNone) {
    SpraySelector selector = make(SprayPolicy::spray, 2, 8);
    for (uint32_t index = 0; index < 8; ++index) selector.on_ack(index, true);
    EXPECT_EQ(indices(selector, 0b11, 8).size(), 8u);
}

TEST(Spray, AFailedValueIsReplacedOnItsPlaneUntilAProbeReturns) {
    SpraySelector selector = make(SprayPolicy::spray, 2, 8);
    selector.on_loss(2);
    selector.on_ack(2, false);  // of a packet that left earlier
    EXPECT_EQ(selector.state(2), EntropyState::assumed_bad);
    auto seen = indices(selector, 0b11, 240);
    EXPECT_EQ(seen.count(2), 0u);
    for (uint32_t index : {0u, 4u, 6u}) EXPECT_EQ(seen.at(index), 40u) << "plane 0 keeps its half";
    for (uint32_t index : {1u, 3u, 5u, 7u}) EXPECT_EQ(seen.at(index), 30u);
    selector.on_probe_returned(2);
    EXPECT_EQ(indices(selector, 0b11, 8).at(2), 1u);
}

TEST(Spray, AllFailedFallsBackToTheLeastRecentlyFailed) {
    SpraySelector selector = make(SprayPolicy::spray, 1, 4);
    for (uint32_t index : {2u, 0u, 3u, 1u}) selector.on_loss(index);
    EXPECT_EQ(selector.choose(1)->entropy_index, 2);
    EXPECT_EQ(selector.choose(1)->entropy_index, 2);
    selector.on_loss(2);
    EXPECT_EQ(selector.choose(1)->entropy_index, 0);
    selector.on_probe_returned(3);
    EXPECT_EQ(selector.choose(1)->entropy_index, 3);
    selector.on_loss(3);
    selector.on_loss(0);
    EXPECT_EQ(selector.choose(1)->entropy_index, 1);
}

TEST(Spray, PrefersGoodValuesOfAnotherPlaneToFailedOnes) {
    SpraySelector selector = make(SprayPolicy::spray, 2, 4);
    selector.on_loss(0);
    selector.on_loss(2);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(selector.choose(0b11)->plane, 1);
    EXPECT_EQ(selector.choose(0b01)->entropy_index, 0) << "no other plane may send now";
}

TEST(Spray, DeniedValuesAreNeverUsed) {
    SpraySelector selector = make(SprayPolicy::spray, 2, 4);
    selector.on_loss(0);
    selector.deny(0);
    selector.deny(0);
    selector.on_loss(0);
    selector.on_probe_returned(0);
    EXPECT_EQ(indices(selector, 0b01, 4).count(0), 0u);
    selector.deny(2);
    EXPECT_EQ(selector.choose(0b01), std::nullopt);
    EXPECT_EQ(selector.choose(0b11)->plane, 1);
    selector.restore_plane(0);
    EXPECT_EQ(selector.choose(0b01), std::nullopt);
}

TEST(Spray, SuspectsAPlaneAfterConsecutiveLosses) {
    SpraySelector selector = make(SprayPolicy::spray, 2, 16);
    for (uint32_t index : {0u, 2u, 4u}) selector.on_loss(index);
    EXPECT_FALSE(selector.plane_suspect(0));
    selector.on_ack(6, true);
    for (uint32_t index : {8u, 10u, 12u}) selector.on_loss(index);
    EXPECT_FALSE(selector.plane_suspect(0)) << "an acknowledgement came between";
    selector.on_loss(12);
    EXPECT_TRUE(selector.plane_suspect(0));
    EXPECT_FALSE(selector.plane_suspect(1));
    selector.exclude_plane(0);
    EXPECT_FALSE(selector.plane_suspect(0)) << "excluded is more than suspect";
}

TEST(Spray, AnExcludedPlaneReturns) {
    SpraySelector selector = make(SprayPolicy::spray, 4, 16);
    for (uint32_t index : {1u, 5u}) selector.on_loss(index);
    selector.exclude_plane(1);
    EXPECT_EQ(selector.usable_planes(), 0b1101u);
    EXPECT_EQ(selector.choose(0b0010), std::nullopt);
    const auto without = indices(selector, 0b1111, 120);
    for (const auto& [index, count] : without) EXPECT_EQ(count, 10u) << index;
    EXPECT_EQ(without.size(), 12u);

    selector.restore_plane(1);
    EXPECT_EQ(selector.usable_planes(), 0b1111u);
    EXPECT_EQ(selector.assumed_bad_count(), 0u);
    EXPECT_EQ(indices(selector, 0b1111, 16).size(), 16u);
}

TEST(Spray, AllPlanesExcluded) {
    for (SprayPolicy policy : {SprayPolicy::spray, SprayPolicy::round_robin, SprayPolicy::single_path}) {
        SpraySelector selector = make(policy, 2, 4);
        selector.exclude_plane(0);
        selector.exclude_plane(1);
        EXPECT_EQ(selector.choose(0b11), std::nullopt);
        selector.restore_plane(1);
        EXPECT_EQ(selector.choose(0b11)->plane, 1);
    }
}

TEST(Spray, RoundRobinWaitsForItsPlane) {
    SpraySelector selector = make(SprayPolicy::round_robin, 2, 8);
    const uint32_t first = selector.choose(0b11)->entropy_index;
    const uint32_t next_plane = (first + 1) % 2;
    EXPECT_EQ(selector.choose(1u << (1 - next_plane)), std::nullopt);
    EXPECT_EQ(selector.choose(1u << next_plane)->entropy_index, (first + 1) % 8)
        << "waiting did not lose the turn";
    selector.on_ack((first + 2) % 8, true);
    EXPECT_EQ(selector.choose(0b11)->entropy_index, (first + 2) % 8) << "ECN does not matter";
    selector.on_loss((first + 3) % 8);
    EXPECT_EQ(selector.choose(0b11)->entropy_index, (first + 4) % 8);
    selector.exclude_plane((first + 5) % 2);
    EXPECT_EQ(selector.choose(0b11)->entropy_index, (first + 6) % 8);
    EXPECT_EQ(selector.choose(0b11)->entropy_index, first % 8)
        << "an excluded plane is passed over, not waited for";
}

TEST(Spray, RoundRobinFallsBackToFailedValues) {
    SpraySelector selector = make(SprayPolicy::round_robin, 2, 4);
    for (uint32_t index : {3u, 0u, 1u, 2u}) selector.on_loss(index);
    EXPECT_EQ(selector.choose(0b10)->entropy_index, 3);
    EXPECT_EQ(selector.choose(0b01)->entropy_index, 0);
}

TEST(Spray, SinglePathStaysUntilItFails) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
        SpraySelector selector = make(SprayPolicy::single_path, 4, 16, seed);
        const PathChoice path = *selector.choose(0b1111);
        selector.on_ack(path.entropy_index, true);
        for (int i = 0; i < 20; ++i) EXPECT_EQ(selector.choose(0b1111)->entropy_index, path.entropy_index);
        EXPECT_EQ(selector.choose(0b1111 & ~(1u << path.plane)), std::nullopt) << "it waits for its plane";

        selector.on_loss(path.entropy_index);
        const PathChoice replacement = *selector.choose(0b1111);
        EXPECT_NE(replacement.entropy_index, path.entropy_index);
        EXPECT_EQ(replacement.plane, path.plane) << "replaced on the same plane";

        selector.exclude_plane(path.plane);
        EXPECT_NE(selector.choose(0b1111)->plane, path.plane);
    }
}

TEST(Spray, SinglePathUsesAnotherPlaneBeforeFailedValues) {
    SpraySelector selector = make(SprayPolicy::single_path, 2, 4);
    const uint32_t home = selector.choose(0b11)->plane;
    selector.on_loss(home);
    selector.on_loss(home + 2);
    EXPECT_NE(selector.choose(0b11)->plane, home);
    selector.on_loss(1 - home);
    selector.on_loss(3 - home);
    EXPECT_TRUE(selector.choose(0b11).has_value()) << "traffic does not stop";
}

TEST(Spray, ProbesWalkRoundAllFailedValues) {
    SpraySelector selector = make(SprayPolicy::spray, 4, 32);
    EXPECT_EQ(selector.next_to_probe(), std::nullopt);
    const std::set<uint32_t> failed{1, 5, 9, 2, 31};
    for (uint32_t index : failed) selector.on_loss(index);
    EXPECT_EQ(selector.assumed_bad_count(), 5u);
    for (int round = 0; round < 3; ++round) {
        std::set<uint32_t> probed;
        for (size_t i = 0; i < failed.size(); ++i) probed.insert(selector.next_to_probe()->entropy_index);
        EXPECT_EQ(probed, failed);
    }
    selector.exclude_plane(0);  // as after a link event: no value has failed
    std::set<uint32_t> planes;
    for (int i = 0; i < 6; ++i) planes.insert(selector.next_to_probe()->plane);
    EXPECT_EQ(planes, (std::set<uint32_t>{0, 1, 2, 3}));

    for (uint32_t index : failed) selector.on_probe_returned(index);
    EXPECT_EQ(selector.next_to_probe()->plane, 0);
    selector.restore_plane(0);
    EXPECT_EQ(selector.next_to_probe(), std::nullopt);
}

TEST(Spray, FeedbackOutOfRangeChangesNothing) {
    SpraySelector selector = make(SprayPolicy::spray, 2, 4);
    for (uint32_t index : {4u, 256u, 0xFFFFFFFFu}) {
        selector.on_ack(index, true);
        selector.on_loss(index);
        selector.deny(index);
        selector.on_probe_returned(index);
    }
    for (const uint32_t plane : std::vector<uint32_t>{2, 8, 40, 0xFFFFFFFF}) {
        selector.exclude_plane(plane);
        selector.restore_plane(plane);
        EXPECT_FALSE(selector.plane_suspect(plane));
    }
    EXPECT_EQ(selector.usable_planes(), 0b11u);
    EXPECT_EQ(selector.assumed_bad_count(), 0u);
    EXPECT_EQ(indices(selector, 0b11, 4).size(), 4u);
}

}  // namespace
}  // namespace plait::engines
