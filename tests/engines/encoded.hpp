#pragma once

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <plait/engines/bf16.hpp>
#include <plait/engines/quantise.hpp>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plait::engines::test {

struct NamedFormat {
    const char* name;
    RowFormat format;
};

inline constexpr NamedFormat row_formats[] = {{"bf16", RowFormat::bf16},
                                              {"e4m3_f32", RowFormat::e4m3_f32},
                                              {"e4m3_ue8m0", RowFormat::e4m3_ue8m0},
                                              {"e5m2_f32", RowFormat::e5m2_f32},
                                              {"e5m2_ue8m0", RowFormat::e5m2_ue8m0},
                                              {"f32", RowFormat::f32},
                                              {"logfmt8", RowFormat::logfmt8},
                                              {"logfmt10", RowFormat::logfmt10}};

inline std::string name_of(const testing::TestParamInfo<NamedFormat>& info) { return info.param.name; }
inline void PrintTo(const NamedFormat& format, std::ostream* stream) { *stream << format.name; }

/// An encoded row with its memory.
struct Encoded {
    Encoded(RowFormat row_format, size_t elements)
        : format(row_format), codes(code_bytes(format, elements)), scales(scale_bytes(format, elements)) {}

    EncodedRow view() const { return {format, codes, scales}; }
    uint8_t code(size_t i) const { return static_cast<uint8_t>(codes[i]); }
    uint8_t byte_scale(size_t block) const { return static_cast<uint8_t>(scales[block]); }
    float float_scale(size_t block) const {
        float scale;
        std::memcpy(&scale, &scales[block * 4], sizeof scale);
        return scale;
    }

    RowFormat format;
    std::vector<std::byte> codes;
    std::vector<std::byte> scales;
    uint32_t non_finite = 0;

    bool operator==(const Encoded&) const = default;
};

/// `Element` is uint16_t (BF16) or float.
template <typename Element>
Encoded encode(RowFormat format, const std::vector<Element>& row) {
    Encoded result(format, row.size());
    const auto answer = encode_row(format, std::span(row), result.codes, result.scales);
    EXPECT_TRUE(answer.has_value());
    result.non_finite = answer.value_or(0);
    return result;
}

inline std::vector<float> decode(const Encoded& row, size_t elements) {
    std::vector<float> values(elements);
    EXPECT_TRUE(decode_row(row.view(), std::span(values)));
    return values;
}

inline std::vector<uint16_t> decode_to_bf16(const Encoded& row, size_t elements) {
    std::vector<uint16_t> values(elements);
    EXPECT_TRUE(decode_row(row.view(), std::span(values)));
    return values;
}

inline std::vector<float> normal_floats(std::mt19937& random, size_t count, float sigma) {
    std::normal_distribution<float> normal(0, sigma);
    std::vector<float> row(count);
    for (float& x : row) x = normal(random);
    return row;
}

inline std::vector<uint16_t> normal_row(std::mt19937& random, size_t count, float sigma) {
    std::vector<uint16_t> row;
    for (const float x : normal_floats(random, count, sigma)) row.push_back(float_to_bf16(x));
    return row;
}

}  // namespace plait::engines::test
