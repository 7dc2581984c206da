// Frames that lie: nothing is read beyond them, and each lie has its reason.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <random>

#include "samples.hpp"

namespace plait::firmware::wire_test {
namespace {

// Offsets in a frame with IPv4.
constexpr std::size_t ip = 14, udp = 34, bth = 42, extension = 54;

void store(Bytes& frame, std::size_t offset, std::uint16_t value) {
    frame[offset] = static_cast<std::uint8_t>(value >> 8);
    frame[offset + 1] = static_cast<std::uint8_t>(value);
}

/// Makes the IPv4 checksum right again.
void fix_checksum(Bytes& frame) {
    store(frame, ip + 10, 0);
    std::uint32_t sum = 0;
    for (std::size_t i = ip; i < udp; i += 2) sum += std::uint32_t{frame[i]} * 256 + frame[i + 1];
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
    store(frame, ip + 10, static_cast<std::uint16_t>(~sum));
}

/// Makes lengths, checksum and ICRC fit the bytes, so that only the lie itself is left to be found.
void seal(Bytes& frame) {
    store(frame, ip + 2, static_cast<std::uint16_t>(frame.size() - ip));
    store(frame, udp + 4, static_cast<std::uint16_t>(frame.size() - udp));
    fix_checksum(frame);
    const std::uint32_t crc = engines::icrc({frame.data() + ip, frame.size() - ip - 4});
    for (std::size_t i = 0; i < 4; ++i)
        frame[frame.size() - 4 + i] = static_cast<std::uint8_t>(crc >> (8 * i));
}

TEST(WireHostile, EveryTruncationIsFound) {
    for (const bool is_ipv6 : {false, true}) {
        for (const Sample& sample : mp_samples()) {
            const Bytes frame = frame_of(sample, is_ipv6);
            for (std::size_t size = 0; size < frame.size(); ++size) {
                const Bytes cut(frame.begin(),
                                frame.begin() + static_cast<long>(size));  // exact, for the sanitizer
                ASSERT_EQ(decode_frame(cut).reason, DropReason::truncated)
                    << sample.name << " cut to " << size;
            }
        }
    }
}

/// Bits that may change on the way, so that the ICRC leaves them out, and that no checksum covers.
bool may_change(std::size_t byte, unsigned bit, bool is_ipv6) {
    const std::size_t udp_start = is_ipv6 ? 54 : 34;
    if (byte < 12) return true;                                       // MAC addresses
    if (byte == udp_start + 6 || byte == udp_start + 7) return true;  // UDP checksum
    if (byte == udp_start + 8 + 4) return true;                       // FECN, BECN, reserved
    if (!is_ipv6) return false;                                       // the header checksum covers the rest
    if (byte == 14) return bit >= 4;                                  // traffic class, upper half
    return (byte >= 15 && byte <= 17) || byte == 21;                  // the rest of it, flow label, hop limit
}

TEST(WireHostile, EveryFlippedBitIsFoundOrMayChangeOnTheWay) {
    for (const bool is_ipv6 : {false, true}) {
        for (const Sample& sample : mp_samples()) {
            Bytes frame = frame_of(sample, is_ipv6);
            for (std::size_t byte = 0; byte < frame.size(); ++byte) {
                for (unsigned bit = 0; bit < 8; ++bit) {
                    const auto mask = static_cast<std::uint8_t>(0x80U >> bit);
                    frame[byte] ^= mask;
                    DecodedFrame decoded = decode_frame(frame);
                    frame[byte] ^= mask;
                    if (may_change(byte, bit, is_ipv6)) {
                        ASSERT_EQ(decoded.reason, DropReason::none)
                            << sample.name << " byte " << byte << " bit " << bit;
                        decoded.packet.congestion = false;  // ECN is one of those fields
                        ASSERT_EQ(describe(decoded.packet), describe(sample.packet));
                    } else {
                        ASSERT_NE(decoded.reason, DropReason::none)
                            << sample.name << " byte " << byte << " bit " << bit;
                    }
                }
            }
        }
    }
}

Sample sample_of(Opcode opcode) {
    for (Sample& sample : mp_samples()) {
        if (sample.packet.opcode == opcode) return sample;
    }
    ADD_FAILURE() << "no sample";
    return {};
}

DropReason after(Opcode opcode, const std::function<void(Bytes&)>& lie) {
    Bytes frame = frame_of(sample_of(opcode), false);
    lie(frame);
    return decode_frame(frame).reason;
}

/// The lie told with everything around it right.
DropReason after_sealed(Opcode opcode, const std::function<void(Bytes&)>& lie) {
    return after(opcode, [&](Bytes& frame) {
        lie(frame);
        seal(frame);
    });
}

TEST(WireHostile, SealingChangesNothingByItself) {
    for (const Sample& sample : mp_samples()) {
        Bytes frame = frame_of(sample, false);
        const Bytes before = frame;
        seal(frame);
        EXPECT_EQ(frame, before);
    }
}

TEST(WireHostile, Ethernet) {
    EXPECT_EQ(after(Opcode::mp_write, [](Bytes& f) { store(f, 12, 0x8100); }), DropReason::ethertype);
    EXPECT_EQ(after(Opcode::mp_write, [](Bytes& f) { store(f, 12, 0x86dd); }), DropReason::ip_header);
    EXPECT_EQ(after(Opcode::mp_write, [](Bytes& f) { f.push_back(0); }), DropReason::length);
}

TEST(WireHostile, Ipv4Header) {
    const auto lie = [](std::size_t offset, std::uint8_t value) {
        return after(Opcode::mp_write, [=](Bytes& f) {
            f[ip + offset] = value;
            fix_checksum(f);
        });
    };
    EXPECT_EQ(lie(0, 0x55), DropReason::ip_header);  // version 5
    EXPECT_EQ(lie(0, 0x46), DropReason::ip_header);  // options
    EXPECT_EQ(lie(0, 0x44), DropReason::ip_header);
    EXPECT_EQ(lie(6, 0x20), DropReason::ip_header);  // more fragments
    EXPECT_EQ(lie(7, 0x01), DropReason::ip_header);  // a later fragment
    EXPECT_EQ(lie(3, 19), DropReason::ip_header);    // total length below the header's
    EXPECT_EQ(lie(2, 0x10), DropReason::truncated);  // total length beyond the frame
    EXPECT_EQ(lie(9, 6), DropReason::not_udp);       // TCP
    EXPECT_EQ(after(Opcode::mp_write, [](Bytes& f) { f[ip + 10] ^= 1; }), DropReason::ip_header);
}

TEST(WireHostile, Ipv6Header) {
    const auto lie = [](std::size_t offset, std::uint8_t value) {
        Bytes frame = frame_of(sample_of(Opcode::mp_write), true);
        frame[ip + offset] = value;
        return decode_frame(frame).reason;
    };
    EXPECT_EQ(lie(0, 0x40), DropReason::ip_header);
    EXPECT_EQ(lie(6, 0), DropReason::not_udp);   // hop-by-hop extension header
    EXPECT_EQ(lie(6, 44), DropReason::not_udp);  // fragment
    EXPECT_EQ(lie(4, 0xff), DropReason::truncated);
    EXPECT_EQ(lie(5, 7), DropReason::truncated);
    EXPECT_EQ(lie(5, 20), DropReason::length);
}

TEST(WireHostile, UdpHeader) {
    EXPECT_EQ(after(Opcode::mp_write, [](Bytes& f) { store(f, udp + 2, 4790); }), DropReason::not_udp);
    EXPECT_EQ(after(Opcode::mp_write, [](Bytes& f) { f[udp + 5] ^= 4; }), DropReason::length);
    EXPECT_EQ(after(Opcode::mp_write, [](Bytes& f) { store(f, udp + 4, 0); }), DropReason::length);
    EXPECT_EQ(after(Opcode::mp_write, [](Bytes& f) { store(f, udp + 4, 0xffff); }), DropReason::length);
    // Consistent but too short for BTH and ICRC, or no multiple of four.
    EXPECT_EQ(after_sealed(Opcode::mp_write, [](Bytes& f) { f.resize(bth + 12 + 3); }),
              DropReason::truncated);
    EXPECT_EQ(after_sealed(Opcode::mp_write, [](Bytes& f) { f.resize(f.size() + 1); }), DropReason::length);
}

TEST(WireHostile, Bth) {
    EXPECT_EQ(after(Opcode::mp_write, [](Bytes& f) { f.back() ^= 0x80; }), DropReason::icrc);
    EXPECT_EQ(after_sealed(Opcode::mp_write, [](Bytes& f) { f[bth] = 0xff; }), DropReason::opcode);
    EXPECT_EQ(after_sealed(Opcode::mp_write, [](Bytes& f) { f[bth] = 0xc8; }),
              DropReason::opcode);  // set aside for READ
    EXPECT_EQ(after_sealed(Opcode::mp_write, [](Bytes& f) { f[bth] = 0x04; }), DropReason::opcode);  // RC
    EXPECT_EQ(after_sealed(Opcode::mp_write, [](Bytes& f) { f[bth] = 0x24; }), DropReason::opcode);  // UC
    EXPECT_EQ(after_sealed(Opcode::mp_write, [](Bytes& f) { f[bth + 1] |= 0x01; }), DropReason::malformed);
    EXPECT_EQ(after_sealed(Opcode::mp_write, [](Bytes& f) { f[bth + 2] = 0x12; }), DropReason::malformed);
    EXPECT_EQ(after_sealed(Opcode::mp_write, [](Bytes& f) { f[bth + 2] = 0x7f; }),
              DropReason::none);  // limited member
    // A pad longer than everything behind the BTH.
    EXPECT_EQ(after_sealed(Opcode::mp_write,
                           [](Bytes& f) {
                               f.resize(bth + 12 + 4);
                               f[bth + 1] |= 0x30;
                           }),
              DropReason::length);
    // Any pad but the one of the payload contradicts the message's length.
    EXPECT_EQ(after_sealed(Opcode::mp_ep_control, [](Bytes& f) { f[bth + 1] |= 0x30; }), DropReason::length);
}

TEST(WireHostile, EveryKindCutInItsExtensionHeaders) {
    for (const Sample& sample : mp_samples()) {
        const Bytes whole = frame_of(sample, false);
        const std::size_t headers = whole.size() - 4 - (sample.payload.size() + 3) / 4 * 4;
        for (std::size_t size = extension; size < headers; size += 4) {
            Bytes frame(whole.begin(), whole.begin() + static_cast<long>(size + 4));
            frame[bth + 1] &= 0xcf;  // no pad
            seal(frame);
            ASSERT_EQ(decode_frame(frame).reason, DropReason::truncated) << sample.name << " cut to " << size;
        }
    }
    Bth header;
    header.opcode = static_cast<std::uint8_t>(Opcode::rc_write_only);
    EXPECT_EQ(decode_roce(roce_frame(vector_envelope(), header, Bytes(12), {})).reason,
              DropReason::truncated);
}

TEST(WireHostile, MessageBounds) {
    const auto lie = [](std::size_t offset, std::uint8_t value) {
        return after_sealed(Opcode::mp_write, [=](Bytes& f) { f[extension + offset] = value; });
    };
    EXPECT_EQ(lie(8, 0x80), DropReason::length);  // 2^31 bytes
    EXPECT_EQ(lie(11, 4), DropReason::length);    // five bytes of a message of four
    EXPECT_EQ(lie(11, 6), DropReason::none);
    EXPECT_EQ(lie(7, 1), DropReason::length);  // five bytes at offset 1 of a message of five
    EXPECT_EQ(lie(4, 0xff), DropReason::length);
    // No payload in a message that has some, and a payload beyond every MTU.
    EXPECT_EQ(after_sealed(Opcode::mp_write,
                           [](Bytes& f) {
                               f[bth + 1] &= 0xcf;
                               f.resize(extension + 28 + 4);
                           }),
              DropReason::length);
    EXPECT_EQ(after_sealed(Opcode::mp_write,
                           [](Bytes& f) {
                               f[bth + 1] &= 0xcf;
                               f[extension + 8] = 0x7f;
                               f.resize(extension + 28 + 4100 + 4);
                           }),
              DropReason::length);
    EXPECT_EQ(after_sealed(Opcode::mp_ack, [](Bytes& f) { f.resize(f.size() + 4); }), DropReason::length);
    EXPECT_EQ(after_sealed(Opcode::mp_probe, [](Bytes& f) { f.resize(f.size() + 4); }), DropReason::length);
    EXPECT_EQ(after_sealed(Opcode::mp_ep_control, [](Bytes& f) { f[extension + 11] = 21; }),
              DropReason::length);
}

TEST(WireHostile, Contradictions) {
    const std::size_t row = extension + 16;
    const auto lie = [](Opcode opcode, std::size_t offset, std::uint8_t value) {
        return after_sealed(opcode, [=](Bytes& f) { f[offset] = value; });
    };
    EXPECT_EQ(lie(Opcode::mp_ep_row, row + 13, 17), DropReason::malformed);  // choices
    EXPECT_EQ(lie(Opcode::mp_ep_row, row + 13, 255), DropReason::malformed);
    EXPECT_EQ(lie(Opcode::mp_ep_row, row + 14, 2), DropReason::malformed);  // indices, for one target
    EXPECT_EQ(lie(Opcode::mp_ep_row, row + 14, 255), DropReason::malformed);
    EXPECT_EQ(after_sealed(Opcode::mp_ep_row,
                           [=](Bytes& f) {  // neither indices nor choices
                               f[row + 13] = f[row + 14] = 0;
                               f[extension + 10] = 1;
                           }),
              DropReason::malformed);
    EXPECT_EQ(after_sealed(Opcode::mp_ep_row,
                           [=](Bytes& f) {  // no target: the one index becomes payload
                               f[row + 12] = 0;
                               f[extension + 10] = 1;
                           }),
              DropReason::malformed);
    EXPECT_EQ(after_sealed(Opcode::mp_ep_row,
                           [=](Bytes& f) {  // choices in a later packet of the row
                               f[extension + 7] = 1;
                               f[extension + 10] = 1;
                           }),
              DropReason::malformed);
    EXPECT_EQ(lie(Opcode::mp_ep_control, row + 4, 0), DropReason::malformed);    // kind
    EXPECT_EQ(lie(Opcode::mp_ep_control, row + 5, 200), DropReason::malformed);  // status
    EXPECT_EQ(lie(Opcode::mp_ack, extension + 3, 8), DropReason::malformed);     // reason
    EXPECT_EQ(lie(Opcode::mp_ack, extension + 7, 3), DropReason::malformed);     // bitmap words
}

TEST(WireHostile, WhateverIsAcceptedMeansTheSameAfterEncodingItAgain) {
    const char* text = std::getenv("PLAIT_SEED");
    const std::uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 0) : 1;
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    const std::vector<Sample> samples = mp_samples();
    std::size_t accepted = 0;
    for (int round = 0; round < 20000; ++round) {
        Bytes frame = frame_of(samples[random() % samples.size()], false);
        for (std::uint64_t changes = random() % 4; changes > 0; --changes) {
            frame[bth + random() % (frame.size() - bth)] = static_cast<std::uint8_t>(random());
        }
        if (random() % 4 == 0) frame.resize(bth + 16 + random() % 400);
        seal(frame);
        const DecodedFrame decoded = decode_frame(frame);
        if (decoded.reason != DropReason::none) continue;
        ++accepted;
        Bytes again(max_frame_bytes);
        again.resize(encode_frame(decoded.packet, decoded.addresses, decoded.payload, again));
        const DecodedFrame twice = decode_frame(again);
        ASSERT_EQ(twice.reason, DropReason::none);
        ASSERT_EQ(describe(twice.packet), describe(decoded.packet));
    }
    EXPECT_GT(accepted, 2000U);
    EXPECT_LT(accepted, 18000U);
}

}  // namespace
}  // namespace plait::firmware::wire_test
