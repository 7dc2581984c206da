// What holds for rows of every format.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "encoded.hpp"
#include "seed.hpp"

namespace plait::engines {
namespace {

using test::encode;
using test::Encoded;

class RowFormats : public testing::TestWithParam<test::NamedFormat> {};

INSTANTIATE_TEST_SUITE_P(All, RowFormats, testing::ValuesIn(test::row_formats), test::name_of);

constexpr size_t counts[] = {1, 3, 5, 127, 128, 129, 2880, 7168};

// Sum and product of floats computed in double and rounded to float are the FP32 results.
float fl32_product(float a, float b) {
    return static_cast<float>(static_cast<double>(a) * static_cast<double>(b));
}
float fl32_sum(float a, float b) {
    return static_cast<float>(static_cast<double>(a) + static_cast<double>(b));
}

TEST_P(RowFormats, AddsUpWhatItDecodes) {
    const RowFormat format = GetParam().format;
    const uint64_t seed = test::seed_or(31);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    for (const size_t count : counts) {
        std::vector<float> plain(count), weighted(count), expected(count), expected_weighted(count);
        for (int row = 0; row < 8; ++row) {
            const Encoded encoded = encode(format, test::normal_row(random, count, 2.0f));
            const auto values = test::decode(encoded, count);
            const float weight = test::normal_floats(random, 1, 1.0f)[0];
            if (row == 0) {
                ASSERT_TRUE(decode_row(encoded.view(), std::span(plain)));
                ASSERT_TRUE(decode_row_weighted(encoded.view(), weight, weighted));
            } else {
                ASSERT_TRUE(accumulate_row(encoded.view(), plain));
                ASSERT_TRUE(accumulate_row_weighted(encoded.view(), weight, weighted));
            }
            for (size_t i = 0; i < count; ++i) {
                const float product = fl32_product(weight, values[i]);
                expected[i] = row == 0 ? values[i] : fl32_sum(expected[i], values[i]);
                expected_weighted[i] = row == 0 ? product : fl32_sum(expected_weighted[i], product);
            }
        }
        EXPECT_EQ(plain, expected) << count;
        EXPECT_EQ(weighted, expected_weighted) << count;
    }
}

TEST_P(RowFormats, DecodesToBf16WithOneMoreRounding) {
    std::mt19937 random(32);
    for (const size_t count : counts) {
        const Encoded encoded = encode(GetParam().format, test::normal_floats(random, count, 0.3f));
        const auto values = test::decode(encoded, count);
        const auto narrow = test::decode_to_bf16(encoded, count);
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(narrow[i], float_to_bf16(values[i])) << i;
    }
}

// Bytes that a packet carries: any of the row, from the elements that they need and no others.
TEST_P(RowFormats, AnyOfItsBytesAreEncodedAlone) {
    const RowFormat format = GetParam().format;
    const uint64_t seed = test::seed_or(36);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    for (const size_t count : counts) {
        const auto row = test::normal_row(random, count, 1.0f);
        Encoded whole = encode(format, row);
        std::vector<std::byte> expected = whole.codes;
        expected.insert(expected.end(), whole.scales.begin(), whole.scales.end());
        for (int part = 0; part < 200; ++part) {
            const size_t offset = random() % expected.size();
            const size_t length = 1 + random() % std::min<size_t>(expected.size() - offset, 4096);
            const auto [first, last] = elements_behind(format, count, offset, length);
            ASSERT_LT(first, last);
            ASSERT_LE(last, count);
            const std::span range = std::span(row).subspan(first, last - first);
            std::vector<std::byte> bytes(length);
            ASSERT_EQ(encode_bytes(format, count, offset, range, bytes), 0u) << offset << " + " << length;
            ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(),
                                   expected.begin() + static_cast<std::ptrdiff_t>(offset)))
                << offset << " + " << length << " of " << count;
            EXPECT_FALSE(encode_bytes(format, count, expected.size() - length + 1, range, bytes));
            EXPECT_FALSE(encode_bytes(format, count, offset, range.subspan(1), bytes));
        }
    }
}

