// Calls that cannot succeed: everybody concerned hears why, nobody hangs, nothing leaks, and the next call
// works.

#include "ep_job.hpp"

namespace plait::mesh_test {
namespace {

constexpr std::uint64_t bit(std::uint32_t rank) { return std::uint64_t{1} << rank; }

void expect_statuses(Job& job, const std::vector<Call>& calls, std::uint32_t culprit, Status of_culprit,
                     Status of_others) {
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
        EXPECT_EQ(job.status_of(rank, calls[rank]), rank == culprit ? of_culprit : of_others)
            << "rank " << rank;
    }
}

TEST(EpFailures, AnExpertThatDoesNotExist) {
    Job job({.nodes = 2, .ranks_per_node = 3}, {});
    job.create_groups();
    for (const std::int64_t expert : {std::int64_t{job.experts()}, std::int64_t{-2}, std::int64_t{1} << 40}) {
        Routing routing = job.random_routing(16);
        const Routing good = routing;
        job.add_token(routing[4], [&](std::uint32_t k) { return k == 3 ? expert : 0; });
        std::vector<Call> calls;
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank)
            calls.push_back(job.dispatch_call(rank, rank == 4 ? routing : good, 0, 200));
        job.post_all(calls);
        expect_statuses(job, calls, 4, Status::invalid_expert, Status::aborted);
        job.round(good);
    }
    job.expect_nothing_left();
}

TEST(EpFailures, RefusedParametersCountAsACall) {
    Job job({.nodes = 2, .ranks_per_node = 2}, {});
    job.create_groups();
    const Routing routing = job.random_routing(16);
    struct Case {
        Status status;
        void (*spoil)(regmap::EpRequest&);
    };
    const Case cases[] = {{Status::invalid_parameter, [](regmap::EpRequest& r) { r.timeout_us = 0; }},
                          {Status::invalid_parameter, [](regmap::EpRequest& r) { r.flags = 2; }},
                          {Status::invalid_parameter, [](regmap::EpRequest& r) { r.reserved3[7] = 1; }},
                          {Status::limit_exceeded, [](regmap::EpRequest& r) { r.tokens = 33; }},
                          {Status::invalid_key, [](regmap::EpRequest& r) { r.result.key += 77; }},
                          {Status::out_of_range, [](regmap::EpRequest& r) { r.result.address = 16; }},
                          {Status::invalid_handle, [](regmap::EpRequest& r) { r.flags = 1; }}};
    for (const Case& one : cases) {
        std::vector<Call> calls = job.dispatch_calls(routing, 0);
        one.spoil(calls[1].request);
        job.post_all(calls);
        expect_statuses(job, calls, 1, one.status, Status::aborted);
    }
    job.round(routing);
    job.expect_nothing_left();
}

TEST(EpFailures, RequestsThatNameNoIdleHandleChangeNothing) {
    Job job({.nodes = 2, .ranks_per_node = 2}, {});
    job.create_groups();
    const Routing routing = job.random_routing(16);
    Call wrong = job.dispatch_call(0, routing, 2, 100);  // there are two
    job.post(0, wrong);
    EXPECT_EQ(job.status_of(0, wrong), Status::invalid_handle);
    wrong = job.dispatch_call(0, routing, 0, 100);
    wrong.request.opcode = static_cast<regmap::EpOpcode>(9);
    job.post(0, wrong);
    EXPECT_EQ(job.status_of(0, wrong), Status::invalid_opcode);
    const std::vector<Call> calls = job.dispatch_calls(routing, 0);
    job.post_all(calls);
    wrong = job.dispatch_call(0, routing, 0, 100);
    job.post(0, wrong);
    EXPECT_EQ(job.status_of(0, wrong), Status::invalid_handle) << "while a call is in progress";
    job.expect_all(calls, Status::ok);
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) job.check_dispatch(rank, routing, calls);
    job.round(routing, 1);
    job.expect_nothing_left();
}

