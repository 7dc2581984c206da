// Sums keep their contract, by the C++ engine and as plait_reduce, and the two agree.

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "../../engines/seed.hpp"
#include "agreement.hpp"
#include "reduce_backends.hpp"

namespace plait::contract {
namespace {

using regmap::ReduceOpcode;
using regmap::RowFormat;
using regmap::Status;
using Handles = std::vector<uint32_t>;

constexpr std::array formats{RowFormat::bf16,     RowFormat::e4m3_f32,   RowFormat::e4m3_ue8m0,
                             RowFormat::e5m2_f32, RowFormat::e5m2_ue8m0, RowFormat::logfmt8,
                             RowFormat::logfmt10, RowFormat::f32};

uint32_t row_bytes(RowFormat format, size_t elements) {
    return static_cast<uint32_t>(engines::code_bytes(format, elements) +
                                 engines::scale_bytes(format, elements));
}

ReduceRow row_of(RowFormat format, const std::vector<float>& values) {
    ReduceRow row{format, std::vector<uint8_t>(engines::code_bytes(format, values.size())),
                  std::vector<uint8_t>(engines::scale_bytes(format, values.size()))};
    engines::encode_row(format, std::span<const float>(values), std::as_writable_bytes(std::span(row.codes)),
                        std::as_writable_bytes(std::span(row.scales)));
    return row;
}

ReduceCommand open(uint32_t sum, uint32_t contributions, RowFormat format, uint32_t elements) {
    return {ReduceOpcode::open, sum, contributions, format, elements};
}
ReduceCommand add(uint32_t sum, uint32_t position, uint32_t handle, RowFormat format, size_t elements) {
    return {ReduceOpcode::add, sum, position, format, row_bytes(format, elements), handle};
}
ReduceCommand skip(uint32_t sum, uint32_t position) { return {ReduceOpcode::skip, sum, position}; }
ReduceCommand close(uint32_t sum) { return {ReduceOpcode::close, sum}; }
ReduceCommand weigh(uint32_t sum, uint32_t position, float factor) {
    return {ReduceOpcode::weigh, sum, position, RowFormat::bf16, 0, std::bit_cast<uint32_t>(factor)};
}

template <typename Reduce>
class ReduceContract : public testing::Test {
  protected:
    ReduceOutcome run(const std::vector<ReduceCommand>& commands) { return reduce_.run(commands, rows_); }

    uint32_t row(RowFormat format, const std::vector<float>& values) {
        rows_.push_back(row_of(format, values));
        return static_cast<uint32_t>(rows_.size() - 1);
    }

    static void expect_floats(const ReduceResult& result, const std::vector<float>& values) {
        EXPECT_EQ(result.codes, row_of(RowFormat::f32, values).codes);
    }

