// Calls out of the ordinary that must succeed: nothing to do, skew, cached routing, two at once, ranks far
// apart in time, lossy planes, and pools that are hardly there.

#include "ep_job.hpp"

namespace plait::mesh_test {
namespace {

Routing empty_routing(const Job& job) { return Routing(job.ranks()); }

TEST(EpCalls, NoTokensAnywhere) {
    Job job({}, {});
    job.create_groups();
    job.round(empty_routing(job));
    job.round(empty_routing(job));
    job.expect_nothing_left();
}

TEST(EpCalls, OneRankHasTokensTheOthersNone) {
    Job job({.nodes = 3, .ranks_per_node = 2}, {});
    job.create_groups();
    Routing routing = empty_routing(job);
    for (int t = 0; t < 20; ++t)
        job.add_token(routing[3], [&](std::uint32_t) { return job.random_expert(); });
    job.round(routing);
    job.expect_nothing_left();
}

TEST(EpCalls, TokensWithoutExpertsCombineToZeros) {
    Job job({}, {});
    job.create_groups();
    Routing routing = job.random_routing(10);
    for (RankTokens& rank : routing) job.add_token(rank, [](std::uint32_t) { return -1; });
    job.round(routing);
    Routing nothing = empty_routing(job);
    for (RankTokens& rank : nothing) {
        for (int t = 0; t < 8; ++t) job.add_token(rank, [](std::uint32_t) { return -1; });
    }
    job.round(nothing);
    job.expect_nothing_left();
}

TEST(EpCalls, AnExpertTwiceInATopKIsOneRowAndTwoChoices) {
    Job job({}, {});
    job.create_groups();
    Routing routing = empty_routing(job);
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
        for (std::uint32_t t = 0; t < 6; ++t)
            job.add_token(routing[rank], [&](std::uint32_t k) { return (rank + k / 2 * 3) % 8; });
    }
    job.round(routing);
    job.expect_nothing_left();
}

// 2304 tokens, ten of them random and the rest alike, at a ninth of the size.
TEST(EpCalls, ExtremeSkew) {
    for (const EntryPolicy policy :
         {EntryPolicy::same_index, EntryPolicy::spread, EntryPolicy::target, EntryPolicy::balanced}) {
        Job job({.nodes = 2, .ranks_per_node = 4, .jitter_ns = 5000},
                {.hidden = 128, .max_tokens = 256, .policy = policy});
        job.create_groups();
        Routing routing = empty_routing(job);
        for (RankTokens& rank : routing) {
            for (int t = 0; t < 10; ++t)
                job.add_token(rank, [&](std::uint32_t) { return job.random_expert(); });
            for (int t = 10; t < 256; ++t)
                job.add_token(rank, [](std::uint32_t k) { return std::array{9, 10, 2, -1}[k]; });
        }
        job.round(routing);
        job.expect_nothing_left();
    }
}

TEST(EpCalls, PiecesOfTopkListsOvertakeEachOther) {
    for (const EntryPolicy policy : {EntryPolicy::spread, EntryPolicy::target, EntryPolicy::balanced}) {
        Job job({.nodes = 2, .ranks_per_node = 3, .read_jitter_ns = 5000},
                {.topk = 3, .hidden = 128, .max_tokens = 400, .policy = policy});
        job.create_groups();
        for (int call = 0; call < 3; ++call) job.round(job.random_routing(400));
        job.expect_nothing_left();
    }
}

TEST(EpCalls, CachedDispatchAfterCachedDispatch) {
    Job job({.nodes = 2, .ranks_per_node = 3, .jitter_ns = 2000}, {.policy = EntryPolicy::target});
    job.create_groups();
    const Routing routing = job.random_routing(24);
    job.round(routing);
    for (int call = 0; call < 3; ++call) {
        job.run_dispatch(routing, job.cached_calls(routing, 0));
        job.run_combine(routing, 0);
    }
    job.expect_nothing_left();
}

// A rank that has finished may go on to the next dispatch without a combine while rows still travel through
// it.
TEST(EpCalls, DispatchesInARowWithoutCombine) {
    const std::uint64_t seed = job_seed(3);
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    Job job({.nodes = 2, .ranks_per_node = 4, .loss = 0.02, .jitter_ns = 20'000, .seed = seed},
            {.policy = EntryPolicy::spread});
    job.create_groups();
    std::vector<Routing> routings;
    std::vector<std::vector<Call>> calls;
    for (int call = 0; call < 6; ++call) {
        routings.push_back(call % 3 == 2 ? Routing(job.ranks()) : job.random_routing(32));
        calls.push_back(job.dispatch_calls(routings.back(), 0));
    }
    std::vector<std::size_t> next(job.ranks(), 0);
    auto advance = [&](std::uint32_t rank) {
        if (next[rank] < calls.size()) job.post(rank, calls[next[rank]++][rank]);
    };
    // Every rank posts its next call the moment the last one is complete, whatever the others do.
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) advance(rank);
    std::vector<std::size_t> finished(job.ranks(), 0);
    const bool all = job.mesh.run_until(
        [&] {
            bool done = true;
            for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
                while (const auto completion = job.mesh.device(rank).poll()) {
                    EXPECT_EQ(completion->status, Status::ok);
                    ++finished[rank];
                    advance(rank);
                }
                done = done && finished[rank] == calls.size();
            }
            return done;
        },
        1'000'000'000);
    ASSERT_TRUE(all);
    for (std::size_t call = 0; call < calls.size(); ++call) {
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank)
            job.check_dispatch(rank, routings[call], calls[call]);
    }
    job.expect_nothing_left();
}

