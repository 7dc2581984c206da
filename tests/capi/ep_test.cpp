// Devices, memory, groups, handles and calls over scripted devices.

#include "c_job.hpp"

namespace plait::testing {
namespace {

using CDevice = CJob;

class CEp : public CJob {
  protected:
    CEp() { create(); }

    static constexpr plait_buffer buffer(std::uint64_t address, std::uint64_t length_bytes,
                                         std::uint32_t key) {
        return {address, length_bytes, nullptr, key, 0};
    }

    static plait_ep_routing three_tokens() {
        plait_ep_routing routing = PLAIT_EP_ROUTING_INIT;
        routing.tokens = 3;
        routing.topk_idx = buffer(0x3000, 3 * 16, 13);
        routing.topk_weights = buffer(0x4000, 3 * 8, 14);
        return routing;
    }

    static plait_ep_dispatch_args ten_rows() {
        plait_ep_dispatch_args arguments = PLAIT_EP_DISPATCH_ARGS_INIT;
        arguments.receive_capacity = 10;
        arguments.timeout_us = 500;
        arguments.x = buffer(0x1000, 3 * 128, 11);
        arguments.x_scales = buffer(0x2000, 3 * 4, 12);
        arguments.recv_x = buffer(0x5000, 10 * 128, 15);
        arguments.recv_x_scales = buffer(0x6000, 10 * 4, 16);
        arguments.recv_topk_idx = buffer(0x7000, 10 * 16, 17);
        arguments.recv_topk_weights = buffer(0x8000, 10 * 8, 18);
        arguments.recv_source = buffer(0x9000, 10 * 8, 19);
        return arguments;
    }

    static plait_ep_combine_args four_rows() {
        plait_ep_combine_args arguments = PLAIT_EP_COMBINE_ARGS_INIT;
        arguments.timeout_us = 700;
        arguments.x = buffer(0xa000, 4 * 256, 21);
        arguments.combined_x = buffer(0xb000, 3 * 256, 22);
        return arguments;
    }

    plait_ep_handle* init(const plait_ep_routing& routing) {
        plait_ep_handle* handle = nullptr;
        need(plait_ep_handle_init(group(), &routing, &handle));
        return handle;
    }

    plait_ep_call* dispatch(plait_ep_handle* handle, const plait_ep_dispatch_args& arguments) {
        plait_ep_call* call = nullptr;
        need(plait_ep_dispatch(handle, &arguments, &call));
        return call;
    }

    void answer(Status status, std::uint32_t rows, const std::vector<std::uint32_t>& counts = {},
                std::uint64_t failed_ranks = 0) {
        regmap::EpResult result;
        result.status = static_cast<std::uint32_t>(status);
        result.received_rows = rows;
        result.failed_ranks[0] = failed_ranks;
        result.non_finite = 77;
        device().answer(status, &result, counts);
    }

    static plait_ep_completion complete(plait_ep_call* call) {
        plait_ep_completion completion = PLAIT_EP_COMPLETION_INIT;
        need(plait_ep_complete(call, wait_ns, &completion));
        return completion;
    }