TEST(EpFailures, CapacityTooSmallPlacesNothing) {
    Job job({.nodes = 2, .ranks_per_node = 2}, {});
    job.create_groups();
    Routing routing(job.ranks());
    for (RankTokens& rank : routing) {
        for (int t = 0; t < 8; ++t) job.add_token(rank, [&](std::uint32_t k) { return k; });
    }
    std::vector<Call> calls;
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank)
        calls.push_back(job.dispatch_call(rank, routing, 0, rank == 1 ? 31 : 40));
    job.post_all(calls);
    expect_statuses(job, calls, 1, Status::capacity_exceeded, Status::aborted);
    const regmap::EpRequest& request = calls[1].request;
    for (std::size_t i = 0; i < 31 * job.data_bytes(); ++i) {
        ASSERT_EQ(*job.mesh.device(1).bytes(request.recv_x.address + i, 1), 0) << "byte " << i;
    }
    job.round(routing);
    job.expect_nothing_left();
}

TEST(EpFailures, GroupsThatDisagree) {
    struct Case {
        const char* what;
        void (*spoil)(regmap::GroupParameters&);
    };
    const Case cases[] = {
        {"topk", [](regmap::GroupParameters& p) { p.topk = 3; }},
        {"experts", [](regmap::GroupParameters& p) { p.experts *= 2; }},
        {"hidden", [](regmap::GroupParameters& p) { p.hidden = 128; }},
        {"max_tokens", [](regmap::GroupParameters& p) { p.max_tokens = 16; }},
        {"policy", [](regmap::GroupParameters& p) { p.entry_policy = EntryPolicy::target; }},
        {"format", [](regmap::GroupParameters& p) { p.dispatch_format = RowFormat::e4m3_f32; }}};
    for (const Case& one : cases) {
        for (const std::uint32_t culprit : {0U, 3U}) {
            SCOPED_TRACE(one.what);
            Job job({.nodes = 2, .ranks_per_node = 2}, {});
            for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
                regmap::GroupParameters parameters = job.parameters(rank);
                if (rank == culprit) one.spoil(parameters);
                ASSERT_EQ(job.create_group(rank, parameters).status, Status::ok);
            }
            Routing routing(job.ranks());
            const std::vector<Call> calls = job.dispatch_calls(routing, 0);
            job.post_all(calls);
            for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
                EXPECT_EQ(job.status_of(rank, calls[rank], 1'000'000), Status::parameter_mismatch)
                    << "rank " << rank;
            }
            job.expect_nothing_left();
        }
    }
}

TEST(EpFailures, RanksThatPostDifferentCalls) {
    for (const bool other_is_combine : {false, true}) {
        for (const std::uint32_t culprit : {0U, 2U, 5U}) {
            Job job({.nodes = 2, .ranks_per_node = 3}, {});
            job.create_groups();
            const Routing routing = job.random_routing(16);
            job.round(routing);
            std::vector<Call> calls = job.dispatch_calls(routing, 0);
            calls[culprit] = other_is_combine ? job.combine_call(culprit, routing, 0)
                                              : job.cached_calls(routing, 0)[culprit];
            job.post_all(calls);
            for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
                EXPECT_EQ(job.status_of(rank, calls[rank], 10'000'000), Status::parameter_mismatch)
                    << "rank " << rank;
            }
            job.round(routing);
            job.expect_nothing_left();
        }
    }
}

