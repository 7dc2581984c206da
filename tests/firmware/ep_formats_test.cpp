// Rows in every format in each of their places: dispatched, contributed, and on their way back.

#include "ep_job.hpp"

namespace plait::mesh_test {
namespace {

constexpr RowFormat all_formats[] = {RowFormat::bf16,     RowFormat::e4m3_f32,   RowFormat::e4m3_ue8m0,
                                     RowFormat::e5m2_f32, RowFormat::e5m2_ue8m0, RowFormat::logfmt8,
                                     RowFormat::logfmt10, RowFormat::f32};

bool is_plain(RowFormat format) { return format == RowFormat::bf16 || format == RowFormat::f32; }

/// Two rounds on a mesh of two nodes, every byte checked.
void expect_right(JobOptions options, std::uint32_t mtu_bytes) {
    SCOPED_TRACE(std::string("dispatch ") + name(options.format) + ", combine " +
                 name(options.combine_format) + ", partial " + name(options.partial_format) + ", flags " +
                 std::to_string(options.flags) + ", hidden " + std::to_string(options.hidden) + ", MTU " +
                 std::to_string(mtu_bytes));
    const std::uint64_t seed = job_seed(9);
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    Job job({.jitter_ns = 3000, .mtu_bytes = mtu_bytes, .seed = seed}, options);
    job.create_groups();
    for (int call = 0; call < 2; ++call) job.round(job.random_routing(12));
    job.expect_nothing_left();
}

class EpFormats : public ::testing::TestWithParam<RowFormat> {};

// 320 elements are two blocks and a half: parts and packets end within rows in most formats.
TEST_P(EpFormats, Dispatched) {
    if (GetParam() == RowFormat::f32) return;
    for (const std::uint32_t mtu_bytes : {256U, 512U, 4096U}) {
        expect_right({.hidden = 320, .format = GetParam()}, mtu_bytes);
        if (is_plain(GetParam())) continue;
        expect_right({.hidden = 320, .format = GetParam(), .flags = regmap::group_encode_dispatch},
                     mtu_bytes);
    }
}

TEST_P(EpFormats, Contributed) {
    for (const RowFormat partial : all_formats) {
        for (const std::uint32_t mtu_bytes : {512U, 2048U}) {
            expect_right({.hidden = 320, .combine_format = GetParam(), .partial_format = partial}, mtu_bytes);
            if (is_plain(GetParam())) continue;
            expect_right({.hidden = 320,
                          .combine_format = GetParam(),
                          .partial_format = partial,
                          .flags = regmap::group_encode_combine},
                         mtu_bytes);
        }
    }
}

// 2880 elements are 22 blocks and a half.
TEST_P(EpFormats, HiddenThatNoBlockDivides) {
    const bool encodes = !is_plain(GetParam());
    expect_right({.experts_per_rank = 1,
                  .topk = 2,
                  .hidden = 2880,
                  .format = GetParam() == RowFormat::f32 ? RowFormat::bf16 : GetParam(),
                  .combine_format = GetParam(),
                  .partial_format = GetParam(),
                  .flags = encodes ? regmap::group_encode_dispatch | regmap::group_encode_combine : 0},
                 1024);
}

INSTANTIATE_TEST_SUITE_P(All, EpFormats, ::testing::ValuesIn(all_formats),
                         [](const auto& format) { return std::string(regmap::name(format.param)); });

/// Status of a group with `change`.
template <class Change>
Status status_with(Change&& change, std::uint32_t mtu_bytes = 1024) {
    Job job({.nodes = 1, .ranks_per_node = 1, .mtu_bytes = mtu_bytes}, {.experts_per_rank = 4});
    regmap::GroupParameters parameters = job.parameters(0);
    change(parameters);
    return job.create_group(0, parameters).status;
}

TEST(EpFormatsRefused, FormatsThatAreNoneOrMakeNoSense) {
    using Parameters = regmap::GroupParameters;
    for (std::uint32_t number = 0; number < 256; ++number) {
        const auto format = static_cast<RowFormat>(number);
        const bool known = number < regmap::row_format_count;
        const bool encoded = known && !is_plain(format);
        const auto expected = [](bool good) { return good ? Status::ok : Status::invalid_parameter; };
        SCOPED_TRACE(number);
        EXPECT_EQ(status_with([&](Parameters& p) { p.dispatch_format = format; }),
                  expected(known && format != RowFormat::f32));
        EXPECT_EQ(status_with([&](Parameters& p) { p.combine_format = format; }), expected(known));
        EXPECT_EQ(status_with([&](Parameters& p) { p.partial_format = format; }), expected(known));
        EXPECT_EQ(status_with([&](Parameters& p) {
                      p.dispatch_format = format;
                      p.flags = regmap::group_encode_dispatch;
                  }),
                  expected(encoded));
        EXPECT_EQ(status_with([&](Parameters& p) {
                      p.combine_format = format;
                      p.flags = regmap::group_encode_combine;
                  }),
                  expected(encoded));
    }
    EXPECT_EQ(status_with([](Parameters& p) { p.flags = 4; }), Status::invalid_parameter);
    EXPECT_EQ(status_with([](Parameters& p) { p.reserved[3] = 1; }), Status::invalid_parameter);
}

TEST(EpFormatsRefused, PartsThatDoNotFit) {
    using Parameters = regmap::GroupParameters;
    // 64 elements of f32 in a packet, but no block of them.
    const auto no_block = [](Parameters& p) {
        p.combine_format = RowFormat::f32;
        p.partial_format = RowFormat::logfmt8;
    };
    EXPECT_EQ(status_with(no_block, 256), Status::limit_exceeded);
    EXPECT_EQ(status_with(no_block, 512), Status::ok);
    // 32 parts of 128 elements.
    const auto many_parts = [](std::uint32_t hidden) {
        return [hidden](Parameters& p) {
            p.hidden = hidden;
            p.partial_format = RowFormat::f32;
        };
    };
    EXPECT_EQ(status_with(many_parts(4096), 512), Status::ok);
    EXPECT_EQ(status_with(many_parts(4160), 512), Status::limit_exceeded);
}

/// Every token goes to one expert of each rank, and every row has as many infinities as its token says.
struct SpoiltJob {
    explicit SpoiltJob(const JobOptions& options) : job({}, options) {
        job.create_groups();
        for (RankTokens& rank : routing) {
            for (std::int64_t t = 0; t < tokens; ++t)
                job.add_token(rank, [](std::uint32_t k) { return std::int64_t{k}; });
        }
    }
    static void spoil(std::uint8_t* row, std::uint32_t elements) {
        for (std::uint32_t i = 0; i < elements; ++i) {
            const std::uint16_t infinity = i % 2 == 0 ? 0x7f80 : 0xff80;
            std::memcpy(row + std::size_t{i} * 256, &infinity,
                        sizeof infinity);  // each in a block of its own
        }
    }
    void spoil_rows(const std::vector<Call>& calls, std::uint32_t rows) {
        for (std::uint32_t rank = 0; rank < calls.size(); ++rank) {
            for (std::uint32_t row = 0; row < rows; ++row) {
                const std::uint64_t address = calls[rank].request.x.address + row * row_bytes;
                spoil(job.mesh.device(rank).bytes(address, row_bytes), spoilt_elements);
            }
        }
    }
    void expect_count(const std::vector<Call>& calls, std::uint32_t expected) {
        for (std::uint32_t rank = 0; rank < calls.size(); ++rank)
            EXPECT_EQ(job.result(rank, calls[rank]).non_finite, expected) << "rank " << rank;
    }

