// The ICRC keeps its contract, by the C++ engine and as plait_icrc, and the two agree.

#include <gtest/gtest.h>

#include <random>

#include "../../engines/seed.hpp"
#include "../../wire/samples.hpp"
#include "agreement.hpp"
#include "icrc_backends.hpp"

namespace plait::contract {
namespace {

using regmap::Status;

template <typename Icrc>
class IcrcContract : public testing::Test {
  protected:
    uint32_t icrc(const IcrcPacket& packet) {
        const IcrcAnswer answer = icrc_.run({packet}).front();
        EXPECT_EQ(answer.status, Status::ok);
        return answer.icrc;
    }

    Icrc icrc_;
};

using Backends = testing::Types<IcrcReference, IcrcRtl>;
TYPED_TEST_SUITE(IcrcContract, Backends);

// The trailer of whole frames is what the packets before it give. The first frame comes right after reset.
TYPED_TEST(IcrcContract, FramesOfEveryKind) {
    for (const bool is_ipv6 : {false, true}) {
        for (const auto& sample : firmware::wire_test::mp_samples()) {
            const firmware::wire_test::Bytes frame = frame_of(sample, is_ipv6);
            const uint8_t* const trailer = frame.data() + frame.size() - 4;
            const uint32_t expected = uint32_t{trailer[0]} | uint32_t{trailer[1]} << 8 |
                                      uint32_t{trailer[2]} << 16 | uint32_t{trailer[3]} << 24;
            EXPECT_EQ(this->icrc({frame.begin() + 14, frame.end() - 4}), expected) << sample.name;
        }
    }
}

// Worked out with the algorithm of real adapters: an RDMA WRITE Only of "ABCDE".
TYPED_TEST(IcrcContract, APublishedVector) {
    using namespace firmware::wire_test;
    regmap::Bth bth;
    bth.opcode = static_cast<uint8_t>(regmap::Opcode::rc_write_only);
    bth.ack_request = true;
    bth.destination_qp = 0x11;
    bth.psn = 0xfffffe;
    const auto frame = roce_frame(vector_envelope(), bth,
                                  encoded(regmap::Reth{.address = 0x1000, .remote_key = 0x5a, .length = 5}),
                                  {'A', 'B', 'C', 'D', 'E'});
    EXPECT_EQ(this->icrc({frame.begin() + 14, frame.end() - 4}), 0xb5cfb91fU);
}

TYPED_TEST(IcrcContract, FieldsThatMayChangeDoNotMatter) {
    for (const uint8_t version : {uint8_t{0x45}, uint8_t{0x60}}) {
        const bool is_ipv6 = version == 0x60;
        const size_t udp = is_ipv6 ? 40 : 20;
        IcrcPacket packet(100, 0x5A);
        packet[0] = version;
        const uint32_t before = this->icrc(packet);
        std::vector<size_t> free{udp + 6, udp + 7, udp + 12};
        for (const size_t byte :
             is_ipv6 ? std::vector<size_t>{1, 2, 3, 7} : std::vector<size_t>{1, 8, 10, 11})
            free.push_back(byte);
        for (size_t byte = 0; byte < packet.size(); ++byte) {
            IcrcPacket changed = packet;
            changed[byte] ^= 0x0F;
            const bool is_free = std::count(free.begin(), free.end(), byte) != 0 || (is_ipv6 && byte == 0);
            EXPECT_EQ(this->icrc(changed) == before, is_free) << byte;
        }
    }
}

// Lengths around every boundary of headers and beats, of both versions.
TEST(IcrcAgreement, EveryLength) {
    std::mt19937_64 random(1);
    std::vector<IcrcPacket> packets;
    for (size_t bytes = 1; bytes <= 400; ++bytes) {
        for (const uint8_t version : {uint8_t{0x45}, uint8_t{0x60}}) {
            IcrcPacket& packet = packets.emplace_back(bytes);
            for (uint8_t& byte : packet) byte = static_cast<uint8_t>(random());
            packet[0] = version;
        }
    }
    EXPECT_EQ(IcrcRtl().run(packets), IcrcReference().run(packets));
}

void agree_at_random(uint64_t transactions) {
    const uint64_t seed = engines::test::seed_or(51);
    SCOPED_TRACE(engines::test::seed_message(seed));
    std::mt19937_64 random(seed);
    IcrcRtl rtl(seed);
    constexpr size_t batch = 100;
    for (uint64_t done = 0; done < transactions; done += batch) {
        std::vector<IcrcPacket> packets(batch);
        for (IcrcPacket& packet : packets) {
            packet.resize(1 + random() % (random() % 32 == 0 ? 4300 : 200));
            for (uint8_t& byte : packet) byte = static_cast<uint8_t>(random());
            if (random() % 8) packet[0] = random() % 2 ? 0x45 : 0x60;
        }
        const Stalls rates = random_stalls(random);
        const std::vector<IcrcAnswer> answers = rtl.run(packets, rates);
        for (size_t i = 0; i < batch; ++i)
            ASSERT_EQ(answers[i], (IcrcAnswer{Status::ok, engines::icrc(packets[i])}))
                << "packet " << done + i << " of " << packets[i].size() << " bytes";
    }
}

TEST(IcrcAgreement, RandomPacketsUnderRandomStalls) { agree_at_random(20'000); }
TEST(IcrcAgreement, AMillionRandomPackets) { agree_at_random(1'000'000); }

// A beat of a length that cannot be costs its packet, not those beside it.
TEST(IcrcRefusal, WrongLengths) {
    const IcrcPacket good(150, 0x45);
    const IcrcAnswer expected{Status::ok, engines::icrc(good)};
    struct Case {
        size_t beat;  // of the three of the packet between two good ones
        uint8_t bytes;
    };
    for (const auto& [number, bytes] : {Case{0, 63}, Case{1, 1}, Case{0, 65}, Case{1, 0}, Case{2, 0},
                                        Case{2, 65}, Case{2, 127}, Case{0, 127}}) {
        std::vector<IcrcBeat> beats;
        for (int i = 0; i < 3; ++i) sim::append(beats, good);
        beats[3 + number].bytes = bytes;
        IcrcRtl rtl;
        const std::vector<IcrcAnswer> answers = rtl.block().run(beats, 3);
        EXPECT_EQ(answers, (std::vector{expected, IcrcAnswer{Status::invalid_length, 0}, expected}))
            << "beat " << number << " of " << int{bytes} << " bytes";
    }
}

TEST(IcrcRate, SixtyFourBytesACycleWithoutGaps) {
    constexpr uint64_t latency_cycles = 6;
    std::vector<IcrcPacket> packets;
    uint64_t beats = 0;
    for (size_t i = 0; i < 500; ++i) {
        packets.emplace_back(1 + i * 37 % 700, uint8_t{0x45});
        beats += (packets.back().size() + 63) / 64;
    }
    IcrcRtl rtl;
    const uint64_t before = rtl.block().cycles();
    rtl.run(packets);
    EXPECT_EQ(rtl.block().cycles() - before, beats + latency_cycles);
}

}  // namespace
}  // namespace plait::contract