TEST(EpFailures, TimeoutOfADispatchNamesWhoIsMissing) {
    Job job({.nodes = 2, .ranks_per_node = 3}, {.timeout_us = 3000});
    job.create_groups();
    const Routing routing = job.random_routing(16);
    for (const std::uint32_t late : {0U, 4U}) {
        const std::vector<Call> calls = job.dispatch_calls(routing, 0);
        const std::uint64_t start_ns = job.mesh.now_ns();
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (rank != late) job.post(rank, calls[rank]);
        }
        std::uint32_t timeouts = 0;
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (rank == late) continue;
            const Status status = job.status_of(rank, calls[rank]);
            if (status != Status::timeout) {  // a neighbour's time ran out a moment before
                EXPECT_EQ(status, Status::aborted);
                continue;
            }
            ++timeouts;
            EXPECT_EQ(job.result(rank, calls[rank]).failed_ranks[0], bit(late));
        }
        EXPECT_GE(timeouts, 1U);
        EXPECT_LE(job.mesh.now_ns() - start_ns, 3'200'000U);
        // It comes at last, hears at once that the call is over, and is in step again.
        job.post(late, calls[late]);
        EXPECT_EQ(job.status_of(late, calls[late], 100'000), Status::aborted);
        job.round(routing);
    }
    job.expect_nothing_left();
}

TEST(EpFailures, TimeoutOfACombine) {
    Job job({.nodes = 2, .ranks_per_node = 3}, {.timeout_us = 3000});
    job.create_groups();
    Routing routing(job.ranks());
    for (RankTokens& rank : routing) {
        for (int t = 0; t < 20; ++t) job.add_token(rank, [&](std::uint32_t) { return job.random_expert(); });
    }
    const std::vector<Call> dispatch = job.dispatch_calls(routing, 0);
    job.post_all(dispatch);
    job.expect_all(dispatch, Status::ok);
    const std::uint32_t late = 4;
    const std::vector<Call> combine = job.combine_calls(routing, 0);
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
        if (rank != late) job.post(rank, combine[rank]);
    }
    std::uint64_t named = 0;
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
        if (rank == late) continue;
        const Status status = job.status_of(rank, combine[rank]);
        EXPECT_TRUE(status == Status::timeout || status == Status::aborted);
        if (status == Status::timeout) named |= job.result(rank, combine[rank]).failed_ranks[0];
    }
    EXPECT_NE(named, 0U);
    job.post(late, combine[late]);
    EXPECT_EQ(job.status_of(late, combine[late], 100'000), Status::aborted);
    // The routing is still there.
    const std::vector<Call> again = job.combine_calls(routing, 0);
    job.post_all(again);
    job.expect_all(again, Status::ok);
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) job.check_combine(rank, routing, again);
    job.expect_nothing_left();
}

/// The routing as it is without `dead`: its tokens and experts are gone.
Routing without(const Job& job, Routing routing, std::uint32_t dead) {
    routing[dead] = {};
    for (RankTokens& rank : routing) {
        for (auto& experts : rank.experts) {
            for (std::int64_t& expert : experts) {
                if (expert >= 0 && job.rank_of(expert) == dead) expert = -1;
            }
        }
    }
    return routing;
}

/// Dispatch and combine of the living: complete, with the dead one named.
void round_of_survivors(Job& job, std::uint32_t dead, const Routing& routing) {
    const Routing left = without(job, routing, dead);
    const std::vector<Call> dispatch = job.dispatch_calls(routing, 0);
    const std::vector<Call> combine = job.combine_calls(left, 0);
    for (const std::vector<Call>* calls : {&dispatch, &combine}) {
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (rank != dead) job.post(rank, (*calls)[rank]);
        }
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (rank == dead) continue;
            EXPECT_EQ(job.status_of(rank, (*calls)[rank], 20'000'000), Status::rank_failed)
                << "rank " << rank;
            EXPECT_EQ(job.result(rank, (*calls)[rank]).failed_ranks[0], bit(dead));
            EXPECT_EQ(job.result(rank, (*calls)[rank]).missing_rows, 0U);
            if (calls == &dispatch) job.check_dispatch(rank, left, dispatch, Status::rank_failed);
            else job.check_combine(rank, left, combine);
        }
    }
}

