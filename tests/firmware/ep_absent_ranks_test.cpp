// Ranks whose devices live but whose hosts do not call, or do not read what their calls came to: the others
// do not wait for them beyond their time, and name them.

#include "ep_job.hpp"

namespace plait::mesh_test {
namespace {

constexpr std::uint64_t bit(std::uint32_t rank) { return std::uint64_t{1} << rank; }
constexpr std::uint32_t timeout_us = 20'000;  // five looks at who is missing

/// Every rank but `absent` makes its call; all of them run into the time limit and name it.
void round_without(Job& job, const std::vector<Call>& calls, std::uint32_t absent) {
    const std::uint64_t start_ns = job.mesh.now_ns();
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
        if (rank != absent) job.post(rank, calls[rank]);
    }
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
        if (rank == absent) continue;
        EXPECT_EQ(job.status_of(rank, calls[rank]), Status::timeout) << "rank " << rank;
        EXPECT_EQ(job.result(rank, calls[rank]).failed_ranks[0], bit(absent)) << "rank " << rank;
    }
    EXPECT_LE(job.mesh.now_ns() - start_ns, (timeout_us + 500) * 1000U);
}

/// The absent rank makes the calls that the others gave up: it hears so at once.
void catch_up(Job& job, const std::vector<Call>& calls, std::uint32_t rank) {
    job.post(rank, calls[rank]);
    EXPECT_EQ(job.status_of(rank, calls[rank], 100'000), Status::aborted);
}

TEST(EpAbsentRanks, ThatNeverCallAreNamedCallAfterCall) {
    for (const std::uint32_t absent : {0U, 4U}) {
        SCOPED_TRACE("absent " + std::to_string(absent));
        Job job({.nodes = 2, .ranks_per_node = 3}, {.timeout_us = timeout_us});
        job.create_groups();
        const Routing routing = job.random_routing(32);
        for (int call = 0; call < 3; ++call) round_without(job, job.dispatch_calls(routing, 0), absent);
        job.expect_nothing_left();
    }
}

TEST(EpAbsentRanks, ThatStopCallingAreNamedByEverybody) {
    for (const EntryPolicy policy :
         {EntryPolicy::same_index, EntryPolicy::spread, EntryPolicy::target, EntryPolicy::balanced}) {
        for (const std::uint32_t absent : {1U, 5U}) {
            SCOPED_TRACE("absent " + std::to_string(absent));
            Job job({.nodes = 3, .ranks_per_node = 2}, {.policy = policy, .timeout_us = timeout_us});
            job.create_groups();
            const Routing routing = job.random_routing(32);
            job.round(routing);
            const std::vector<Call> cached = job.cached_calls(routing, 0);
            round_without(job, cached, absent);
            catch_up(job, cached, absent);
            job.run_dispatch(routing, job.dispatch_calls(routing, 0));
            const std::vector<Call> combine = job.combine_calls(routing, 0);
            round_without(job, combine, absent);
            catch_up(job, combine, absent);
            job.round(routing);
            job.expect_nothing_left();
        }
    }
}

TEST(EpAbsentRanks, ThatComeInTimeMissNothing) {
    Job job({.nodes = 2, .ranks_per_node = 3}, {.timeout_us = timeout_us});
    job.create_groups();
    const Routing routing = job.random_routing(32);
    const std::uint32_t late = 4;
    for (const bool dispatches : {true, false}) {
        const std::vector<Call> calls =
            dispatches ? job.dispatch_calls(routing, 0) : job.combine_calls(routing, 0);
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (rank != late) job.post(rank, calls[rank]);
        }
        job.mesh.run_for(15'000'000);
        job.post(late, calls[late]);
        job.expect_all(calls, Status::ok);
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (dispatches) job.check_dispatch(rank, routing, calls);
            else job.check_combine(rank, routing, calls);
        }
    }
    job.expect_nothing_left();
}

