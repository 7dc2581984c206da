// Rows in every format: what buffers a call takes, what it counts.

#include "ep_fixture.hpp"

namespace plait::testing {
namespace {

/// Rows of 320 elements: two blocks and a half, three scales.
Job::Groups create(Job& job, const std::function<void(EpConfig&)>& change) {
    return job.create([&](std::uint32_t) {
        EpConfig config = small_config();
        config.ranks_per_node = 1;
        config.dispatch_format = RowFormat::bf16;
        config.hidden = 320;
        change(config);
        return config;
    });
}

/// A dispatch of BF16 rows that ended well: 2 tokens, 3 rows received.
EpHandle dispatched(Job& job, EpGroup& group) {
    DispatchArguments arguments;
    arguments.tokens = 2;
    arguments.receive_capacity = 3;
    arguments.timeout_us = 5;
    arguments.x = {0x1000, 2 * 640, 1};
    arguments.topk_idx = {0x2000, 32, 1};
    arguments.recv_x = {0x3000, 3 * 640, 1};
    auto call = group.dispatch(arguments);
    if (!call) throw std::runtime_error(call.error().message);
    regmap::EpResult result;
    result.received_rows = 3;
    job.device(0).answer(Status::ok, &result);
    return call.value().wait(1000).value().handle;
}

/// The sizes that a group asks for, in its own words: the first buffer of each kind that is too short.
struct RowSizes {
    const char* x;
    const char* x_scales;
    const char* recv_x;
    const char* recv_x_scales;
};

void expect_dispatch_sizes(RowFormat format, bool encode, const RowSizes& wanted) {
    SCOPED_TRACE(std::string(name(format)) + (encode ? " encoded" : ""));
    Job job(1);
    auto groups = create(job, [&](EpConfig& config) {
        config.dispatch_format = format;
        config.encode_dispatch = encode;
    });
    ASSERT_TRUE(groups[0].ok()) << groups[0].error().message;
    const std::pair<BufferView DispatchArguments::*, const char*> buffers[] = {
        {&DispatchArguments::x, wanted.x},
        {&DispatchArguments::x_scales, wanted.x_scales},
        {&DispatchArguments::recv_x, wanted.recv_x},
        {&DispatchArguments::recv_x_scales, wanted.recv_x_scales}};
    for (const auto& [too_short, message] : buffers) {
        if (message == nullptr) continue;
        DispatchArguments arguments;
        arguments.tokens = 2;
        arguments.receive_capacity = 3;
        arguments.timeout_us = 5;
        arguments.topk_idx = {0x2000, 32, 1};
        for (const auto& [buffer, exists] : buffers)
            if (exists != nullptr) arguments.*buffer = {0x10000, buffer == too_short ? 1ULL : 0x10000ULL, 1};
        EXPECT_EQ(groups[0].value()->dispatch(arguments).error().message, message);
    }
}

TEST(EpFormatArguments, RowsOfADispatchHaveTheSizesOfTheirFormat) {
    expect_dispatch_sizes(
        RowFormat::e4m3_f32, false,
        {"x has 1 bytes, expected 640 for 2 rows", "x_scales has 1 bytes, expected 24 for 2 rows",
         "recv_x has 1 bytes, expected 960 for 3 rows", "recv_x_scales has 1 bytes, expected 36 for 3 rows"});
    expect_dispatch_sizes(
        RowFormat::e5m2_ue8m0, false,
        {"x has 1 bytes, expected 640 for 2 rows", "x_scales has 1 bytes, expected 6 for 2 rows",
         "recv_x has 1 bytes, expected 960 for 3 rows", "recv_x_scales has 1 bytes, expected 9 for 3 rows"});
    expect_dispatch_sizes(
        RowFormat::logfmt10, true,
        {"x has 1 bytes, expected 1280 for 2 rows", nullptr, "recv_x has 1 bytes, expected 1200 for 3 rows",
         "recv_x_scales has 1 bytes, expected 36 for 3 rows"});
}

/// x of a combine of 3 rows has exactly these sizes.
void expect_combine_sizes(RowFormat format, bool encode, std::uint64_t x_bytes, std::uint64_t scale_bytes) {
    SCOPED_TRACE(std::string(name(format)) + (encode ? " encoded" : ""));
    Job job(1);
    auto groups = create(job, [&](EpConfig& config) {
        config.combine_format = format;
        config.encode_combine = encode;
    });
    ASSERT_TRUE(groups[0].ok()) << groups[0].error().message;
    EpGroup& group = *groups[0].value();
    CombineArguments arguments;
    arguments.handle = dispatched(job, group);
    arguments.timeout_us = 5;
    arguments.x = {0x1000, x_bytes - 1, 1};
    arguments.x_scales = {0x20000, scale_bytes, 2};
    arguments.combined_x = {0x30000, 2 * 640, 3};
    EXPECT_EQ(group.combine(arguments).status(), Status::invalid_length);
    ++arguments.x.length_bytes;
    arguments.x_scales.length_bytes = scale_bytes == 0 ? 3 : scale_bytes - 1;
    EXPECT_EQ(group.combine(arguments).status(),
              scale_bytes == 0 ? Status::invalid_parameter : Status::invalid_length);
    arguments.x_scales.length_bytes = scale_bytes;
    ASSERT_TRUE(group.combine(arguments).ok());
    const regmap::EpRequest& request = job.device(0).posted.at(0).request;
    EXPECT_EQ(request.x, (regmap::MemoryRange{0x1000, 1, 0}));
    const regmap::MemoryRange scales{0x20000, 2, 0};
    EXPECT_EQ(request.x_scales, scale_bytes == 0 ? regmap::MemoryRange{} : scales);
    EXPECT_EQ(request.recv_x, (regmap::MemoryRange{0x30000, 3, 0}));
}

TEST(EpFormatArguments, RowsOfACombineHaveTheSizesOfTheirFormat) {
    expect_combine_sizes(RowFormat::bf16, false, 3 * 640, 0);
    expect_combine_sizes(RowFormat::e4m3_f32, false, 3 * 320, 3 * 12);
    expect_combine_sizes(RowFormat::e4m3_ue8m0, false, 3 * 320, 3 * 3);
    expect_combine_sizes(RowFormat::logfmt10, false, 3 * 400, 3 * 12);
    expect_combine_sizes(RowFormat::logfmt10, true, 3 * 640, 0);
    expect_combine_sizes(RowFormat::f32, false, 3 * 1280, 0);
}

class EpNonFinite : public EpFixture {};

TEST_F(EpNonFinite, IsWhatTheDeviceCounted) {
    auto call = group().dispatch(dispatch_arguments());
    ASSERT_TRUE(call.ok());
    regmap::EpResult written = result(Status::ok, 4);
    written.non_finite = 0xfedcba98;
    device().answer(Status::ok, &written);
    const auto completion = call.value().wait(wait_ns);
    ASSERT_TRUE(completion.ok()) << completion.error().message;
    EXPECT_EQ(completion.value().non_finite, 0xfedcba98U);
}

}  // namespace
}  // namespace plait::testing
