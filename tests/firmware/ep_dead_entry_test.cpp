// An entry device that dies in the middle: what it had in its hands is missing and said to be; all else is
// right.

#include <map>
#include <set>

#include "ep_job.hpp"

namespace plait::mesh_test {
namespace {

constexpr std::uint64_t bit(std::uint32_t rank) { return std::uint64_t{1} << rank; }

/// Element of the expert output of `rank` for a token.
std::uint16_t output(std::uint64_t source, std::uint32_t rank, std::uint32_t element) {
    std::uint64_t hash = (source * 64 + rank) * 4096 + element;
    hash *= 0x9e37'79b9'7f4a'7c15ULL;
    hash ^= hash >> 29;
    return to_bf16(static_cast<float>(hash % 2000) / 16.0F - 60.0F);
}

class DeadEntry {
  public:
    static constexpr MeshOptions usual{.nodes = 3, .ranks_per_node = 3, .jitter_ns = 2000};

    DeadEntry(MeshOptions options, std::uint64_t seed, EntryPolicy policy, std::uint32_t dead)
        : job_(seeded(options, seed), {.hidden = hidden, .policy = policy}),
          dead_(dead),
          routing_(job_.ranks()) {
        job_.create_groups();
        for (RankTokens& rank : routing_) {
            for (int token = 0; token < 32; ++token)
                job_.add_token(rank, [&](std::uint32_t) { return job_.random_expert(); });
        }
    }

    void dispatch(std::uint64_t dies_after_ns) {
        calls_ = job_.dispatch_calls(routing_, 0);
        kill_after(dies_after_ns);
        job_.post_all(calls_);
        for (std::uint32_t rank = 0; rank < job_.ranks(); ++rank)
            if (rank != dead_) check_dispatch(rank, job_.status_of(rank, calls_[rank], 30'000'000));
        if (!job_.mesh.device(dead_).is_dead()) job_.wait(dead_, calls_[dead_], 1'000'000);
    }

    void combine(std::uint64_t dies_after_ns) {
        std::vector<Call> combine;
        for (std::uint32_t rank = 0; rank < job_.ranks(); ++rank) combine.push_back(combine_call(rank));
        kill_after(dies_after_ns);
        for (std::uint32_t rank = 0; rank < job_.ranks(); ++rank)
            if (!job_.mesh.device(rank).is_dead()) job_.post(rank, combine[rank]);
        for (std::uint32_t rank = 0; rank < job_.ranks(); ++rank)
            if (rank != dead_) check_combine(rank, combine[rank]);
    }

    void finish() { job_.expect_nothing_left(); }
    std::uint32_t gaps() const { return gaps_; }
    std::uint32_t lacking() const { return lacking_; }
    std::uint64_t late_contributions() {
        std::uint64_t sum = 0;
        for (std::uint32_t rank = 0; rank < job_.ranks(); ++rank)
            sum += job_.mesh.device(rank).late_contributions();
        return sum;
    }

  private:
    static constexpr std::uint32_t hidden = 1024;  // rows of two packets

    static MeshOptions seeded(MeshOptions options, std::uint64_t seed) {
        options.seed = seed;
        return options;
    }

    void kill_after(std::uint64_t time_ns) {
        if (time_ns == 0 || job_.mesh.device(dead_).is_dead()) return;
        job_.mesh.at(job_.mesh.now_ns() + time_ns, [this] { job_.mesh.device(dead_).kill(); });
    }

    void expect_names_the_dead(std::uint32_t rank, const Call& call, Status status) {
        ASSERT_TRUE(status == Status::ok || status == Status::rank_failed)
            << "rank " << rank << " status " << static_cast<int>(status);
        EXPECT_EQ(job_.result(rank, call).failed_ranks[0], status == Status::ok ? 0 : bit(dead_))
            << "rank " << rank;
    }

    std::uint64_t source_at(std::uint32_t rank, std::uint32_t slot) {
        return job_.mesh.device(rank).load<std::uint64_t>(calls_[rank].request.recv_source.address +
                                                          slot * 8);
    }

