#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <plait/engines/bf16.hpp>
#include <plait/engines/quantise.hpp>
#include <random>
#include <vector>

#include "fp8_reference.hpp"
#include "seed.hpp"

namespace plait::engines {
namespace {

struct Quantised {
    std::vector<uint8_t> codes;
    std::vector<float> scales;
    uint32_t non_finite = 0;

    bool operator==(const Quantised&) const = default;
};

Quantised quantise(const std::vector<uint16_t>& row) {
    Quantised result{std::vector<uint8_t>(row.size()), std::vector<float>(quantise_scales(row.size())), 0};
    const auto answer = quantise_e4m3(row, result.codes, result.scales);
    EXPECT_TRUE(answer.has_value());
    result.non_finite = answer.value_or(0);
    return result;
}

// The same by definition. A product or quotient of floats computed in double and rounded to float is the FP32
// result.
Quantised reference(const std::vector<uint16_t>& row) {
    Quantised result;
    const auto fl32 = [](double value) { return static_cast<double>(static_cast<float>(value)); };
    for (size_t first = 0; first < row.size(); first += 128) {
        const size_t last = std::min(row.size(), first + 128);
        double amax = fl32(1e-4);
        for (size_t i = first; i < last; ++i) {
            const double x = bf16_to_float(row[i]);
            if (std::isfinite(x)) amax = std::max(amax, std::fabs(x));
        }
        for (size_t i = first; i < last; ++i) {
            const double x = bf16_to_float(row[i]);
            if (std::isfinite(x)) {
                result.codes.push_back(test::e4m3.nearest(fl32(x * fl32(448 / amax))));
            } else {
                result.codes.push_back(0x7F);
                ++result.non_finite;
            }
        }
        result.scales.push_back(static_cast<float>(amax * fl32(1.0 / 448)));
    }
    return result;
}

std::vector<uint16_t> normal_row(std::mt19937& random, size_t count, float sigma) {
    std::normal_distribution<float> normal(0, sigma);
    std::vector<uint16_t> row(count);
    for (uint16_t& x : row) x = float_to_bf16(normal(random));
    return row;
}

TEST(Quantise, AgreesWithTheDefinition) {
    const uint64_t seed = test::seed_or(25);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    for (size_t count : {1u, 2u, 127u, 128u, 129u, 255u, 256u, 2880u, 7168u})
        for (float sigma : {1e-40f, 1e-30f, 1e-5f, 0.01f, 1.0f, 1e4f, 1e37f}) {
            const auto row = normal_row(random, count, sigma);
            ASSERT_EQ(quantise(row), reference(row)) << count << " elements, sigma " << sigma;
        }
}

TEST(Quantise, EveryFiniteBf16AsElementAndAsMaximum) {
    std::vector<uint16_t> row;
    for (uint32_t bits = 0; bits < 0x10000; ++bits) row.push_back(static_cast<uint16_t>(bits));
    ASSERT_EQ(quantise(row), reference(row)) << "neighbours share a block";
    const uint64_t seed = test::seed_or(26);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    std::shuffle(row.begin(), row.end(), random);
    ASSERT_EQ(quantise(row), reference(row)) << "any magnitudes share a block";
}

TEST(Quantise, AllZero) {
    const Quantised zero = quantise(std::vector<uint16_t>(128, 0));
    EXPECT_EQ(zero.codes, std::vector<uint8_t>(128, 0));
    EXPECT_EQ(zero.scales[0], 1e-4f * (1.0f / 448.0f));
    EXPECT_GT(zero.scales[0], 0.0f);
}

TEST(Quantise, AnInfinityOrNaNSpoilsItselfOnly) {
    std::mt19937 random(27);
    auto row = normal_row(random, 256, 1.0f);
    const Quantised clean = quantise(row);
    // Not the largest element of the block, so that its scale stays.
    size_t victim = 0;
    while ((row[victim] & 0x7FFF) > 0x3F00) ++victim;
    for (const uint16_t special : std::vector<uint16_t>{0x7F80, 0xFF80, 0x7FC0, 0xFFFF}) {
        row[victim] = special;
        const Quantised spoilt = quantise(row);
        EXPECT_EQ(spoilt.non_finite, 1u);
        EXPECT_EQ(spoilt.scales, clean.scales);
        for (size_t i = 0; i < row.size(); ++i)
            EXPECT_EQ(spoilt.codes[i], i == victim ? 0x7F : clean.codes[i]);
        std::vector<uint16_t> back(row.size());
        ASSERT_TRUE(dequantise_e4m3_to_bf16(spoilt.codes, spoilt.scales, back));
        EXPECT_EQ(back[victim], bf16_nan);
    }
    const Quantised nothing_finite = quantise(std::vector<uint16_t>(130, 0x7F80));
    EXPECT_EQ(nothing_finite.non_finite, 130u);
    EXPECT_TRUE(std::isfinite(nothing_finite.scales[0]));
}

TEST(Quantise, TheRoundTripErrorIsBounded) {
    const uint64_t seed = test::seed_or(28);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    const auto row = normal_row(random, 7168, 3.0f);
    const Quantised quantised = quantise(row);
    std::vector<float> back(row.size());
    ASSERT_TRUE(dequantise_e4m3(quantised.codes, quantised.scales, back));
    for (size_t i = 0; i < row.size(); ++i) {
        const float x = bf16_to_float(row[i]);
        // Half a unit of a 4-bit significand, or of the subnormals' 2^-9 in units of the scale; plus FP32
        // rounding.
        const float bound = std::max(std::fabs(x) / 16, quantised.scales[i / 128] * 0x1p-10f) * 1.0001f;
        ASSERT_LE(std::fabs(back[i] - x), bound) << x;
    }
}

TEST(Quantise, DequantisesEveryCode) {
    std::vector<uint8_t> codes;
    for (uint32_t code = 0; code < 256; ++code) codes.push_back(static_cast<uint8_t>(code));
    const std::vector<float> scales{0.37f, 1e-7f};
    std::vector<float> wide(256);
    std::vector<uint16_t> narrow(256);
    ASSERT_TRUE(dequantise_e4m3(codes, scales, wide));
    ASSERT_TRUE(dequantise_e4m3_to_bf16(codes, scales, narrow));
    for (uint32_t code = 0; code < 256; ++code) {
        if ((code & 0x7F) == 0x7F) {
            EXPECT_TRUE(std::isnan(wide[code]));
            EXPECT_EQ(narrow[code], bf16_nan);
            continue;
        }
        const double magnitude = test::e4m3.value(code & 0x7F) * static_cast<double>(scales[code / 128]);
        const auto expected = static_cast<float>(code < 128 ? magnitude : -magnitude);
        EXPECT_EQ(std::bit_cast<uint32_t>(wide[code]), std::bit_cast<uint32_t>(expected)) << code;
        EXPECT_EQ(narrow[code], float_to_bf16(expected));
    }
}

TEST(Quantise, RefusesSizesThatDoNotFit) {
    const std::vector<uint16_t> row(129, 0x3F80);
    std::vector<uint8_t> codes(129, 5), short_codes(128, 5);
    std::vector<float> scales(2, 9.0f), one_scale(1, 9.0f), three_scales(3, 9.0f), values(129, 7.0f);
    EXPECT_FALSE(quantise_e4m3(row, short_codes, scales).has_value());
    EXPECT_FALSE(quantise_e4m3(row, codes, one_scale).has_value());
    EXPECT_FALSE(quantise_e4m3(row, codes, three_scales).has_value());
    EXPECT_EQ(codes, std::vector<uint8_t>(129, 5));
    EXPECT_EQ(scales, std::vector<float>(2, 9.0f));
    EXPECT_FALSE(dequantise_e4m3(codes, one_scale, values));
    EXPECT_FALSE(dequantise_e4m3(short_codes, scales, values));
    EXPECT_EQ(values, std::vector<float>(129, 7.0f));
    EXPECT_EQ(quantise_e4m3({}, {}, {}), 0u);
}

}  // namespace
}  // namespace plait::engines
