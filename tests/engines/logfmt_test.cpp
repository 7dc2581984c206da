#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <plait/engines/logfmt.hpp>

#include "encoded.hpp"
#include "seed.hpp"

namespace plait::engines {
namespace {

using test::encode;
using test::Encoded;

// The formats with what tests need of them: codes are read out of the bytes of the wire one bit at a time.
struct Format {
    const char* name;
    RowFormat format;
    uint32_t bits;

    uint32_t sign() const { return 1u << (bits - 1); }
    uint32_t largest() const { return sign() - 1; }

    uint32_t code(const Encoded& row, size_t i) const {
        uint32_t code = 0;
        for (uint32_t b = 0; b < bits; ++b) {
            const size_t bit = i * bits + b;
            code |= (static_cast<uint32_t>(row.codes[bit / 8]) >> (bit % 8) & 1) << b;
        }
        return code;
    }

    void set_code(Encoded& row, size_t i, uint32_t code) const {
        for (uint32_t b = 0; b < bits; ++b) {
            const size_t bit = i * bits + b;
            row.codes[bit / 8] |= static_cast<std::byte>((code >> b & 1) << (bit % 8));
        }
    }

    // A row whose every tile has this header and which has every code in turn; the last tile is short.
    Encoded every_code(const LogFmtHeader& header) const {
        Encoded row(format, elements());
        for (uint32_t code = 0; code < elements(); ++code) set_code(row, code, code % (2 * sign()));
        for (size_t tile = 0; tile < row.scales.size() / 4; ++tile)
            std::memcpy(&row.scales[4 * tile], &header, sizeof header);
        return row;
    }
    size_t elements() const { return 2 * sign() + 7; }

    // The magnitudes of all codes for a header, as decoded.
    std::vector<float> magnitudes(const LogFmtHeader& header) const {
        auto values = test::decode(every_code(header), elements());
        values.resize(sign());
        return values;
    }