TEST(EpCalls, TwoMicroBatchesAtOnce) {
    for (const std::uint32_t accumulators : {256U, 16U}) {
        Job job({.nodes = 2, .ranks_per_node = 4, .jitter_ns = 3000, .accumulators = accumulators},
                {.policy = EntryPolicy::spread});
        job.create_groups();
        const Routing a = job.random_routing(32);
        const Routing b = job.random_routing(32);
        const std::vector<Call> dispatch_a = job.dispatch_calls(a, 0);
        const std::vector<Call> dispatch_b = job.dispatch_calls(b, 1);
        job.post_all(dispatch_a);
        job.post_all(dispatch_b);
        job.expect_all(dispatch_a, Status::ok);
        job.expect_all(dispatch_b, Status::ok);
        const std::vector<Call> combine_b = job.combine_calls(b, 1);
        const std::vector<Call> combine_a = job.combine_calls(a, 0);
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {  // in another order on every other rank
            job.post(rank, rank % 2 == 0 ? combine_a[rank] : combine_b[rank]);
            job.post(rank, rank % 2 == 0 ? combine_b[rank] : combine_a[rank]);
        }
        job.expect_all(combine_a, Status::ok);
        job.expect_all(combine_b, Status::ok);
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            job.check_dispatch(rank, a, dispatch_a);
            job.check_dispatch(rank, b, dispatch_b);
            job.check_combine(rank, a, combine_a);
            job.check_combine(rank, b, combine_b);
        }
        job.expect_nothing_left();
    }
}

TEST(EpCalls, ALateRankIsWaitedFor) {
    for (std::uint32_t late = 0; late < 6; ++late) {
        Job job({.nodes = 3, .ranks_per_node = 2}, {});
        job.create_groups();
        const Routing routing = job.random_routing(16);
        const std::vector<Call> dispatch = job.dispatch_calls(routing, 0);
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (rank != late) job.post(rank, dispatch[rank]);
        }
        job.mesh.run_for(20'000'000);
        job.post(late, dispatch[late]);
        job.expect_all(dispatch, Status::ok);
        const std::vector<Call> combine = job.combine_calls(routing, 0);
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (rank != late) job.post(rank, combine[rank]);
        }
        job.mesh.run_for(20'000'000);
        job.post(late, combine[late]);
        job.expect_all(combine, Status::ok);
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            job.check_dispatch(rank, routing, dispatch);
            job.check_combine(rank, routing, combine);
        }
        job.expect_nothing_left();
    }
}

class EpLoss : public ::testing::TestWithParam<int> {};

TEST_P(EpLoss, NothingIsLostOrRepeated) {
    const std::uint64_t seed = job_seed(static_cast<std::uint64_t>(GetParam()));
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    Job job({.nodes = 3,
             .ranks_per_node = 3,
             .loss = GetParam() / 100.0,
             .jitter_ns = 10'000,
             .qp_time_limit_us = 1'000'000,
             .seed = seed},
            {.policy = static_cast<EntryPolicy>(GetParam() % 3)});
    job.create_groups();
    for (int call = 0; call < 3; ++call) job.round(job.random_routing(32));
    job.expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Percent, EpLoss, ::testing::Values(1, 2, 5, 10));

/// Ranks become ready at very different times, and calls have more rows than the row window: rows to another
/// node that are done must not bring own-node rows on their way before the own node is ready.
class EpUnevenStart : public ::testing::TestWithParam<int> {};

