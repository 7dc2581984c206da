// Low-latency dispatch and combine of healthy groups against the reference: shapes, formats, MTUs, where the
// weights come from.

#include "ep_low_latency_job.hpp"
#include "ep_shape.hpp"

namespace plait::mesh_test {
namespace {

class EpLowLatency : public ::testing::TestWithParam<Shape> {
  protected:
    EpLowLatency()
        : seed_(job_seed(1)),
          job_(mesh_of(GetParam(), seed_), {.experts_per_rank = 4,
                                            .hidden = GetParam().hidden,
                                            .max_tokens = 16,
                                            .format = GetParam().format,
                                            .policy = GetParam().policy,
                                            .combine_format = GetParam().combine_format,
                                            .partial_format = GetParam().partial_format,
                                            .flags = GetParam().flags}),
          trace_(__FILE__, __LINE__, "PLAIT_SEED=" + std::to_string(seed_)) {
        job_.create_groups();
    }

    std::uint64_t seed_;
    LowLatencyJob job_;
    ::testing::ScopedTrace trace_;
};

TEST_P(EpLowLatency, ManyCallsOnTheSameHandle) {
    for (int call = 0; call < 4; ++call) {
        const Routing routing = job_.random_routing(16);
        job_.run_expert_dispatch(routing);
        job_.run_expert_combine(routing, false, true);
        ASSERT_FALSE(HasFailure()) << "call " << call;
    }
    job_.expect_nothing_left();
}

TEST_P(EpLowLatency, WeightsComeWithTheCombine) {
    Routing routing = job_.random_routing(16);
    job_.run_expert_dispatch(routing, false);
    job_.run_expert_combine(routing, true, true);
    for (RankTokens& rank : routing)
        for (auto& weights : rank.weights)
            for (float& weight : weights) weight = weight / 3 - 20;
    job_.run_expert_combine(routing, true, true);  // others the next time
    job_.expect_nothing_left();
}

TEST_P(EpLowLatency, WithoutWeightsEachIsOne) {
    const Routing routing = job_.random_routing(16);
    job_.run_expert_dispatch(routing, false);
    job_.run_expert_combine(routing, false, false);
    job_.expect_nothing_left();
}

constexpr std::uint32_t encode_both = regmap::group_encode_dispatch | regmap::group_encode_combine;

INSTANTIATE_TEST_SUITE_P(
    Shapes, EpLowLatency,
    ::testing::Values(Shape{"TwoByTwo", 2, 2, EntryPolicy::same_index, RowFormat::bf16, 1024},
                      Shape{"TwoByTwoSpread", 2, 2, EntryPolicy::spread, RowFormat::bf16, 512},
                      Shape{"ThreeByFourTarget", 3, 4, EntryPolicy::target, RowFormat::e4m3_f32, 256},
                      Shape{"ThreeByFourBalanced", 3, 4, EntryPolicy::balanced, RowFormat::bf16, 4096},
                      Shape{"OneNode", 1, 4, EntryPolicy::target, RowFormat::bf16, 2048},
                      Shape{"OneRankANode", 4, 1, EntryPolicy::spread, RowFormat::e4m3_f32, 512},
                      Shape{"OneRank", 1, 1, EntryPolicy::same_index, RowFormat::bf16, 1024},
                      Shape{"TwoByEight", 2, 8, EntryPolicy::balanced, RowFormat::e4m3_f32, 1024}),
    name_of_shape);

// 320 elements are two blocks and a half. What is given encoded, and what the devices encode.
INSTANTIATE_TEST_SUITE_P(
    Formats, EpLowLatency,
    ::testing::Values(Shape{"Fp8Partials", 2, 2, EntryPolicy::balanced, RowFormat::bf16, 512, 320,
                            RowFormat::bf16, RowFormat::e4m3_f32},
                      Shape{"Fp8RowsLogFmt8Partials", 2, 4, EntryPolicy::target, RowFormat::e5m2_ue8m0, 256,
                            320, RowFormat::e4m3_ue8m0, RowFormat::logfmt8},
                      Shape{"LogFmt10Encoded", 3, 4, EntryPolicy::balanced, RowFormat::e4m3_f32, 512, 320,
                            RowFormat::logfmt10, RowFormat::logfmt10, encode_both},
                      Shape{"LogFmt10EncodedOneNode", 1, 4, EntryPolicy::spread, RowFormat::logfmt10, 4096,
                            320, RowFormat::logfmt10, RowFormat::bf16, encode_both},
                      Shape{"F32", 2, 2, EntryPolicy::same_index, RowFormat::bf16, 1024, 256, RowFormat::f32,
                            RowFormat::f32}),
    name_of_shape);

MeshOptions two_by_two(std::uint64_t seed = 1) {
    return {.nodes = 2, .ranks_per_node = 2, .jitter_ns = 3000, .seed = seed};
}

TEST(EpLowLatencyCalls, PiecesOfTopkListsOvertakeEachOther) {
    LowLatencyJob job({.nodes = 2, .ranks_per_node = 2, .read_jitter_ns = 5000},
                      {.topk = 3, .max_tokens = 300});
    job.create_groups();
    for (int call = 0; call < 3; ++call) {
        const Routing routing = job.random_routing(300);
        job.run_expert_dispatch(routing);
        job.run_expert_combine(routing, call == 1, true);
    }
    job.expect_nothing_left();
}

TEST(EpLowLatencyCalls, AllTokensOfAllRanksToOneExpert) {
    LowLatencyJob job(two_by_two(), {.topk = 1, .max_tokens = 24});
    job.create_groups();
    Routing routing(job.ranks());
    for (RankTokens& rank : routing)
        for (int token = 0; token < 24; ++token) job.add_token(rank, [](std::uint32_t) { return 3; });
    job.run_expert_dispatch(routing);
    job.run_expert_combine(routing, true, true);
    job.expect_nothing_left();
}

TEST(EpLowLatencyCalls, OneExpertInEveryPlaceOfTheList) {
    LowLatencyJob job(two_by_two(), {.experts_per_rank = 4, .topk = 16, .max_tokens = 8});
    job.create_groups();
    Routing routing(job.ranks());
    for (RankTokens& rank : routing)
        for (int token = 0; token < 8; ++token) job.add_token(rank, [&](std::uint32_t) { return token * 2; });
    job.run_expert_dispatch(routing);
    job.run_expert_combine(routing, false, true);
    job.expect_nothing_left();
}

TEST(EpLowLatencyCalls, RanksWithoutTokensTakePart) {
    LowLatencyJob job(two_by_two(), {});
    job.create_groups();
    Routing routing(job.ranks());
    job.run_expert_dispatch(routing);  // nobody has any
    job.run_expert_combine(routing, true, true);
    job.add_token(routing[2], [&](std::uint32_t) { return -1; });
    job.add_token(routing[2], [&](std::uint32_t k) { return k; });
    job.run_expert_dispatch(routing);
    job.run_expert_combine(routing, true, true);
    job.expect_nothing_left();
}

/// Rows of ranks that are early arrive before the counts, and before the last rank has called at all.
TEST(EpLowLatencyCalls, ALateRankHoldsUpNobodysMemory) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        LowLatencyJob job(two_by_two(seed), {});
        job.create_groups();
        const Routing routing = job.random_routing(32);
        const std::vector<Call> calls = job.expert_dispatches(routing);
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            job.post((rank + static_cast<std::uint32_t>(seed)) % job.ranks(),
                     calls[(rank + seed) % job.ranks()]);
            job.mesh.run_for(seed * 1'500);
        }
        job.expect_all(calls, Status::ok);
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) job.check_slots(rank, routing, calls);
        job.run_expert_combine(routing, false, true);
        job.expect_nothing_left();
    }
}