TEST(EpFailures, ADeadRankIsReportedAndNotWaitedFor) {
    for (const EntryPolicy policy : {EntryPolicy::same_index, EntryPolicy::spread, EntryPolicy::target}) {
        Job job({.nodes = 2, .ranks_per_node = 3}, {.policy = policy});
        job.create_groups();
        Routing routing = job.random_routing(32);
        job.round(routing);
        const std::uint32_t dead = 4;
        job.mesh.device(dead).kill();
        const std::uint64_t start_ns = job.mesh.now_ns();
        const std::vector<Call> calls = job.dispatch_calls(routing, 0);
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (rank != dead) job.post(rank, calls[rank]);
        }
        Routing living = routing;
        living[dead] = {};
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (rank == dead) continue;
            EXPECT_EQ(job.status_of(rank, calls[rank]), Status::rank_failed) << "rank " << rank;
            EXPECT_NE(job.result(rank, calls[rank]).failed_ranks[0] & bit(dead), 0U);
            // No row to the other node went by way of the dead one.
            if (job.node_of(rank) != job.node_of(dead))
                job.check_dispatch(rank, living, calls, Status::rank_failed);
        }
        EXPECT_LE(job.mesh.now_ns() - start_ns, 10'000'000U)
            << "two time limits of a queue pair and a little";
        round_of_survivors(job, dead, routing);
        round_of_survivors(job, dead, job.random_routing(32));
        job.expect_nothing_left();
    }
}

// The dead rank's neighbours know before the call and have nothing to find out in it, the other node's ranks
// learn it in the call: rows that had to go by way of the dead one are not waited for either.
TEST(EpFailures, ADeadRankThatSomeKnowOfIsNotWaitedFor) {
    for (const EntryPolicy policy : {EntryPolicy::same_index, EntryPolicy::spread, EntryPolicy::target}) {
        for (const bool cached : {false, true}) {
            Job job({.nodes = 2, .ranks_per_node = 3}, {.policy = policy});
            job.create_groups();
            const Routing routing = job.random_routing(32);
            job.round(routing);
            const std::uint32_t dead = 4;
            job.mesh.device(dead).kill();
            job.mesh.run_for(100'000);
            const std::uint64_t start_ns = job.mesh.now_ns();
            const std::vector<Call> calls =
                cached ? job.cached_calls(routing, 0) : job.dispatch_calls(routing, 0);
            for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
                if (rank != dead) job.post(rank, calls[rank]);
            }
            for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
                if (rank == dead) continue;
                EXPECT_EQ(job.status_of(rank, calls[rank]), Status::rank_failed) << "rank " << rank;
                EXPECT_NE(job.result(rank, calls[rank]).failed_ranks[0] & bit(dead), 0U);
            }
            EXPECT_LE(job.mesh.now_ns() - start_ns, 10'000'000U)
                << "two time limits of a queue pair and a little";
            round_of_survivors(job, dead, routing);
            job.expect_nothing_left();
        }
    }
}

// Whenever it happens: nobody hangs, nobody reads memory of a call that is over, nothing leaks, and the rest
// goes on.
TEST(EpFailures, ARankDiesInTheMiddle) {
    const std::uint64_t seed = job_seed(5);
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (int run = 0; run < 60; ++run) {
        SCOPED_TRACE("run " + std::to_string(run));
        const auto dead = static_cast<std::uint32_t>(random() % 6);
        Job job({.nodes = 3,
                 .ranks_per_node = 2,
                 .jitter_ns = 3000,
                 .accumulators = run % 2 == 0 ? 256U : 8U,
                 .seed = random()},
                {.hidden = 512, .policy = static_cast<EntryPolicy>(run % 3)});
        job.create_groups();
        const Routing routing = job.random_routing(32);
        const std::vector<Call> dispatch = job.dispatch_calls(routing, 0);
        job.mesh.at(job.mesh.now_ns() + random() % 60'000, [&] { job.mesh.device(dead).kill(); });
        job.post_all(dispatch);
        std::vector<bool> combines(job.ranks(), false);
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (rank == dead) continue;
            const Status status = job.status_of(rank, dispatch[rank], 50'000'000);
            EXPECT_TRUE(status == Status::ok || status == Status::rank_failed)
                << "status " << static_cast<int>(status);
        }
        const std::vector<Call> combine = job.combine_calls(routing, 0);
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (rank != dead) job.post(rank, combine[rank]);
        }
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (rank == dead) continue;
            const Status status = job.status_of(rank, combine[rank], 50'000'000);
            EXPECT_TRUE(status == Status::ok || status == Status::rank_failed)
                << "status " << static_cast<int>(status);
        }
        // By now each living rank has met the dead one, or will in the next call.
        const std::vector<Call> meeting = job.dispatch_calls(routing, 0);
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (rank != dead) job.post(rank, meeting[rank]);
        }
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (rank == dead) continue;
            EXPECT_EQ(job.status_of(rank, meeting[rank], 50'000'000), Status::rank_failed);
        }
        round_of_survivors(job, dead, routing);
        job.expect_nothing_left();
        if (::testing::Test::HasFailure()) return;
    }
}

