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
                          {Status::invalid_parameter, [](regmap::EpRequest& r) { r.reserved3[3] = 1; }},
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
        {"dispatch_format", [](regmap::GroupParameters& p) { p.dispatch_format = RowFormat::e4m3_f32; }},
        {"combine_format", [](regmap::GroupParameters& p) { p.combine_format = RowFormat::e4m3_f32; }},
        {"partial_format", [](regmap::GroupParameters& p) { p.partial_format = RowFormat::f32; }},
        {"flags", [](regmap::GroupParameters& p) {
             p.dispatch_format = RowFormat::e4m3_f32;
             p.flags = regmap::group_encode_dispatch;
         }}};
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
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (rank == late) continue;
            EXPECT_EQ(job.status_of(rank, calls[rank]), Status::timeout) << "rank " << rank;
            EXPECT_EQ(job.result(rank, calls[rank]).failed_ranks[0], bit(late));
        }
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
        EXPECT_EQ(job.status_of(rank, combine[rank]), Status::timeout) << "rank " << rank;
        named |= job.result(rank, combine[rank]).failed_ranks[0];
    }
    EXPECT_NE(named & bit(late), 0U);
    job.post(late, combine[late]);
    EXPECT_EQ(job.status_of(late, combine[late], 100'000), Status::aborted);
    // The routing is still there.
    const std::vector<Call> again = job.combine_calls(routing, 0);
    job.post_all(again);
    job.expect_all(again, Status::ok);
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) job.check_combine(rank, routing, again);
    job.expect_nothing_left();
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

// Rows of the tokens that wait for the culprit hold all accumulators; those of other tokens have come, and
// wait for sums that will never be opened.
TEST(EpFailures, AbortedWhileRowsWaitForTheirSums) {
    Job job({.nodes = 3, .ranks_per_node = 2, .accumulators = 8}, {.experts_per_rank = 1, .topk = 2});
    job.create_groups();
    constexpr std::uint32_t culprit = 5;
    Routing routing(job.ranks());
    for (std::uint32_t t = 0; t < 32; ++t) {
        // Every fourth token of node 0 goes to the culprit, the others to node 1.
        for (const std::uint32_t source : {0U, 1U})
            job.add_token(routing[source],
                          [&](std::uint32_t k) { return t % 4 == 0 && k == 0 ? culprit : 2 + k; });
    }
    for (int round = 0; round < 2; ++round) {
        job.run_dispatch(routing, job.dispatch_calls(routing, 0));
        std::vector<Call> calls = job.combine_calls(routing, 0);
        calls[culprit].request.timeout_us = 0;
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank)
            if (rank != culprit) job.post(rank, calls[rank]);
        job.mesh.run_for(100'000);
        std::size_t early = 0;
        for (const BufferId buffer : job.mesh.device(0).ep().groups()[0].handles[0].early_rows)
            early += buffer != 0 ? 1 : 0;
        EXPECT_GT(early, 10U) << "or this tests nothing";
        job.post(culprit, calls[culprit]);
        EXPECT_EQ(job.status_of(culprit, calls[culprit]), Status::invalid_parameter);
        for (const std::uint32_t rank : {0U, 1U})
            EXPECT_EQ(job.status_of(rank, calls[rank]), Status::aborted);
        for (const std::uint32_t rank : {2U, 3U, 4U}) EXPECT_TRUE(job.wait(rank, calls[rank]));
        job.run_combine(routing, 0);
    }
    job.expect_nothing_left();
}

}  // namespace
}  // namespace plait::mesh_test
