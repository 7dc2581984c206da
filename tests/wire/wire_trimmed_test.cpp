// What a switch leaves of a frame that it trims, and what is read of it.
#include <gtest/gtest.h>

#include "samples.hpp"

namespace plait::firmware::wire_test {
namespace {

Bytes trimmed(const Sample& sample, bool is_ipv6) {
    Bytes frame = frame_of(sample, is_ipv6);
    frame.resize(trim_frame(frame));
    return frame;
}

Sample long_write() { return make_sample("write", Opcode::mp_write, 4096); }

TEST(WireTrimmed, QueuePairPsnAndPathAreLeft) {
    for (const bool is_ipv6 : {false, true}) {
        Sample sample = long_write();
        sample.packet.congestion = true;
        const Bytes frame = trimmed(sample, is_ipv6);
        ASSERT_EQ(frame.size(), trimmed_frame_bytes);
        const DecodedFrame decoded = decode_frame(frame);
        ASSERT_EQ(decoded.reason, DropReason::none) << name(decoded.reason);
        EXPECT_TRUE(decoded.packet.trimmed);
        EXPECT_EQ(decoded.packet.opcode, sample.packet.opcode);
        EXPECT_EQ(decoded.packet.qpn, sample.packet.qpn);
        EXPECT_EQ(decoded.packet.psn, sample.packet.psn);
        EXPECT_EQ(decoded.packet.entropy, sample.packet.entropy);
        EXPECT_TRUE(decoded.packet.congestion);
        EXPECT_EQ(decoded.packet.payload_bytes, 0);
        EXPECT_TRUE(decoded.payload.empty());
        EXPECT_EQ(decoded.addresses, sample_addresses(is_ipv6));
    }
}

TEST(WireTrimmed, ShortFramesAreLetBe) {
    for (const bool is_ipv6 : {false, true}) {
        const std::size_t headers = frame_of(make_sample("write", Opcode::mp_write, 0), is_ipv6).size();
        const std::size_t fits = (trimmed_frame_bytes - headers) / 4 * 4;
        Bytes frame = frame_of(make_sample("write", Opcode::mp_write, fits), is_ipv6);
        const Bytes before = frame;
        EXPECT_EQ(trim_frame(frame), 0U);
        EXPECT_EQ(frame, before);
        frame = frame_of(make_sample("write", Opcode::mp_write, fits + 1), is_ipv6);
        EXPECT_EQ(trim_frame(frame), trimmed_frame_bytes);
    }
}

TEST(WireTrimmed, AWholeFrameOfThatCodePointStillNeedsItsIcrc) {
    Bytes frame = frame_of(long_write(), false);
    trim_frame(frame);  // marks it; here nothing is cut
    EXPECT_EQ(decode_frame(frame).reason, DropReason::none);
    EXPECT_FALSE(decode_frame(frame).packet.trimmed);
    frame[100] ^= 1;
    EXPECT_EQ(decode_frame(frame).reason, DropReason::icrc);
}

TEST(WireTrimmed, AShortFrameOfAnotherCodePointIsTruncated) {
    for (const bool is_ipv6 : {false, true}) {
        Bytes frame = frame_of(long_write(), is_ipv6);
        frame.resize(trimmed_frame_bytes);
        EXPECT_EQ(decode_frame(frame).reason, DropReason::truncated);
    }
}

TEST(WireTrimmed, LessThanItsHeadersIsTruncated) {
    for (const bool is_ipv6 : {false, true}) {
        const Bytes frame = trimmed(long_write(), is_ipv6);
        // As far as an ICRC's room behind the BTH, which every frame has.
        const std::size_t least = Ethernet::size_bytes + (is_ipv6 ? Ipv6::size_bytes : Ipv4::size_bytes) +
                                  Udp::size_bytes + Bth::size_bytes + 4;
        for (std::size_t size = 0; size <= frame.size(); ++size) {
            const Bytes cut(frame.begin(), frame.begin() + static_cast<long>(size));
            ASSERT_EQ(decode_frame(cut).reason, size < least ? DropReason::truncated : DropReason::none)
                << size;
        }
    }
}

TEST(WireTrimmed, WhatNobodySendsSoLongIsMalformed) {
    Bytes frame = trimmed(long_write(), false);
    frame[14 + 20 + 8] = static_cast<std::uint8_t>(Opcode::mp_ack);
    EXPECT_EQ(decode_frame(frame).reason, DropReason::malformed);
    frame[14 + 20 + 8] = static_cast<std::uint8_t>(Opcode::mp_read_request);
    EXPECT_EQ(decode_frame(frame).reason, DropReason::opcode);
}

TEST(WireTrimmed, TheSwitchDoesNotMendAnIpHeader) {
    Bytes frame = frame_of(long_write(), false);
    frame[14 + 12] ^= 1;  // the source address
    frame.resize(trim_frame(frame));
    EXPECT_EQ(decode_frame(frame).reason, DropReason::ip_header);
}

}  // namespace
}  // namespace plait::firmware::wire_test