TEST(EpLowLatencyCalls, WhatThereIsNotIsRefused) {
    LowLatencyJob job(two_by_two(), {});
    job.create_groups();
    const Routing routing(job.ranks());
    const auto refused = [&](auto&& spoil) {
        Call call = job.expert_dispatch(0, routing, true);
        spoil(call.request);
        job.post(0, call);
        return job.status_of(0, call);
    };
    EXPECT_EQ(refused([](regmap::EpRequest& request) { --request.receive_capacity; }),
              Status::invalid_parameter);
    EXPECT_EQ(refused([&](regmap::EpRequest& request) { request.recv_topk_idx = request.recv_x; }),
              Status::invalid_parameter);
    EXPECT_EQ(refused([&](regmap::EpRequest& request) { request.recv_topk_weights = request.recv_x; }),
              Status::invalid_parameter);
    EXPECT_EQ(refused([](regmap::EpRequest& request) { request.flags = regmap::ep_request_cached; }),
              Status::invalid_parameter);
}

TEST(EpLowLatencyCalls, ADeadRankIsReportedAndTheRestIsRight) {
    LowLatencyJob job(two_by_two(), {.timeout_us = 20'000});
    job.create_groups();
    const Routing routing = job.random_routing(32);
    const std::vector<Call> calls = job.expert_dispatches(routing);
    for (std::uint32_t rank = 0; rank + 1 < job.ranks(); ++rank) job.post(rank, calls[rank]);
    job.mesh.device(job.ranks() - 1).kill();
    for (std::uint32_t rank = 0; rank + 1 < job.ranks(); ++rank) {
        const Status status = job.status_of(rank, calls[rank]);
        EXPECT_TRUE(status == Status::rank_failed || status == Status::timeout) << name(status);
        EXPECT_NE(job.result(rank, calls[rank]).failed_ranks[0] & 1U << (job.ranks() - 1), 0U);
    }
    job.expect_nothing_left();
}

}  // namespace
}  // namespace plait::mesh_test
