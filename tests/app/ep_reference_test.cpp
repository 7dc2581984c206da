#include <plait/sim/app/ep_reference.hpp>

#include <algorithm>
#include <random>

#include "app_test.hpp"

namespace plait::sim {
namespace {

constexpr EpShape small{4, 2, 8};  // 2 nodes x 2 ranks, experts 0 1 | 2 3 || 4 5 | 6 7

Routing make_routing(const std::vector<std::vector<std::vector<int16_t>>>& of_ranks, uint32_t topk) {
    Routing routing;
    routing.topk = topk;
    routing.first.push_back(0);
    for (const auto& tokens : of_ranks) {
        for (const auto& token : tokens)
            routing.experts.insert(routing.experts.end(), token.begin(), token.end());
        routing.first.push_back(routing.first.back() + tokens.size());
    }
    routing.weights.resize(routing.experts.size(), 1.0F);
    return routing;
}

TEST(EpReference, LayoutByHand) {
    // Two experts of one rank; a duplicate; nothing; two nodes.
    const Routing routing = make_routing({{{0, 1}, {5, 5}, {-1, -1}, {3, 6}}, {}, {}, {}}, 2);
    const EpLayout layout = layout_of(small, routing, 0);
    EXPECT_EQ(layout.tokens_per_rank, (std::vector<uint32_t>{1, 1, 1, 1}));
    EXPECT_EQ(layout.tokens_per_node, (std::vector<uint32_t>{2, 2}));
    EXPECT_EQ(layout.tokens_per_expert, (std::vector<uint32_t>{1, 1, 0, 1, 0, 2, 1, 0}));
    EXPECT_EQ(layout_of(small, routing, 1).tokens_per_rank, (std::vector<uint32_t>{0, 0, 0, 0}));
}

TEST(EpReference, ReceivedRowsByHand) {
    const Routing routing = make_routing({{{0, 4}, {4, 5}}, {}, {{-1, -1}, {4, 1}}, {{-1, 5}}}, 2);
    const auto expected = expected_receive(small, routing);
    EXPECT_EQ(expected[0].rows, (std::vector<RowSource>{{0, 0}, {2, 1}}));
    EXPECT_TRUE(expected[1].rows.empty());
    EXPECT_EQ(expected[2].rows, (std::vector<RowSource>{{0, 0}, {0, 1}, {2, 1}, {3, 0}}));
    EXPECT_TRUE(expected[3].rows.empty());
    EXPECT_EQ(expected[2].rows_per_source, (std::vector<uint32_t>{2, 0, 1, 1}));
    EXPECT_EQ(expected[2].rows_per_local_expert, (std::vector<uint32_t>{3, 2}));
}

TEST(EpReference, RowsByExpertByHand) {
    // A duplicate is one row; an expert has places of its own for every source.
    const Routing routing = make_routing({{{4, 5}, {4, 4}}, {}, {{-1, 4}}, {{5, 0}}}, 2);
    const auto expected = expected_by_expert(small, routing, 2);
    ASSERT_EQ(expected[2].rows.size(), 16U);  // [2 experts, 4 ranks, 2 tokens]
    std::vector<RowSource> rows(16);
    rows[0] = {0, 0};  // expert 4
    rows[1] = {0, 1};
    rows[4] = {2, 0};
    rows[8] = {0, 0};  // expert 5
    rows[14] = {3, 0};
    EXPECT_EQ(expected[2].rows, rows);
    EXPECT_EQ(expected[2].received_rows, 5U);
    EXPECT_EQ(expected[2].rows_per_local_expert, (std::vector<uint32_t>{3, 2}));
    EXPECT_EQ(expected[2].rows_per_source, (std::vector<uint32_t>{2, 0, 1, 1}));
    EXPECT_EQ(expected[2].rows_per_source_and_expert, (std::vector<uint32_t>{2, 1, 0, 0, 1, 0, 0, 1}));
    EXPECT_EQ(expected[1].received_rows, 0U);
}

TEST(EpReference, LocalExpertNumbers) {
    EXPECT_EQ(local_expert(small, 2, 5), 1);
    EXPECT_EQ(local_expert(small, 2, 6), -1);
    EXPECT_EQ(local_expert(small, 2, -1), -1);
}

// Every property by a double loop over tokens and ranks.
TEST(EpReference, RandomRoutingAgreesWithBruteForce) {
    const uint64_t seed = test::seed_of_run();
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    const EpShape shape{6, 3, 18};
    std::vector<std::vector<std::vector<int16_t>>> lists(shape.ranks);
    for (auto& tokens : lists) {
        tokens.resize(random() % 40);  // some ranks are empty or nearly so
        for (auto& token : tokens) {
            for (int k = 0; k < 5; ++k)
                token.push_back(static_cast<int16_t>(static_cast<int>(random() % 19) - 1));
        }
    }
    const Routing routing = make_routing(lists, 5);
    const auto expected = expected_receive(shape, routing);
    for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
        std::vector<RowSource> rows;
        std::vector<uint32_t> per_expert(3);
        for (uint32_t source = 0; source < shape.ranks; ++source) {
            for (uint32_t token = 0; token < lists[source].size(); ++token) {
                int here = 0;
                for (const int16_t expert : lists[source][token]) {
                    if (expert >= 0 && static_cast<uint32_t>(expert) / 3 == rank) {
                        ++here;
                        ++per_expert[static_cast<uint32_t>(expert) % 3];
                    }
                }
                if (here > 0) rows.push_back({source, token});
            }
        }
        EXPECT_EQ(expected[rank].rows, rows);
        EXPECT_EQ(expected[rank].rows_per_local_expert, per_expert);
        for (uint32_t source = 0; source < shape.ranks; ++source) {
            EXPECT_EQ(expected[rank].rows_per_source[source],
                      layout_of(shape, routing, source).tokens_per_rank[rank]);
        }
    }
}

TEST(EntryChooser, SameIndexByHand) {
    EntryChooser chooser(small, regmap::EntryPolicy::same_index, 1);
    const auto rows = chooser.next(std::vector<int16_t>{0, 4});
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[0].entry, 1U);  // the own node: the source itself, though no target
    EXPECT_EQ(rows[0].targets, std::vector<uint32_t>{0});
    EXPECT_EQ(rows[1].entry, 3U);
    EXPECT_EQ(rows[1].targets, std::vector<uint32_t>{2});
    EXPECT_EQ(rows[1].choices, 1U);
}

