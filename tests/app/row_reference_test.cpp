// The references of rows against the engines, which share no code with them.

#include <plait/sim/app/row_reference.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>

#include <plait/engines/quantise.hpp>
#include <plait/sim/app/encoded_rows.hpp>

#include "app_test.hpp"

namespace plait::sim {
namespace {

using regmap::RowFormat;

constexpr RowFormat all_formats[] = {RowFormat::bf16,     RowFormat::e4m3_f32,   RowFormat::e4m3_ue8m0,
                                     RowFormat::e5m2_f32, RowFormat::e5m2_ue8m0, RowFormat::logfmt8,
                                     RowFormat::logfmt10, RowFormat::f32};

class RowReference : public testing::TestWithParam<RowFormat> {};

INSTANTIATE_TEST_SUITE_P(All, RowReference, testing::ValuesIn(all_formats),
                         [](const auto& format) { return std::string(regmap::name(format.param)); });

struct Encoded {
    std::vector<std::byte> codes;
    std::vector<std::byte> scales;
};

template <class Element>
Encoded by_the_engine(RowFormat format, std::span<const Element> row) {
    Encoded encoded{std::vector<std::byte>(engines::code_bytes(format, row.size())),
                    std::vector<std::byte>(engines::scale_bytes(format, row.size()))};
    EXPECT_EQ(engines::encode_row(format, row, encoded.codes, encoded.scales), 0U);
    return encoded;
}

std::vector<float> decoded(RowFormat format, const Encoded& encoded, size_t elements) {
    std::vector<float> values(elements);
    EXPECT_TRUE(engines::decode_row({format, encoded.codes, encoded.scales}, std::span(values)));
    return values;
}

// Sums of any size: blocks of one magnitude, of many octaves, with zeros, with subnormals of their format.
std::vector<float> any_block(std::mt19937_64& random) {
    std::vector<float> block(1 + random() % 128);
    const int middle = static_cast<int>(random() % 200) - 100;
    const int octaves = static_cast<int>(1 + random() % 40);
    for (float& value : block) {
        const float fraction = 1 + static_cast<float>(random() % (1 << 23)) * 0x1p-23F;
        value = std::ldexp(fraction, std::max(-126, middle - static_cast<int>(random() % octaves)));
        if (random() % 2 == 0) value = -value;
        if (random() % 16 == 0) value = 0;
        if (random() % 16 == 0) value = block.front();
    }
    return block;
}

TEST_P(RowReference, SendsWhatTheEngineEncodesAndDecodes) {
    const uint64_t seed = test::seed_of_run();
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (int round = 0; round < 1000; ++round) {
        std::vector<float> block = any_block(random);
        const Encoded encoded = by_the_engine(GetParam(), std::span<const float>(block));
        const EncodedBlock reference = encode_block(GetParam(), block);
        const std::span<const uint8_t> scales = std::span(reference.scale).first(encoded.scales.size());
        ASSERT_TRUE(std::ranges::equal(std::as_bytes(scales), encoded.scales)) << "round " << round;
        const uint32_t bits = regmap::code_bits(GetParam());
        for (size_t i = 0; i < block.size(); ++i) {
            uint32_t code = 0;
            for (uint32_t bit = 0; bit < bits; ++bit) {
                const size_t at = i * bits + bit;
                code |= (static_cast<uint32_t>(encoded.codes[at / 8]) >> at % 8 & 1) << bit;
            }
            ASSERT_EQ(reference.codes[i], code) << "round " << round << " element " << i << ": " << block[i];
        }
        const std::vector<float> expected = decoded(GetParam(), encoded, block.size());
        send_block(GetParam(), block);
        ASSERT_EQ(std::memcmp(block.data(), expected.data(), block.size() * sizeof(float)), 0)
            << "round " << round;
    }
}

TEST_P(RowReference, EncodedRowsAreThoseOfTheEngineInAnyPart) {
    const uint64_t seed = test::seed_of_run();
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (const uint32_t hidden : {128U, 320U, 2880U, 7168U}) {
        const Activations activations(seed, hidden);
        const EncodedRows rows(activations, GetParam());
        for (uint32_t token = 0; token < 40; ++token) {
            const RowName name = activations.expert_output(3, token, 5);
            std::vector<uint16_t> bf16(hidden);
            activations.fill(name, bf16);
            const Encoded encoded = by_the_engine(GetParam(), std::span<const uint16_t>(bf16));
            ASSERT_EQ(encoded.codes.size(), rows.code_bytes());
            ASSERT_EQ(encoded.scales.size(), rows.scale_bytes());
            const std::vector<float> values = decoded(GetParam(), encoded, hidden);
            for (int part = 0; part < 20; ++part) {
                // Payload begins on even bytes, and whole elements lie in memory.
                const uint32_t code = static_cast<uint32_t>(random() % rows.code_bytes()) & ~1U;
                std::vector<std::byte> codes((random() % (rows.code_bytes() - code) + 1) & ~1ULL);
                rows.fill_codes(name, codes, code);
                ASSERT_TRUE(std::equal(codes.begin(), codes.end(), encoded.codes.begin() + code));
                const auto element = static_cast<uint32_t>(random() % hidden);
                std::vector<float> some(random() % (hidden - element) + 1);
                rows.fill_values(name, some, element);
                ASSERT_EQ(std::memcmp(some.data(), values.data() + element, some.size() * sizeof(float)), 0);
                if (rows.scale_bytes() == 0) continue;
                const auto scale = static_cast<uint32_t>(random() % rows.scale_bytes());
                std::vector<std::byte> scales(random() % (rows.scale_bytes() - scale) + 1);
                rows.fill_scales(name, scales, scale);
                ASSERT_TRUE(std::equal(scales.begin(), scales.end(), encoded.scales.begin() + scale));
            }
        }
    }
}

}  // namespace
}  // namespace plait::sim
