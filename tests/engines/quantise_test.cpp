#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "encoded.hpp"
#include "fp8_reference.hpp"
#include "seed.hpp"

namespace plait::engines {
namespace {

using test::encode;
using test::Encoded;

double to_double(uint16_t bf16) { return static_cast<double>(bf16_to_float(bf16)); }
double to_double(float x) { return static_cast<double>(x); }

// A product or quotient of floats computed in double and rounded to float is the FP32 result.
double fl32(double value) { return static_cast<double>(static_cast<float>(value)); }

struct Fp8Rows {
    const char* name;
    RowFormat format;
    test::Fp8Format element;
    bool power_of_two;

    double largest() const { return element.value(element.max_code); }

    // Encoding by its definition.
    template <typename Element>
    Encoded reference(const std::vector<Element>& row) const {
        Encoded result(format, row.size());
        for (size_t first = 0; first < row.size(); first += 128) {
            const size_t last = std::min(row.size(), first + 128);
            double amax = fl32(1e-4);
            for (size_t i = first; i < last; ++i) {
                const double x = to_double(row[i]);
                if (std::isfinite(x)) amax = std::max(amax, std::fabs(x));
            }
            const size_t block = first / 128;
            double factor = fl32(largest() / amax);
            if (power_of_two) {
                int exponent = -200;
                while (std::ldexp(largest(), exponent) < amax) ++exponent;
                factor = std::ldexp(1.0, -exponent);
                result.scales[block] = static_cast<std::byte>(exponent + 127);
            } else {
                const auto scale = static_cast<float>(amax * fl32(1 / largest()));
                std::memcpy(&result.scales[block * 4], &scale, 4);
            }
            for (size_t i = first; i < last; ++i) {
                const double x = to_double(row[i]);
                const bool finite = std::isfinite(x);
                result.codes[i] = std::byte{finite ? element.nearest(fl32(x * factor)) : uint8_t{0x7F}};
                result.non_finite += finite ? 0 : 1;
            }
        }
        return result;
    }
};

void PrintTo(const Fp8Rows& rows, std::ostream* stream) { *stream << rows.name; }

class Quantise : public testing::TestWithParam<Fp8Rows> {};

INSTANTIATE_TEST_SUITE_P(Formats, Quantise,
                         testing::Values(Fp8Rows{"e4m3_f32", RowFormat::e4m3_f32, test::e4m3, false},
                                         Fp8Rows{"e4m3_ue8m0", RowFormat::e4m3_ue8m0, test::e4m3, true},
                                         Fp8Rows{"e5m2_f32", RowFormat::e5m2_f32, test::e5m2, false},
                                         Fp8Rows{"e5m2_ue8m0", RowFormat::e5m2_ue8m0, test::e5m2, true}),
                         [](const auto& rows) { return rows.param.name; });

TEST_P(Quantise, AgreesWithTheDefinition) {
    const uint64_t seed = test::seed_or(25);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    for (size_t count : {1u, 2u, 127u, 128u, 129u, 255u, 256u, 2880u, 7168u})
        for (float sigma : {1e-40f, 1e-30f, 1e-5f, 0.01f, 1.0f, 1e4f, 1e37f}) {
            const auto row = test::normal_row(random, count, sigma);
            ASSERT_EQ(encode(GetParam().format, row), GetParam().reference(row))
                << count << " elements, sigma " << sigma;
            const auto sum = test::normal_floats(random, count, sigma);
            ASSERT_EQ(encode(GetParam().format, sum), GetParam().reference(sum))
                << count << " FP32 elements, sigma " << sigma;
        }
}

TEST_P(Quantise, EveryBf16AsElementAndAsMaximum) {
    std::vector<uint16_t> row;
    for (uint32_t bits = 0; bits < 0x10000; ++bits) row.push_back(static_cast<uint16_t>(bits));
    ASSERT_EQ(encode(GetParam().format, row), GetParam().reference(row)) << "neighbours share a block";
    const uint64_t seed = test::seed_or(26);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    std::shuffle(row.begin(), row.end(), random);
    ASSERT_EQ(encode(GetParam().format, row), GetParam().reference(row)) << "any magnitudes share a block";
}

TEST_P(Quantise, AnyFloats) {
    const uint64_t seed = test::seed_or(30);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    std::vector<float> row(20'000);
    for (float& x : row) x = std::bit_cast<float>(static_cast<uint32_t>(random()));
    row[0] = std::numeric_limits<float>::max();
    row[1] = std::numeric_limits<float>::denorm_min();
    ASSERT_EQ(encode(GetParam().format, row), GetParam().reference(row));
}

// Where a power of two is just enough, and where it no longer is.
TEST_P(Quantise, MaximaAroundTheLargestCode) {
    for (int exponent = -8; exponent < 8; ++exponent) {
        const float exact = std::ldexp(static_cast<float>(GetParam().largest()), exponent);
        for (const float amax : {std::nextafter(exact, 0.0f), exact, std::nextafter(exact, INFINITY)}) {
            const std::vector<float> row{amax, -amax / 3};
            ASSERT_EQ(encode(GetParam().format, row), GetParam().reference(row)) << amax;
        }
    }
}

TEST_P(Quantise, AllZero) {
    const std::vector<uint16_t> row(128, 0);
    const Encoded zero = encode(GetParam().format, row);
    EXPECT_EQ(zero, GetParam().reference(row));
    EXPECT_EQ(zero.codes, std::vector<std::byte>(128, std::byte{0}));
    EXPECT_EQ(test::decode(zero, 128), std::vector<float>(128, 0.0f));
}

TEST_P(Quantise, AnInfinityOrNaNSpoilsItselfOnly) {
    const RowFormat format = GetParam().format;
    std::mt19937 random(27);
    auto row = test::normal_row(random, 256, 1.0f);
    const Encoded clean = encode(format, row);
    // Not the largest element of the block, so that its scale stays.
    size_t victim = 0;
    while ((row[victim] & 0x7FFF) > 0x3F00) ++victim;
    for (const uint16_t special : std::vector<uint16_t>{0x7F80, 0xFF80, 0x7FC0, 0xFFFF}) {
        row[victim] = special;
        const Encoded spoilt = encode(format, row);
        EXPECT_EQ(spoilt.non_finite, 1u);
        EXPECT_EQ(spoilt.scales, clean.scales);
        for (size_t i = 0; i < row.size(); ++i) EXPECT_EQ(spoilt.code(i), i == victim ? 0x7F : clean.code(i));
        EXPECT_EQ(test::decode_to_bf16(spoilt, row.size())[victim], bf16_nan);
    }
    const std::vector<uint16_t> infinite(130, 0x7F80);
    EXPECT_EQ(encode(format, infinite), GetParam().reference(infinite));
    EXPECT_EQ(encode(format, infinite).non_finite, 130u);
}

TEST_P(Quantise, TheRoundTripErrorIsBounded) {
    const auto& [name, format, element, power_of_two] = GetParam();
    const uint64_t seed = test::seed_or(28);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    const auto row = test::normal_row(random, 2880, 3.0f);
    const Encoded encoded = encode(format, row);
    const auto back = test::decode(encoded, row.size());
    for (size_t i = 0; i < row.size(); ++i) {
        const double x = to_double(row[i]);
        const double scale = power_of_two ? std::ldexp(1.0, encoded.byte_scale(i / 128) - 127)
                                          : to_double(encoded.float_scale(i / 128));
        // Half a unit of the significand, or of the subnormals in units of the scale; plus FP32 rounding.
        const double bound =
            std::max(std::ldexp(std::fabs(x), -element.mantissa_bits - 1), scale * element.value(1) / 2) *
            1.0001;
        ASSERT_LE(std::fabs(to_double(back[i]) - x), bound) << x;
    }
}

TEST_P(Quantise, DecodesEveryCodeWithEveryScale) {
    const auto& [name, format, element, power_of_two] = GetParam();
    std::vector<float> scales;
    if (power_of_two) {
        for (int exponent = -127; exponent < 128; ++exponent) scales.push_back(std::ldexp(1.0f, exponent));
        scales.push_back(NAN);
    } else {
        scales = {0.37f, 1.0f, 1e-7f, 1e-38f, 1e-44f, 3e38f, 0.0f, -2.5f, INFINITY, NAN};
    }
    for (size_t s = 0; s < scales.size(); ++s) {
        Encoded row(format, 256);
        for (uint32_t code = 0; code < 256; ++code) row.codes[code] = static_cast<std::byte>(code);
        for (size_t block = 0; block < 2; ++block) {
            if (power_of_two) row.scales[block] = static_cast<std::byte>(s);
            if (!power_of_two) std::memcpy(&row.scales[4 * block], &scales[s], 4);
        }
        const auto wide = test::decode(row, 256);
        const auto narrow = test::decode_to_bf16(row, 256);
        for (uint32_t code = 0; code < 256; ++code) {
            const uint32_t magnitude = code & 0x7F;
            double value = element.value(magnitude);
            if (magnitude > element.max_code) value = NAN;
            if (format == RowFormat::e5m2_f32 || format == RowFormat::e5m2_ue8m0)
                value = magnitude == 0x7C ? INFINITY : value;
            const auto expected = static_cast<float>((code < 128 ? value : -value) * to_double(scales[s]));
            if (std::isnan(expected)) {
                ASSERT_TRUE(std::isnan(wide[code])) << code << " scale " << scales[s];
            } else {
                ASSERT_EQ(std::bit_cast<uint32_t>(wide[code]), std::bit_cast<uint32_t>(expected))
                    << code << " scale " << scales[s];
            }
            ASSERT_EQ(narrow[code], float_to_bf16(expected)) << code << " scale " << scales[s];
        }
    }
}

}  // namespace
}  // namespace plait::engines