TEST(EntryChooser, SpreadTakesTurnsFromTheOwnIndexOn) {
    EntryChooser chooser(small, regmap::EntryPolicy::spread, 1);
    std::vector<uint32_t> entries;
    for (int i = 0; i < 4; ++i) {
        (void)chooser.next(std::vector<int16_t>{0, 1});  // the own node has no part in it
        entries.push_back(chooser.next(std::vector<int16_t>{4, 4}).front().entry);
    }
    EXPECT_EQ(entries, (std::vector<uint32_t>{3, 2, 3, 2}));
}

TEST(EntryChooser, TargetTakesTheLeastUsedOne) {
    EntryChooser chooser(small, regmap::EntryPolicy::target, 0);
    EXPECT_EQ(chooser.next(std::vector<int16_t>{4, 6}).front().entry, 2U);  // a tie: the lowest
    EXPECT_EQ(chooser.next(std::vector<int16_t>{4, 6}).front().entry, 3U);
    EXPECT_EQ(chooser.next(std::vector<int16_t>{4, 5}).front().entry, 2U);  // no other needs it
    EXPECT_EQ(chooser.next(std::vector<int16_t>{4, 6}).front().entry, 3U);
    EXPECT_EQ(chooser.next(std::vector<int16_t>{-1, -1}).size(), 0U);
}

TEST(EntryChooser, BalancedTakesTargetsWithinEvenShares) {
    // Six rows for the node of ranks 2 and 3: three by each. Rank 2 may have less than rows / 2 + 1 when it
    // gets one.
    EntryChooser chooser(small, regmap::EntryPolicy::balanced, 1);
    const std::vector<int16_t> for_2{4, 5};
    const std::vector<int16_t> for_3{6, 7};
    for (int i = 0; i < 5; ++i) chooser.expect(for_2);
    chooser.expect(for_3);
    std::vector<uint32_t> entries;
    for (int i = 0; i < 5; ++i) entries.push_back(chooser.next(for_2).front().entry);
    entries.push_back(chooser.next(for_3).front().entry);
    EXPECT_EQ(entries, (std::vector<uint32_t>{2, 2, 3, 2, 3, 3}));
}

TEST(EntryChooser, BalancedRunsAheadByARowAtMost) {
    EntryChooser chooser(small, regmap::EntryPolicy::balanced, 0);
    const std::vector<int16_t> for_2{4, 5};
    for (int i = 0; i < 100; ++i) chooser.expect(for_2);
    std::vector<uint32_t> entries;
    for (int i = 0; i < 12; ++i) entries.push_back(chooser.next(for_2).front().entry);
    // Rank 2 may have less than rows / 2 + 1 when it gets one more.
    EXPECT_EQ(entries, (std::vector<uint32_t>{2, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2}));
}

}  // namespace
}  // namespace plait::sim
