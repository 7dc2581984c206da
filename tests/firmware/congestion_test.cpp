// The rules of NSCC: growth, hold, decrease; expected values worked out by hand.

#include <gtest/gtest.h>

#include <plait/firmware/congestion.hpp>

namespace plait::firmware {
namespace {

constexpr std::uint32_t base_rtt_ns = 4000;
constexpr std::uint32_t bdp = 400 / 8 * base_rtt_ns;  // 400 Gb/s = 50 bytes a ns

CongestionWindow made() {
    CongestionWindow window;
    window.reset({.base_rtt_ns = base_rtt_ns, .rate_gbps = 400, .mtu_bytes = 4096});
    return window;
}

TEST(Congestion, StartsAtOneBandwidthDelayProduct) { EXPECT_EQ(made().bytes(), bdp); }

TEST(Congestion, GrowsInProportionToTheDistanceFromTheTarget) {
    CongestionWindow idle = made();
    idle.on_ack(bdp, base_rtt_ns, false, 0);  // no delay: a quarter of the BDP a window
    EXPECT_EQ(idle.bytes(), bdp + bdp / 4);
    CongestionWindow half = made();
    half.on_ack(bdp, base_rtt_ns * 3 / 2, false,
                0);  // half the target, after the base rose to 6000: no delay
    EXPECT_GT(half.bytes(), bdp);
}

TEST(Congestion, DelayIsMeasuredAboveTheSmallestRoundTripSeen) {
    CongestionWindow window = made();
    window.on_ack(1, 5000, false, 0);  // base becomes 5000
    EXPECT_EQ(window.base_rtt_ns(), 5000U);
    window.on_ack(1, 3000, false, 0);  // never below the configured one
    EXPECT_EQ(window.base_rtt_ns(), base_rtt_ns);
    const std::uint32_t before = window.bytes();
    window.on_ack(before, 6000, false, 0);  // delay 2000 of target 4000: half of a quarter BDP
    EXPECT_NEAR(window.bytes(), before + bdp / 8, 1);
}

TEST(Congestion, NeverMoreThanOneAndAHalfBandwidthDelayProducts) {
    CongestionWindow window = made();
    for (int i = 0; i < 100; ++i) window.on_ack(bdp, base_rtt_ns, false, 0);
    EXPECT_EQ(window.bytes(), bdp * 3 / 2);
}

TEST(Congestion, HighDelayWithoutMarksGrowsByOneMtuAWindow) {
    CongestionWindow window = made();
    window.on_ack(1, base_rtt_ns, false, 0);
    const std::uint32_t before = window.bytes();
    window.on_ack(before, 3 * base_rtt_ns, false, 0);
    EXPECT_NEAR(window.bytes(), before + 4096, 1);
}

TEST(Congestion, MarksWithLowDelayHold) {
    CongestionWindow window = made();
    window.on_ack(bdp, base_rtt_ns, true, 0);
    EXPECT_EQ(window.bytes(), bdp);
}

TEST(Congestion, MarksWithHighDelayShrinkOnceABaseRoundTrip) {
    CongestionWindow window = made();
    window.on_ack(1, base_rtt_ns, false, 0);
    // The smoothed delay comes from 64 samples of three times the base: 2 targets, so a cut of 0.8 / 2 = 0.4.
    for (int i = 0; i < 64; ++i) window.on_ack(0, 3 * base_rtt_ns, false, 0);
    const std::uint32_t before = window.bytes();
    window.on_ack(4096, 3 * base_rtt_ns, true, 100'000);
    EXPECT_NEAR(window.bytes(), before * 6 / 10, before / 200);
    const std::uint32_t after = window.bytes();
    window.on_ack(4096, 3 * base_rtt_ns, true, 100'000 + base_rtt_ns - 1);
    EXPECT_EQ(window.bytes(), after);
    window.on_ack(4096, 3 * base_rtt_ns, true, 100'000 + base_rtt_ns);
    EXPECT_LT(window.bytes(), after);
}

TEST(Congestion, NeverCutByMoreThanHalfNorBelowOneMtu) {
    CongestionWindow window = made();
    window.on_ack(1, base_rtt_ns, false, 0);
    for (int i = 0; i < 64; ++i) window.on_ack(0, 100 * base_rtt_ns, false, 0);
    const std::uint32_t before = window.bytes();
    window.on_ack(4096, 100 * base_rtt_ns, true, 1'000'000);
    EXPECT_GE(window.bytes(), before / 2);
    EXPECT_LE(window.bytes(), before / 2 + 1);
    for (std::uint64_t i = 2; i < 100; ++i) window.on_ack(4096, 100 * base_rtt_ns, true, i * 1'000'000);
    EXPECT_EQ(window.bytes(), 4096U);
    window.on_timeout();
    EXPECT_EQ(window.bytes(), 4096U);
}

TEST(Congestion, WithoutARoundTripNothingChanges) {
    CongestionWindow window = made();
    window.on_ack(bdp, 0, true, 0);
    EXPECT_EQ(window.bytes(), bdp);
    EXPECT_EQ(window.min_rtt_ns(), 0U);
}

TEST(Congestion, RefusalsAndTimeoutsShrink) {
    CongestionWindow window = made();
    window.on_refusal(10);
    EXPECT_EQ(window.bytes(), bdp * 3 / 4);
    window.on_refusal(11);
    EXPECT_EQ(window.bytes(), bdp * 3 / 4);
    window.on_timeout();
    EXPECT_EQ(window.bytes(), bdp * 3 / 8);
}

}  // namespace
}  // namespace plait::firmware
