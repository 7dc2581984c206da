#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <plait/engines/bf16.hpp>
#include <plait/engines/fp8.hpp>

#include "fp8_reference.hpp"

namespace plait::engines {
namespace {

struct Codec {
    const char* name;
    test::Fp8Format format;
    uint8_t (*encode)(float);
    float (*decode)(uint8_t);
};

void PrintTo(const Codec& codec, std::ostream* stream) { *stream << codec.name; }

class Fp8 : public testing::TestWithParam<Codec> {};

TEST_P(Fp8, EveryCodeDecodesToItsDefinedValueAndBack) {
    const auto& [name, format, encode, decode] = GetParam();
    for (uint32_t code = 0; code < 256; ++code) {
        const uint32_t magnitude = code & 0x7F;
        if (magnitude > format.max_code) continue;
        const float value = decode(static_cast<uint8_t>(code));
        EXPECT_EQ(std::fabs(static_cast<double>(value)), format.value(magnitude)) << code;
        EXPECT_EQ(std::signbit(value), code > 127) << code;
        EXPECT_EQ(encode(value), code);
    }
}

TEST_P(Fp8, RoundsToNearestEvenAroundEveryCode) {
    const auto& [name, format, encode, decode] = GetParam();
    for (uint32_t low = 0; low < format.max_code; ++low) {
        const auto middle = static_cast<float>((format.value(low) + format.value(low + 1)) / 2);
        for (float value : {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, INFINITY)}) {
            EXPECT_EQ(encode(value), format.nearest(value)) << value;
            EXPECT_EQ(encode(-value), format.nearest(-value)) << -value;
        }
    }
}

TEST_P(Fp8, EveryBf16EncodesToTheNearestCode) {
    const auto& [name, format, encode, decode] = GetParam();
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
        const float value = bf16_to_float(static_cast<uint16_t>(bits));
        ASSERT_EQ(encode(value), std::isnan(value) ? fp8_nan : format.nearest(value)) << value;
    }
}

TEST_P(Fp8, Saturates) {
    const auto& [name, format, encode, decode] = GetParam();
    const auto largest = static_cast<float>(format.value(format.max_code));
    for (float value : {std::nextafter(largest, INFINITY), 1.05f * largest, 2 * largest, 3.4e38f, INFINITY}) {
        EXPECT_EQ(encode(value), format.max_code) << value;
        EXPECT_EQ(encode(-value), format.max_code | 0x80) << value;
    }
}

INSTANTIATE_TEST_SUITE_P(Formats, Fp8,
                         testing::Values(Codec{"E4M3", test::e4m3, float_to_e4m3, e4m3_to_float},
                                         Codec{"E5M2", test::e5m2, float_to_e5m2, e5m2_to_float}),
                         [](const auto& codec) { return codec.param.name; });

// Table 1 of the OCP specification.
TEST(Fp8Specification, Limits) {
    EXPECT_EQ(e4m3_to_float(0x7E), 448.0f);
    EXPECT_EQ(e4m3_to_float(0x08), 0x1p-6f);
    EXPECT_EQ(e4m3_to_float(0x07), 0.875f * 0x1p-6f);
    EXPECT_EQ(e4m3_to_float(0x01), 0x1p-9f);
    EXPECT_EQ(e5m2_to_float(0x7B), 57344.0f);
    EXPECT_EQ(e5m2_to_float(0x04), 0x1p-14f);
    EXPECT_EQ(e5m2_to_float(0x03), 0.75f * 0x1p-14f);
    EXPECT_EQ(e5m2_to_float(0x01), 0x1p-16f);
}

TEST(Fp8Specification, InfinitiesAndNaN) {
    for (const uint8_t code : std::initializer_list<uint8_t>{0x7F, 0xFF})
        EXPECT_TRUE(std::isnan(e4m3_to_float(code)));
    EXPECT_EQ(e5m2_to_float(0x7C), INFINITY);
    EXPECT_EQ(e5m2_to_float(0xFC), -INFINITY);
    for (const uint8_t code : std::initializer_list<uint8_t>{0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF})
        EXPECT_TRUE(std::isnan(e5m2_to_float(code)));
    for (uint32_t bits : {0x7F800001u, 0x7FC00000u, 0xFFFFFFFFu}) {
        EXPECT_EQ(float_to_e4m3(std::bit_cast<float>(bits)), fp8_nan);
        EXPECT_EQ(float_to_e5m2(std::bit_cast<float>(bits)), fp8_nan);
    }
}

// Section 5.4.1 of the OCP specification "Microscaling Formats".
TEST(Ue8m0Specification, EveryCode) {
    for (int code = 0; code < 255; ++code)
        EXPECT_EQ(ue8m0_to_float(static_cast<uint8_t>(code)), std::ldexp(1.0f, code - 127)) << code;
    EXPECT_TRUE(std::isnan(ue8m0_to_float(255)));
}

}  // namespace
}  // namespace plait::engines