    // The same by definition.
    long double reference(const LogFmtHeader& header, uint32_t k) const {
        const long double min = std::log2(static_cast<long double>(bf16_to_float(header.min)));
        const long double max = std::log2(static_cast<long double>(bf16_to_float(header.max)));
        return std::exp2(min + (max - min) / (largest() - 1) * (k - 1));
    }
};

void PrintTo(const Format& format, std::ostream* stream) { *stream << format.name; }

LogFmtHeader header_of(const Encoded& row, size_t tile) {
    LogFmtHeader header;
    std::memcpy(&header, &row.scales[4 * tile], sizeof header);
    return header;
}

class LogFmtRows : public testing::TestWithParam<Format> {};

INSTANTIATE_TEST_SUITE_P(Formats, LogFmtRows,
                         testing::Values(Format{"logfmt8", RowFormat::logfmt8, 8},
                                         Format{"logfmt10", RowFormat::logfmt10, 10}),
                         [](const auto& format) { return format.param.name; });

// Headers of all kinds: any magnitudes, one octave, neighbours, subnormals, the full range.
std::vector<LogFmtHeader> headers(std::mt19937& random, size_t count) {
    std::vector<LogFmtHeader> list;
    for (const uint16_t min :
         std::initializer_list<uint16_t>{1, 2, 3, 5, 0x7E, 0x7F, 0x80, 0x81, 0x3F80, 0x3FFF})
        for (const uint16_t more : std::initializer_list<uint16_t>{0, 1, 2, 3, 5, 64, 127, 128, 200}) {
            const auto max = static_cast<uint16_t>(min + more);
            if (static_cast<double>(bf16_to_float(max)) <=
                std::ldexp(static_cast<double>(bf16_to_float(min)), 32))
                list.push_back({min, max});
        }
    for (const uint16_t max : std::initializer_list<uint16_t>{0x3F80, 0x3FFF, 0x7F00, 0x7F7F})
        list.push_back({static_cast<uint16_t>(max - 32 * 128), max});
    while (list.size() < count) {
        const auto min = static_cast<uint16_t>(random() % 0x7F80);
        const auto max = static_cast<uint16_t>(min + random() % (random() % 2 == 0 ? 16 : 32 * 128));
        if (min != 0 && max < 0x7F80 && bf16_to_float(max) <= bf16_to_float(min) * 0x1p32f)
            list.push_back({min, max});
    }
    return list;
}

TEST_P(LogFmtRows, EveryCodeOfManyTilesIsItsDefinition) {
    const Format& format = GetParam();
    const uint64_t seed = test::seed_or(40);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    long double worst = 0;
    for (const LogFmtHeader& header : headers(random, 1500)) {
        const Encoded row = format.every_code(header);
        const auto wide = test::decode(row, format.elements());
        const auto narrow = test::decode_to_bf16(row, format.elements());
        EXPECT_EQ(std::bit_cast<uint32_t>(wide[0]), 0u);
        EXPECT_TRUE(std::isnan(wide[format.sign()]));
        EXPECT_EQ(narrow[format.sign()], bf16_nan);
        EXPECT_EQ(wide[1], bf16_to_float(header.min));
        EXPECT_EQ(wide[format.largest()], bf16_to_float(header.max));
        for (uint32_t k = 1; k <= format.largest(); ++k) {
            ASSERT_EQ(wide[k | format.sign()], -wide[k]);
            ASSERT_GE(wide[k], wide[k - 1]) << "code " << k << " min " << header.min << " max " << header.max;
            const long double expected = format.reference(header, k);
            const long double error = std::fabs(static_cast<long double>(wide[k]) - expected);
            // FP32's subnormals are rounded to their unit.
            worst = std::max(worst, std::max(0.0L, error - 0x1p-150L) / expected);
            const int exponent = std::max(std::ilogb(expected), -126);
            ASSERT_LE(std::fabs(static_cast<long double>(bf16_to_float(narrow[k])) - expected),
                      std::ldexp(1.0L, exponent - 7))
                << "code " << k << " min " << header.min << " max " << header.max;
        }
        ASSERT_TRUE(std::equal(wide.begin() + 2 * format.sign(), wide.end(), wide.begin()))
            << "the short tile";
    }
    EXPECT_LT(worst, 0x1p-18L);
    RecordProperty("worst_relative_error_log2", std::to_string(std::log2(worst)));
}

// By the decoder's own values: the nearest code, of two the smaller; zero is a code too.
void expect_nearest(const Format& format, const std::vector<uint16_t>& row) {
    const Encoded encoded = encode(format.format, row);
    for (size_t first = 0; first < row.size(); first += 128) {
        const auto magnitudes = format.magnitudes(header_of(encoded, first / 128));
        for (size_t i = first; i < std::min(row.size(), first + 128); ++i) {
            const auto x = static_cast<double>(std::fabs(bf16_to_float(row[i])));
            const auto distance = [&](uint32_t k) {
                return std::fabs(x - static_cast<double>(magnitudes[k]));
            };
            const uint32_t code = format.code(encoded, i);
            if (!std::isfinite(x)) {
                ASSERT_EQ(code, format.sign());
                continue;
            }
            const auto above = std::lower_bound(
                magnitudes.begin(), magnitudes.end(), x,
                [](float value, double wanted) { return static_cast<double>(value) < wanted; });
            auto best = static_cast<uint32_t>(above - magnitudes.begin());
            if (best > format.largest()) best = format.largest();
            if (best > 0 && distance(best - 1) <= distance(best)) --best;
            // Codes of one value are equally good.
            ASSERT_EQ(magnitudes[code % format.sign()], magnitudes[best]) << "element " << i << " is " << x;
            ASSERT_EQ(code >= format.sign(), best != 0 && row[i] >= 0x8000) << "element " << i << " is " << x;
        }
    }
}

TEST_P(LogFmtRows, EncodesToTheNearestInLinearSpace) {
    const uint64_t seed = test::seed_or(41);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    for (const float sigma : {1e-40f, 1e-38f, 1e-5f, 1.0f, 1e37f})
        for (int repeat = 0; repeat < 10; ++repeat)
            expect_nearest(GetParam(), test::normal_row(random, 2880, sigma));
}

TEST_P(LogFmtRows, EncodesNarrowAndWideTiles) {
    const uint64_t seed = test::seed_or(42);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    for (const LogFmtHeader& header : headers(random, 3000)) {
        std::vector<uint16_t> row(128);
        for (uint16_t& x : row)
            x = static_cast<uint16_t>(header.min + random() % (header.max - header.min + 1u) +
                                      random() % 2 * 0x8000);
        row[0] = header.min;
        row[1] = header.max;
        ASSERT_EQ(header_of(encode(GetParam().format, row), 0), header);
        expect_nearest(GetParam(), row);
    }
}

TEST_P(LogFmtRows, EveryBf16) {
    std::vector<uint16_t> row;
    for (uint32_t bits = 0; bits < 0x10000; ++bits) row.push_back(static_cast<uint16_t>(bits));
    expect_nearest(GetParam(), row);
    const uint64_t seed = test::seed_or(43);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    std::shuffle(row.begin(), row.end(), random);
    expect_nearest(GetParam(), row);
    EXPECT_EQ(encode(GetParam().format, row).non_finite, 256u);
}

// Decoding is monotone whatever the significands of minimum and maximum.
TEST_P(LogFmtRows, MonotoneForEveryPairOfSignificands) {
    const auto check = [](auto scale, int32_t intervals, const LogFmtHeader& header) {
        float last = 0;
        for (int32_t index = 0; index <= intervals; ++index) {
            const float value = scale.magnitude(index);
            if (value < last) {
                ADD_FAILURE() << "index " << index << " min " << header.min << " max " << header.max;
                return;
            }
            last = value;
        }
    };
    for (const uint32_t octaves : {0u, 1u, 9u, 31u, 32u})
        for (uint32_t low = 0; low < 128; ++low)
            for (uint32_t high = 0; high < 128; ++high) {
                if (octaves == 0 && high < low) continue;
                if (octaves == 32 && high > low) continue;
                const LogFmtHeader header{static_cast<uint16_t>(0x3000 + low),
                                          static_cast<uint16_t>(0x3000 + octaves * 128 + high)};
                if (GetParam().bits == 8) check(detail::LogFmtScale<8>(header), LogFmt<8>::intervals, header);
                if (GetParam().bits == 10)
                    check(detail::LogFmtScale<10>(header), LogFmt<10>::intervals, header);
            }
}

TEST_P(LogFmtRows, TheMinimumIsClampedTo32Octaves) {
    const Format& format = GetParam();
    // 2^33, its 2^-32 and what is nearest to zero or to that.
    const std::vector<uint16_t> row{float_to_bf16(0x1p33f),
                                    float_to_bf16(2.0f),
                                    float_to_bf16(1.5f),
                                    float_to_bf16(-1.01f),
                                    float_to_bf16(1.0f),
                                    float_to_bf16(-0.5f),
                                    1};
    const Encoded encoded = encode(format.format, row);
    EXPECT_EQ(header_of(encoded, 0), (LogFmtHeader{float_to_bf16(2.0f), float_to_bf16(0x1p33f)}));
    const std::vector<float> expected{0x1p33f, 2, 2, -2, 0, 0, 0};
    EXPECT_EQ(test::decode(encoded, row.size()), expected);
    EXPECT_EQ(format.code(encoded, 5), 0u) << "a small negative number is the zero";
    // 2^-32 of the maximum is no BF16 any more and is rounded up.
    const std::vector<uint16_t> small{float_to_bf16(0x1.fep-96f), 1};
    EXPECT_EQ(header_of(encode(format.format, small), 0).min, 0x40);
}

TEST_P(LogFmtRows, ZerosAndSingleValues) {
    const Format& format = GetParam();
    const Encoded zero = encode(format.format, std::vector<uint16_t>{0, 0x8000, 0});
    EXPECT_EQ(header_of(zero, 0), (LogFmtHeader{0, 0}));
    for (const float value : test::decode(zero, 3)) EXPECT_EQ(std::bit_cast<uint32_t>(value), 0u);
    for (const uint16_t bits : std::initializer_list<uint16_t>{1, 0x7F, 0x80, 0x3F80, 0x7F7F}) {
        const std::vector<uint16_t> row{bits, static_cast<uint16_t>(bits | 0x8000), 0, 0x8000, bits};
        const std::vector<uint16_t> back{bits, static_cast<uint16_t>(bits | 0x8000), 0, 0, bits};
        const Encoded encoded = encode(format.format, row);
        EXPECT_EQ(header_of(encoded, 0), (LogFmtHeader{bits, bits}));
        EXPECT_EQ(format.code(encoded, 0), 1u);
        EXPECT_EQ(test::decode_to_bf16(encoded, row.size()), back);
    }
}

TEST_P(LogFmtRows, AnInfinityOrNaNSpoilsItselfOnly) {
    const Format& format = GetParam();
    std::mt19937 random(44);
    auto row = test::normal_row(random, 200, 1.0f);
    row[3] = 0;
    const auto clean = test::decode(encode(format.format, row), row.size());
    for (const uint16_t special : std::initializer_list<uint16_t>{0x7F80, 0xFF80, 0x7FC0, 0xFFFF}) {
        row[3] = special;
        const Encoded spoilt = encode(format.format, row);
        EXPECT_EQ(spoilt.non_finite, 1u);
        const auto values = test::decode(spoilt, row.size());
        for (size_t i = 0; i < row.size(); ++i) {
            if (i != 3) {
                EXPECT_EQ(values[i], clean[i]);
            }
        }
        EXPECT_TRUE(std::isnan(values[3]));
    }
    const Encoded infinite = encode(format.format, std::vector<uint16_t>(130, 0xFF80));
    EXPECT_EQ(infinite.non_finite, 130u);
    EXPECT_EQ(header_of(infinite, 0), (LogFmtHeader{0, 0}));
    for (const float value : test::decode(infinite, 130)) EXPECT_TRUE(std::isnan(value));
}

TEST_P(LogFmtRows, SumsAreRoundedToBf16First) {
    const uint64_t seed = test::seed_or(45);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    const auto sum = test::normal_floats(random, 2880, 1.0f);
    std::vector<uint16_t> rounded;
    for (const float x : sum) rounded.push_back(float_to_bf16(x));
    EXPECT_EQ(encode(GetParam().format, sum), encode(GetParam().format, rounded));
    // Beyond BF16's range, so an infinity.
    EXPECT_TRUE(std::isnan(test::decode(encode(GetParam().format, std::vector<float>{3.4e38f}), 1)[0]));
}

TEST_P(LogFmtRows, HeadersThatNoEncoderWritesAreNaN) {
    const Format& format = GetParam();
    for (const LogFmtHeader header :
         {LogFmtHeader{0, 1}, LogFmtHeader{1, 0}, LogFmtHeader{0x3F81, 0x3F80}, LogFmtHeader{0x3F80, 0x7F80},
          LogFmtHeader{0x7FC0, 0x7FC0}, LogFmtHeader{0xBF80, 0xBF80}, LogFmtHeader{0x3F80, 0xBF80},
          LogFmtHeader{0x3F80, 0x4F81}, LogFmtHeader{0xFFFF, 0xFFFF}})
        for (const float value : test::decode(format.every_code(header), format.elements()))
            ASSERT_TRUE(std::isnan(value)) << header.min << " " << header.max;
}

// The last byte of a short row of 10-bit codes.
TEST(LogFmt10, SparesBitsAreZero) {
    for (size_t count : {1u, 2u, 3u, 5u, 6u, 7u, 127u}) {
        Encoded row(RowFormat::logfmt10, count);
        row.codes.assign(row.codes.size(), std::byte{0xFF});
        const std::vector<uint16_t> ones(count, 0xBF80);
        ASSERT_EQ(encode_row(row.format, std::span(ones), row.codes, row.scales), 0u);
        if (count % 4 != 0) {
            EXPECT_EQ(static_cast<uint32_t>(row.codes.back()) >> (10 * count % 8), 0u) << count;
        }
    }
}

TEST(LogFmtTables, Logarithms) {
    for (uint32_t i = 0; i < 128; ++i) {
        const long double exact = std::log2(1.0L + i / 128.0L) * 0x1p25L;
        EXPECT_EQ(detail::log2_table[i], static_cast<uint32_t>(exact)) << i;
    }
}

TEST(LogFmtTables, Exponential) {
    long double worst = 0;
    float last = 0;
    for (uint32_t i = 0; i < 1u << 20; ++i) {
        const float f = static_cast<float>(i) * 0x1p-20f;
        const float value = detail::exp2_fraction(f);
        ASSERT_GE(value, last);
        last = value;
        const long double exact = std::exp2(static_cast<long double>(f));
        worst = std::max(worst, std::fabs(static_cast<long double>(value) - exact) / exact);
    }
    EXPECT_LT(worst, 0x1p-22L);
}

}  // namespace
}  // namespace plait::engines
