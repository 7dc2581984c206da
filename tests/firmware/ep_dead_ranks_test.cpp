// Ranks that die: the others hear of it in time, name them, and go on.

#include "ep_job.hpp"

namespace plait::mesh_test {
namespace {

constexpr std::uint64_t bit(std::uint32_t rank) { return std::uint64_t{1} << rank; }

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

TEST(EpDeadRanks, AreReportedAndNotWaitedFor) {
    for (const EntryPolicy policy :
         {EntryPolicy::same_index, EntryPolicy::spread, EntryPolicy::target, EntryPolicy::balanced}) {
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
TEST(EpDeadRanks, ThatSomeKnowOfAreNotWaitedFor) {
    for (const EntryPolicy policy :
         {EntryPolicy::same_index, EntryPolicy::spread, EntryPolicy::target, EntryPolicy::balanced}) {
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
            // A cached routing has slots for its rows.
            for (std::uint32_t rank = 0; cached && rank < job.ranks(); ++rank) {
                if (rank == dead) continue;
                const auto rows = job.expected_rows(routing, rank);
                const auto of_the_dead = std::count_if(rows.begin(), rows.end(),
                                                       [&](const auto& row) { return row.source == dead; });
                EXPECT_GE(job.result(rank, calls[rank]).missing_rows, of_the_dead) << "rank " << rank;
            }
            round_of_survivors(job, dead, routing);
            job.expect_nothing_left();
        }
    }
}

// Whenever it happens: nobody hangs, nobody reads memory of a call that is over, nothing leaks, and the rest
// goes on.
TEST(EpDeadRanks, MayDieInTheMiddle) {
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

}  // namespace
}  // namespace plait::mesh_test
