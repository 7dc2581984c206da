// Whole frames: round trips, sizes, addresses, and what the encoder refuses.
#include <gtest/gtest.h>

#include "samples.hpp"

namespace plait::firmware::wire_test {
namespace {

TEST(WireFrame, EveryKindSurvivesTheRoundTrip) {
    for (const bool is_ipv6 : {false, true}) {
        for (const Sample& sample : mp_samples()) {
            SCOPED_TRACE(sample.name);
            const Bytes frame = frame_of(sample, is_ipv6);
            ASSERT_EQ(frame.size(), frame_bytes(sample.packet) + (is_ipv6 ? 20 : 0));
            const DecodedFrame decoded = decode_frame(frame);
            ASSERT_EQ(decoded.reason, DropReason::none) << name(decoded.reason);
            EXPECT_EQ(describe(decoded.packet), describe(sample.packet));
            EXPECT_EQ(Bytes(decoded.payload.begin(), decoded.payload.end()), sample.payload);
            EXPECT_EQ(decoded.addresses, sample_addresses(is_ipv6));
        }
    }
}

TEST(WireFrame, EveryPayloadSizeAroundThePad) {
    for (const std::size_t size : {0, 1, 2, 3, 4, 5, 255, 256, 4093, 4094, 4095, 4096}) {
        const Sample sample = make_sample("write", Opcode::mp_write, size);
        const Bytes frame = frame_of(sample, false);
        ASSERT_EQ(frame.size(), 14 + 20 + 8 + 12 + 16 + 12 + (size + 3) / 4 * 4 + 4);
        for (std::size_t pad = frame.size() - 4 - (0 - size) % 4; pad < frame.size() - 4; ++pad)
            EXPECT_EQ(frame[pad], 0);
        const DecodedFrame decoded = decode_frame(frame);
        ASSERT_EQ(decoded.reason, DropReason::none);
        EXPECT_EQ(Bytes(decoded.payload.begin(), decoded.payload.end()), sample.payload);
    }
}

TEST(WireFrame, TheLongestFrameFitsTheDeclaredLimit) {
    const Bytes frame = frame_of(row_sample("row", 0xff, 16, 4096), true);
    EXPECT_EQ(frame.size(), max_frame_bytes);
    EXPECT_EQ(decode_frame(frame).reason, DropReason::none);
}

TEST(WireFrame, CongestionIsTheEcnField) {
    Sample sample = make_sample("write", Opcode::mp_write, 4);
    EXPECT_EQ(frame_of(sample, false)[15] & 3, 2);
    sample.packet.congestion = true;
    for (const bool is_ipv6 : {false, true})
        EXPECT_TRUE(decode_frame(frame_of(sample, is_ipv6)).packet.congestion);
    EXPECT_EQ(frame_of(sample, false)[15] & 3, 3);
}

TEST(WireFrame, RcFramesGiveTheirBody) {
    Bth bth;
    bth.opcode = static_cast<std::uint8_t>(Opcode::rc_write_only_immediate);
    const Bytes extensions = encoded(Reth{.address = 1, .remote_key = 2, .length = 3}, ImmDt{.immediate = 4});
    const Bytes frame = roce_frame(vector_envelope(), bth, extensions, counting(3));
    const RoceFrame roce = decode_roce(frame);
    ASSERT_EQ(roce.reason, DropReason::none);
    EXPECT_EQ(roce.envelope, vector_envelope());
    EXPECT_EQ(roce.bth.pad_count, 1);
    Bytes body = extensions;
    for (const std::uint8_t byte : counting(3)) body.push_back(byte);
    EXPECT_EQ(Bytes(roce.body.begin(), roce.body.end()), body);
    EXPECT_EQ(decode_frame(frame).reason, DropReason::opcode);  // not an mp packet
}

TEST(WireFrame, EthernetPaddingIsAcceptedAndNothingElseBehindThePacket) {
    Bth bth;
    bth.opcode = static_cast<std::uint8_t>(Opcode::rc_send_only);
    Bytes frame = roce_frame(vector_envelope(), bth, {}, {});
    ASSERT_EQ(frame.size(), 58U);
    frame.resize(60);
    EXPECT_EQ(decode_roce(frame).reason, DropReason::none);
    frame.resize(61);
    EXPECT_EQ(decode_roce(frame).reason, DropReason::length);
}

TEST(WireFrame, TheEncoderRefusesAndWritesNothing) {
    const Sample good = make_sample("write", Opcode::mp_write, 5);
    const auto refused = [](const Packet& packet, const FrameAddresses& addresses, const Bytes& payload,
                            std::size_t room) {
        Bytes out(room, 0xee);
        const std::size_t size = encode_frame(packet, addresses, payload, out);
        return size == 0 && out == Bytes(room, 0xee);
    };
    const FrameAddresses addresses = sample_addresses(false);
    const std::size_t size = frame_of(good, false).size();
    EXPECT_FALSE(refused(good.packet, addresses, good.payload, size));
    EXPECT_TRUE(refused(good.packet, addresses, good.payload, size - 1));
    EXPECT_TRUE(refused(good.packet, addresses, counting(4), size));

    FrameAddresses mixed = addresses;
    mixed.source = sample_addresses(true).source;
    EXPECT_TRUE(refused(good.packet, mixed, good.payload, max_frame_bytes));
    FrameAddresses wide = addresses;
    wide.source_mac = 1ULL << 48;
    EXPECT_TRUE(refused(good.packet, wide, good.payload, max_frame_bytes));
    wide = addresses;
    wide.destination.low = 1ULL << 32;
    EXPECT_TRUE(refused(good.packet, wide, good.payload, max_frame_bytes));

    const auto refused_with = [&](auto change) {
        Sample sample = good;
        change(sample.packet);
        return refused(sample.packet, addresses, sample.payload, max_frame_bytes);
    };
    EXPECT_TRUE(refused_with([](Packet& p) { p.psn = 1U << 24; }));
    EXPECT_TRUE(refused_with([](Packet& p) { p.qpn = 1U << 24; }));
    EXPECT_TRUE(refused_with([](Packet& p) { p.message_bytes = 4; }));
    EXPECT_TRUE(refused_with([](Packet& p) { p.message_bytes = 0x80000000; }));
    EXPECT_TRUE(refused_with([](Packet& p) { p.opcode = Opcode::mp_read_request; }));
    EXPECT_TRUE(refused_with([](Packet& p) { p.opcode = Opcode::rc_send_only; }));
    EXPECT_TRUE(refused_with([](Packet& p) { p.opcode = Opcode::mp_ack; }));  // an ACK has no payload

    Sample ack = make_sample("ack", Opcode::mp_ack, 0);
    ack.packet.ack = {};
    EXPECT_FALSE(refused(ack.packet, addresses, {}, max_frame_bytes));
    ack.packet.ack.bitmap_base = 1U << 24;
    EXPECT_TRUE(refused(ack.packet, addresses, {}, max_frame_bytes));
    ack.packet.ack = {};
    ack.packet.ack.bitmap_words = 3;
    EXPECT_TRUE(refused(ack.packet, addresses, {}, max_frame_bytes));
    const Sample long_payload = make_sample("write", Opcode::mp_write, 4097);
    EXPECT_TRUE(refused(long_payload.packet, addresses, long_payload.payload, max_frame_bytes + 100));
}

TEST(WireAddress, EachPortHasItsOwnAndTheInverseFindsIt) {
    const IpAddress ip = fabric_address({0x0102, 3}).value();
    EXPECT_EQ(ip.low, 0x0a030102U);
    EXPECT_EQ(fabric_port(ip), (FabricPort{0x0102, 3}));
    const IpAddress ip6 = fabric_address({0x01020304, 7}, true).value();
    EXPECT_EQ(ip6.high, 0xfd706c6169740007U);
    EXPECT_EQ(fabric_port(ip6), (FabricPort{0x01020304, 7}));
    EXPECT_EQ(fabric_address({65536, 0}), std::nullopt);
    EXPECT_EQ(fabric_address({0, 8}), std::nullopt);
    EXPECT_EQ(fabric_port({false, 0, 0x0b030102}), std::nullopt);
    EXPECT_EQ(fabric_port({false, 0, 0x0a080102}), std::nullopt);
    EXPECT_EQ(fabric_port({true, 0xfd706c6169740007, 1ULL << 32}), std::nullopt);
    EXPECT_EQ(fabric_addresses(1, 65536, 0), std::nullopt);
    EXPECT_EQ(fabric_addresses(1, 2, 3)->source_mac, 0x020300000001U);
}

}  // namespace
}  // namespace plait::firmware::wire_test
