// Dispatch and combine of healthy groups against a slow and obvious reference: every shape, policy, format
// and MTU.

#include "ep_job.hpp"
#include "ep_shape.hpp"

namespace plait::mesh_test {
namespace {

class EpRounds : public ::testing::TestWithParam<Shape> {};

TEST_P(EpRounds, ManyCallsOnTheSameHandle) {
    const std::uint64_t seed = job_seed(1);
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    Job job(mesh_of(GetParam(), seed),
            {.experts_per_rank = 4, .format = GetParam().format, .policy = GetParam().policy});
    job.create_groups();
    for (int call = 0; call < 4; ++call) {
        job.round(job.random_routing(32));
        ASSERT_FALSE(::testing::Test::HasFailure()) << "call " << call;
    }
    job.expect_nothing_left();
}

/// Its rows are with the transport and its own have come: whether the others have acknowledged does not
/// matter. The next call on the handle begins beside those parts, and the group can only end after them.
TEST(EpCombineEnd, WaitsForNoAcknowledgement) {
    Job job({.nodes = 2, .ranks_per_node = 2, .seed = job_seed(5)}, {.experts_per_rank = 4});
    job.create_groups();
    std::uint32_t unacknowledged = 0;
    for (int call = 0; call < 4; ++call) {
        job.round(job.random_routing(32));
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank)
            unacknowledged += job.mesh.device(rank).firmware().ep().partials_in_use();
    }
    EXPECT_GT(unacknowledged, 0U);
    job.expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, EpRounds,
    ::testing::Values(Shape{"TwoByTwo", 2, 2, EntryPolicy::same_index, RowFormat::bf16, 1024},
                      Shape{"TwoByTwoSpread", 2, 2, EntryPolicy::spread, RowFormat::bf16, 512},
                      Shape{"TwoByTwoFp8", 2, 2, EntryPolicy::target, RowFormat::e4m3_f32, 256},
                      Shape{"ThreeByFour", 3, 4, EntryPolicy::target, RowFormat::bf16, 256},
                      Shape{"ThreeByFourSpread", 3, 4, EntryPolicy::spread, RowFormat::e4m3_f32, 4096},
                      Shape{"OneNode", 1, 4, EntryPolicy::target, RowFormat::bf16, 2048},
                      Shape{"OneRankANode", 4, 1, EntryPolicy::spread, RowFormat::e4m3_f32, 512},
                      Shape{"OneRank", 1, 1, EntryPolicy::same_index, RowFormat::bf16, 1024},
                      Shape{"TwoByEight", 2, 8, EntryPolicy::target, RowFormat::e4m3_f32, 1024},
                      Shape{"TwoByEightSameIndex", 2, 8, EntryPolicy::same_index, RowFormat::bf16, 4096}),
    name_of_shape);

}  // namespace
}  // namespace plait::mesh_test
