// Structs of every age, null pointers, exceptions: what may not get through the boundary.

#include "c_job.hpp"

namespace plait::testing {
namespace {

class CBoundary : public CJob {};

constexpr plait_layout two_tokens(const std::int64_t* ids, std::uint32_t* tokens_per_rank) {
    plait_layout layout = PLAIT_LAYOUT_INIT;
    layout.tokens = 2;
    layout.topk = 2;
    layout.experts = 4;
    layout.ranks = 2;
    layout.ranks_per_node = 1;
    layout.topk_idx = ids;
    layout.tokens_per_rank = tokens_per_rank;
    return layout;
}

TEST(CStatus, IsCalledWhatTheContractCallsIt) {
    EXPECT_STREQ(plait_status_string(PLAIT_STATUS_OK), "ok");
    EXPECT_STREQ(plait_status_string(PLAIT_STATUS_RANK_FAILED), "rank_failed");
    EXPECT_STREQ(plait_status_string(PLAIT_STATUS_ABORTED), "aborted");
    EXPECT_STREQ(plait_status_string(255), "unknown");
    EXPECT_STREQ(plait_status_string(256), "unknown") << "not taken for ok";
}

TEST(CLayout, CountsTokensOnceForARankAndANode) {
    const std::int64_t ids[] = {0, 1, 2, -1};  // token 0 twice on rank 0, token 1 on rank 1
    std::uint32_t per_rank[2] = {9, 9};
    std::uint32_t per_expert[4] = {9, 9, 9, 9};
    std::uint8_t in_rank[4] = {9, 9, 9, 9};
    plait_layout layout = two_tokens(ids, per_rank);
    layout.tokens_per_expert = per_expert;
    layout.is_token_in_rank = in_rank;
    ASSERT_EQ(plait_get_dispatch_layout(&layout), PLAIT_STATUS_OK) << plait_last_error();
    EXPECT_EQ(std::vector(per_rank, per_rank + 2), (std::vector<std::uint32_t>{1, 1}));
    EXPECT_EQ(std::vector(per_expert, per_expert + 4), (std::vector<std::uint32_t>{1, 1, 1, 0}));
    EXPECT_EQ(std::vector(in_rank, in_rank + 4), (std::vector<std::uint8_t>{1, 0, 0, 1}));
}

TEST(CLayout, AFailureTouchesNothing) {
    const std::int64_t ids[] = {0, 1, 4, -1};
    std::uint32_t per_rank[2] = {9, 9};
    const plait_layout layout = two_tokens(ids, per_rank);
    EXPECT_EQ(plait_get_dispatch_layout(&layout), PLAIT_STATUS_INVALID_EXPERT);
    EXPECT_STREQ(plait_last_error(), "topk_idx: token 1, position 0 is 4, expected -1 .. 3");
    EXPECT_EQ(per_rank[0], 9U);
    plait_layout without = layout;
    without.topk_idx = nullptr;
    EXPECT_EQ(plait_get_dispatch_layout(&without), PLAIT_STATUS_INVALID_PARAMETER);
    EXPECT_STREQ(plait_last_error(), "layout: topk_idx is null");
    without.tokens = 0;
    EXPECT_EQ(plait_get_dispatch_layout(&without), PLAIT_STATUS_OK) << "no ids to read";
    EXPECT_EQ(per_rank[0], 0U);
}

TEST(CStruct, HeadsAreChecked) {
    const std::int64_t ids[] = {0, 1, 2, 3};
    std::uint32_t per_rank[2] = {9, 9};
    EXPECT_EQ(plait_get_dispatch_layout(nullptr), PLAIT_STATUS_INVALID_PARAMETER);
    EXPECT_STREQ(plait_last_error(), "layout is null");
    plait_layout layout = two_tokens(ids, per_rank);
    layout.version = 2;
    EXPECT_EQ(plait_get_dispatch_layout(&layout), PLAIT_STATUS_VERSION_MISMATCH);
    EXPECT_STREQ(plait_last_error(), "layout: version is 2, expected 1");
    layout.version = 1;
    for (const std::uint32_t size : {0U, 7U, 4097U, 0xccccccccU}) {
        layout.struct_size = size;
        EXPECT_EQ(plait_get_dispatch_layout(&layout), PLAIT_STATUS_INVALID_LENGTH) << size;
    }
    EXPECT_EQ(per_rank[0], 9U);
}

TEST(CStruct, ALongerOneIsTakenWhenItsTailIsZero) {
    const std::int64_t ids[] = {0, 1, 2, 3};
    std::uint32_t per_rank[2] = {9, 9};
    struct {
        plait_layout layout;
        unsigned char newer[8];
    } longer{two_tokens(ids, per_rank), {}};
    longer.layout.struct_size = sizeof longer;
    EXPECT_EQ(plait_get_dispatch_layout(&longer.layout), PLAIT_STATUS_OK) << plait_last_error();
    EXPECT_EQ(per_rank[0], 1U);
    per_rank[0] = 9;
    longer.newer[7] = 1;
    EXPECT_EQ(plait_get_dispatch_layout(&longer.layout), PLAIT_STATUS_INVALID_PARAMETER);
    EXPECT_EQ(plait_last_error(), "layout: byte " + std::to_string(sizeof(plait_layout) + 7) +
                                      " is set, beyond the " + std::to_string(sizeof(plait_layout)) +
                                      " that are known");
    EXPECT_EQ(per_rank[0], 9U);
}

// Cut behind max_tokens: formats, handles, packets are those of PLAIT_EP_CONFIG_INIT.
TEST_F(CBoundary, AShorterStructIsCompletedWithDefaults) {
    plait_ep_config shorter = small_config();
    shorter.struct_size = offsetof(plait_ep_config, dispatch_format);
    std::memset(reinterpret_cast<unsigned char*>(&shorter) + shorter.struct_size, 0xee,
                sizeof shorter - shorter.struct_size);
    create({shorter, shorter});
    ASSERT_EQ(rank(0).created, PLAIT_STATUS_OK) << rank(0).error;
    EXPECT_EQ(device().group.dispatch_format, regmap::RowFormat::e4m3_f32);
    EXPECT_EQ(device().group.entry_policy, regmap::EntryPolicy::balanced);
    EXPECT_EQ(device().group.handles, 2U);
    EXPECT_EQ(device().group.mtu_bytes, 4096U);
}

TEST_F(CBoundary, OutStructsOfEveryAgeAreFilledAsFarAsTheyGo) {
    plait_device_info info = PLAIT_DEVICE_INFO_INIT;
    ASSERT_EQ(plait_device_query(opened(), &info), PLAIT_STATUS_OK);
    EXPECT_EQ(info.planes, 4U);
    EXPECT_EQ(info.max_groups, 4U);
    EXPECT_EQ(info.struct_size, sizeof info);
    info.max_groups = 77;
    info.planes = 0;
    info.struct_size = offsetof(plait_device_info, max_groups);
    ASSERT_EQ(plait_device_query(opened(), &info), PLAIT_STATUS_OK);
    EXPECT_EQ(info.planes, 4U);
    EXPECT_EQ(info.max_groups, 77U) << "not the struct's any more";
    info.version = 0;
    info.planes = 5;
    EXPECT_EQ(plait_device_query(opened(), &info), PLAIT_STATUS_VERSION_MISMATCH);
    EXPECT_EQ(info.planes, 5U);
}

TEST_F(CBoundary, NullPointersAreRefused) {
    plait_device* device = nullptr;
    plait_memory* memory = nullptr;
    plait_ep_group* group = nullptr;
    plait_ep_handle* handle = nullptr;
    plait_ep_call* call = nullptr;
    plait_status error = PLAIT_STATUS_OK;
    plait_rank_mask mask{};
    plait_buffer buffer{};
    int done = 0;
    plait_link link = make_c_link(*rank(0).device);
    plait_ep_config config = small_config();
    plait_bootstrap bootstrap = bootstrap_of(rank(0));
    const plait_ep_routing routing = PLAIT_EP_ROUTING_INIT;
    const plait_ep_dispatch_args dispatch = PLAIT_EP_DISPATCH_ARGS_INIT;
    const plait_ep_combine_args combine = PLAIT_EP_COMBINE_ARGS_INIT;
    plait_ep_completion completion = PLAIT_EP_COMPLETION_INIT;
    plait_device_info info = PLAIT_DEVICE_INFO_INIT;
    link.now_ns = nullptr;
    bootstrap.all_gather = nullptr;
    const plait_status refused[] = {plait_device_open(nullptr, nullptr, &device),
                                    plait_device_open(&link, nullptr, &device),
                                    plait_device_query(nullptr, &info),
                                    plait_device_query(opened(), nullptr),
                                    plait_device_close(nullptr),
                                    plait_memory_allocate(nullptr, 1, 0, &memory),
                                    plait_memory_allocate(opened(), 1, 0, nullptr),
                                    plait_memory_register(nullptr, 0, 1, nullptr, 0, &memory),
                                    plait_memory_register(opened(), 0, 1, nullptr, 0, nullptr),
                                    plait_memory_buffer(nullptr, &buffer),
                                    plait_memory_free(nullptr),
                                    plait_ep_group_create(nullptr, &config, &bootstrap, &group),
                                    plait_ep_group_create(opened(), &config, &bootstrap, &group),
                                    plait_ep_group_create(opened(), nullptr, &bootstrap, &group),
                                    plait_ep_group_destroy(nullptr),
                                    plait_ep_mask_query(nullptr, &mask),
                                    plait_ep_mask_update(nullptr, 0, 1),
                                    plait_ep_mask_clean(nullptr),
                                    plait_ep_query_asynchronous_error(nullptr, &error),
                                    plait_ep_handle_init(nullptr, &routing, &handle),
                                    plait_ep_handle_update(nullptr, &routing),
                                    plait_ep_handle_destroy(nullptr),
                                    plait_ep_dispatch(nullptr, &dispatch, &call),
                                    plait_ep_combine(nullptr, &combine, &call),
                                    plait_ep_poll(nullptr, &done),
                                    plait_ep_complete(nullptr, 0, &completion),
                                    plait_ep_call_destroy(nullptr)};
    for (const plait_status& status : refused)
        EXPECT_EQ(status, PLAIT_STATUS_INVALID_PARAMETER) << "call " << &status - refused;
    EXPECT_EQ(device, nullptr);
    EXPECT_EQ(memory, nullptr);
    EXPECT_EQ(group, nullptr);
}

TEST_F(CBoundary, WhatTheCallersFunctionsThrowStopsThere) {
    plait_bootstrap bootstrap = bootstrap_of(rank(0));
    bootstrap.all_gather = [](void*, const void*, std::uint64_t, void*, std::uint64_t) -> plait_status {
        throw std::runtime_error("no network");
    };
    plait_ep_config config = small_config();
    plait_ep_group* group = nullptr;
    EXPECT_EQ(plait_ep_group_create(opened(), &config, &bootstrap, &group), PLAIT_STATUS_ABORTED);
    EXPECT_STREQ(plait_last_error(), "no network");
    bootstrap.all_gather = [](void*, const void*, std::uint64_t, void*, std::uint64_t) -> plait_status {
        throw std::bad_alloc();
    };
    EXPECT_EQ(plait_ep_group_create(opened(), &config, &bootstrap, &group), PLAIT_STATUS_NO_MEMORY);
    bootstrap.all_gather = [](void*, const void*, std::uint64_t, void*, std::uint64_t) -> plait_status {
        throw 1;
    };
    EXPECT_EQ(plait_ep_group_create(opened(), &config, &bootstrap, &group), PLAIT_STATUS_ABORTED);
    EXPECT_EQ(group, nullptr);
}

TEST_F(CBoundary, ALongMessageIsCut) {
    plait_bootstrap bootstrap = bootstrap_of(rank(0));
    bootstrap.all_gather = [](void*, const void*, std::uint64_t, void*, std::uint64_t) -> plait_status {
        throw std::runtime_error(std::string(10000, 'x'));
    };
    plait_ep_config config = small_config();
    plait_ep_group* group = nullptr;
    EXPECT_EQ(plait_ep_group_create(opened(), &config, &bootstrap, &group), PLAIT_STATUS_ABORTED);
    EXPECT_EQ(plait_last_error(), std::string(511, 'x'));
}

}  // namespace
}  // namespace plait::testing
