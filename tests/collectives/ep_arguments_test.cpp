#include <gtest/gtest.h>

#include "ep_fixture.hpp"

namespace plait::testing {
namespace {

class EpArguments : public EpFixture {
  protected:
    void expect_dispatch_refused(const DispatchArguments& arguments, Status status,
                                 const std::string& message) {
        const auto call = group().dispatch(arguments);
        ASSERT_FALSE(call.ok());
        EXPECT_EQ(call.status(), status);
        EXPECT_EQ(call.error().message, message);
        EXPECT_TRUE(device().posted.empty());
    }
};

TEST_F(EpArguments, DispatchReachesTheDeviceAsGiven) {
    ASSERT_TRUE(group().dispatch(dispatch_arguments()).ok());
    ASSERT_EQ(device().posted.size(), 1u);
    const regmap::EpRequest& found = device().posted[0].request;
    EXPECT_EQ(found, expected_dispatch(found));
    EXPECT_NE(found.result.key, 0u);
}

TEST_F(EpArguments, CombineReachesTheDeviceAsGiven) {
    const EpHandle handle = dispatched();
    ASSERT_TRUE(group().combine(combine_arguments(handle)).ok());
    ASSERT_EQ(device().posted.size(), 1u);
    const regmap::EpRequest& found = device().posted[0].request;
    regmap::EpRequest expected;
    expected.opcode = regmap::EpOpcode::combine;
    expected.handle = handle.number;
    expected.user_data = found.user_data;
    expected.timeout_us = 700;
    expected.x = {0xa000, 21, 0};
    expected.recv_x = {0xb000, 22, 0};
    expected.result = found.result;
    EXPECT_EQ(found, expected);
}

TEST_F(EpArguments, BuffersThatAreTooShortAreNamed) {
    const struct {
        BufferView DispatchArguments::*buffer;
        const char* message;
    } cases[] = {
        {&DispatchArguments::x, "x has 383 bytes, expected 384 for 3 rows"},
        {&DispatchArguments::x_scales, "x_scales has 11 bytes, expected 12 for 3 rows"},
        {&DispatchArguments::topk_idx, "topk_idx has 47 bytes, expected 48 for 3 rows"},
        {&DispatchArguments::topk_weights, "topk_weights has 23 bytes, expected 24 for 3 rows"},
        {&DispatchArguments::recv_x, "recv_x has 1279 bytes, expected 1280 for 10 rows"},
        {&DispatchArguments::recv_x_scales, "recv_x_scales has 39 bytes, expected 40 for 10 rows"},
        {&DispatchArguments::recv_topk_idx, "recv_topk_idx has 159 bytes, expected 160 for 10 rows"},
        {&DispatchArguments::recv_topk_weights, "recv_topk_weights has 79 bytes, expected 80 for 10 rows"},
        {&DispatchArguments::recv_source, "recv_source has 79 bytes, expected 80 for 10 rows"},
    };
    for (const auto& one : cases) {
        DispatchArguments arguments = dispatch_arguments();
        (arguments.*one.buffer).length_bytes -= 1;
        expect_dispatch_refused(arguments, Status::invalid_length, one.message);
    }
    const EpHandle handle = dispatched();
    CombineArguments arguments = combine_arguments(handle);
    arguments.x.length_bytes -= 1;
    EXPECT_EQ(group().combine(arguments).error().message, "x has 1023 bytes, expected 1024 for 4 rows");
    arguments = combine_arguments(handle);
    arguments.combined_x.length_bytes -= 1;
    EXPECT_EQ(group().combine(arguments).error().message,
              "combined_x has 767 bytes, expected 768 for 3 rows");
    arguments = combine_arguments(handle);
    arguments.bias[1] = {0xc000, 767, 23};
    EXPECT_EQ(group().combine(arguments).error().message, "bias[1] has 767 bytes, expected 768 for 3 rows");
}

TEST_F(EpArguments, BiasesOfACombineReachTheDevice) {
    const EpHandle handle = dispatched();
    CombineArguments arguments = combine_arguments(handle);
    ASSERT_TRUE(group().combine(arguments).ok());
    EXPECT_EQ(device().posted[0].request.bias[0], regmap::MemoryRange{});
    EXPECT_EQ(device().posted[0].request.bias[1], regmap::MemoryRange{});
    answer(Status::ok, 3);
    arguments.bias[1] = {0xc000, 768, 23};
    ASSERT_TRUE(group().combine(arguments).ok());
    EXPECT_EQ(device().posted[0].request.bias[0], regmap::MemoryRange{});
    EXPECT_EQ(device().posted[0].request.bias[1], (regmap::MemoryRange{0xc000, 23, 0}));
}

TEST_F(EpArguments, LengthsAreComputedBeyond32Bits) {
    DispatchArguments arguments = dispatch_arguments();
    arguments.receive_capacity = 1U << 26;  // 2^33 bytes of rows
    expect_dispatch_refused(arguments, Status::invalid_length,
                            "recv_x has 1280 bytes, expected 8589934592 for 67108864 rows");
}

TEST_F(EpArguments, WhatMustBeGivenIsNamed) {
    for (const auto buffer :
         {&DispatchArguments::x, &DispatchArguments::x_scales, &DispatchArguments::topk_idx,
          &DispatchArguments::recv_x, &DispatchArguments::recv_x_scales}) {
        DispatchArguments arguments = dispatch_arguments();
        arguments.*buffer = {};
        EXPECT_EQ(group().dispatch(arguments).status(), Status::invalid_length);
    }
    for (const auto buffer : {&DispatchArguments::topk_weights, &DispatchArguments::recv_topk_idx,
                              &DispatchArguments::recv_topk_weights, &DispatchArguments::recv_source}) {
        DispatchArguments arguments = dispatch_arguments();
        arguments.recv_topk_weights = {};
        arguments.*buffer = {};
        auto call = group().dispatch(arguments);
        ASSERT_TRUE(call.ok()) << call.error().message;
        answer(Status::ok, 0);
        ASSERT_TRUE(call.value().wait(wait_ns).ok());
        ASSERT_TRUE(group().release(call.value().handle()).ok());
        device().answer(Status::ok);
    }
}

TEST_F(EpArguments, ValuesOutOfRangeAreNamed) {
    DispatchArguments arguments = dispatch_arguments();
    arguments.timeout_us = 0;
    expect_dispatch_refused(arguments, Status::invalid_parameter,
                            "timeout_us is 0, expected a limit above 0");
    arguments = dispatch_arguments();
    arguments.tokens = 17;
    expect_dispatch_refused(arguments, Status::invalid_parameter, "tokens is 17, expected 0 .. 16");
    arguments = dispatch_arguments();
    arguments.x.key = 0;
    expect_dispatch_refused(arguments, Status::invalid_key, "x has no key");
    arguments = dispatch_arguments();
    arguments.recv_x.device_address = ~std::uint64_t{0} - 1278;
    expect_dispatch_refused(arguments, Status::out_of_range, "recv_x leaves the address space");
    arguments = dispatch_arguments();
    arguments.topk_weights = {};
    expect_dispatch_refused(arguments, Status::invalid_parameter,
                            "recv_topk_weights is given, but topk_weights is not");
    CombineArguments combine = combine_arguments(dispatched());
    combine.timeout_us = 0;
    EXPECT_EQ(group().combine(combine).error().message, "timeout_us is 0, expected a limit above 0");
}

TEST_F(EpArguments, ARankWithoutTokensNeedsNoInputs) {
    DispatchArguments arguments;
    arguments.timeout_us = 1;
    auto call = group().dispatch(arguments);
    ASSERT_TRUE(call.ok()) << call.error().message;
    EXPECT_EQ(device().posted[0].request.x, regmap::MemoryRange{});
    answer(Status::ok, 0);
    ASSERT_TRUE(call.value().wait(wait_ns).ok());
    CombineArguments combine;
    combine.handle = call.value().handle();
    combine.timeout_us = 1;
    EXPECT_TRUE(group().combine(combine).ok());
}

TEST_F(EpArguments, ARefusedCallTakesNoHandle) {
    DispatchArguments wrong = dispatch_arguments();
    wrong.tokens = 17;
    for (int i = 0; i < 5; ++i) ASSERT_FALSE(group().dispatch(wrong).ok());
    EXPECT_EQ(dispatched().number, 0u);
    EXPECT_EQ(dispatched().number, 1u);
}

TEST_F(EpArguments, ACachedDispatchRepeatsTheRouting) {
    const EpHandle handle = dispatched();
    DispatchArguments arguments = dispatch_arguments();
    arguments.topk_idx = {};
    arguments.cached = handle;
    auto call = group().dispatch(arguments);
    ASSERT_TRUE(call.ok()) << call.error().message;
    EXPECT_EQ(device().posted[0].request.flags, 1);
    EXPECT_EQ(device().posted[0].request.handle, handle.number);
    EXPECT_EQ(call.value().handle(), handle);
    answer(Status::ok, 4);
    ASSERT_TRUE(call.value().wait(wait_ns).ok());

    arguments.tokens = 2;
    EXPECT_EQ(group().dispatch(arguments).error().message, "tokens is 2, the cached handle has 3");
    EXPECT_TRUE(group().combine(combine_arguments(handle)).ok());
}

TEST(EpArgumentsInBf16, RowsHaveTwoBytesAnElementAndNoScales) {
    Job job(1);
    auto groups = job.create([](std::uint32_t) {
        EpConfig config = small_config();
        config.ranks_per_node = 1;
        config.dispatch_format = RowFormat::bf16;
        config.hidden = 192;
        return config;
    });
    ASSERT_TRUE(groups[0].ok()) << groups[0].error().message;
    EpGroup& group = *groups[0].value();
    DispatchArguments arguments;
    arguments.tokens = 2;
    arguments.receive_capacity = 2;
    arguments.timeout_us = 5;
    arguments.x = {0x1000, 2 * 384 - 1, 1};
    arguments.topk_idx = {0x2000, 32, 1};
    arguments.recv_x = {0x3000, 2 * 384, 1};
    EXPECT_EQ(group.dispatch(arguments).error().message, "x has 767 bytes, expected 768 for 2 rows");
    arguments.x.length_bytes += 1;
    arguments.x_scales = {0x4000, 16, 1};
    EXPECT_EQ(group.dispatch(arguments).error().message, "x_scales is given, but its rows have no scales");
    arguments.x_scales = {};
    EXPECT_TRUE(group.dispatch(arguments).ok());
}

}  // namespace
}  // namespace plait::testing