TEST_P(RowFormats, PacketsOfARowCountItsInfinitiesOnce) {
    const RowFormat format = GetParam().format;
    std::vector<uint16_t> row(2880, 0x3F80);
    for (const size_t spoilt : {0u, 127u, 128u, 1000u, 2879u}) row[spoilt] = 0x7F80;
    const size_t row_bytes = code_bytes(format, row.size()) + scale_bytes(format, row.size());
    for (const size_t mtu : {256u, 512u, 1024u, 4096u}) {
        uint32_t non_finite = 0;
        for (size_t offset = 0; offset < row_bytes; offset += mtu) {
            std::vector<std::byte> bytes(std::min(mtu, row_bytes - offset));
            const auto [first, last] = elements_behind(format, row.size(), offset, bytes.size());
            non_finite +=
                encode_bytes(format, row.size(), offset, std::span(row).subspan(first, last - first), bytes)
                    .value();
        }
        EXPECT_EQ(non_finite, 5u) << mtu;
    }
}

TEST_P(RowFormats, ABlockDoesNotDependOnItsNeighbours) {
    const RowFormat format = GetParam().format;
    std::mt19937 random(33);
    const auto row = test::normal_row(random, 2880, 1.0f);
    const Encoded whole = encode(format, row);
    for (size_t first = 0; first < row.size(); first += 128) {
        const size_t last = std::min(first + 128, row.size());
        const std::vector<uint16_t> part(row.begin() + static_cast<std::ptrdiff_t>(first),
                                         row.begin() + static_cast<std::ptrdiff_t>(last));
        const Encoded block = encode(format, part);
        EXPECT_TRUE(std::equal(block.codes.begin(), block.codes.end(),
                               whole.codes.begin() + static_cast<std::ptrdiff_t>(code_bytes(format, first))));
        EXPECT_TRUE(
            std::equal(block.scales.begin(), block.scales.end(),
                       whole.scales.begin() + static_cast<std::ptrdiff_t>(scale_bytes(format, first))));
    }
}

TEST_P(RowFormats, CountsWhatIsNotFinite) {
    const RowFormat format = GetParam().format;
    std::mt19937 random(34);
    for (const size_t count : counts) {
        auto sum = test::normal_floats(random, count, 1.0f);
        const float specials[] = {INFINITY, -INFINITY, NAN, -NAN};
        uint32_t spoilt = 0;
        for (size_t i = 0; i < count; i += 3) sum[i] = specials[spoilt++ % 4];
        std::vector<uint16_t> row;
        for (const float x : sum) row.push_back(float_to_bf16(x));
        for (const Encoded& encoded : {encode(format, sum), encode(format, row)}) {
            EXPECT_EQ(encoded.non_finite, spoilt);
            const auto values = test::decode(encoded, count);
            for (size_t i = 0; i < count; ++i) EXPECT_EQ(std::isfinite(values[i]), i % 3 != 0) << i;
        }
    }
}