    /// Every slot holds a row that was to come, once and wholly, or says that it holds none.
    void check_dispatch(std::uint32_t rank, Status status) {
        SCOPED_TRACE("rank " + std::to_string(rank));
        expect_names_the_dead(rank, calls_[rank], status);
        MeshDevice& device = job_.mesh.device(rank);
        const regmap::EpRequest& request = calls_[rank].request;
        const regmap::EpResult result = job_.result(rank, calls_[rank]);
        std::set<std::uint64_t> wanted;
        for (const auto& [source, token] : job_.expected_rows(routing_, rank))
            wanted.insert(std::uint64_t{source} << 32 | token);
        std::uint32_t gaps = 0;
        for (std::uint32_t slot = 0; slot < result.received_rows; ++slot) {
            const std::uint64_t name = source_at(rank, slot);
            if (name == ~std::uint64_t{0}) {
                ++gaps;
                EXPECT_EQ(device.load<std::int64_t>(request.recv_topk_idx.address + slot * 4 * 8), -1);
                continue;
            }
            ASSERT_EQ(wanted.erase(name), 1U) << "slot " << slot;
            const std::size_t bytes = job_.data_bytes();
            ASSERT_EQ(std::memcmp(device.bytes(request.recv_x.address + slot * bytes, bytes),
                                  calls_[name >> 32].x.data() + (name & 0xffffffff) * bytes, bytes),
                      0)
                << "slot " << slot;
        }
        EXPECT_EQ(result.missing_rows, gaps);
        EXPECT_TRUE(status == Status::rank_failed || (gaps == 0 && wanted.empty()));
        for (const std::uint64_t name : wanted) {
            const auto source = static_cast<std::uint32_t>(name >> 32);
            // Within a node no row goes by way of another device.
            EXPECT_TRUE(source == dead_ || (job_.node_of(source) != job_.node_of(rank) &&
                                            job_.node_of(rank) == job_.node_of(dead_)))
                << "source " << source;
        }
        gaps_ += gaps;
    }

    /// Outputs where the rows are, poison where there are none.
    Call combine_call(std::uint32_t rank) {
        const std::uint32_t rows = job_.result(rank, calls_[rank]).received_rows;
        std::vector<std::uint16_t> values(std::size_t{rows} * hidden, 0x7fc0);
        for (std::uint32_t slot = 0; rank != dead_ && slot < rows; ++slot) {
            const std::uint64_t source = source_at(rank, slot);
            if (source == ~std::uint64_t{0}) continue;
            for (std::uint32_t i = 0; i < hidden; ++i)
                values[std::size_t{slot} * hidden + i] = output(source, rank, i);
        }
        if (rank == dead_)
            for (std::size_t i = 0; i < values.size(); ++i)
                values[i] = output(source_at(rank, static_cast<std::uint32_t>(i / hidden)), rank, i % hidden);
        Call call;
        call.x.resize(values.size() * 2);
        if (!values.empty()) std::memcpy(call.x.data(), values.data(), call.x.size());
        call.request = job_.combine_call(rank, routing_, 0).request;
        call.request.x = job_.filled(rank, call.x);
        return call;
    }

    /// The sum over the ranks in `present`.
    std::vector<std::uint16_t> sum(std::uint32_t rank, std::uint32_t token, std::uint64_t present) {
        const std::uint64_t source = std::uint64_t{rank} << 32 | token;
        std::vector<float> total(hidden, 0.0F);
        for (std::uint32_t node = 0; node < 3; ++node) {
            const std::uint64_t here = present >> (3 * node) & 7;
            for (std::uint32_t i = 0; here != 0 && i < hidden; ++i) {
                float part = 0.0F;
                for (std::uint32_t local = 0; local < 3; ++local)
                    if ((here >> local & 1) != 0) part += to_float(output(source, 3 * node + local, i));
                total[i] += to_float(to_bf16(part));
            }
        }
        std::vector<std::uint16_t> row(hidden);
        for (std::uint32_t i = 0; i < hidden; ++i) row[i] = to_bf16(total[i]);
        return row;
    }

    /// Each half of a row returns by itself, so they may lack different ranks of the node.
    bool lacks_only_the_node_of_the_dead(const std::vector<std::uint16_t>& actual, std::uint32_t rank,
                                         std::uint32_t token, std::uint64_t targets) {
        bool first = false;
        bool second = false;
        for (std::uint64_t lost = 0; lost < 8; ++lost) {
            const auto expected = sum(rank, token, targets & ~(lost << (3 * job_.node_of(dead_))));
            first |= std::equal(actual.begin(), actual.begin() + hidden / 2, expected.begin());
            second |= std::equal(actual.begin() + hidden / 2, actual.end(), expected.begin() + hidden / 2);
        }
        return first && second;
    }