    /// A call from its answer to its end.
    void finish(plait_ep_call* call, std::uint32_t rows) {
        answer(Status::ok, rows);
        EXPECT_EQ(complete(call).status, PLAIT_STATUS_OK);
        need(plait_ep_call_destroy(call));
    }
};

TEST_F(CDevice, IsNotClosedUnderItsMemory) {
    plait_memory* memory = nullptr;
    ASSERT_EQ(plait_memory_allocate(opened(), 5000, PLAIT_ACCESS_LOCAL_WRITE, &memory), PLAIT_STATUS_OK);
    EXPECT_EQ(plait_device_close(opened()), PLAIT_STATUS_INVALID_STATE);
    EXPECT_STREQ(plait_last_error(), "the device has 1 memories and groups left: end them first");
    plait_buffer all = PLAIT_BUFFER_INIT;
    ASSERT_EQ(plait_memory_buffer(memory, &all), PLAIT_STATUS_OK);
    EXPECT_EQ(all.length_bytes, 5000U);
    EXPECT_NE(all.key, 0U);
    std::memset(all.host, 0x5a, 5000);
    EXPECT_EQ(device().read<std::uint16_t>(all.device_address + 4998), 0x5a5aU) << "the device sees it";
    EXPECT_EQ(plait_memory_free(memory), PLAIT_STATUS_OK);
}

TEST_F(CDevice, RegistersMemoryOfTheCaller) {
    const auto own = device().allocate(4096);
    ASSERT_TRUE(own.has_value());
    const std::size_t objects = device().objects();
    plait_memory* memory = nullptr;
    ASSERT_EQ(plait_memory_register(opened(), own->device_address, 4096, own->host, 0, &memory),
              PLAIT_STATUS_OK);
    plait_buffer all = PLAIT_BUFFER_INIT;
    ASSERT_EQ(plait_memory_buffer(memory, &all), PLAIT_STATUS_OK);
    EXPECT_EQ(all.device_address, own->device_address);
    EXPECT_EQ(all.host, own->host);
    EXPECT_EQ(device().objects(), objects + 1);
    EXPECT_EQ(plait_memory_free(memory), PLAIT_STATUS_OK);
    EXPECT_EQ(device().objects(), objects);
    device().free(*own);
}

TEST_F(CDevice, WhatCannotBeAllocatedLeavesNothing) {
    plait_memory* memory = nullptr;
    device().memory_limit_bytes = 4096;
    EXPECT_EQ(plait_memory_allocate(opened(), 4097, 0, &memory), PLAIT_STATUS_NO_MEMORY);
    EXPECT_STREQ(plait_last_error(), "no shared memory of 4097 bytes");
    EXPECT_EQ(memory, nullptr);
}

TEST_F(CDevice, WhatIsNoPlaitDeviceIsNotOpened) {
    ScriptedDevice gone;
    gone.removed = true;
    const plait_link link = make_c_link(gone);
    plait_device* none = nullptr;
    EXPECT_NE(plait_device_open(&link, nullptr, &none), PLAIT_STATUS_OK);
    EXPECT_EQ(none, nullptr);
    EXPECT_EQ(gone.allocations(), 0U);
}

// All ranks must learn of it: the values go through the exchange, too large ones as the largest there are.
TEST_F(CDevice, ValuesThatFitNoFieldAreRefusedOnEveryRank) {
    std::array<plait_ep_config, 2> configs = {small_config(), small_config()};
    configs[0].mtu_bytes = 65536 + 4096;
    create(configs);
    EXPECT_EQ(rank(0).created, PLAIT_STATUS_INVALID_PARAMETER);
    EXPECT_EQ(rank(0).error, "mtu_bytes is 65535, expected 256 .. 4096");
    EXPECT_EQ(rank(1).created, PLAIT_STATUS_INVALID_PARAMETER) << rank(1).error;
    configs[0] = small_config();
    configs[0].dispatch_format = 256 + PLAIT_ROW_FORMAT_BF16;
    create(configs);
    EXPECT_EQ(rank(0).error,
              "dispatch_format is 255, expected bf16, f32, e4m3_f32, e4m3_ue8m0, e5m2_f32, e5m2_ue8m0, "
              "logfmt8 or logfmt10");
    EXPECT_EQ(rank(1).group, nullptr);
}

TEST_F(CDevice, FormatsReachTheDevice) {
    std::array<plait_ep_config, 2> configs = {small_config(), small_config()};
    for (plait_ep_config& config : configs) {
        config.dispatch_format = PLAIT_ROW_FORMAT_E5M2_UE8M0;
        config.combine_format = PLAIT_ROW_FORMAT_LOGFMT10;
        config.partial_format = PLAIT_ROW_FORMAT_F32;
        config.encode_dispatch = 1;
        config.encode_combine = 1;
    }
    create(configs);
    ASSERT_EQ(rank(0).created, PLAIT_STATUS_OK) << rank(0).error;
    const regmap::GroupParameters& found = device().group;
    EXPECT_EQ(found.dispatch_format, regmap::RowFormat::e5m2_ue8m0);
    EXPECT_EQ(found.combine_format, regmap::RowFormat::logfmt10);
    EXPECT_EQ(found.partial_format, regmap::RowFormat::f32);
    EXPECT_EQ(found.flags, regmap::group_encode_dispatch | regmap::group_encode_combine);
}

TEST_F(CDevice, RanksThatDisagreeAreTold) {
    std::array<plait_ep_config, 2> configs = {small_config(), small_config()};
    configs[1].hidden = 256;
    create(configs);
    EXPECT_EQ(rank(0).created, PLAIT_STATUS_PARAMETER_MISMATCH) << rank(0).error;
    EXPECT_EQ(rank(1).created, PLAIT_STATUS_PARAMETER_MISMATCH) << rank(1).error;
}

TEST_F(CEp, ConfigurationReachesTheDevice) {
    const regmap::GroupParameters& found = device().group;
    EXPECT_EQ(found.ranks, 2U);
    EXPECT_EQ(found.ranks_per_node, 1U);
    EXPECT_EQ(found.experts, 8U);
    EXPECT_EQ(found.topk, 2U);
    EXPECT_EQ(found.hidden, 128U);
    EXPECT_EQ(found.max_tokens, 16U);
    EXPECT_EQ(found.dispatch_format, regmap::RowFormat::e4m3_f32);
}

TEST_F(CEp, CallsReachTheDeviceAsGiven) {
    plait_ep_handle* handle = init(three_tokens());
    EXPECT_TRUE(device().posted.empty()) << "a handle is the host's until it is used";
    plait_ep_call* call = dispatch(handle, ten_rows());
    ASSERT_EQ(device().posted.size(), 1U);
    const regmap::EpRequest found = device().posted[0].request;
    EXPECT_EQ(found, expected_dispatch(found));
    finish(call, 4);

    plait_ep_combine_args back = four_rows();
    back.x_scales = buffer(0xc000, 1, 23);
    EXPECT_EQ(plait_ep_combine(handle, &back, &call), PLAIT_STATUS_INVALID_PARAMETER);
    EXPECT_STREQ(plait_last_error(), "x_scales is given, but its rows have no scales");
    back.x_scales = plait_buffer{};
    back.bias0 = buffer(0xd000, 3 * 256, 24);
    back.bias1 = buffer(0xe000, 3 * 256, 25);
    ASSERT_EQ(plait_ep_combine(handle, &back, &call), PLAIT_STATUS_OK) << plait_last_error();
    ASSERT_EQ(device().posted.size(), 1U);
    const regmap::EpRequest& combine = device().posted[0].request;
    EXPECT_EQ(combine.opcode, regmap::EpOpcode::combine);
    EXPECT_EQ(combine.timeout_us, 700U);
    EXPECT_EQ(combine.x, (regmap::MemoryRange{0xa000, 21, 0}));
    EXPECT_EQ(combine.recv_x, (regmap::MemoryRange{0xb000, 22, 0}));
    EXPECT_EQ(combine.bias[0], (regmap::MemoryRange{0xd000, 24, 0}));
    EXPECT_EQ(combine.bias[1], (regmap::MemoryRange{0xe000, 25, 0}));
    finish(call, 3);
    EXPECT_EQ(plait_ep_handle_destroy(handle), PLAIT_STATUS_OK);
    ASSERT_EQ(device().posted.size(), 1U);
    EXPECT_EQ(device().posted[0].request.opcode, regmap::EpOpcode::release_handle);
}

TEST_F(CEp, CompletionsSayWhatWasReceived) {
    plait_ep_handle* handle = init(three_tokens());
    plait_ep_dispatch_args arguments = ten_rows();
    arguments.expert_alignment = 4;
    plait_ep_call* call = dispatch(handle, arguments);
    int done = 7;
    ASSERT_EQ(plait_ep_poll(call, &done), PLAIT_STATUS_OK);
    EXPECT_EQ(done, 0);
    plait_ep_completion completion = PLAIT_EP_COMPLETION_INIT;
    completion.received_rows = 99;
    EXPECT_EQ(plait_ep_complete(call, 1000, &completion), PLAIT_STATUS_TIMEOUT);
    EXPECT_EQ(completion.received_rows, 99U) << "untouched";

    answer(Status::rank_failed, 9, {1, 2, 4, 5, 5, 4}, 2);  // 4 local experts, 2 sources, rank 1 was missing
    ASSERT_EQ(plait_ep_poll(call, &done), PLAIT_STATUS_OK);
    EXPECT_EQ(done, 1);
    completion = complete(call);
    EXPECT_EQ(completion.status, PLAIT_STATUS_RANK_FAILED);
    EXPECT_EQ(completion.received_rows, 9U);
    EXPECT_EQ(completion.failed_ranks.bits[0], 2U);
    EXPECT_EQ(completion.non_finite, 77U);
    using Counts = std::vector<std::uint32_t>;
    const auto counts = [](const std::uint32_t* first, std::uint32_t count) {
        return Counts(first, first + count);
    };
    ASSERT_EQ(completion.local_experts, 4U);
    EXPECT_EQ(counts(completion.rows_per_local_expert, 4), (Counts{1, 2, 4, 5}));
    EXPECT_EQ(counts(completion.aligned_rows_per_local_expert, 4), (Counts{4, 4, 4, 8}));
    ASSERT_EQ(completion.ranks, 2U);
    EXPECT_EQ(counts(completion.rows_per_source, 2), (Counts{5, 4}));
    EXPECT_EQ(complete(call).rows_per_source, completion.rows_per_source) << "as often as asked";
    EXPECT_EQ(plait_ep_call_destroy(call), PLAIT_STATUS_OK);
    EXPECT_EQ(plait_ep_handle_destroy(handle), PLAIT_STATUS_OK);
}

TEST_F(CEp, LaterDispatchesRepeatTheRoutingUntilItIsUpdated) {
    plait_ep_handle* handle = init(three_tokens());
    finish(dispatch(handle, ten_rows()), 4);
    plait_ep_call* again = dispatch(handle, ten_rows());
    ASSERT_EQ(device().posted.size(), 1U);
    EXPECT_EQ(device().posted[0].request.flags, regmap::ep_request_cached);
    EXPECT_EQ(device().posted[0].request.topk_idx, regmap::MemoryRange{});
    plait_ep_routing routing = three_tokens();
    routing.topk_idx.device_address = 0x3800;
    EXPECT_EQ(plait_ep_handle_update(handle, &routing), PLAIT_STATUS_INVALID_HANDLE) << "in use";
    finish(again, 4);

    ASSERT_EQ(plait_ep_handle_update(handle, &routing), PLAIT_STATUS_OK) << plait_last_error();
    ASSERT_EQ(device().posted.size(), 1U);
    EXPECT_EQ(device().posted[0].request.opcode, regmap::EpOpcode::release_handle);
    device().answer(Status::ok);
    const plait_ep_combine_args back = four_rows();
    plait_ep_call* none = nullptr;
    EXPECT_EQ(plait_ep_combine(handle, &back, &none), PLAIT_STATUS_INVALID_HANDLE);
    EXPECT_STREQ(plait_last_error(), "handle: nothing was dispatched with its routing yet");
    EXPECT_EQ(none, nullptr);
    plait_ep_call* fresh = dispatch(handle, ten_rows());
    EXPECT_EQ(device().posted.at(0).request.flags, 0U);
    EXPECT_EQ(device().posted.at(0).request.topk_idx, (regmap::MemoryRange{0x3800, 13, 0}));
    finish(fresh, 4);
    EXPECT_EQ(plait_ep_handle_destroy(handle), PLAIT_STATUS_OK);
}

TEST_F(CEp, ADispatchWithWrongArgumentsIsStillTheFirst) {
    plait_ep_handle* handle = init(three_tokens());
    plait_ep_dispatch_args arguments = ten_rows();
    arguments.recv_x.length_bytes = 1;
    plait_ep_call* call = nullptr;
    EXPECT_EQ(plait_ep_dispatch(handle, &arguments, &call), PLAIT_STATUS_INVALID_LENGTH);
    EXPECT_STREQ(plait_last_error(), "recv_x has 1 bytes, expected 1280 for 10 rows");
    EXPECT_EQ(call, nullptr);
    call = dispatch(handle, ten_rows());
    EXPECT_EQ(device().posted.at(0).request.flags, 0U);
    finish(call, 4);
    EXPECT_EQ(plait_ep_handle_destroy(handle), PLAIT_STATUS_OK);
}

TEST_F(CEp, EmptyRowsAreMarked) {
    std::vector<std::int64_t> ids(20, 77);
    plait_ep_handle* handle = init(three_tokens());
    plait_ep_dispatch_args arguments = ten_rows();
    arguments.recv_topk_idx.host = ids.data();
    arguments.mark_empty_rows = 1;
    plait_ep_call* call = dispatch(handle, arguments);
    EXPECT_EQ(ids, std::vector<std::int64_t>(20, -1));
    finish(call, 4);
    EXPECT_EQ(plait_ep_handle_destroy(handle), PLAIT_STATUS_OK);
}

TEST_F(CEp, TheMaskIsQueriedUpdatedAndCleaned) {
    plait_rank_mask mask{};
    ASSERT_EQ(plait_ep_mask_update(group(), 1, 1), PLAIT_STATUS_OK);
    ASSERT_EQ(plait_ep_mask_query(group(), &mask), PLAIT_STATUS_OK);
    EXPECT_EQ(mask.bits[0], 2U);
    EXPECT_EQ(plait_ep_mask_update(group(), 2, 1), PLAIT_STATUS_INVALID_PARAMETER);
    ASSERT_EQ(plait_ep_mask_update(group(), 0, 7), PLAIT_STATUS_OK);
    ASSERT_EQ(plait_ep_mask_update(group(), 1, 0), PLAIT_STATUS_OK);
    ASSERT_EQ(plait_ep_mask_query(group(), &mask), PLAIT_STATUS_OK);
    EXPECT_EQ(mask.bits[0], 1U);
    ASSERT_EQ(plait_ep_mask_clean(group()), PLAIT_STATUS_OK);
    ASSERT_EQ(plait_ep_mask_query(group(), &mask), PLAIT_STATUS_OK);
    EXPECT_EQ(mask.bits[0], 0U);
}

TEST_F(CEp, AsynchronousErrorsAreTold) {
    plait_status error = 77;
    ASSERT_EQ(plait_ep_query_asynchronous_error(group(), &error), PLAIT_STATUS_OK);
    EXPECT_EQ(error, PLAIT_STATUS_OK);
    plait_ep_handle* handle = init(three_tokens());
    plait_ep_call* call = dispatch(handle, ten_rows());
    device().removed = true;
    plait_ep_completion completion = PLAIT_EP_COMPLETION_INIT;
    EXPECT_EQ(plait_ep_complete(call, 1000 * wait_ns, &completion), PLAIT_STATUS_DEVICE_REMOVED);
    ASSERT_EQ(plait_ep_query_asynchronous_error(group(), &error), PLAIT_STATUS_OK);
    EXPECT_EQ(error, PLAIT_STATUS_DEVICE_REMOVED);
    EXPECT_EQ(plait_ep_call_destroy(call), PLAIT_STATUS_OK);
    EXPECT_EQ(plait_ep_handle_destroy(handle), PLAIT_STATUS_OK) << "nothing is left to release";
}

TEST_F(CEp, HandlesAndCallsOutliveTheirGroup) {
    plait_ep_handle* handle = init(three_tokens());
    plait_ep_call* call = dispatch(handle, ten_rows());
    EXPECT_EQ(plait_ep_handle_destroy(handle), PLAIT_STATUS_INVALID_HANDLE) << "in use";
    ASSERT_EQ(plait_ep_group_destroy(group()), PLAIT_STATUS_OK);
    rank(0).group = nullptr;
    plait_ep_completion completion = PLAIT_EP_COMPLETION_INIT;
    EXPECT_EQ(plait_ep_complete(call, wait_ns, &completion), PLAIT_STATUS_ABORTED);
    const plait_ep_routing routing = three_tokens();
    EXPECT_EQ(plait_ep_handle_update(handle, &routing), PLAIT_STATUS_INVALID_GROUP);
    EXPECT_EQ(plait_ep_call_destroy(call), PLAIT_STATUS_OK);
    EXPECT_EQ(plait_ep_handle_destroy(handle), PLAIT_STATUS_OK);
}

}  // namespace
}  // namespace plait::testing
