#include <gtest/gtest.h>

#include "ep_fixture.hpp"

namespace plait::testing {
namespace {

using EpHandles = EpFixture;
using EpCompletions = EpFixture;
using EpFailures = EpFixture;

TEST_F(EpHandles, AreTakenInTurnAndRunOut) {
    const EpHandle first = dispatched();
    const EpHandle second = dispatched();
    EXPECT_EQ(first.number, 0u);
    EXPECT_EQ(second.number, 1u);
    const auto third = group().dispatch(dispatch_arguments());
    EXPECT_EQ(third.status(), Status::limit_exceeded);
    EXPECT_EQ(third.error().message, "all 2 handles are taken: release one, or create the group with more");
    ASSERT_TRUE(group().release(second).ok());
    device().answer(Status::ok);
    EXPECT_EQ(dispatched().number, 1u);
    EXPECT_TRUE(group().query_asynchronous_error().ok());
}

TEST_F(EpHandles, ReleaseIsPostedInOrder) {
    const EpHandle handle = dispatched();
    ASSERT_TRUE(group().release(handle).ok());
    const regmap::EpRequest& request = device().posted.at(0).request;
    EXPECT_EQ(request.opcode, regmap::EpOpcode::release_handle);
    EXPECT_EQ(request.handle, handle.number);
    EXPECT_EQ(request.x, regmap::MemoryRange{});
}

// One rank looks at its completions early, the other late: both choose the same handles.
TEST_F(EpHandles, AreTheSameOnEveryRankWhateverTheTiming) {
    std::vector<std::uint32_t> chosen[2];
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        EpGroup& own = *groups[rank].value();
        ScriptedDevice& on = job.device(rank);
        for (int round = 0; round < 20; ++round) {
            auto call = own.dispatch(dispatch_arguments());
            ASSERT_TRUE(call.ok()) << call.error().message;
            chosen[rank].push_back(call.value().handle().number);
            while (!on.posted.empty() && on.posted[0].request.opcode == regmap::EpOpcode::release_handle)
                on.answer(Status::ok);
            answer(Status::ok, 1, on);
            ASSERT_TRUE(call.value().wait(wait_ns).ok());
            ASSERT_TRUE(own.release(call.value().handle()).ok());
            if (rank == 0) {
                on.answer(Status::ok);
                ASSERT_TRUE(own.query_asynchronous_error().ok());
            }
        }
    }
    EXPECT_EQ(chosen[0], chosen[1]);
    EXPECT_EQ(chosen[0].size(), 20u);
}

TEST_F(EpHandles, AreRefusedWhileACallUsesThem) {
    auto call = group().dispatch(dispatch_arguments());
    ASSERT_TRUE(call.ok());
    const EpHandle handle = call.value().handle();
    EXPECT_EQ(group().release(handle).error().message, "handle 0 is in use: wait for its dispatch");
    EXPECT_EQ(group().combine(combine_arguments(handle)).status(), Status::invalid_handle);
    DispatchArguments cached = dispatch_arguments();
    cached.cached = handle;
    EXPECT_EQ(group().dispatch(cached).status(), Status::invalid_handle);
    answer(Status::ok, 4);
    ASSERT_TRUE(call.value().wait(wait_ns).ok());
    ASSERT_TRUE(group().combine(combine_arguments(handle)).ok());
    EXPECT_EQ(group().release(handle).error().message, "handle 0 is in use: wait for its combine");
    EXPECT_EQ(group().combine(combine_arguments(handle)).status(), Status::invalid_handle);
    EXPECT_EQ(device().posted.size(), 1u);
}

TEST_F(EpHandles, GoStale) {
    const EpHandle old = dispatched();
    ASSERT_TRUE(group().release(old).ok());
    device().answer(Status::ok);
    EXPECT_EQ(group().release(old).error().message, "handle 0 is stale: it was released");
    EXPECT_EQ(dispatched().number, 1u);
    EXPECT_EQ(dispatched().number, 0u);  // the number lives again, the old handle does not
    EXPECT_EQ(group().combine(combine_arguments(old)).error().message, "handle 0 is stale: it was released");
    EXPECT_EQ(group().release(old).status(), Status::invalid_handle);
}

TEST_F(EpHandles, OfAnotherGroupOrOfNoneAreRefused) {
    EpHandle handle = dispatched();
    handle.group += 1;
    EXPECT_EQ(group().release(handle).error().message, "handle 0 is not one of this group");
    handle.group -= 1;
    handle.number = 2;
    EXPECT_EQ(group().combine(combine_arguments(handle)).error().message,
              "handle 2 is not one of this group");
    EXPECT_EQ(group().release(EpHandle{}).status(), Status::invalid_handle);
}

TEST_F(EpCompletions, SayWhatWasReceived) {
    auto call = group().dispatch(dispatch_arguments());
    ASSERT_TRUE(call.ok());
    const auto before = call.value().poll();
    ASSERT_TRUE(before.ok());
    EXPECT_FALSE(before.value());
    regmap::EpResult written = result(Status::ok, 9);
    device().answer(Status::ok, &written, {1, 2, 3, 4, 5, 4});  // 4 local experts, 2 sources
    EXPECT_TRUE(call.value().poll().value());
    const auto completion = call.value().wait(0);
    ASSERT_TRUE(completion.ok()) << completion.error().message;
    EXPECT_EQ(completion.value().status, Status::ok);
    EXPECT_EQ(completion.value().handle, call.value().handle());
    EXPECT_EQ(completion.value().received_rows, 9u);
    EXPECT_EQ(completion.value().rows_per_local_expert, (std::vector<std::uint32_t>{1, 2, 3, 4}));
    EXPECT_EQ(completion.value().rows_per_source, (std::vector<std::uint32_t>{5, 4}));
    EXPECT_TRUE(completion.value().failed_ranks.none());
}

TEST_F(EpCompletions, FailedRanksAreNamedAndRemembered) {
    auto call = group().dispatch(dispatch_arguments());
    regmap::EpResult written = result(Status::rank_failed, 2);
    written.missing_rows = 3;
    written.failed_ranks[0] = 1 | std::uint64_t{1} << 63;
    written.failed_ranks[1] = 1;
    written.failed_ranks[3] = std::uint64_t{1} << 63;
    device().answer(Status::rank_failed, &written);
    const auto completion = call.value().wait(wait_ns);
    ASSERT_TRUE(completion.ok()) << completion.error().message;
    EXPECT_EQ(completion.value().status, Status::rank_failed);
    EXPECT_EQ(completion.value().missing_rows, 3u);
    RankMask expected;
    expected.set(0).set(63).set(64).set(255);
    EXPECT_EQ(completion.value().failed_ranks, expected);

    // What did arrive can be combined; another rank that is missing then adds to the group's mask.
    CombineArguments arguments = combine_arguments(call.value().handle());
    auto combine = group().combine(arguments);
    ASSERT_TRUE(combine.ok()) << combine.error().message;
    written = result(Status::timeout, 3);
    written.failed_ranks[2] = 2;
    device().answer(Status::timeout, &written);
    EXPECT_EQ(combine.value().wait(wait_ns).value().status, Status::timeout);
    EXPECT_EQ(group().failed_ranks(), expected.set(129));
    EXPECT_TRUE(group().query_asynchronous_error().ok());
}

TEST_F(EpCompletions, TwoMicroBatchesEndInAnyOrder) {
    auto first = group().dispatch(dispatch_arguments());
    auto second = group().dispatch(dispatch_arguments());
    ASSERT_TRUE(first.ok() && second.ok());
    ASSERT_EQ(device().posted.size(), 2u);
    EXPECT_NE(device().posted[0].request.result, device().posted[1].request.result);
    regmap::EpResult written = result(Status::ok, 2);
    device().answer_one(1, Status::ok, &written, {0, 0, 2, 0, 2, 0});
    ASSERT_TRUE(second.value().wait(wait_ns).ok());
    EXPECT_FALSE(first.value().poll().value());
    auto combine = group().combine({.handle = second.value().handle(),
                                    .timeout_us = 1,
                                    .x = {0xa000, 2 * 256, 21},
                                    .combined_x = {0xb000, 3 * 256, 22}});
    ASSERT_TRUE(combine.ok()) << combine.error().message;
    written = result(Status::ok, 7);
    device().answer(Status::ok, &written, {7, 0, 0, 0, 0, 7});
    answer(Status::ok, 3);
    EXPECT_EQ(combine.value().wait(wait_ns).value().received_rows, 3u);
    EXPECT_EQ(first.value().wait(wait_ns).value().rows_per_source, (std::vector<std::uint32_t>{0, 7}));
    EXPECT_EQ(second.value().wait(wait_ns).value().received_rows, 2u);
}

TEST_F(EpCompletions, WaitingIsLimitedAndMayBeResumed) {
    auto call = group().dispatch(dispatch_arguments());
    const std::uint64_t start_ns = device().now_ns();
    EXPECT_EQ(call.value().wait(5000).status(), Status::timeout);
    EXPECT_EQ(device().now_ns() - start_ns, 5000u);
    device().when_waiting = [&] {
        device().pass_time(700);
        if (!device().posted.empty()) answer(Status::ok, 4);
    };
    const auto completion = call.value().wait(5000);
    ASSERT_TRUE(completion.ok()) << completion.error().message;
    EXPECT_EQ(completion.value().received_rows, 4u);
    EXPECT_EQ(device().now_ns() - start_ns, 5700u);
}

TEST_F(EpCompletions, ManyCallsPassThroughTheRings) {
    for (int round = 0; round < 300; ++round) {
        const EpHandle handle = dispatched();
        auto combine = group().combine(combine_arguments(handle));
        ASSERT_TRUE(combine.ok()) << combine.error().message;
        answer(Status::ok, 3);
        ASSERT_TRUE(combine.value().wait(wait_ns).ok());
        ASSERT_TRUE(group().release(handle).ok());
        device().answer(Status::ok);
    }
    EXPECT_TRUE(group().query_asynchronous_error().ok());
}

TEST_F(EpFailures, ARefusedDispatchHoldsNoRouting) {
    auto call = group().dispatch(dispatch_arguments());
    device().answer(Status::invalid_expert);
    const auto completion = call.value().wait(wait_ns);
    ASSERT_TRUE(completion.ok()) << completion.error().message;
    EXPECT_EQ(completion.value().status, Status::invalid_expert);
    EXPECT_EQ(completion.value().received_rows, 0u);
    EXPECT_EQ(group().combine(combine_arguments(call.value().handle())).error().message,
              "handle 0 holds no routing: its last call ended with invalid_expert");
    device().answer(Status::invalid_parameter);
    ASSERT_TRUE(group().release(call.value().handle()).ok());
    device().answer(Status::invalid_handle);  // the device knows of no such routing: nothing new
    EXPECT_TRUE(group().query_asynchronous_error().ok());
}

TEST_F(EpFailures, ACallThatTimesOutLosesTheRouting) {
    const EpHandle handle = dispatched();
    auto combine = group().combine(combine_arguments(handle));
    answer(Status::timeout, 1);
    EXPECT_EQ(combine.value().wait(wait_ns).value().status, Status::timeout);
    EXPECT_EQ(group().combine(combine_arguments(handle)).error().message,
              "handle 0 holds no routing: its last call ended with timeout");
    device().answer(Status::invalid_parameter);
    ASSERT_TRUE(group().release(handle).ok());
    device().answer(Status::invalid_handle);
    EXPECT_TRUE(group().query_asynchronous_error().ok());
}

// Calls are numbered at the devices: one that other ranks may make counts here too. The firmware's tests show
// that such a request is refused, counts and tells the others.
TEST_F(EpFailures, ACallWithoutRoutingCountsAndIsRefusedByTheDevice) {
    const EpHandle handle = dispatched();
    auto combine = group().combine(combine_arguments(handle));
    answer(Status::timeout, 1);
    ASSERT_TRUE(combine.value().wait(wait_ns).ok());
    DispatchArguments cached = dispatch_arguments();
    cached.cached = handle;
    ASSERT_TRUE(device().posted.empty());
    EXPECT_EQ(group().combine(combine_arguments(handle)).status(), Status::invalid_handle);
    EXPECT_EQ(group().dispatch(cached).status(), Status::invalid_handle);
    ASSERT_EQ(device().posted.size(), 2U);
    for (const auto opcode : {regmap::EpOpcode::combine, regmap::EpOpcode::dispatch}) {
        const regmap::EpRequest& request = device().posted[0].request;
        EXPECT_EQ(request.opcode, opcode);
        EXPECT_EQ(request.handle, handle.number);
        EXPECT_EQ(request.timeout_us, 0U) << "what the device refuses";
        device().answer(Status::invalid_parameter);
    }
    EXPECT_TRUE(group().query_asynchronous_error().ok());
}

// What is wrong with the arguments can be put right: the number is taken by the call that is posted.
TEST_F(EpFailures, ACallWithWrongArgumentsDoesNotCount) {
    const EpHandle handle = dispatched();
    DispatchArguments dispatch = dispatch_arguments();
    dispatch.timeout_us = 0;
    EXPECT_FALSE(group().dispatch(dispatch).ok());
    CombineArguments combine = combine_arguments(handle);
    combine.combined_x.length_bytes = 1;
    EXPECT_FALSE(group().combine(combine).ok());
    EXPECT_TRUE(device().posted.empty());
    EXPECT_TRUE(group().combine(combine_arguments(handle)).ok());
    EXPECT_EQ(device().posted.size(), 1U);
}

TEST_F(EpFailures, ARefusedCombineKeepsTheRouting) {
    const EpHandle handle = dispatched();
    auto combine = group().combine(combine_arguments(handle));
    device().answer(Status::invalid_key);
    EXPECT_EQ(combine.value().wait(wait_ns).value().status, Status::invalid_key);
    EXPECT_TRUE(group().combine(combine_arguments(handle)).ok());
}

TEST_F(EpFailures, ARefusedReleaseIsAnAsynchronousError) {
    ASSERT_TRUE(group().release(dispatched()).ok());
    device().answer(Status::invalid_handle);
    EXPECT_EQ(group().query_asynchronous_error().status(), Status::invalid_handle);
    EXPECT_EQ(group().query_asynchronous_error().status(), Status::invalid_handle);  // it stays
}

TEST_F(EpFailures, ACompletionOfNothingIsAnAsynchronousError) {
    auto call = group().dispatch(dispatch_arguments());
    regmap::Completion completion;
    completion.user_data = 0x1234567;
    device().complete(device().posted[0].queue, completion);
    EXPECT_EQ(group().query_asynchronous_error().error().message,
              "completion of an unknown call, user_data 19088743");
    EXPECT_FALSE(call.value().poll().value());
}

TEST_F(EpFailures, AResultThatCannotBeIsNotBelieved) {
    auto call = group().dispatch(dispatch_arguments());
    answer(Status::ok, 11);  // the outputs hold 10
    EXPECT_EQ(call.value().wait(wait_ns).error().message,
              "the result counts 11 rows, at most 10 were possible");
    EXPECT_EQ(call.value().poll().status(), Status::device_fatal);
    EXPECT_EQ(group().query_asynchronous_error().status(), Status::device_fatal);

    auto silent = group().dispatch(dispatch_arguments());
    device().answer(Status::rank_failed);  // without a result
    EXPECT_EQ(silent.value().wait(wait_ns).error().message,
              "the result does not say rank_failed as its completion does");
}

TEST_F(EpFailures, TheResultOfAnEarlierCallIsNotTaken) {
    const EpHandle handle = dispatched();
    auto combine = group().combine(combine_arguments(handle));
    device().answer(Status::rank_failed);
    EXPECT_EQ(combine.value().wait(wait_ns).status(), Status::device_fatal);
}

TEST_F(EpFailures, RemovalEndsEveryCall) {
    auto first = group().dispatch(dispatch_arguments());
    auto second = group().dispatch(dispatch_arguments());
    device().when_waiting = [&] { device().removed = true; };
    EXPECT_EQ(first.value().wait(wait_ns).status(), Status::device_removed);
    EXPECT_EQ(second.value().poll().status(), Status::device_removed);
    EXPECT_EQ(group().query_asynchronous_error().status(), Status::device_removed);
    EXPECT_EQ(group().dispatch(dispatch_arguments()).status(), Status::device_removed);
    EXPECT_EQ(group().release(first.value().handle()).status(), Status::device_removed);
}

TEST_F(EpFailures, ACallOutlivesItsGroup) {
    auto call = group().dispatch(dispatch_arguments());
    const EpHandle handle = call.value().handle();
    groups.clear();
    EXPECT_EQ(call.value().poll().status(), Status::aborted);
    EXPECT_EQ(call.value().wait(wait_ns).status(), Status::aborted);
    EXPECT_EQ(call.value().handle(), handle);
    job.expect_nothing_left();
}

}  // namespace
}  // namespace plait::testing