// FNV-1a of codes, scales and decoded values of one input, which neither compiler, optimisation nor processor
// may change.
TEST_P(RowFormats, SameBitsOnEveryMachine) {
    const std::map<std::string_view, uint64_t> hashes{
        {"bf16", 0x4ABC8D1DDB825CCD},       {"e4m3_f32", 0x6487A4794C6A7DFD},
        {"e4m3_ue8m0", 0xABEED013C33C9F4A}, {"e5m2_f32", 0xCBDC418846A83790},
        {"e5m2_ue8m0", 0x61CD930F211D04A3}, {"f32", 0x9A06C029D15C5E75},
        {"logfmt8", 0x3939EE274C1EBE7C},    {"logfmt10", 0x5194B4B980243286}};
    std::mt19937 random(36);
    std::vector<float> row(128 * 500 + 64);
    for (size_t i = 0; i < row.size(); ++i) {
        // Every block has another range, of up to 40 octaves.
        const size_t exponent = 20 + i / 128 % 190 + random() % (1 + i / 128 % 41);
        row[i] = std::bit_cast<float>(static_cast<uint32_t>((random() & 0x807F'FFFF) | exponent << 23));
    }
    const Encoded encoded = encode(GetParam().format, row);
    const auto values = test::decode(encoded, row.size());
    uint64_t hash = 0xCBF2'9CE4'8422'2325;
    const auto add = [&hash](std::span<const std::byte> bytes) {
        for (const std::byte byte : bytes) hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100'0000'01B3;
    };
    add(encoded.codes);
    add(encoded.scales);
    add(std::as_bytes(std::span(values)));
    EXPECT_EQ(hash, hashes.at(GetParam().name));
}

TEST_P(RowFormats, RefusesSizesThatDoNotFit) {
    const RowFormat format = GetParam().format;
    const std::vector<uint16_t> row(129, 0x3F80);
    const std::vector<float> sum(129, 1.0f);
    const Encoded right = encode(format, row);
    std::vector<float> values(129, 7.0f);
    std::vector<uint16_t> narrow(129, 7);
    for (const int codes_off : {-1, 0, 1})
        for (const int scales_off : {-1, 0, 1}) {
            if (codes_off == 0 && scales_off == 0) continue;
            if (right.scales.empty() && scales_off < 0) continue;
            Encoded wrong = right;
            wrong.codes.assign(right.codes.size() + static_cast<size_t>(codes_off), std::byte{5});
            wrong.scales.assign(right.scales.size() + static_cast<size_t>(scales_off), std::byte{9});
            const Encoded before = wrong;
            EXPECT_FALSE(encode_row(format, std::span(row), wrong.codes, wrong.scales).has_value());
            EXPECT_FALSE(encode_row(format, std::span(sum), wrong.codes, wrong.scales).has_value());
            EXPECT_EQ(wrong, before);
            EXPECT_FALSE(decode_row(wrong.view(), std::span(values)));
            EXPECT_FALSE(decode_row(wrong.view(), std::span(narrow)));
            EXPECT_FALSE(decode_row_weighted(wrong.view(), 2, values));
            EXPECT_FALSE(accumulate_row(wrong.view(), values));
            EXPECT_FALSE(accumulate_row_weighted(wrong.view(), 2, values));
        }
    EXPECT_EQ(values, std::vector<float>(129, 7.0f));
    EXPECT_EQ(narrow, std::vector<uint16_t>(129, 7));
    EXPECT_EQ(encode_row(format, std::span<const uint16_t>(), {}, {}), 0u);
    EXPECT_TRUE(decode_row({format, {}, {}}, std::span<float>()));
}

TEST(RowFormatsUnknown, AreRefused) {
    for (uint32_t number = 0; number < 256; ++number) {
        const auto format = static_cast<RowFormat>(number);
        EXPECT_EQ(code_bits(format) != 0, is_known(format)) << number;
        EXPECT_EQ(encode_row(format, std::span<const uint16_t>(), {}, {}).has_value(), is_known(format));
        EXPECT_EQ(decode_row({format, {}, {}}, std::span<float>()), is_known(format));
        EXPECT_EQ(decode_row({format, {}, {}}, std::span<uint16_t>()), is_known(format));
    }
}

TEST(RowFormatsPlain, AreTheElementsThemselves) {
    std::vector<uint16_t> row;
    for (uint32_t bits = 0; bits < 0x10000; ++bits) row.push_back(static_cast<uint16_t>(bits));
    const Encoded narrow = encode(RowFormat::bf16, row);
    const Encoded wide = encode(RowFormat::f32, row);
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
        const float x = bf16_to_float(row[bits]);
        uint16_t code;
        uint32_t wide_code;
        std::memcpy(&code, &narrow.codes[2 * bits], 2);
        std::memcpy(&wide_code, &wide.codes[4 * bits], 4);
        ASSERT_EQ(code, std::isnan(x) ? bf16_nan : bits);
        ASSERT_EQ(wide_code, std::isnan(x) ? 0x7FC0'0000 : std::bit_cast<uint32_t>(x));
    }
}

TEST(RowFormatsBytes, ARowOf7168) {
    const auto bytes = [](RowFormat format) { return code_bytes(format, 7168) + scale_bytes(format, 7168); };
    EXPECT_EQ(bytes(RowFormat::bf16), 14336u);
    EXPECT_EQ(bytes(RowFormat::f32), 28672u);
    EXPECT_EQ(bytes(RowFormat::e4m3_f32), 7392u);
    EXPECT_EQ(bytes(RowFormat::e5m2_f32), 7392u);
    EXPECT_EQ(bytes(RowFormat::e4m3_ue8m0), 7224u);
    EXPECT_EQ(bytes(RowFormat::e5m2_ue8m0), 7224u);
    EXPECT_EQ(bytes(RowFormat::logfmt8), 7392u);
    EXPECT_EQ(bytes(RowFormat::logfmt10), 9184u);
    EXPECT_EQ(code_bytes(RowFormat::logfmt10, 2880), 3600u);
    EXPECT_EQ(scale_bytes(RowFormat::logfmt10, 2880), 23u * 4);
    EXPECT_EQ(code_bytes(RowFormat::logfmt10, 1), 2u);
    EXPECT_EQ(code_bytes(RowFormat::logfmt10, 3), 4u);
}

}  // namespace
}  // namespace plait::engines
