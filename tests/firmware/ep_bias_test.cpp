// Biases of a combine: rows of the source's own memory begin its tokens' sums, whatever the formats.

#include "ep_low_latency_job.hpp"

namespace plait::mesh_test {
namespace {

constexpr RowFormat all_formats[] = {RowFormat::bf16,     RowFormat::e4m3_f32,   RowFormat::e4m3_ue8m0,
                                     RowFormat::e5m2_f32, RowFormat::e5m2_ue8m0, RowFormat::logfmt8,
                                     RowFormat::logfmt10, RowFormat::f32};

class EpBias : public ::testing::TestWithParam<RowFormat> {
  protected:
    const std::uint64_t seed_ = job_seed(3);
    const ::testing::ScopedTrace trace_{__FILE__, __LINE__, "PLAIT_SEED=" + std::to_string(seed_)};
};

TEST_P(EpBias, BeginsTheSumOfEveryToken) {
    for (const std::uint32_t biases : {1U, 2U}) {
        Job job({.nodes = 3, .jitter_ns = 3000, .mtu_bytes = 512, .seed = seed_},
                {.hidden = 320, .partial_format = GetParam(), .biases = biases});
        job.create_groups();
        Routing routing = job.random_routing(12);
        job.add_token(routing[1], [](std::uint32_t) { return -1; });  // nothing but its biases
        for (int call = 0; call < 2; ++call) job.round(routing);
        job.expect_nothing_left();
    }
}

// A row of 7168 elements goes in parts of up to 3584 where a packet holds them: twice that in BF16.
TEST_P(EpBias, MayBeLongerThanAPacket) {
    Job job({.mtu_bytes = 4096, .seed = seed_}, {.hidden = 7168,
                                                 .max_tokens = 16,
                                                 .combine_format = GetParam(),
                                                 .partial_format = GetParam(),
                                                 .biases = 2});
    job.create_groups();
    job.round(job.random_routing(12));
    job.expect_nothing_left();
}

TEST_P(EpBias, InLowLatency) {
    LowLatencyJob job({.jitter_ns = 3000, .mtu_bytes = 512, .seed = seed_},
                      {.hidden = 320, .max_tokens = 16, .partial_format = GetParam(), .biases = 2});
    job.create_groups();
    for (int call = 0; call < 2; ++call) {
        const Routing routing = job.random_routing(16);
        job.run_expert_dispatch(routing);
        job.run_expert_combine(routing, false, true);
    }
    job.expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(All, EpBias, ::testing::ValuesIn(all_formats),
                         [](const auto& format) { return std::string(regmap::name(format.param)); });

TEST(EpBiasCalls, EitherOneMayBeAbsentAndRanksNeedNotAgree) {
    Job job({}, {.biases = 2});
    job.create_groups();
    const Routing routing = job.random_routing(16);
    job.run_dispatch(routing, job.dispatch_calls(routing, 0));
    std::vector<Call> combine = job.combine_calls(routing, 0);
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
        for (std::uint32_t i = 0; i < 2; ++i) {
            if ((rank >> i & 1) == 0) continue;
            combine[rank].bias[i].clear();
            combine[rank].request.bias[i] = {};
        }
    }
    job.post_all(combine);
    job.expect_all(combine, Status::ok);
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) job.check_combine(rank, routing, combine);
    job.expect_nothing_left();
}

TEST(EpBiasCalls, WithFewAccumulatorsAndLittleMemory) {
    Job job({.packet_memory_bytes = 256U << 10, .accumulators = 16}, {.hidden = 1024, .biases = 2});
    job.create_groups();
    for (int call = 0; call < 3; ++call) job.round(job.random_routing(32));
    job.expect_nothing_left();
}

// At any moment of the others' calls one rank says that it takes no part. Memory that was forbidden at the
// completion is not read any more.
TEST(EpBiasCalls, AreNotReadWhenTheCallIsOver) {
    Job job({}, {.biases = 2});
    job.create_groups();
    const Routing routing = job.random_routing(32);
    job.run_dispatch(routing, job.dispatch_calls(routing, 0));
    int aborted = 0;
    for (std::uint64_t after_ns = 0; after_ns < 4000; after_ns += 50) {
        SCOPED_TRACE("after " + std::to_string(after_ns) + " ns");
        std::vector<Call> calls = job.combine_calls(routing, 0);
        calls[3].request.timeout_us = 0;
        job.mesh.at(job.mesh.now_ns() + 2000, [&] { job.post(3, calls[3]); });
        job.mesh.run_for(after_ns);
        for (std::uint32_t rank = 0; rank < 3; ++rank) job.post(rank, calls[rank]);
        EXPECT_EQ(job.status_of(3, calls[3]), Status::invalid_parameter);
        for (std::uint32_t rank = 0; rank < 3; ++rank)
            aborted += job.status_of(rank, calls[rank]) == Status::aborted ? 1 : 0;
        if (::testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(aborted, 3 * 80);
    job.expect_nothing_left();
}

TEST(EpBiasCalls, RangesAreChecked) {
    Job job({}, {.biases = 1});
    job.create_groups();
    const Routing routing = job.random_routing(16);
    job.run_dispatch(routing, job.dispatch_calls(routing, 0));
    struct Case {
        Status status;
        void (*spoil)(regmap::EpRequest&);
    };
    const Case cases[] = {
        {Status::invalid_key, [](regmap::EpRequest& r) { r.bias[0].key ^= 0x5500; }},
        {Status::invalid_key,
         [](regmap::EpRequest& r) {
             r.bias[1] = {r.bias[0].address, 0x1234'5600, 0};
         }},
        {Status::out_of_range, [](regmap::EpRequest& r) { r.bias[0].address = ~std::uint64_t{0xfff}; }},
        {Status::invalid_parameter, [](regmap::EpRequest& r) { r.bias[1].reserved = 1; }},
    };
    for (const Case& one : cases) {
        std::vector<Call> calls = job.combine_calls(routing, 0);
        one.spoil(calls[0].request);
        job.post_all(calls);
        EXPECT_EQ(job.status_of(0, calls[0]), one.status);
        for (std::uint32_t rank = 1; rank < job.ranks(); ++rank)
            EXPECT_EQ(job.status_of(rank, calls[rank]), Status::aborted);
    }
    std::vector<Call> calls = job.dispatch_calls(routing, 1);
    calls[0].request.bias[0] = calls[0].request.x;
    job.post_all(calls);
    EXPECT_EQ(job.status_of(0, calls[0]), Status::invalid_parameter);
    job.run_combine(routing, 0);
    job.expect_nothing_left();
}

}  // namespace
}  // namespace plait::mesh_test