    /// Every row is the sum over its ranks, but for some or all of the dead one's node.
    void check_combine(std::uint32_t rank, const Call& call) {
        SCOPED_TRACE("rank " + std::to_string(rank));
        const Status status = job_.status_of(rank, call, 30'000'000);
        expect_names_the_dead(rank, call, status);
        const regmap::EpResult result = job_.result(rank, call);
        if (result.received_rows != 32) return;  // ended by its patience: not all rows are there
        std::uint32_t lacking = 0;
        for (std::uint32_t token = 0; token < 32; ++token) {
            std::uint64_t targets = 0;
            for (std::uint32_t target = 0; target < job_.ranks(); ++target)
                if (job_.goes_to(routing_, rank, token, target)) targets |= bit(target);
            std::vector<std::uint16_t> actual(hidden);
            std::memcpy(
                actual.data(),
                job_.mesh.device(rank).bytes(call.request.recv_x.address + token * hidden * 2, hidden * 2),
                hidden * 2);
            if (actual == sum(rank, token, targets)) continue;
            ++lacking;
            EXPECT_TRUE(lacks_only_the_node_of_the_dead(actual, rank, token, targets)) << "token " << token;
        }
        EXPECT_LE(lacking, result.missing_rows + (gaps_ != 0 || status == Status::rank_failed ? 32U : 0U));
        EXPECT_TRUE(lacking == 0 || status == Status::rank_failed);
        lacking_ += lacking;
    }

    Job job_;
    std::uint32_t dead_;
    Routing routing_;
    std::vector<Call> calls_;
    std::uint32_t gaps_ = 0;
    std::uint32_t lacking_ = 0;
};

class EpDeadEntry : public ::testing::TestWithParam<EntryPolicy> {
  protected:
    const std::uint64_t seed_ = job_seed(11);
    const ::testing::ScopedTrace trace_{__FILE__, __LINE__, "PLAIT_SEED=" + std::to_string(seed_)};
};

TEST_P(EpDeadEntry, InADispatchLeavesMarkedGaps) {
    std::mt19937_64 random(seed_);
    std::uint32_t gaps = 0;
    for (int run = 0; run < 8; ++run) {
        SCOPED_TRACE("run " + std::to_string(run));
        DeadEntry world(DeadEntry::usual, random(), GetParam(), static_cast<std::uint32_t>(random() % 9));
        world.dispatch(1 + random() % 40'000);
        world.combine(0);
        world.finish();
        gaps += world.gaps();
        if (HasFailure()) return;
    }
    EXPECT_GT(gaps, 0U);
}

TEST_P(EpDeadEntry, InACombineTakesItsNodesSharesAlong) {
    std::mt19937_64 random(seed_);
    std::uint32_t lacking = 0;
    for (int run = 0; run < 8; ++run) {
        SCOPED_TRACE("run " + std::to_string(run));
        DeadEntry world(DeadEntry::usual, random(), GetParam(), static_cast<std::uint32_t>(random() % 9));
        world.dispatch(0);
        world.combine(1 + random() % 60'000);
        world.finish();
        lacking += world.lacking();
        if (HasFailure()) return;
    }
    EXPECT_GT(lacking, 0U);
}

// Its contributions are still under way when the node gives it up, and the accumulators that they are for are
// few and soon make other sums.
TEST_P(EpDeadEntry, WhatItSentBeforeFindsNoLaterSum) {
    MeshOptions options = DeadEntry::usual;
    options.accumulators = 16;
    options.scale_up_ns = 6000;
    options.link_down_ns = 500;
    std::mt19937_64 random(seed_);
    std::uint64_t late = 0;
    for (int run = 0; run < 24; ++run) {
        SCOPED_TRACE("run " + std::to_string(run));
        DeadEntry world(options, random(), GetParam(), static_cast<std::uint32_t>(random() % 9));
        world.dispatch(0);
        world.combine(20'000 + random() % 100'000);
        world.finish();
        late += world.late_contributions();
        if (HasFailure()) return;
    }
    EXPECT_GT(late, 0U);
}

INSTANTIATE_TEST_SUITE_P(Policies, EpDeadEntry,
                         ::testing::Values(EntryPolicy::same_index, EntryPolicy::spread, EntryPolicy::target,
                                           EntryPolicy::balanced));

}  // namespace
}  // namespace plait::mesh_test
