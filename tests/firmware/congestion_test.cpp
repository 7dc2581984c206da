// The rules of NSCC: start, growth, hold, decrease; expected values worked out by hand.

#include <gtest/gtest.h>

#include <plait/firmware/congestion.hpp>

namespace plait::firmware {
namespace {

constexpr std::uint32_t base_rtt_ns = 4000;
constexpr std::uint32_t mtu = 4096;
constexpr std::uint32_t bdp = 400 / 8 * base_rtt_ns;  // 400 Gb/s = 50 bytes a ns: 200'000 bytes
constexpr std::uint32_t initial = 8 * mtu;

CongestionWindow made() {
    CongestionWindow window;
    window.reset({.base_rtt_ns = base_rtt_ns, .rate_gbps = 400, .mtu_bytes = mtu});
    return window;
}

/// A window of 131'072 bytes (32 MTU) after two doublings and the end of the start: a mark with low delay.
CongestionWindow started() {
    CongestionWindow window = made();
    window.on_ack(initial, base_rtt_ns, false, 0);
    window.on_ack(2 * initial, base_rtt_ns, false, 0);
    window.on_ack(mtu, base_rtt_ns, true, 0);
    return window;
}
constexpr std::uint32_t started_bytes = 131'072;

TEST(Congestion, StartsWithEightPackets) { EXPECT_EQ(made().bytes(), initial); }

TEST(Congestion, StartsWithNoMoreThanOneBandwidthDelayProduct) {
    CongestionWindow window;
    window.reset({.base_rtt_ns = 400, .rate_gbps = 400, .mtu_bytes = mtu});
    EXPECT_EQ(window.bytes(), 20'000U);  // one product: 50 bytes a ns for 400 ns
}

TEST(Congestion, DoublesEachWindowUntilAQueueIsSeen) {
    CongestionWindow window = made();
    window.on_ack(initial, base_rtt_ns, false, 0);
    EXPECT_EQ(window.bytes(), 2 * initial);
    window.on_ack(2 * initial, base_rtt_ns + base_rtt_ns / 2, false, 0);  // half a target is no queue yet
    EXPECT_EQ(window.bytes(), 4 * initial);
    EXPECT_EQ(window.bytes(), started_bytes);
}

TEST(Congestion, AQueueEndsTheStartForGood) {
    CongestionWindow window = made();
    window.on_ack(mtu, base_rtt_ns, false, 0);  // still starting: as much as was acknowledged
    EXPECT_EQ(window.bytes(), initial + mtu);   // 36'864
    // Delay 3000 of target 4000: a quarter of 4 MTU + window / 8 = 16'384 + 4608 = 20'992, so 5248.
    window.on_ack(36'864, 7000, false, 0);
    EXPECT_EQ(window.bytes(), 42'112U);
    // Without delay again, yet no doubling: 16'384 + 42'112 / 8 = 21'648.
    window.on_ack(42'112, base_rtt_ns, false, 0);
    EXPECT_EQ(window.bytes(), 63'760U);
}

TEST(Congestion, EachTrimmedPacketTakesItsLength) {
    CongestionWindow window = started();
    EXPECT_TRUE(window.on_trimmed(mtu + 100));
    EXPECT_TRUE(window.on_trimmed(mtu + 100));  // in the same round trip
    EXPECT_EQ(window.bytes(), started_bytes - 2 * (mtu + 100));
    while (window.on_trimmed(mtu)) EXPECT_GE(window.bytes(), mtu);
    EXPECT_EQ(window.bytes(), mtu);
    window.set_floor(4);
    EXPECT_FALSE(window.on_trimmed(mtu));
    EXPECT_EQ(window.bytes(), 4 * mtu);
}

TEST(Congestion, ATrimmedPacketEndsTheStart) {
    CongestionWindow window = made();
    EXPECT_TRUE(window.on_trimmed(mtu));  // 7 MTU = 28'672 are left
    // No delay: 4 MTU + 28'672 / 8 = 19'968 for a window, not all of it.
    window.on_ack(28'672, base_rtt_ns, false, 0);
    EXPECT_EQ(window.bytes(), 28'672U + 19'968U);
}

TEST(Congestion, AMarkEndsTheStart) {
    CongestionWindow window = made();
    window.on_ack(initial, base_rtt_ns, true, 0);
    EXPECT_EQ(window.bytes(), initial);  // held
    window.on_ack(initial, base_rtt_ns, false, 0);
    EXPECT_EQ(window.bytes(), 53'248U);  // 32'768 + 16'384 + 4096, not doubled
}

TEST(Congestion, GrowsInProportionToTheDistanceFromTheTarget) {
    ASSERT_EQ(started().bytes(), started_bytes);
    CongestionWindow idle = started();
    idle.on_ack(started_bytes, base_rtt_ns, false, 0);
    EXPECT_EQ(idle.bytes(), 163'840U);  // 131'072 + 16'384 + 16'384
    CongestionWindow half = started();
    half.on_ack(started_bytes, 6000, false, 0);  // delay 2000 of target 4000
    EXPECT_EQ(half.bytes(), 147'456U);           // half of that gain
    CongestionWindow at_target = started();
    at_target.on_ack(started_bytes, 8000, false, 0);
    EXPECT_EQ(at_target.bytes(), started_bytes);
}

TEST(Congestion, KeepsWhatIsLessThanAByte) {
    // The gain is 32'768 bytes for 131'072 acknowledged: a quarter of a byte for each, so the fourth makes
    // one.
    CongestionWindow window = started();
    for (int i = 0; i < 3; ++i) window.on_ack(1, base_rtt_ns, false, 0);
    EXPECT_EQ(window.bytes(), started_bytes);
    window.on_ack(1, base_rtt_ns, false, 0);
    EXPECT_EQ(window.bytes(), started_bytes + 1);
}

TEST(Congestion, BaseRoundTripIsTheSmallestOfDataBetweenHalfTheConfiguredOneAndIt) {
    CongestionWindow window = made();
    EXPECT_EQ(window.base_rtt_ns(), base_rtt_ns);  // nothing seen
    window.on_ack(mtu, 5000, false, 0);            // never above the configured one
    EXPECT_EQ(window.min_rtt_ns(), 5000U);
    EXPECT_EQ(window.base_rtt_ns(), base_rtt_ns);
    window.on_ack(mtu, 3000, false, 0);
    EXPECT_EQ(window.base_rtt_ns(), 3000U);
    window.on_ack(mtu, 3500, false, 0);  // larger ones change nothing
    EXPECT_EQ(window.base_rtt_ns(), 3000U);
    window.on_ack(mtu, 1000, false, 0);  // never below half the configured one
    EXPECT_EQ(window.min_rtt_ns(), 1000U);
    EXPECT_EQ(window.base_rtt_ns(), 2000U);
}

TEST(Congestion, SmallPacketsDoNotMoveTheBaseRoundTrip) {
    CongestionWindow window = made();
    window.on_ack(mtu - 1, 2500, false, 0);
    EXPECT_EQ(window.min_rtt_ns(), 0U);
    EXPECT_EQ(window.base_rtt_ns(), base_rtt_ns);
    EXPECT_EQ(window.smoothed_rtt_ns(), 3812U);  // (7 * 4000 + 2500) / 8: they do count here
    window.on_ack(mtu, 2500, false, 0);
    EXPECT_EQ(window.base_rtt_ns(), 2500U);
}

TEST(Congestion, DelayIsMeasuredAboveTheSmallestRoundTripSeen) {
    CongestionWindow window = started();
    window.on_ack(mtu, 2000, false, 0);  // base and target become 2000; the cap 50 * 2000 * 3 / 2 = 150'000
    // 4096 of 131'072 bytes acknowledged, a 32nd of the gain of 32'768: 1024.
    EXPECT_EQ(window.bytes(), 132'096U);
    // Delay 1000 of target 2000: half of 16'384 + 132'096 / 8 = 32'896, so 16'448.
    window.on_ack(132'096, 3000, false, 0);
    EXPECT_EQ(window.bytes(), 148'544U);
}

TEST(Congestion, NeverMoreThanOneAndAHalfBandwidthDelayProducts) {
    CongestionWindow starting = made();
    for (int i = 0; i < 100; ++i) starting.on_ack(bdp, base_rtt_ns, false, 0);
    EXPECT_EQ(starting.bytes(), bdp * 3 / 2);
    CongestionWindow later = started();
    for (int i = 0; i < 100; ++i) later.on_ack(bdp, base_rtt_ns, false, 0);
    EXPECT_EQ(later.bytes(), bdp * 3 / 2);
}

TEST(Congestion, HighDelayWithoutMarksGrowsByOneMtuAWindow) {
    CongestionWindow window = started();
    window.on_ack(started_bytes, 3 * base_rtt_ns, false, 0);
    EXPECT_EQ(window.bytes(), started_bytes + mtu);
    CongestionWindow starting = made();  // the first queue ends the start at once
    starting.on_ack(initial, 3 * base_rtt_ns, false, 0);
    EXPECT_EQ(starting.bytes(), initial + mtu);
}

TEST(Congestion, MarksWithLowDelayHold) {
    CongestionWindow window = started();
    window.on_ack(started_bytes, 2 * base_rtt_ns, true, 0);  // at the target, not above it
    EXPECT_EQ(window.bytes(), started_bytes);
}

TEST(Congestion, MarksWithHighDelayShrinkOnceABaseRoundTrip) {
    CongestionWindow window = started();
    // The smoothed delay comes from 64 samples of three times the base: 2 targets, so a cut of 0.8 / 2 = 0.4.
    for (int i = 0; i < 64; ++i) window.on_ack(0, 3 * base_rtt_ns, false, 0);
    const std::uint32_t before = window.bytes();
    ASSERT_EQ(before, started_bytes);
    window.on_ack(mtu, 3 * base_rtt_ns, true, 100'000);
    EXPECT_NEAR(window.bytes(), before * 6 / 10, before / 200);
    const std::uint32_t after = window.bytes();
    window.on_ack(mtu, 3 * base_rtt_ns, true, 100'000 + base_rtt_ns - 1);
    EXPECT_EQ(window.bytes(), after);
    window.on_ack(mtu, 3 * base_rtt_ns, true, 100'000 + base_rtt_ns);
    EXPECT_NEAR(window.bytes(), after * 6 / 10, after / 200);
}

TEST(Congestion, NeverCutByMoreThanHalfNorBelowOneMtu) {
    CongestionWindow window = started();
    for (int i = 0; i < 64; ++i) window.on_ack(0, 100 * base_rtt_ns, false, 0);
    window.on_ack(mtu, 100 * base_rtt_ns, true, 1'000'000);
    EXPECT_EQ(window.bytes(), started_bytes / 2);
    for (std::uint64_t i = 2; i < 100; ++i) window.on_ack(mtu, 100 * base_rtt_ns, true, i * 1'000'000);
    EXPECT_EQ(window.bytes(), mtu);
    window.on_timeout();
    EXPECT_EQ(window.bytes(), mtu);
}

TEST(Congestion, WithoutARoundTripNothingChanges) {
    CongestionWindow window = made();
    window.on_ack(bdp, 0, true, 0);
    EXPECT_EQ(window.bytes(), initial);
    EXPECT_EQ(window.min_rtt_ns(), 0U);
    window.on_ack(initial, base_rtt_ns, false, 0);  // the mark without a round trip did not end the start
    EXPECT_EQ(window.bytes(), 2 * initial);
}

TEST(Congestion, RefusalsAndTimeoutsShrink) {
    CongestionWindow window = made();
    window.on_refusal(10);
    EXPECT_EQ(window.bytes(), 24'576U);  // three quarters of 32'768
    window.on_refusal(11);
    EXPECT_EQ(window.bytes(), 24'576U);
    window.on_timeout();
    EXPECT_EQ(window.bytes(), 12'288U);
    window.on_refusal(10 + base_rtt_ns);
    EXPECT_EQ(window.bytes(), 9216U);
}

TEST(Congestion, NeverBelowAFloor) {
    CongestionWindow window = made();
    window.set_floor(6);
    EXPECT_EQ(window.bytes(), initial);
    window.on_timeout();
    EXPECT_EQ(window.bytes(), 6U * mtu);
    window.set_floor(7);
    EXPECT_EQ(window.bytes(), 7U * mtu);
    window.set_floor(1);
    window.on_timeout();
    EXPECT_EQ(window.bytes(), 7U * mtu / 2);
}

TEST(Congestion, ResetForgetsEverything) {
    CongestionWindow window = started();
    window.set_floor(8);
    window.on_ack(mtu, 2000, false, 0);
    window.reset({.base_rtt_ns = base_rtt_ns, .rate_gbps = 400, .mtu_bytes = mtu});
    EXPECT_EQ(window.bytes(), initial);
    EXPECT_EQ(window.base_rtt_ns(), base_rtt_ns);
    EXPECT_EQ(window.smoothed_rtt_ns(), base_rtt_ns);
    window.on_ack(initial, base_rtt_ns, false, 0);
    EXPECT_EQ(window.bytes(), 2 * initial);  // starting again
    for (int i = 0; i < 8; ++i) window.on_timeout();
    EXPECT_EQ(window.bytes(), mtu);  // the floor too
}

}  // namespace
}  // namespace plait::firmware
