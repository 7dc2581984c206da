#include <gtest/gtest.h>

#include <cstdlib>
#include <plait/ep_layout.hpp>
#include <random>
#include <set>
#include <string>

namespace plait {
namespace {

struct Shape {
    std::uint32_t tokens, topk, experts, ranks, ranks_per_node;
};

std::uint64_t test_seed() {
    const char* text = std::getenv("PLAIT_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : 20240611;
}

// The definition, word for word: sets of ranks and nodes for each token.
DispatchLayout slow_layout(const std::vector<std::int64_t>& topk_idx, const Shape& shape) {
    DispatchLayout layout;
    layout.tokens_per_rank.assign(shape.ranks, 0);
    layout.tokens_per_node.assign(shape.ranks / shape.ranks_per_node, 0);
    layout.tokens_per_expert.assign(shape.experts, 0);
    layout.is_token_in_rank.assign(std::size_t{shape.tokens} * shape.ranks, 0);
    for (std::size_t token = 0; token < shape.tokens; ++token) {
        std::set<std::size_t> ranks;
        std::set<std::size_t> nodes;
        for (std::size_t k = 0; k < shape.topk; ++k) {
            const std::int64_t expert = topk_idx[token * shape.topk + k];
            if (expert == -1) continue;
            layout.tokens_per_expert[static_cast<std::size_t>(expert)] += 1;
            const std::size_t rank = static_cast<std::size_t>(expert) * shape.ranks / shape.experts;
            ranks.insert(rank);
            nodes.insert(rank / shape.ranks_per_node);
        }
        for (const std::size_t rank : ranks) {
            layout.tokens_per_rank[rank] += 1;
            layout.is_token_in_rank[token * shape.ranks + rank] = 1;
        }
        for (const std::size_t node : nodes) layout.tokens_per_node[node] += 1;
    }
    return layout;
}

Result<DispatchLayout> layout_of(const std::vector<std::int64_t>& topk_idx, const Shape& shape) {
    return get_dispatch_layout(topk_idx, shape.tokens, shape.topk, shape.experts, shape.ranks,
                               shape.ranks_per_node);
}

void expect_equal(const DispatchLayout& found, const DispatchLayout& expected) {
    EXPECT_EQ(found.tokens_per_rank, expected.tokens_per_rank);
    EXPECT_EQ(found.tokens_per_node, expected.tokens_per_node);
    EXPECT_EQ(found.tokens_per_expert, expected.tokens_per_expert);
    EXPECT_EQ(found.is_token_in_rank, expected.is_token_in_rank);
}

TEST(EpLayout, AgreesWithTheDefinitionOnRandomRouting) {
    const Shape shapes[] = {{37, 8, 256, 64, 8}, {5, 1, 4, 4, 1},  {64, 16, 1024, 256, 8},
                            {100, 4, 12, 6, 3},  {1, 8, 64, 8, 4}, {300, 6, 1024, 1, 1}};
    std::mt19937_64 random(test_seed());
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(test_seed()));
    for (const Shape& shape : shapes) {
        SCOPED_TRACE("ranks " + std::to_string(shape.ranks));
        std::vector<std::int64_t> topk_idx(std::size_t{shape.tokens} * shape.topk);
        for (std::int64_t& expert : topk_idx)
            expert = static_cast<std::int64_t>(random() % (shape.experts + 1)) - 1;
        const auto layout = layout_of(topk_idx, shape);
        ASSERT_TRUE(layout.ok()) << layout.error().message;
        expect_equal(layout.value(), slow_layout(topk_idx, shape));
    }
}

TEST(EpLayout, ExtremeSkewCountsExactly) {
    const Shape shape{2304, 8, 512, 64, 8};
    std::vector<std::int64_t> topk_idx;
    for (std::uint32_t token = 0; token < shape.tokens; ++token)
        for (std::uint32_t k = 0; k < shape.topk; ++k)
            topk_idx.push_back(token < 10 ? token * 50 + k * 3 : 504 + k);
    const auto layout = layout_of(topk_idx, shape);
    ASSERT_TRUE(layout.ok()) << layout.error().message;
    EXPECT_EQ(layout.value().tokens_per_rank[63], 2294u);
    EXPECT_EQ(layout.value().tokens_per_expert[511], 2294u);
    expect_equal(layout.value(), slow_layout(topk_idx, shape));
}

TEST(EpLayout, NoTokensNeedNoRouting) {
    const auto layout = get_dispatch_layout({}, 0, 8, 64, 8, 4);
    ASSERT_TRUE(layout.ok()) << layout.error().message;
    EXPECT_EQ(layout.value().tokens_per_rank, std::vector<std::uint32_t>(8, 0));
    EXPECT_EQ(layout.value().tokens_per_node, std::vector<std::uint32_t>(2, 0));
    EXPECT_TRUE(layout.value().is_token_in_rank.empty());
}

TEST(EpLayout, ATokenWithoutExpertsGoesNowhere) {
    const auto layout = layout_of({-1, -1, -1, 3}, {2, 2, 4, 2, 1});
    ASSERT_TRUE(layout.ok());
    EXPECT_EQ(layout.value().is_token_in_rank, (std::vector<std::uint8_t>{0, 0, 0, 1}));
    EXPECT_EQ(layout.value().tokens_per_rank, (std::vector<std::uint32_t>{0, 1}));
}

TEST(EpLayout, DuplicatesCountOnceForARankAndEachForAnExpert) {
    const auto layout = layout_of({2, 2, 3}, {1, 3, 4, 2, 2});
    ASSERT_TRUE(layout.ok());
    EXPECT_EQ(layout.value().tokens_per_expert, (std::vector<std::uint32_t>{0, 0, 2, 1}));
    EXPECT_EQ(layout.value().tokens_per_rank, (std::vector<std::uint32_t>{0, 1}));
    EXPECT_EQ(layout.value().tokens_per_node, (std::vector<std::uint32_t>{1}));
}

TEST(EpLayout, AnExpertOutOfRangeIsNamed) {
    const auto one_too_many = layout_of({0, 1, 2, 4}, {2, 2, 4, 2, 1});
    EXPECT_EQ(one_too_many.status(), Status::invalid_expert);
    EXPECT_EQ(one_too_many.error().message, "topk_idx: token 1, position 1 is 4, expected -1 .. 3");
    EXPECT_EQ(layout_of({0, -2, 2, 3}, {2, 2, 4, 2, 1}).error().message,
              "topk_idx: token 0, position 1 is -2, expected -1 .. 3");
    EXPECT_EQ(layout_of({std::int64_t{1} << 32}, {1, 1, 4, 2, 1}).status(), Status::invalid_expert);
    EXPECT_TRUE(layout_of({0, 1, 2, 3}, {2, 2, 4, 2, 1}).ok());
}

TEST(EpLayout, ImpossibleShapesAreRefusedWithTheLimit) {
    EXPECT_EQ(get_dispatch_layout({}, 0, 8, 64, 0, 1).error().message, "ranks is 0, expected 1 .. 256");
    EXPECT_EQ(get_dispatch_layout({}, 0, 8, 1024, 257, 1).error().message, "ranks is 257, expected 1 .. 256");
    EXPECT_EQ(get_dispatch_layout({}, 0, 8, 64, 16, 0).error().message,
              "ranks_per_node is 0, expected 1 .. 8");
    EXPECT_EQ(get_dispatch_layout({}, 0, 8, 64, 6, 4).error().message,
              "ranks is 6, expected a multiple of ranks_per_node (4)");
    EXPECT_EQ(get_dispatch_layout({}, 0, 8, 65, 8, 4).error().message,
              "experts is 65, expected a multiple of ranks (8)");
    EXPECT_EQ(get_dispatch_layout({}, 0, 8, 2048, 8, 4).error().message,
              "experts is 2048, expected 1 .. 1024");
    EXPECT_EQ(get_dispatch_layout({}, 0, 17, 64, 8, 4).error().message, "topk is 17, expected 1 .. 16");
    EXPECT_EQ(get_dispatch_layout({}, 16385, 8, 64, 8, 4).error().message,
              "tokens is 16385, expected 0 .. 16384");
    const auto short_routing = layout_of({0, 1, 2}, {2, 2, 4, 2, 1});
    EXPECT_EQ(short_routing.status(), Status::invalid_length);
    EXPECT_EQ(short_routing.error().message, "topk_idx holds 3 entries, expected tokens * topk = 4");
}

}  // namespace
}  // namespace plait
