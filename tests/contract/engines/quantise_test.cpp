// Encoding of rows keeps its contract, by the C++ engine and as plait_quantise, and the two agree.

#include <gtest/gtest.h>

#include <random>

#include "../../engines/seed.hpp"
#include "agreement.hpp"
#include "quantise_backends.hpp"

namespace plait::contract {
namespace {

using regmap::RowFormat;
using regmap::Status;

constexpr std::array formats{RowFormat::bf16,     RowFormat::e4m3_f32,   RowFormat::e4m3_ue8m0,
                             RowFormat::e5m2_f32, RowFormat::e5m2_ue8m0, RowFormat::logfmt8,
                             RowFormat::logfmt10, RowFormat::f32};

template <typename Quantise>
class QuantiseContract : public testing::Test {
  protected:
    QuantiseAnswer run(RowFormat format, std::vector<uint16_t> elements) {
        const QuantiseRow row{format, std::move(elements)};
        return quantise_.run(std::span(&row, 1)).front();
    }

    Quantise quantise_;
};

using Backends = testing::Types<QuantiseReference, QuantiseRtl>;
TYPED_TEST_SUITE(QuantiseContract, Backends);

using Bytes = std::vector<uint8_t>;

// The first row comes right after reset. 1, -2, 448 and 0.
TYPED_TEST(QuantiseContract, ARowOfEachFormat) {
    const std::vector<uint16_t> row{0x3F80, 0xC000, 0x43E0, 0};
    const auto expect = [&](RowFormat format, const Bytes& codes, const Bytes& scales) {
        EXPECT_EQ(this->run(format, row), (QuantiseAnswer{Status::ok, 0, codes, scales}));
    };
    expect(RowFormat::e4m3_ue8m0, {0x38, 0xC0, 0x7E, 0}, {127});
    expect(RowFormat::e5m2_ue8m0, {0x58, 0xDC, 0x7B, 0}, {120});
    expect(RowFormat::bf16, {0x80, 0x3F, 0x00, 0xC0, 0xE0, 0x43, 0, 0}, {});
    expect(RowFormat::f32, {0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0, 0, 0, 0xE0, 0x43, 0, 0, 0, 0}, {});
    expect(RowFormat::e4m3_f32, {0x38, 0xC0, 0x7E, 0}, {0, 0, 0x80, 0x3F});
    expect(RowFormat::e5m2_f32, {0x58, 0xDC, 0x7B, 0}, {0, 0, 0, 0x3C});
}

TYPED_TEST(QuantiseContract, InfinitiesAndNanSpoilThemselvesOnly) {
    const std::vector<uint16_t> row{0x7F80, 0x3F80, 0xFF80, 0x7FC1, 0xFFFF};
    for (const RowFormat format : {RowFormat::e4m3_f32, RowFormat::e4m3_ue8m0}) {
        const QuantiseAnswer answer = this->run(format, row);
        EXPECT_EQ(answer.non_finite, 4U);
        EXPECT_EQ(answer.codes, (Bytes{0x7F, answer.codes[1], 0x7F, 0x7F, 0x7F}));
        EXPECT_LT(answer.codes[1], 0x7F);
    }
    EXPECT_EQ(
        this->run(RowFormat::bf16, row),
        (QuantiseAnswer{Status::ok, 4, {0x80, 0x7F, 0x80, 0x3F, 0x80, 0xFF, 0xC0, 0x7F, 0xC0, 0x7F}, {}}));
}

TYPED_TEST(QuantiseContract, RefusedRowsLeaveNothingBehind) {
    const QuantiseAnswer good = this->run(RowFormat::e4m3_f32, {0x3F80, 0x4000});
    for (const uint8_t format : {uint8_t{8}, uint8_t{255}})
        EXPECT_EQ(this->run(static_cast<RowFormat>(format), {1, 2}),
                  QuantiseAnswer{Status::invalid_parameter});
    EXPECT_EQ(this->run(RowFormat::bf16, {}), QuantiseAnswer{Status::invalid_length});
    EXPECT_EQ(this->run(RowFormat::bf16, std::vector<uint16_t>(regmap::max_hidden + 1)),
              QuantiseAnswer{Status::invalid_length});
    EXPECT_EQ(this->run(RowFormat::e4m3_f32, {0x3F80, 0x4000}), good);
    EXPECT_EQ(this->run(RowFormat::e4m3_f32, std::vector<uint16_t>(regmap::max_hidden, 0x3F80)).scales.size(),
              size_t{regmap::max_hidden / 32});
}

void expect_agreement(QuantiseRtl& rtl, const std::vector<QuantiseRow>& rows, Stalls stalls = {}) {
    const std::vector<QuantiseAnswer> answers = rtl.run(rows, stalls);
    for (size_t i = 0; i < rows.size(); ++i)
        ASSERT_EQ(answers[i], QuantiseReference::run(rows[i]))
            << "row " << i << ", format " << static_cast<int>(rows[i].format) << ", "
            << rows[i].elements.size() << " elements";
}

// Beside a maximum of every size.
TEST(QuantiseAgreement, EveryBf16Number) {
    QuantiseRtl rtl;
    for (const RowFormat format : formats) {
        std::vector<QuantiseRow> rows(32, {format, {}});
        for (uint32_t i = 0; i < 0x1'0000; ++i)
            rows[i % 32].elements.push_back(static_cast<uint16_t>(i * 40'503));
        expect_agreement(rtl, rows);
        rows.assign(8, {format, {}});
        for (uint32_t i = 0; i < 0x1'0000; ++i) rows[i / 0x2000].elements.push_back(static_cast<uint16_t>(i));
        expect_agreement(rtl, rows);
    }
}

/// Of about one size, of sizes within `octaves`, or any bits.
std::vector<uint16_t> random_elements(std::mt19937_64& random, size_t count) {
    std::vector<uint16_t> elements(count);
    const uint64_t kind = random() % 8;
    const auto base = static_cast<uint32_t>(random() % 250);
    const auto octaves = static_cast<uint32_t>(1 + random() % (kind == 0 ? 40 : 5));
    for (uint16_t& element : elements) {
        const auto bits = static_cast<uint16_t>(random());
        const uint32_t exponent = base + static_cast<uint32_t>(random()) % octaves;
        element = kind == 1 ? bits : static_cast<uint16_t>((bits & 0x807F) | std::min(exponent, 254U) << 7);
        if (random() % 16 == 0) element &= 0x8000;
        if (random() % 128 == 0) element |= 0x7F80;
    }
    return elements;
}

TEST(QuantiseAgreement, EveryLength) {
    std::mt19937_64 random(1);
    QuantiseRtl rtl;
    for (const RowFormat format : formats) {
        std::vector<QuantiseRow> rows;
        for (size_t elements = 1; elements <= 300; ++elements)
            rows.push_back({format, random_elements(random, elements)});
        expect_agreement(rtl, rows);
    }
}

void agree_at_random(uint64_t transactions) {
    const uint64_t seed = engines::test::seed_or(63);
    SCOPED_TRACE(engines::test::seed_message(seed));
    std::mt19937_64 random(seed);
    QuantiseRtl rtl(seed);
    constexpr size_t batch = 100;
    for (uint64_t done = 0; done < transactions; done += batch) {
        std::vector<QuantiseRow> rows(batch);
        for (QuantiseRow& row : rows) {
            row.format = random() % 64 == 0 ? static_cast<RowFormat>(8 + random() % 248)
                                            : formats[random() % formats.size()];
            const uint64_t most = random() % 64 == 0 ? 8000 : random() % 2 ? 40 : 300;
            row.elements = random_elements(random, random() % 64 ? 1 + random() % most : 0);
        }
        const Stalls stalls = random_stalls(random);
        ASSERT_NO_FATAL_FAILURE(expect_agreement(rtl, rows, stalls));
    }
}

TEST(QuantiseAgreement, RandomRowsUnderRandomStalls) { agree_at_random(10'000); }
TEST(QuantiseAgreement, AMillionRandomRows) { agree_at_random(1'000'000); }

// The first word of a row, and then all of its words and those of the next rows without a gap.
TEST(QuantiseRate, ThirtyTwoElementsACycleWithoutGaps) {
    for (const RowFormat format : formats) {
        if (format == RowFormat::f32) continue;
        const auto cycles = [&](size_t rows) {
            QuantiseRtl rtl;
            const uint64_t before = rtl.cycles();
            rtl.run(std::vector(rows, QuantiseRow{format, std::vector<uint16_t>(512, 0x3F80)}));
            return rtl.cycles() - before;
        };
        EXPECT_EQ(cycles(101) - cycles(1), 100U * 512 / 32) << static_cast<int>(format);
    }
}

// From the cycle that takes a row's last elements, which is also its first here, to the one that has its
// codes.
TEST(QuantiseRate, CodesComeAfterAFixedTime) {
    constexpr uint64_t latency_cycles = 46;
    constexpr uint64_t command_cycles = 1;
    for (const RowFormat format : {RowFormat::bf16, RowFormat::f32}) {
        QuantiseRtl rtl;
        const uint64_t before = rtl.cycles();
        const QuantiseRow row{format, std::vector<uint16_t>(16, 0x3F80)};
        rtl.run(std::span(&row, 1));
        EXPECT_EQ(rtl.cycles() - before, command_cycles + latency_cycles + 1);
    }
}

}  // namespace
}  // namespace plait::contract