    Reduce reduce_;
    std::vector<ReduceRow> rows_;
};

using Backends = testing::Types<ReduceReference, ReduceRtl>;
TYPED_TEST_SUITE(ReduceContract, Backends);

// 2^24 + 1 + 1 rounds twice, 1 + 1 + 2^24 once. The first command comes right after reset.
TYPED_TEST(ReduceContract, RowsAreAddedInOrderOfPosition) {
    const uint32_t large = this->row(RowFormat::bf16, {0x1p24F, 1});
    const uint32_t one = this->row(RowFormat::bf16, {1, 1});
    const auto arrive = [&](uint32_t sum, const std::vector<uint32_t>& positions) {
        std::vector<ReduceCommand> commands{open(sum, 3, RowFormat::f32, 2)};
        for (const uint32_t position : positions)
            commands.push_back(add(sum, position, position == 2 - sum ? large : one, RowFormat::bf16, 2));
        return this->run(commands);
    };
    for (const std::vector<uint32_t>& positions :
         {std::vector<uint32_t>{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}}) {
        const ReduceOutcome last = arrive(0, positions);
        ASSERT_EQ(last.results.size(), 1U);
        this->expect_floats(last.results[0], {0x1p24F + 2, 3});
        EXPECT_EQ(last.fetched, (Handles{one, one, large}));
        const ReduceOutcome first = arrive(2, positions);
        this->expect_floats(first.results[0], {0x1p24F, 3});
        EXPECT_EQ(first.fetched, (Handles{large, one, one}));
    }
}

TYPED_TEST(ReduceContract, WeightsAreOfPositions) {
    const uint32_t a = this->row(RowFormat::e4m3_ue8m0, {1, 2, -448});
    const uint32_t b = this->row(RowFormat::bf16, {16, 1, 0.5F});
    const ReduceOutcome outcome =
        this->run({open(255, 3, RowFormat::f32, 3), weigh(255, 2, 0.5F), weigh(255, 0, -3),
                   add(255, 2, b, RowFormat::bf16, 3), add(255, 1, a, RowFormat::e4m3_ue8m0, 3),
                   weigh(255, 2, 0.25F), add(255, 0, b, RowFormat::bf16, 3)});
    ASSERT_EQ(outcome.results.size(), 1U);
    this->expect_floats(outcome.results[0], {-48 + 1 + 4, -3 + 2 + 0.25F, -1.5F - 448 + 0.125F});
}

TYPED_TEST(ReduceContract, SkippedRowsAndSumsWithoutRows) {
    const uint32_t a = this->row(RowFormat::bf16, {-0.0F, 2});
    const ReduceOutcome outcome =
        this->run({open(1, 0, RowFormat::bf16, 600), open(2, 2, RowFormat::f32, 2), skip(2, 1), skip(2, 0),
                   open(3, 3, RowFormat::f32, 2), skip(3, 2), add(3, 1, a, RowFormat::bf16, 2), skip(3, 0)});
    ASSERT_EQ(outcome.results.size(), 3U);
    EXPECT_EQ(outcome.results[0], (ReduceResult{1, 0, std::vector<uint8_t>(1200), {}}));
    this->expect_floats(outcome.results[1], {0, 0});
    this->expect_floats(outcome.results[2], {-0.0F, 2});
}

TYPED_TEST(ReduceContract, AClosedSumGivesBackWhatWaits) {
    const uint32_t a = this->row(RowFormat::bf16, {1});
    const uint32_t b = this->row(RowFormat::bf16, {2});
    const ReduceOutcome outcome =
        this->run({open(9, 6, RowFormat::f32, 1), add(9, 0, a, RowFormat::bf16, 1),
                   add(9, 5, b, RowFormat::bf16, 1), skip(9, 3), add(9, 2, a, RowFormat::bf16, 1), close(9),
                   close(9), open(9, 1, RowFormat::f32, 1), add(9, 0, b, RowFormat::bf16, 1)});
    EXPECT_EQ(outcome.answers[5], (ReduceAnswer{Status::ok, {a, b}}));
    EXPECT_EQ(outcome.answers[6].status, Status::invalid_state);
    EXPECT_EQ(outcome.fetched, (Handles{a, b}));
    ASSERT_EQ(outcome.results.size(), 1U);
    this->expect_floats(outcome.results[0], {2});
}

TYPED_TEST(ReduceContract, RefusedCommandsChangeNothing) {
    const uint32_t a = this->row(RowFormat::bf16, {1, 2});
    const auto unknown = static_cast<RowFormat>(8);
    const auto good = add(4, 1, a, RowFormat::bf16, 2);
    const std::vector<std::pair<ReduceCommand, Status>> commands{
        {add(4, 0, a, RowFormat::bf16, 2), Status::invalid_state},
        {open(4, 2, RowFormat::f32, 2), Status::ok},
        {open(4, 2, RowFormat::f32, 2), Status::invalid_state},
        {open(256, 2, RowFormat::f32, 2), Status::invalid_parameter},
        {open(5, 33, RowFormat::f32, 2), Status::invalid_parameter},
        {open(5, 2, unknown, 2), Status::invalid_parameter},
        {open(5, 2, RowFormat::f32, 0), Status::invalid_length},
        {open(5, 2, RowFormat::f32, sum_elements + 1), Status::invalid_length},
        {open(5, 2, RowFormat::f32, 0x1'0002), Status::invalid_length},
        {good, Status::ok},
        {good, Status::invalid_state},
        {skip(4, 1), Status::invalid_state},
        {add(4, 2, a, RowFormat::bf16, 2), Status::invalid_parameter},
        {add(4, 33, a, RowFormat::bf16, 2), Status::invalid_parameter},
        {skip(4, 255), Status::invalid_parameter},
        {weigh(4, 2, 1), Status::invalid_parameter},
        {add(4, 0, a, unknown, 2), Status::invalid_parameter},
        {add(4, 0, a, RowFormat::bf16, 3), Status::invalid_length},
        {add(4, 0, a, RowFormat::bf16, 0), Status::invalid_length},
        {{static_cast<ReduceOpcode>(5), 4}, Status::invalid_opcode},
        {{static_cast<ReduceOpcode>(255), 4}, Status::invalid_opcode},
        {close(256), Status::invalid_parameter},
        {weigh(5, 0, 1), Status::invalid_state},
        {close(5), Status::invalid_state},
        {add(4, 0, a, RowFormat::bf16, 2), Status::ok},
        {weigh(4, 0, 3), Status::invalid_state}};
    std::vector<ReduceCommand> given;
    for (const auto& [command, status] : commands) given.push_back(command);
    const ReduceOutcome outcome = this->run(given);
    for (size_t i = 0; i < commands.size(); ++i)
        EXPECT_EQ(outcome.answers[i], ReduceAnswer{commands[i].second}) << "command " << i;
    EXPECT_EQ(outcome.fetched, (Handles{a, a}));
    ASSERT_EQ(outcome.results.size(), 1U);
    this->expect_floats(outcome.results[0], {2, 4});
}

// Pages, not sums, run out; those of a sum that leaves serve the next one.
TYPED_TEST(ReduceContract, SumsTakeAsMuchRoomAsTheyNeed) {
    std::vector<ReduceCommand> commands;
    for (uint32_t sum = 0; sum < 127; ++sum) commands.push_back(open(sum, 1, RowFormat::bf16, sum_elements));
    commands.push_back(open(127, 1, RowFormat::bf16, sum_elements - page_elements));
    commands.push_back(open(128, 1, RowFormat::bf16, page_elements + 1));
    commands.push_back(open(128, 1, RowFormat::bf16, page_elements));
    commands.push_back(open(129, 1, RowFormat::bf16, 1));
    commands.push_back(close(17));
    for (uint32_t sum = 130; sum < 139; ++sum) commands.push_back(open(sum, 1, RowFormat::bf16, 1));
    const ReduceOutcome outcome = this->run(commands);
    for (size_t i = 0; i < commands.size(); ++i) {
        const bool is_refused = i == 128 || i == 130 || i + 1 == commands.size();
        EXPECT_EQ(outcome.answers[i].status, is_refused ? Status::limit_exceeded : Status::ok) << i;
    }
}

void expect_agreement(ReduceRtl& rtl, ReduceReference& reference, const std::vector<ReduceCommand>& commands,
                      const std::vector<ReduceRow>& rows, Stalls stalls = {}) {
    const ReduceOutcome expected = reference.run(commands, rows);
    const ReduceOutcome outcome = rtl.run(commands, rows, stalls);
    for (size_t i = 0; i < commands.size(); ++i)
        ASSERT_EQ(outcome.answers[i], expected.answers[i])
            << "command " << i << ", opcode " << static_cast<int>(commands[i].opcode);
    ASSERT_EQ(outcome.fetched, expected.fetched);
    ASSERT_EQ(outcome.results.size(), expected.results.size());
    for (size_t i = 0; i < expected.results.size(); ++i)
        ASSERT_EQ(outcome.results[i], expected.results[i]) << "result " << i;
}

// All codes of FP8 by all UE8M0 scales, and by F32 scales of every exponent and sign.
TEST(ReduceAgreement, EveryFp8CodeByEveryScale) {
    ReduceRtl rtl;
    ReduceReference reference;
    for (const RowFormat format :
         {RowFormat::e4m3_f32, RowFormat::e4m3_ue8m0, RowFormat::e5m2_f32, RowFormat::e5m2_ue8m0}) {
        const size_t scale_bytes = engines::block_scale_bytes(format);
        std::vector<ReduceRow> rows;
        std::vector<ReduceCommand> commands;
        for (uint32_t scale = 0; scale < (scale_bytes == 1 ? 256U : 512U); ++scale) {
            ReduceRow& row = rows.emplace_back(ReduceRow{format, std::vector<uint8_t>(256), {}});
            for (uint32_t code = 0; code < 256; ++code) row.codes[code] = static_cast<uint8_t>(code);
            for (int block = 0; block < 2; ++block) {
                const uint32_t bits = scale_bytes == 1 ? scale : scale << 23 | scale * 0x9E'3779 % 0x80'0000;
                for (size_t byte = 0; byte < scale_bytes; ++byte)
                    row.scales.push_back(static_cast<uint8_t>(bits >> (8 * byte)));
            }
            commands.push_back(open(scale % reduce_sums, 1, RowFormat::f32, 256));
            commands.back().after_results = scale < reduce_sums ? 0 : scale - reduce_sums + 1;
            commands.push_back(add(scale % reduce_sums, 0, scale, format, 256));
        }
        ASSERT_NO_FATAL_FAILURE(expect_agreement(rtl, reference, commands, rows));
    }
}

/// Bytes of any kind, or numbers of about one size.
ReduceRow random_row(std::mt19937_64& random, RowFormat format, size_t elements) {
    if (random() % 4 != 0) {
        std::vector<float> values(elements);
        const double size = std::exp2(static_cast<double>(random() % 40) - 20);
        for (float& value : values)
            value = static_cast<float>(size * (static_cast<double>(random() % 2001) - 1000));
        return row_of(format, values);
    }
    ReduceRow row{format, std::vector<uint8_t>(engines::code_bytes(format, elements)),
                  std::vector<uint8_t>(engines::scale_bytes(format, elements))};
    for (uint8_t& byte : row.codes) byte = static_cast<uint8_t>(random());
    for (uint8_t& byte : row.scales) byte = static_cast<uint8_t>(random());
    return row;
}

/// A batch of sums whose commands mix: rows in any order, some skipped or refused, some sums given up.
class RandomSums {
  public:
    explicit RandomSums(std::mt19937_64& random) : random_(random) {}

    std::vector<ReduceCommand> commands{};
    std::vector<ReduceRow> rows{};

    void make(size_t count) {
        // A few at a time, each under a number of its own.
        std::vector<std::vector<ReduceCommand>> sums(count);
        for (uint32_t sum = 0; sum < count; ++sum) make_sum(sums[sum], (first_ + sum) % reduce_sums);
        first_ += static_cast<uint32_t>(count);
        size_t next = 0;
        std::vector<std::pair<size_t, size_t>> active;  // sum, command
        while (next < count || !active.empty()) {
            if (next < count && (active.size() < 4 || random_() % 8 == 0)) active.push_back({next++, 0});
            const size_t chosen = random_() % active.size();
            auto& [sum, command] = active[chosen];
            commands.push_back(sums[sum][command++]);
            if (command == sums[sum].size())
                active.erase(active.begin() + static_cast<std::ptrdiff_t>(chosen));
        }
    }

  private:
    void make_sum(std::vector<ReduceCommand>& out, uint32_t sum) {
        const auto elements = static_cast<uint32_t>(random_() % 64 == 0  ? 1 + random_() % sum_elements
                                                    : random_() % 2 == 0 ? 1 + random_() % 40
                                                                         : 1 + random_() % 400);
        const auto contributions =
            static_cast<uint32_t>(random_() % 16 == 0 ? random_() % 33 : random_() % 6);
        out.push_back(open(sum, contributions, any_format(), elements));
        std::vector<uint32_t> positions(contributions);
        for (uint32_t i = 0; i < contributions; ++i) positions[i] = i;
        std::shuffle(positions.begin(), positions.end(), random_);
        for (const uint32_t position : positions) {
            if (random_() % 4 == 0)
                out.push_back(weigh(sum, static_cast<uint32_t>(random_() % 8),
                                    std::ldexp(static_cast<float>(random_() % 4096) - 2048, -11)));
            if (random_() % 16 == 0) out.push_back(skip(sum, static_cast<uint32_t>(random_() % 33)));
            out.push_back(random_() % 16 == 0 ? skip(sum, position) : add_row(sum, position, elements));
            if (random_() % 32 == 0) spoil(out.emplace_back(out.back()));
        }
        if (random_() % 16 == 0)
            out.insert(out.end() - static_cast<std::ptrdiff_t>(random_() % out.size()), close(sum));
    }

    ReduceCommand add_row(uint32_t sum, uint32_t position, uint32_t elements) {
        const RowFormat format = any_format();
        rows.push_back(random_row(random_, format, elements));
        return add(sum, position, static_cast<uint32_t>(rows.size() - 1), format, elements);
    }

    void spoil(ReduceCommand& command) {
        switch (random_() % 4) {
            case 0: command.format = static_cast<RowFormat>(8 + random_() % 248); break;
            case 1: command.length += static_cast<uint32_t>(1 + random_() % 3); break;
            case 2: command.position = static_cast<uint32_t>(random_() % 256); break;
            default: command.sum += reduce_sums * static_cast<uint32_t>(1 + random_() % 1000); break;
        }
    }

    RowFormat any_format() { return formats[random_() % formats.size()]; }

    std::mt19937_64& random_;
    uint32_t first_ = 0;
};

void agree_at_random(uint64_t transactions) {
    const uint64_t seed = engines::test::seed_or(64);
    SCOPED_TRACE(engines::test::seed_message(seed));
    std::mt19937_64 random(seed);
    ReduceRtl rtl(seed);
    ReduceReference reference;
    RandomSums sums(random);
    for (uint64_t done = 0; done < transactions; done += sums.commands.size()) {
        sums.commands.clear();
        sums.rows.clear();
        sums.make(40);
        const Stalls stalls = random_stalls(random);
        ASSERT_NO_FATAL_FAILURE(expect_agreement(rtl, reference, sums.commands, sums.rows, stalls));
    }
}

TEST(ReduceAgreement, RandomSumsUnderRandomStalls) { agree_at_random(10'000); }
TEST(ReduceAgreement, AMillionRandomCommands) { agree_at_random(1'000'000); }

// Rows of a sum follow each other without a gap, whatever their format and however short they are; a result
// of one takes a cycle for each 32 elements.
TEST(ReduceRate, SixtyFourBytesACycleWithoutGaps) {
    for (const RowFormat format : formats) {
        const auto words_of = [&](uint32_t elements) {
            return (engines::code_bytes(format, elements) + 63) / 64 +
                   (engines::scale_bytes(format, elements) + 63) / 64;
        };
        const auto cycles = [&](uint32_t elements, uint32_t sums, uint32_t contributions) {
            std::vector<ReduceCommand> commands;
            const ReduceRow row = row_of(format, std::vector<float>(elements, 1));
            for (uint32_t sum = 0; sum < 20; ++sum)  // all of them first, which takes the same time
                commands.push_back(open(sum, contributions, RowFormat::bf16, elements));
            for (uint32_t sum = 0; sum < sums; ++sum)
                for (uint32_t i = 0; i < contributions; ++i)
                    commands.push_back(add(sum, i, 0, format, elements));
            ReduceRtl rtl;
            rtl.run(commands, std::span(&row, 1));
            return rtl.busy_cycles();
        };
        EXPECT_EQ(cycles(2048, 1, 32) - cycles(2048, 1, 8), 24 * words_of(2048)) << static_cast<int>(format);
        EXPECT_EQ(cycles(700, 20, 8) - cycles(700, 10, 8), 10 * (8 * words_of(700) + 22))
            << static_cast<int>(format);
    }
}

// From a row's last word to the first of the result, of 64 elements; up to a block each 32 more take a cycle
// more.
TEST(ReduceRate, AResultComesAfterAFixedTime) {
    constexpr uint64_t latency_cycles = 82;
    for (const RowFormat format : formats) {
        ReduceRtl rtl;
        const ReduceRow row = row_of(format, std::vector<float>(64, 1));
        rtl.run(std::vector{open(0, 1, RowFormat::bf16, 64), add(0, 0, 0, format, 64)}, std::span(&row, 1));
        EXPECT_EQ(rtl.latency_cycles(), latency_cycles);
    }
}

}  // namespace
}  // namespace plait::contract
