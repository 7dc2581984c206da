// Each header against bytes laid out by hand from the specifications, and the round trip of arbitrary bytes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "samples.hpp"

namespace plait::firmware::wire_test {
namespace {

template <class Header>
void expect_bytes(const Header& header, const Bytes& bytes) {
    ASSERT_EQ(Header::size_bytes, bytes.size());
    EXPECT_EQ(encoded(header), bytes);
    EXPECT_EQ(Header::decode(bytes.data()), header);
}

TEST(WireHeaders, Ethernet) {
    expect_bytes(Ethernet{.destination = 0x010203040506, .source = 0x0a0b0c0d0e0f, .ethertype = 0x86dd},
                 {1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14, 15, 0x86, 0xdd});
}

TEST(WireHeaders, Ipv4) {
    Ipv4 ip;
    ip.dscp = 26;
    ip.ecn = 2;
    ip.total_length = 0x1234;
    ip.identification = 0x5678;
    ip.dont_fragment = true;
    ip.checksum = 0x9abc;
    ip.source = 0x0a000001;
    ip.destination = 0x0a000002;
    expect_bytes(
        ip, {0x45, 0x6a, 0x12, 0x34, 0x56, 0x78, 0x40, 0x00, 64, 17, 0x9a, 0xbc, 10, 0, 0, 1, 10, 0, 0, 2});
    ip.dont_fragment = false;
    ip.more_fragments = true;
    ip.fragment_offset = 0x1fff;
    EXPECT_EQ(encoded(ip)[6], 0x3f);
    EXPECT_EQ(encoded(ip)[7], 0xff);
}

TEST(WireHeaders, Ipv6) {
    Ipv6 ip;
    ip.dscp = 0x2e;
    ip.ecn = 3;
    ip.flow_label = 0xabcde;
    ip.payload_length = 0x0102;
    ip.source_high = 0x20010db800000000;
    ip.source_low = 1;
    ip.destination_high = 0x20010db800000000;
    ip.destination_low = 2;
    expect_bytes(
        ip, {0x6b, 0xba, 0xbc, 0xde, 0x01, 0x02, 17,   64,   0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0,
             0,    0,    0,    1,    0x20, 0x01, 0x0d, 0xb8, 0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 2});
}

TEST(WireHeaders, Udp) {
    Udp udp;
    udp.source_port = 0xc001;
    udp.length = 0x40;
    expect_bytes(udp, {0xc0, 0x01, 0x12, 0xb7, 0x00, 0x40, 0, 0});
}

TEST(WireHeaders, Bth) {
    Bth bth;
    bth.opcode = 0x0a;
    bth.solicited = true;
    bth.pad_count = 3;
    bth.becn = true;
    bth.destination_qp = 0x010203;
    bth.ack_request = true;
    bth.psn = 0xfffffe;
    expect_bytes(bth, {0x0a, 0xf0, 0xff, 0xff, 0x40, 1, 2, 3, 0x80, 0xff, 0xff, 0xfe});
    bth.migration = false;
    bth.version = 0xf;
    bth.fecn = true;
    EXPECT_EQ(encoded(bth)[1], 0xbf);
    EXPECT_EQ(encoded(bth)[4], 0xc0);
}

TEST(WireHeaders, Extensions) {
    expect_bytes(Reth{.address = 0x0102030405060708, .remote_key = 0x090a0b0c, .length = 0x0d0e0f10},
                 {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
    expect_bytes(Aeth{.syndrome = 0x60, .message_sequence = 0x010203}, {0x60, 1, 2, 3});
    expect_bytes(AtomicEth{.address = 1, .remote_key = 2, .swap_or_add = 0x1122334455667788, .compare = 4},
                 {0,    0,    0,    0,    0,    0,    0, 1, 0, 0, 0, 2, 0x11, 0x22,
                  0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 0, 0, 0, 0, 0, 0,    4});
    expect_bytes(AtomicAckEth{.original = 0x0102030405060708}, {1, 2, 3, 4, 5, 6, 7, 8});
    expect_bytes(ImmDt{.immediate = 0x01020304}, {1, 2, 3, 4});
    expect_bytes(Ieth{.remote_key = 0x01020304}, {1, 2, 3, 4});
    expect_bytes(Deth{.queue_key = 0x11223344, .source_qp = 0x556677},
                 {0x11, 0x22, 0x33, 0x44, 0, 0x55, 0x66, 0x77});
}

// The layouts of docs/wire.md.
TEST(WireHeaders, MultiPlane) {
    expect_bytes(MpData{.message_number = 0x01020304,
                        .offset = 0x05060708,
                        .length = 0x090a0b0c,
                        .responses_received = 0x0d0e0f},
                 {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0});
    expect_bytes(MpTarget{.address = 0x0102030405060708, .remote_key = 0x090a0b0c},
                 {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    expect_bytes(MpReceive{.receive_number = 0x01020304}, {1, 2, 3, 4});
    expect_bytes(MpEpRow{.group = 1,
                         .handle = 2,
                         .operation = 0x0304,
                         .token = 0x05060708,
                         .row = 0x090a0b0c,
                         .targets = 13,
                         .choices = 14,
                         .indices = 15},
                 {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0});
    expect_bytes(MpEpIndex{.index = 0x01020304}, {1, 2, 3, 4});
    expect_bytes(MpEpChoice{.expert = 0x0102, .position = 0x0304, .weight = 0x3f800000},
                 {1, 2, 3, 4, 0x3f, 0x80, 0, 0});
    expect_bytes(
        MpEpPartial{
            .group = 1, .handle = 2, .operation = 0x0304, .token = 0x05060708, .node = 0x090a, .missing = 11},
        {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0, 0, 0, 0, 0});
    expect_bytes(MpEpControl{.group = 1,
                             .handle = 2,
                             .operation = 0x0304,
                             .kind = 5,
                             .status = 6,
                             .call = 7,
                             .value = 0x08090a0b},
                 {1, 2, 3, 4, 5, 6, 7, 0, 8, 9, 10, 11});
    expect_bytes(MpAck{.cumulative_psn = 0x010203,
                       .reason = 4,
                       .bitmap_base = 0x050607,
                       .bitmap_words = 8,
                       .entropy = 0x090a,
                       .plane = 11,
                       .marked = 12,
                       .receives_posted = 0x0d0e0f10,
                       .acknowledged = 0x1112,
                       .causing_marked = true,
                       .bitmap_low = 0x1314151617181920,
                       .bitmap_high = 0x2122232425262728},
                 {1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,
                  13,   14,   15,   16,   0x11, 0x12, 0x80, 0x00, 0x13, 0x14, 0x15, 0x16,
                  0x17, 0x18, 0x19, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28});
    expect_bytes(MpProbe{.source_qp = 0x010203, .plane = 4, .entropy_index = 0x0506, .sequence = 0x0708},
                 {1, 2, 3, 4, 5, 6, 7, 8});
    expect_bytes(MpPortStatus{.source_device = 0x01020304, .planes_up = 5, .sequence = 0x0607},
                 {1, 2, 3, 4, 5, 0, 6, 7});
}

template <class Header>
class AnyHeader : public testing::Test {};
using Headers = testing::Types<Ethernet, Ipv4, Ipv6, Udp, Bth, Reth, Aeth, AtomicEth, AtomicAckEth, ImmDt,
                               Ieth, Deth, MpData, MpTarget, MpReceive, MpEpRow, MpEpIndex, MpEpChoice,
                               MpEpPartial, MpEpControl, MpAck, MpProbe, MpPortStatus, ScaleUp>;
TYPED_TEST_SUITE(AnyHeader, Headers);

TYPED_TEST(AnyHeader, DecodedBytesEncodeToTheSameMeaning) {
    const char* text = std::getenv("PLAIT_SEED");
    const std::uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 0) : 1;
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (int round = 0; round < 1000; ++round) {
        Bytes bytes(TypeParam::size_bytes);
        for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
        const TypeParam header = TypeParam::decode(bytes.data());
        ASSERT_TRUE(header.fits());
        const Bytes again = encoded(header);
        ASSERT_EQ(TypeParam::decode(again.data()), header);
        // What differs are reserved bits, and those are sent as zero.
        for (std::size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(again[i] & ~bytes[i], 0);
    }
}

}  // namespace
}  // namespace plait::firmware::wire_test
