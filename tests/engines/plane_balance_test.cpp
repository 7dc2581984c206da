// Evenness of a queue pair's planes.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>

#include <plait/engines/plane_balance.hpp>

namespace plait::engines {
namespace {

TEST(PlaneBalance, AllAreBehindAtFirst) {
    PlaneBalance balance;
    EXPECT_EQ(balance.behind(0b1111), 0b1111U);
    EXPECT_EQ(balance.behind(0b0101), 0b0101U);
    EXPECT_EQ(balance.behind(0), 0U);
}

TEST(PlaneBalance, ThePlaneWithTheFewestBytesIsBehind) {
    PlaneBalance balance;
    balance.sent(0, 4096);
    balance.sent(1, 4096);
    balance.sent(2, 3296);
    EXPECT_EQ(balance.behind(0b0111), 0b0100U);
    balance.sent(2, 800);
    EXPECT_EQ(balance.behind(0b0111), 0b0111U);
}

/// Packets of two sizes in turn, over an even number of planes: a rotation would give some planes the long
/// ones only.
TEST(PlaneBalance, NoPlaneRunsAheadByMoreThanAPacket) {
    PlaneBalance balance;
    std::array<std::uint32_t, 4> bytes{};
    for (std::uint32_t packet = 0; packet < 1000; ++packet) {
        const std::uint32_t behind = balance.behind(0b1111);
        ASSERT_NE(behind, 0U);
        const auto plane = static_cast<std::uint8_t>(std::countr_zero(behind));
        const std::uint32_t length = packet % 2 == 0 ? 4096 : 3296;
        balance.sent(plane, length);
        bytes[plane] += length;
        const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
        ASSERT_LE(*most - *least, 4096U) << "packet " << packet;
    }
}

TEST(PlaneBalance, APlaneThatReturnsHasNothingToCatchUpWith) {
    PlaneBalance balance;
    for (int i = 0; i < 100; ++i) {
        balance.sent(0, 4096);
        EXPECT_EQ(balance.behind(0b0001), 0b0001U);  // plane 1 is down
    }
    EXPECT_EQ(balance.behind(0b0011), 0b0011U);
    balance.sent(1, 4096);
    EXPECT_EQ(balance.behind(0b0011), 0b0001U);
}

}  // namespace
}  // namespace plait::engines
