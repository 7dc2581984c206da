// CRC-32 and ICRC against published values and against slow, obvious references.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "samples.hpp"

namespace plait::firmware::wire_test {
namespace {

std::uint32_t bitwise_crc32(const Bytes& bytes) {
    std::uint32_t state = 0xffffffff;
    for (const std::uint8_t byte : bytes) {
        for (int bit = 0; bit < 8; ++bit) {
            const bool feedback = ((state ^ (std::uint32_t{byte} >> bit)) & 1U) != 0;
            state = (state >> 1) ^ (feedback ? 0xedb88320U : 0U);
        }
    }
    return ~state;
}

std::uint64_t seed() {
    const char* text = std::getenv("PLAIT_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 0) : 1;
}

TEST(Crc32, CheckValue) {
    const Bytes digits{'1', '2', '3', '4', '5', '6', '7', '8', '9'};
    EXPECT_EQ(engines::crc32(digits), 0xcbf43926U);  // the "check" of CRC-32/ISO-HDLC in every catalogue
    EXPECT_EQ(engines::crc32({}), 0U);
}

TEST(Crc32, MatchesTheBitwiseReferenceAtEveryLengthAndAlignment) {
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed()));
    std::mt19937_64 random(seed());
    Bytes pool(160);
    for (auto& byte : pool) byte = static_cast<std::uint8_t>(random());
    for (std::size_t start = 0; start < 9; ++start) {
        for (std::size_t size = 0; start + size <= pool.size(); ++size) {
            const Bytes part(pool.begin() + static_cast<long>(start),
                             pool.begin() + static_cast<long>(start + size));
            ASSERT_EQ(engines::crc32({pool.data() + start, size}), bitwise_crc32(part))
                << start << ' ' << size;
        }
    }
}

TEST(Crc32, CanBeContinued) {
    const Bytes bytes = counting(100);
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
        const std::span<const std::uint8_t> all(bytes);
        const std::uint32_t state = engines::crc32_update(0xffffffff, all.first(cut));
        ASSERT_EQ(~engines::crc32_update(state, all.subspan(cut)), engines::crc32(bytes));
    }
}

/// An RDMA WRITE Only, 10.0.0.1 -> 10.0.0.2, whose ICRC bytes were worked out with the algorithm of real
/// adapters.
Bytes write_only(const std::string& text) {
    Bth bth;
    bth.opcode = static_cast<std::uint8_t>(Opcode::rc_write_only);
    bth.ack_request = true;
    bth.destination_qp = 0x11;
    bth.psn = 0xfffffe;
    const Reth reth{.address = 0x1000, .remote_key = 0x5a, .length = static_cast<std::uint32_t>(text.size())};
    return roce_frame(vector_envelope(), bth, encoded(reth), Bytes(text.begin(), text.end()));
}

TEST(Icrc, Vectors) {
    const std::pair<std::string, Bytes> vectors[] = {
        {"", {0x32, 0x11, 0x97, 0xc5}},     {"A", {0x5e, 0xe4, 0xb4, 0x05}},
        {"AB", {0x30, 0x4a, 0x74, 0xdf}},   {"ABC", {0x37, 0xee, 0xb2, 0xd0}},
        {"ABCD", {0xbe, 0x3a, 0x5d, 0xfd}}, {"ABCDE", {0x1f, 0xb9, 0xcf, 0xb5}},
    };
    for (const auto& [text, bytes] : vectors) {
        const Bytes frame = write_only(text);
        ASSERT_EQ(frame.size(), 74 + (text.size() + 3) / 4 * 4);  // 74: the smallest framing with a RETH
        EXPECT_EQ(Bytes(frame.end() - 4, frame.end()), bytes) << text;
    }
}

/// The rule written out: eight bytes of ones, then the packet with each excluded field set to ones.
std::uint32_t reference_icrc(Bytes packet) {
    const bool is_ipv6 = packet[0] >> 4 == 6;
    const std::size_t udp = is_ipv6 ? 40 : 20;
    if (is_ipv6) {
        packet[0] = 0x6f;
        packet[1] = packet[2] = packet[3] = packet[7] = 0xff;
    } else {
        packet[1] = packet[8] = packet[10] = packet[11] = 0xff;
    }
    packet[udp + 6] = packet[udp + 7] = 0xff;
    packet[udp + 8 + 4] = 0xff;
    packet.insert(packet.begin(), 8, 0xff);
    return bitwise_crc32(packet);
}

TEST(Icrc, MatchesTheRuleForBothIpVersions) {
    for (const bool is_ipv6 : {false, true}) {
        for (const Sample& sample : mp_samples()) {
            const Bytes frame = frame_of(sample, is_ipv6);
            const Bytes packet(frame.begin() + 14, frame.end() - 4);
            EXPECT_EQ(engines::icrc(packet), reference_icrc(packet)) << sample.name;
        }
    }
}

TEST(Icrc, ReadsNothingBehindAShortPacket) {
    for (const std::uint8_t version : {std::uint8_t{0x45}, std::uint8_t{0x60}}) {
        for (std::size_t size = 1; size < 80; ++size) {
            Bytes one(size, version);
            Bytes other = one;
            one.resize(128, 0x00);
            other.resize(128, 0xa5);
            EXPECT_EQ(engines::icrc({one.data(), size}), engines::icrc({other.data(), size})) << size;
        }
    }
    EXPECT_EQ(engines::icrc({}), bitwise_crc32(Bytes(8, 0xff)));
}

}  // namespace
}  // namespace plait::firmware::wire_test
