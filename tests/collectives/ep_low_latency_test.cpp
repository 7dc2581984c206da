// Arguments and results of low-latency groups.

#include <gtest/gtest.h>

#include "ep_fixture.hpp"

namespace plait::testing {
namespace {

/// Rank 0 of two: 2 experts a rank, 4 in all.
class EpLowLatency : public ::testing::Test {
  protected:
    static constexpr std::uint32_t slots = 4 * 8;  // [2 experts, 2 ranks, 8 tokens]

    EpLowLatency() : job(2) {
        groups = job.create([](std::uint32_t) {
            EpConfig config = small_config();
            config.ranks_per_node = 1;
            config.experts = 4;
            config.topk = 2;
            config.max_tokens = 8;
            config.mode = EpMode::low_latency;
            return config;
        });
        for (auto& group : groups)
            if (!group.ok()) throw std::runtime_error(group.error().message);
    }

    EpGroup& group() { return *groups[0].value(); }
    ScriptedDevice& device() { return job.device(0); }

    static DispatchArguments dispatch_arguments() {
        DispatchArguments arguments;
        arguments.tokens = 3;
        arguments.timeout_us = 500;
        arguments.x = {0x1000, 3 * 128, 11};
        arguments.x_scales = {0x2000, 3 * 4, 12};
        arguments.topk_idx = {0x3000, 3 * 16, 13};
        arguments.recv_x = {0x5000, slots * 128, 15};
        arguments.recv_x_scales = {0x6000, slots * 4, 16};
        return arguments;
    }

    std::string refusal(const DispatchArguments& arguments) {
        const auto call = group().dispatch(arguments);
        EXPECT_TRUE(device().posted.empty());
        return call.ok() ? "taken" : call.error().message;
    }

    Job job;
    Job::Groups groups;
};

TEST_F(EpLowLatency, OutputsHoldAPlaceForEveryTokenOfEveryRankAndExpert) {
    ASSERT_TRUE(group().dispatch(dispatch_arguments()).ok());
    EXPECT_EQ(device().posted[0].request.receive_capacity, std::uint32_t{slots});
}

TEST_F(EpLowLatency, WhatThereIsNotIsRefused) {
    DispatchArguments arguments = dispatch_arguments();
    arguments.recv_topk_idx = {0x7000, slots * 16, 17};
    EXPECT_EQ(refusal(arguments),
              "recv_topk_idx, recv_topk_weights or mark_empty_rows is given, low latency has no such output");
    arguments = dispatch_arguments();
    --arguments.recv_x.length_bytes;
    EXPECT_EQ(refusal(arguments), "recv_x has 4095 bytes, expected 4096 for 32 rows");
}

TEST_F(EpLowLatency, RowsOfEachSourceAndExpertAreCounted) {
    auto call = group().dispatch(dispatch_arguments());
    ASSERT_TRUE(call.ok());
    regmap::EpResult result;
    result.received_rows = 6;
    // Rows per local expert, per source, then of source 0 and 1 per local expert.
    const std::vector<std::uint32_t> counts{4, 2, 3, 2, 3, 1, 1, 1};
    device().answer(Status::ok, &result, counts);
    const auto completion = call.value().wait(1'000'000);
    ASSERT_TRUE(completion.ok());
    EXPECT_EQ(completion.value().rows_per_local_expert, (std::vector<std::uint32_t>{4, 2}));
    EXPECT_EQ(completion.value().rows_per_source, (std::vector<std::uint32_t>{3, 2}));
    EXPECT_EQ(completion.value().rows_per_source_and_expert, (std::vector<std::uint32_t>{3, 1, 1, 1}));

    CombineArguments combine{.handle = completion.value().handle,
                             .timeout_us = 700,
                             .x = {0xa000, slots * 256, 21},
                             .topk_weights = {0xc000, 3 * 8, 23},
                             .combined_x = {0xb000, 3 * 256, 22}};
    --combine.topk_weights.length_bytes;
    EXPECT_EQ(group().combine(combine).error().message, "topk_weights has 23 bytes, expected 24 for 3 rows");
    ++combine.topk_weights.length_bytes;
    ASSERT_TRUE(group().combine(combine).ok());
    EXPECT_EQ(device().posted.back().request.topk_weights.key, 23U);
    DispatchArguments again = dispatch_arguments();
    again.cached = completion.value().handle;
    EXPECT_FALSE(group().dispatch(again).ok());
}

TEST(EpNormalMode, CombineIsNotWeighted) {
    EpConfig config = small_config();
    config.mode = static_cast<EpMode>(7);
    config.ranks_per_node = 1;
    Job job(2);
    const auto groups = job.create([&](std::uint32_t) { return config; });
    EXPECT_EQ(groups[0].error().message, "mode is 7, expected normal or low_latency");
}

}  // namespace
}  // namespace plait::testing