// Those whose combine was over at once are not taken for absent by those that cannot end it.
TEST(EpAbsentRanks, AreNotTakenForThoseThatHaveEnded) {
    Job job({.nodes = 3, .ranks_per_node = 2}, {.timeout_us = timeout_us});
    job.create_groups();
    const std::uint32_t absent = 0;
    Routing routing(job.ranks());  // rank 3 alone needs the absent one
    job.add_token(routing[3], [](std::uint32_t) { return 0; });
    job.add_token(routing[4], [](std::uint32_t) { return 10; });
    job.run_dispatch(routing, job.dispatch_calls(routing, 0));
    const std::vector<Call> combine = job.combine_calls(routing, 0);
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank)
        if (rank != absent) job.post(rank, combine[rank]);
    for (const std::uint32_t rank : {2U, 4U, 5U})
        EXPECT_EQ(job.status_of(rank, combine[rank], 1'000'000), Status::ok);
    // One of them goes on to the next call, which cannot take place yet.
    const std::vector<Call> next = job.dispatch_calls(routing, 0);
    job.post(4, next[4]);
    EXPECT_EQ(job.status_of(3, combine[3]), Status::timeout);
    EXPECT_EQ(job.result(3, combine[3]).failed_ranks[0], bit(absent));
    EXPECT_EQ(job.status_of(4, next[4]), Status::timeout);
    job.expect_nothing_left();
}

// A routing without the counts of all is none: the call must not end as rank_failed, whose handle serves
// combine.
TEST(EpAbsentRanks, BesideADeadOneAreNamedToo) {
    Job job({.nodes = 3, .ranks_per_node = 2}, {.timeout_us = timeout_us});
    job.create_groups();
    const Routing routing = job.random_routing(32);
    job.round(routing);
    const std::uint32_t dead = 5, absent = 2;
    job.mesh.device(dead).kill();
    const std::vector<Call> calls = job.dispatch_calls(routing, 0);
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank)
        if (rank != dead && rank != absent) job.post(rank, calls[rank]);
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
        if (rank == dead || rank == absent) continue;
        EXPECT_EQ(job.status_of(rank, calls[rank]), Status::timeout) << "rank " << rank;
        EXPECT_EQ(job.result(rank, calls[rank]).failed_ranks[0], bit(dead) | bit(absent));
        const Call combine = job.combine_call(rank, routing, 0);
        job.post(rank, combine);
        EXPECT_EQ(job.status_of(rank, combine), Status::invalid_handle);
    }
    job.expect_nothing_left();
}

TEST(EpAbsentRanks, BesideADeadOneAreWaitedForAllTheSame) {
    Job job({.nodes = 3, .ranks_per_node = 2}, {.timeout_us = timeout_us});
    job.create_groups();
    const Routing routing = job.random_routing(32);
    job.round(routing);
    const std::uint32_t dead = 5, late = 2;
    job.mesh.device(dead).kill();
    const std::vector<Call> calls = job.dispatch_calls(routing, 0);
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank)
        if (rank != dead && rank != late) job.post(rank, calls[rank]);
    job.mesh.run_for(15'000'000);
    job.post(late, calls[late]);
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
        if (rank == dead) continue;
        EXPECT_EQ(job.status_of(rank, calls[rank]), Status::rank_failed) << "rank " << rank;
        EXPECT_EQ(job.result(rank, calls[rank]).failed_ranks[0], bit(dead));
        if (job.node_of(rank) == job.node_of(dead)) continue;  // may have lost rows with it
        EXPECT_EQ(job.result(rank, calls[rank]).missing_rows, 0U) << "rank " << rank;
    }
    job.expect_nothing_left();
}

// The host of a rank posts and posts and reads no completion. Its device takes calls as long as their
// completions have room; from then on the rank is one that does not call. None of its completions is lost.
TEST(EpAbsentRanks, MayNotReadTheirCompletions) {
    Job job({.nodes = 2, .ranks_per_node = 2}, {.timeout_us = timeout_us});
    job.create_groups();
    const Routing routing = job.random_routing(8);
    const std::uint32_t deaf = 2;
    std::vector<Call> unread;
    for (std::uint32_t call = 0; call < MeshDevice::ring_entries; ++call) {
        const std::vector<Call> calls =
            call % 2 == 0 ? job.dispatch_calls(routing, 0) : job.combine_calls(routing, 0);
        job.post_all(calls);
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (rank == deaf) continue;
            EXPECT_EQ(job.status_of(rank, calls[rank]), Status::ok) << "rank " << rank;
        }
        unread.push_back(calls[deaf]);
    }
    const std::vector<Call> refused = job.dispatch_calls(routing, 0);
    job.post(deaf, refused[deaf]);
    round_without(job, refused, deaf);
    // It reads at last: nothing is missing, and the call that waited is made.
    for (const Call& call : unread) EXPECT_EQ(job.status_of(deaf, call, 0), Status::ok);
    EXPECT_EQ(job.status_of(deaf, refused[deaf], 100'000), Status::aborted);
    EXPECT_EQ(job.mesh.device(deaf).firmware().queues().statistics().lost_completions, 0U);
    job.round(routing);
    job.expect_nothing_left();
}

}  // namespace
}  // namespace plait::mesh_test