    static constexpr std::uint32_t tokens = 5;
    static constexpr std::uint32_t hidden = 512;
    static constexpr std::uint32_t row_bytes = hidden * 2;
    static constexpr std::uint32_t spoilt_elements = 3;
    Job job;
    Routing routing = Routing(4);
};

TEST(EpNonFinite, IsCountedForEachCopyThatADispatchEncodes) {
    for (const RowFormat format : {RowFormat::e4m3_f32, RowFormat::e5m2_ue8m0, RowFormat::logfmt10}) {
        SCOPED_TRACE(name(format));
        SpoiltJob spoilt({.experts_per_rank = 1,
                          .hidden = SpoiltJob::hidden,
                          .format = format,
                          .flags = regmap::group_encode_dispatch});
        for (int round = 0; round < 2; ++round) {  // the count begins anew with each call
            const std::vector<Call> calls = spoilt.job.dispatch_calls(spoilt.routing, 0);
            spoilt.spoil_rows(calls, SpoiltJob::tokens);
            spoilt.job.post_all(calls);
            spoilt.job.expect_all(calls, Status::ok);
            // One copy to the own node, one to the other.
            spoilt.expect_count(calls, 2 * SpoiltJob::tokens * SpoiltJob::spoilt_elements);
        }
    }
}

TEST(EpNonFinite, IsCountedInContributionsAndSums) {
    SpoiltJob spoilt({.experts_per_rank = 1,
                      .hidden = SpoiltJob::hidden,
                      .combine_format = RowFormat::logfmt8,
                      .partial_format = RowFormat::e4m3_f32,
                      .flags = regmap::group_encode_combine});
    spoilt.job.run_dispatch(spoilt.routing, spoilt.job.dispatch_calls(spoilt.routing, 0));
    const std::vector<Call> calls = spoilt.job.combine_calls(spoilt.routing, 0);
    const std::uint32_t rows = 4 * SpoiltJob::tokens;
    spoilt.spoil_rows(calls, rows);
    spoilt.job.post_all(calls);
    spoilt.job.expect_all(calls, Status::ok);
    // A device encodes its rows; the sums of its own node's rows and of those that enter by it, as many as
    // its tokens have rows here; and it rounds its tokens.
    spoilt.expect_count(calls,
                        (rows + 2 * SpoiltJob::tokens + SpoiltJob::tokens) * SpoiltJob::spoilt_elements);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
        std::uint32_t nan_elements = 0;
        for (std::uint32_t i = 0; i < SpoiltJob::tokens * SpoiltJob::hidden; ++i) {
            const std::uint64_t address = calls[rank].request.recv_x.address + i * 2;
            nan_elements += spoilt.job.mesh.device(rank).load<std::uint16_t>(address) == 0x7fc0 ? 1 : 0;
        }
        EXPECT_EQ(nan_elements, SpoiltJob::tokens * SpoiltJob::spoilt_elements) << "and spoils nothing else";
    }
}

TEST(EpNonFinite, OfPlainRowsIsCountedInTheSums) {
    SpoiltJob spoilt({.experts_per_rank = 1, .hidden = SpoiltJob::hidden});
    spoilt.job.run_dispatch(spoilt.routing, spoilt.job.dispatch_calls(spoilt.routing, 0));
    const std::vector<Call> calls = spoilt.job.combine_calls(spoilt.routing, 0);
    spoilt.spoil_rows(calls, 4 * SpoiltJob::tokens);
    spoilt.job.post_all(calls);
    spoilt.job.expect_all(calls, Status::ok);
    spoilt.expect_count(calls, 3 * SpoiltJob::tokens * SpoiltJob::spoilt_elements);
}

}  // namespace
}  // namespace plait::mesh_test
