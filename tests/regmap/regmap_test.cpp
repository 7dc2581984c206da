// The generated C++ and C of the fixture description against bytes and numbers worked out by hand.
#include <gtest/gtest.h>

#include <plait/regmap.h>
#include <array>
#include <cstring>
#include <plait/regmap.hpp>
#include <string>

namespace {
namespace rm = plait::regmap;

TEST(Constants, KeepTheirValue) {
    EXPECT_EQ(rm::small, 256u);
    EXPECT_EQ(rm::large, 4294967296u);
}

TEST(Enums, NamesAreTheDescriptionsAndOthersUnknown) {
    EXPECT_STREQ(rm::name(rm::Colour::deep_blue), "deep_blue");
    EXPECT_STREQ(rm::name(static_cast<rm::Colour>(2)), "unknown");
    EXPECT_EQ(rm::colour_count, 3u);
    EXPECT_TRUE(rm::is_known(static_cast<rm::Colour>(200)));
    EXPECT_FALSE(rm::is_known(static_cast<rm::Colour>(199)));
    EXPECT_EQ(rm::wavelength_nm(rm::Colour::deep_blue), 440u);
    EXPECT_EQ(rm::wavelength_nm(static_cast<rm::Colour>(199)), 0u);
}

TEST(ForC, ConstantsAndEnumsAreTheSame) {
    EXPECT_EQ(PLAIT_SMALL, 256U);
    EXPECT_EQ(PLAIT_LARGE, 4294967296U);
    const plait_colour colour = PLAIT_COLOUR_DEEP_BLUE;
    EXPECT_EQ(colour, 200U);
    EXPECT_EQ(PLAIT_COLOUR_DEEP_BLUE_WAVELENGTH_NM, 440U);
    EXPECT_EQ(sizeof colour, 4U);
}

TEST(Records, LieInMemoryAsDescribed) {
    rm::Outer outer;
    outer.colour = rm::Colour::deep_blue;
    outer.ratio = 1.0F;
    outer.balance = -2;
    outer.counts[3] = 0x1234;
    outer.release = 0x0102030405060708;
    outer.inner[1].a = 0xa1a2a3a4;
    outer.inner[1].b = 0xb1b2;
    outer.inner[1].c[1] = 0xcc;
    std::array<std::uint8_t, 48> bytes{};
    std::memcpy(bytes.data(), &outer, sizeof outer);
    const std::array<std::uint8_t, 48> expected{
        200, 0, 0, 0, 0, 0, 0x80, 0x3f, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0,   0, 0, 0, 0, 0, 0x34, 0x12, 8,    7,    6,    5,    4,    3,    2,    1,
        0,   0, 0, 0, 0, 0, 0,    0,    0xa4, 0xa3, 0xa2, 0xa1, 0xb2, 0xb1, 0,    0xcc};
    EXPECT_EQ(bytes, expected);
}

constexpr std::array<std::uint8_t, 34> mixed_bytes{
    // version 4, flag 1, two reserved, crossing 0x1abc (1'1010'1011'1100), tail 0x9
    0x49, 0xab, 0xc9, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06,                               // address
    0xf0, 1,    2,    3,    4,    5,    6,    7,    8,    9, 10, 11, 12, 13, 14, 0x0f,  // bytes
    0x01,                                                                               // last
    0xde, 0xad, 0xbe, 0xef, 0x00, 0x11, 0x22, 0x33,
};

rm::Mixed mixed_value() {
    rm::Mixed mixed;
    mixed.flag = true;
    mixed.crossing = 0x1abc;
    mixed.tail = 9;
    mixed.address = 0x010203040506;
    for (std::uint8_t i = 0; i < 16; ++i) mixed.bytes[i] = i;
    mixed.bytes[0] = 0xf0;
    mixed.bytes[15] = 0x0f;
    mixed.word = 0xdeadbeef00112233;
    return mixed;
}

TEST(Headers, EncodeToTheBytesWorkedOutByHand) {
    std::array<std::uint8_t, 34> bytes;
    bytes.fill(0xff);  // encode must write reserved bits too
    mixed_value().encode(bytes.data());
    EXPECT_EQ(bytes, mixed_bytes);
}

TEST(Headers, DecodeIgnoresReservedBits) {
    auto bytes = mixed_bytes;
    EXPECT_EQ(rm::Mixed::decode(bytes.data()), mixed_value());
    bytes[0] |= 0x06;
    bytes[25] |= 0xfe;
    EXPECT_EQ(rm::Mixed::decode(bytes.data()), mixed_value());
}

TEST(Headers, EveryBitReachesExactlyOneFieldOrIsReserved) {
    const rm::Mixed zero = rm::Mixed::decode(std::array<std::uint8_t, 34>{}.data());
    int reserved = 0;
    for (std::size_t bit = 0; bit < 34 * 8; ++bit) {
        std::array<std::uint8_t, 34> bytes{};
        bytes[bit / 8] = static_cast<std::uint8_t>(0x80u >> (bit % 8));
        const rm::Mixed decoded = rm::Mixed::decode(bytes.data());
        std::array<std::uint8_t, 34> again;
        decoded.encode(again.data());
        if (decoded == zero) {
            ++reserved;
        } else {
            EXPECT_EQ(again, bytes) << "bit " << bit;
        }
    }
    EXPECT_EQ(reserved, 2 + 7);
}

TEST(Headers, AValueTooWideDoesNotFitAndLeavesItsNeighboursAlone) {
    rm::Mixed mixed = mixed_value();
    EXPECT_TRUE(mixed.fits());
    mixed.crossing = 0x3abc;
    EXPECT_FALSE(mixed.fits());
    std::array<std::uint8_t, 34> bytes{};
    mixed.encode(bytes.data());
    EXPECT_EQ(bytes, mixed_bytes);
    mixed = mixed_value();
    mixed.address = 1ull << 48;
    EXPECT_FALSE(mixed.fits());
}

TEST(Headers, DefaultsComeFromTheDescription) {
    const rm::Mixed mixed;
    EXPECT_EQ(mixed.version, 4);
    EXPECT_TRUE(mixed.last);
    EXPECT_FALSE(mixed.flag);
}

TEST(Registers, OffsetsMasksAndShifts) {
    EXPECT_EQ(rm::reg::control_offset, 0x0cu);
    EXPECT_EQ(rm::reg::control_reset_mask, 1u);
    EXPECT_EQ(rm::reg::control_reset_shift, 0u);
    EXPECT_EQ(rm::reg::control_mode_mask, 0x70u);
    EXPECT_EQ(rm::reg::control_mode_shift, 4u);
    EXPECT_EQ(rm::reg::control_reset_value, 0x30u);
    EXPECT_EQ(rm::reg::doorbell_count, 4u);
    EXPECT_EQ(rm::reg::doorbell_stride, 0x10u);
    static_assert(sizeof(rm::reg::doorbell_reset_value) == 8);
}

}  // namespace