TEST_P(EpUnevenStart, NoRowComesBeforeItsTargetIsReady) {
    const std::uint64_t seed = job_seed(static_cast<std::uint64_t>(GetParam()));
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    Job job({.nodes = 2,
             .ranks_per_node = 4,
             .loss = 0.1,
             .jitter_ns = 20'000,
             .qp_time_limit_us = 1'000'000,
             .seed = seed},
            {.experts_per_rank = 8, .topk = 8, .max_tokens = 256});
    job.create_groups();
    job.round(job.random_routing(256));
    job.expect_nothing_left();
}

/// A pace that becomes slower while the ranks become ready (the busiest link is heard of last) must not leave
/// rows behind that were released at the faster one.
TEST_P(EpUnevenStart, NoRowIsLeftBehindWhenThePaceFalls) {
    const std::uint64_t seed = job_seed(static_cast<std::uint64_t>(GetParam()));
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    for (const std::uint32_t nodes : {1U, 4U}) {
        Job job({.nodes = nodes, .ranks_per_node = 8, .jitter_ns = 3000, .seed = seed}, {.topk = 5});
        job.create_groups();
        const Routing routing = job.random_routing(14);
        job.round(routing);
        for (int i = 0; i < 3; ++i) job.run_dispatch(routing, job.cached_calls(routing, 0));
        job.expect_nothing_left();
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, EpUnevenStart, ::testing::Range(1, 9));

// Four accumulators are the fewest with which a group of one part a row is made; eight with two parts.
TEST(EpCalls, TinyAccumulatorPool) {
    for (const std::uint32_t accumulators : {4U, 8U}) {
        Job job({.nodes = 3, .ranks_per_node = 4, .jitter_ns = 4000, .accumulators = accumulators},
                {.hidden = accumulators == 4 ? 256U : 768U, .policy = EntryPolicy::spread});
        job.create_groups();
        job.round(job.random_routing(32));
        job.round(job.random_routing(32));
        job.expect_nothing_left();
    }
}

// Custody: what finds no packet memory is refused, comes again, and is lost nowhere.
TEST(EpCalls, TinyPacketMemory) {
    Job job({.nodes = 2,
             .ranks_per_node = 4,
             .jitter_ns = 2000,
             .packet_memory_bytes = 16384,
             .scale_up_bytes_per_us = 1'000,
             .qp_time_limit_us = 1'000'000},
            {.max_tokens = 128, .policy = EntryPolicy::spread});
    job.create_groups();
    Routing routing = empty_routing(job);
    for (RankTokens& rank : routing) {
        for (int t = 0; t < 128; ++t) job.add_token(rank, [&](std::uint32_t) { return job.random_expert(); });
    }
    job.round(routing);
    std::uint64_t refused = 0;
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank)
        refused += job.mesh.device(rank).drops(regmap::DropReason::no_buffer);
    EXPECT_GT(refused, 0U) << "the memory was not small enough to test anything";
    job.expect_nothing_left();
}

TEST(EpCalls, SameSeedSamePackets) {
    std::array<std::uint64_t, 2> packets{};
    std::array<std::uint64_t, 2> times{};
    for (std::size_t run = 0; run < 2; ++run) {
        Job job({.nodes = 2, .ranks_per_node = 4, .loss = 0.02, .jitter_ns = 4000},
                {.policy = EntryPolicy::target});
        job.create_groups();
        job.round(job.random_routing(32));
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank)
            packets[run] += job.mesh.device(rank).packets_sent();
        times[run] = job.mesh.now_ns();
    }
    EXPECT_EQ(packets[0], packets[1]);
    EXPECT_EQ(times[0], times[1]);
}

// Numbers of calls are 16 bits.
TEST(EpCalls, CallNumbersWrap) {
    Job job({.nodes = 2, .ranks_per_node = 1},
            {.experts_per_rank = 1, .topk = 1, .hidden = 128, .max_tokens = 2});
    job.create_groups();
    Routing routing = empty_routing(job);
    std::vector<Call> calls = job.dispatch_calls(routing, 0);
    for (int call = 0; call < 66'000; ++call) {
        for (std::uint32_t rank = 0; rank < 2; ++rank) {
            calls[rank].request.user_data = static_cast<std::uint64_t>(call) + 1'000'000;
            job.post(rank, calls[rank]);
        }
        for (std::uint32_t rank = 0; rank < 2; ++rank) {
            std::optional<regmap::Completion> completion;
            job.mesh.run_until([&] { return (completion = job.mesh.device(rank).poll()).has_value(); },
                               100'000'000);
            ASSERT_TRUE(completion) << "call " << call;
            ASSERT_EQ(completion->status, Status::ok) << "call " << call;
        }
    }
    routing[0].experts = {{1}, {0}};
    routing[0].weights = {{2.0F}, {3.0F}};
    job.round(routing);
    job.expect_nothing_left();
}

}  // namespace
}  // namespace plait::mesh_test
