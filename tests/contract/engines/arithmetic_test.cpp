// The cells of arithmetic give the bits that the C++ engines' operations give.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <plait/engines/fp8.hpp>
#include <random>

#include "../../engines/seed.hpp"
#include "arithmetic_cells.hpp"

namespace plait::contract {
namespace {

float number(uint32_t bits) { return std::bit_cast<float>(bits); }

// Any NaN is the same one.
uint32_t bits_of(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    return (bits & 0x7FFF'FFFF) > 0x7F80'0000 ? 0x7FC0'0000 : bits;
}

// Where rounding, subnormals and what is no number change the result.
constexpr std::array<uint32_t, 24> corners{
    0,           1,           2,           3,           0x0000'0FFF, 0x003F'FFFF, 0x0040'0000, 0x007F'FFFE,
    0x007F'FFFF, 0x0080'0000, 0x0080'0001, 0x00FF'FFFF, 0x0100'0000, 0x3F7F'FFFF, 0x3F80'0000, 0x3F80'0001,
    0x3FFF'FFFF, 0x4B80'0000, 0x7EFF'FFFF, 0x7F00'0000, 0x7F7F'FFFF, 0x7F80'0000, 0x7F80'0001, 0x7FC0'1234};

/// Any bits; exponents near each other; few bits set, so that ties come up; near the smallest numbers.
uint32_t random_number(std::mt19937_64& random) {
    const auto bits = static_cast<uint32_t>(random());
    switch (random() % 8) {
        case 0:
        case 1: return bits;
        case 2: return (bits & 0x807F'FFFF) | static_cast<uint32_t>(120 + random() % 16) << 23;
        case 3: return (bits & 0xFFFF'0000 & ~0x7800'0000U) | 0x3000'0000U;
        case 4: return (bits & 0x807F'FFFF) | static_cast<uint32_t>(random() % 28) << 23;
        case 5: return (bits & 0x807F'F000) | static_cast<uint32_t>(100 + random() % 50) << 23;
        case 6: return (bits & 0x8000'0007) | static_cast<uint32_t>(random() % 255) << 23;
        default: return corners[random() % corners.size()] | (bits & 0x8000'0000);
    }
}

/// Of a product near the smallest numbers.
uint32_t partner_of(uint32_t a, std::mt19937_64& random) {
    const uint32_t exponent = a >> 23 & 0xFF;
    const auto wanted = static_cast<uint32_t>(127 + random() % 30);
    return (static_cast<uint32_t>(random()) & 0x807F'FFFF) | (exponent < wanted ? wanted - exponent : 0)
                                                                 << 23;
}

void agree_at_random(uint64_t operations) {
    const uint64_t seed = engines::test::seed_or(61);
    SCOPED_TRACE(engines::test::seed_message(seed));
    std::mt19937_64 random(seed);
    AddCell add;
    MultiplyCell multiply;
    for (uint64_t i = 0; i < operations; ++i) {
        const uint32_t a = random_number(random);
        const uint32_t b = random_number(random);
        ASSERT_EQ(add(a, b), bits_of(number(a) + number(b))) << std::hex << a << " + " << b;
        const uint32_t factor = random() % 2 ? b : partner_of(a, random);
        ASSERT_EQ(multiply(a, factor), bits_of(number(a) * number(factor)))
            << std::hex << a << " * " << factor;
    }
}

TEST(ArithmeticAgreement, SumsAndProductsOfCorners) {
    AddCell add;
    MultiplyCell multiply;
    for (const uint32_t x : corners) {
        for (const uint32_t y : corners) {
            for (const uint32_t signs : {0U, 1U, 2U, 3U}) {
                const uint32_t a = x | signs << 31;
                const uint32_t b = y | (signs >> 1) << 31;
                EXPECT_EQ(add(a, b), bits_of(number(a) + number(b))) << std::hex << a << " + " << b;
                EXPECT_EQ(multiply(a, b), bits_of(number(a) * number(b))) << std::hex << a << " * " << b;
            }
        }
    }
}

TEST(ArithmeticAgreement, RandomSumsAndProducts) { agree_at_random(300'000); }
TEST(ArithmeticAgreement, TwentyMillionRandomSumsAndProducts) { agree_at_random(20'000'000); }

// Of normal numbers with a normal quotient, which is all that blocks divide.
TEST(ArithmeticAgreement, RandomQuotients) {
    const uint64_t seed = engines::test::seed_or(62);
    SCOPED_TRACE(engines::test::seed_message(seed));
    std::mt19937_64 random(seed);
    DivideCell divide;
    for (int i = 0; i < 300'000; ++i) {
        const auto exponent = static_cast<uint32_t>(70 + random() % 110);
        const auto a = (static_cast<uint32_t>(random()) & 0x007F'FFFF) | exponent << 23;
        const auto b = (random_number(random) & 0x007F'FFFF) | static_cast<uint32_t>(70 + random() % 110)
                                                                   << 23;
        ASSERT_EQ(divide(a, b), bits_of(number(a) / number(b))) << std::hex << a << " / " << b;
    }
    EXPECT_EQ(divide(0, 0x42FC'0000), 0U);
}

TEST(ArithmeticAgreement, EveryFp8Code) {
    Fp8DecodeCell decode;
    for (uint32_t code = 0; code < 256; ++code) {
        const auto byte = static_cast<uint8_t>(code);
        EXPECT_EQ(decode(false, byte), bits_of(engines::e4m3_to_float(byte))) << code;
        EXPECT_EQ(decode(true, byte), bits_of(engines::e5m2_to_float(byte))) << code;
    }
}

TEST(ArithmeticAgreement, Fp8OfEveryBf16AndTheNumbersBesideIt) {
    Fp8EncodeCell encode;
    for (uint32_t upper = 0; upper < 0x1'0000; ++upper) {
        for (const uint32_t lower : {0U, 1U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
            const uint32_t bits = upper << 16 | lower;
            ASSERT_EQ(encode(false, bits), engines::float_to_e4m3(number(bits))) << std::hex << bits;
            ASSERT_EQ(encode(true, bits), engines::float_to_e5m2(number(bits))) << std::hex << bits;
        }
    }
}

}  // namespace
}  // namespace plait::contract
