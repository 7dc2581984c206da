// What the host adds to a dispatch's outcome: aligned counts, marked rows, the mask of failed ranks.

#include <gtest/gtest.h>

#include "ep_fixture.hpp"

namespace plait::testing {
namespace {

class EpOutputs : public EpFixture {
  protected:
    EpCompletion dispatch_with(const DispatchArguments& arguments, const std::vector<std::uint32_t>& counts,
                               Status status = Status::ok) {
        auto call = group().dispatch(arguments);
        if (!call) throw std::runtime_error(call.error().message);
        const regmap::EpResult written = result(status, 6);
        device().answer(status, &written, counts);
        auto completion = call.value().wait(wait_ns);
        if (!completion) throw std::runtime_error(completion.error().message);
        return completion.value();
    }
};

using Counts = std::vector<std::uint32_t>;

TEST_F(EpOutputs, CountsAreRoundedUpToTheAlignment) {
    DispatchArguments arguments = dispatch_arguments();
    const Counts counts = {0, 1, 4, 5, 4, 2};  // 4 local experts, 2 sources
    EXPECT_EQ(dispatch_with(arguments, counts).aligned_rows_per_local_expert, (Counts{0, 1, 4, 5}));
    arguments.expert_alignment = 4;
    const EpCompletion by_four = dispatch_with(arguments, counts);
    EXPECT_EQ(by_four.aligned_rows_per_local_expert, (Counts{0, 4, 4, 8}));
    EXPECT_EQ(by_four.rows_per_local_expert, (Counts{0, 1, 4, 5})) << "exact all the same";
}

TEST_F(EpOutputs, TheAlignmentIsChecked) {
    DispatchArguments arguments = dispatch_arguments();
    for (const std::uint32_t alignment : {0U, max_expert_alignment + 1}) {
        arguments.expert_alignment = alignment;
        const auto call = group().dispatch(arguments);
        ASSERT_FALSE(call.ok());
        EXPECT_EQ(call.error().message,
                  "expert_alignment is " + std::to_string(alignment) + ", expected 1 .. 65536");
    }
    EXPECT_TRUE(device().posted.empty());
    arguments.expert_alignment = max_expert_alignment;
    EXPECT_EQ(dispatch_with(arguments, {1, 0, 0, 0, 1, 0}).aligned_rows_per_local_expert,
              (Counts{65536, 0, 0, 0}));
}

// 2 ranks of 16 tokens with 2 choices each: no expert can get more than 64 entries.
TEST_F(EpOutputs, CountsThatCannotBeAreNotBelieved) {
    EXPECT_EQ(dispatch_with(dispatch_arguments(), {64, 0, 0, 0, 6, 0}).rows_per_local_expert[0], 64U);
    auto call = group().dispatch(dispatch_arguments());
    ASSERT_TRUE(call.ok());
    const regmap::EpResult written = result(Status::ok, 6);
    device().answer(Status::ok, &written, {0, 65, 0, 0, 6, 0});
    EXPECT_EQ(call.value().wait(wait_ns).error().message,
              "the result counts 65 rows of an expert, at most 64 were possible");
}

TEST_F(EpOutputs, RowsThatNoTokenCameForAreMarked) {
    constexpr std::size_t room = 13;  // rows of memory; the call may use 10
    std::vector<std::int64_t> ids(room * 2, 77);
    DispatchArguments arguments = dispatch_arguments();
    arguments.recv_topk_idx = {0x7000, room * 16, 17, reinterpret_cast<std::byte*>(ids.data())};

    ASSERT_TRUE(group().dispatch(arguments).ok());
    EXPECT_EQ(ids, std::vector<std::int64_t>(room * 2, 77)) << "only when asked for";
    arguments.mark_empty_rows = true;
    ASSERT_TRUE(group().dispatch(arguments).ok());
    ASSERT_EQ(device().posted.size(), 2U);
    std::vector<std::int64_t> expected(room * 2, -1);
    std::fill(expected.begin() + 20, expected.end(), 77);
    EXPECT_EQ(ids, expected) << "before the device places rows, and no row beyond the capacity";
}

TEST_F(EpOutputs, MarkingNeedsThePlaceOnTheHost) {
    DispatchArguments arguments = dispatch_arguments();
    arguments.mark_empty_rows = true;
    const auto call = group().dispatch(arguments);
    ASSERT_FALSE(call.ok());
    EXPECT_EQ(call.status(), Status::invalid_parameter);
    EXPECT_EQ(call.error().message, "mark_empty_rows is set, but the host does not reach recv_topk_idx");
    std::byte outside{77};
    arguments.recv_topk_idx = {0, 0, 0, &outside};  // not given
    EXPECT_EQ(group().dispatch(arguments).status(), Status::invalid_parameter);
    EXPECT_EQ(outside, std::byte{77});
    EXPECT_TRUE(device().posted.empty());
}

TEST_F(EpOutputs, RegisteredMemoryKnowsItsPlaceOnTheHost) {
    auto memory = RegisteredMemory::allocate(job.driver(0), 100, 0);
    ASSERT_TRUE(memory.ok());
    EXPECT_EQ(memory.value().view().host, memory.value().bytes().data());
}

TEST_F(EpOutputs, TheMaskIsQueriedUpdatedAndCleaned) {
    ASSERT_TRUE(group().mark_failed_rank(0, true).ok());
    EXPECT_EQ(group().failed_ranks(), RankMask{1});
    auto call = group().dispatch(dispatch_arguments());
    ASSERT_TRUE(call.ok());
    regmap::EpResult written = result(Status::rank_failed, 2);
    written.failed_ranks[0] = 2;
    device().answer(Status::rank_failed, &written);
    ASSERT_TRUE(call.value().wait(wait_ns).ok());
    EXPECT_EQ(group().failed_ranks(), RankMask{3});
    ASSERT_TRUE(group().mark_failed_rank(0, false).ok());
    EXPECT_EQ(group().failed_ranks(), RankMask{2});
    group().clean_failed_ranks();
    EXPECT_TRUE(group().failed_ranks().none());

    const auto outside = group().mark_failed_rank(2, true);
    EXPECT_EQ(outside.status(), Status::invalid_parameter);
    EXPECT_EQ(outside.error().message, "rank is 2, expected 0 .. 1");
    EXPECT_TRUE(group().failed_ranks().none());
}

}  // namespace
}  // namespace plait::testing