TEST(EpFailures, DestroyingTheGroupAbortsItsCalls) {
    Job job({.nodes = 2, .ranks_per_node = 2}, {});
    job.create_groups();
    const Routing routing = job.random_routing(16);
    const std::vector<Call> calls = job.dispatch_calls(routing, 0);
    for (std::uint32_t rank = 0; rank < 3; ++rank) job.post(rank, calls[rank]);
    job.mesh.run_for(100'000);
    regmap::AdminRequest request;
    request.opcode = regmap::AdminOpcode::destroy_group;
    request.object = 0;
    EXPECT_EQ(job.mesh.device(0).admin(request).status, Status::ok);
    for (std::uint32_t rank = 0; rank < 3; ++rank)
        EXPECT_EQ(job.status_of(rank, calls[rank], 1'000'000), Status::aborted);
    for (std::uint32_t rank = 1; rank < 4; ++rank)
        EXPECT_EQ(job.mesh.device(rank).admin(request).status, Status::ok);
    EXPECT_EQ(job.mesh.device(0).admin(request).status, Status::invalid_group);
    job.mesh.run_for(10'000'000);
    job.create_groups();
    job.round(routing);
    job.expect_nothing_left();
}

TEST(EpFailures, GroupsThatCannotBeMade) {
    Job job({.nodes = 2, .ranks_per_node = 2, .mtu_bytes = 256}, {});
    struct Case {
        Status status;
        void (*spoil)(regmap::GroupParameters&);
    };
    const Case cases[] = {
        {Status::limit_exceeded,
         [](regmap::GroupParameters& p) { p.experts = 4 * 63; }},  // counts of 260 bytes, MTU 256
        {Status::invalid_qp, [](regmap::GroupParameters& p) { p.mtu_bytes = 512; }},  // not the queue pairs'
        {Status::invalid_parameter, [](regmap::GroupParameters& p) { p.hidden = 130; }},
        {Status::invalid_parameter, [](regmap::GroupParameters& p) { p.experts = 7; }},
        {Status::invalid_parameter, [](regmap::GroupParameters& p) { p.ranks_per_node = 3; }},
        {Status::invalid_parameter, [](regmap::GroupParameters& p) { p.rank = 1; }},
        {Status::limit_exceeded,
         [](regmap::GroupParameters& p) {
             p.max_tokens = 16384;
             p.hidden = 16384;
         }},
        {Status::limit_exceeded, [](regmap::GroupParameters& p) { p.handles = 9; }},
        {Status::invalid_length, [](regmap::GroupParameters& p) {
             p.ranks = 2;
             p.experts = 8;
         }}};
    for (const Case& one : cases) {
        regmap::GroupParameters parameters = job.parameters(0);
        one.spoil(parameters);
        EXPECT_EQ(job.create_group(0, parameters).status, one.status);
    }
    job.create_groups();
    job.round(job.random_routing(8));
    job.expect_nothing_left();
}

}  // namespace
}  // namespace plait::mesh_test
