#include <plait/firmware/receive_pipe.hpp>

#include <gtest/gtest.h>

#include <array>

namespace plait::firmware {
namespace {

using regmap::DropReason;

Packet part(uint32_t offset, uint16_t payload, uint32_t message) {
    Packet packet;
    packet.opcode = Opcode::mp_write;
    packet.source_device = 9;
    packet.qpn = 5;
    packet.message_offset = offset;
    packet.payload_bytes = payload;
    packet.message_bytes = message;
    return packet;
}

class ReceivePipeTest : public ::testing::Test {
  protected:
    ReceivePipeTest() { EXPECT_TRUE(pipe_.open(5, 9, 100, 64, 1024)); }

    std::array<ReceiveQp, 16> queue_pairs_{};
    ReceivePipe pipe_{queue_pairs_};
};

TEST_F(ReceivePipeTest, PartsMustLieAsTheSenderCutsThem) {
    const auto reason = [](const Packet& packet) { return ReceivePipe::check(packet, 1024); };
    EXPECT_EQ(reason(part(0, 0, 0)), DropReason::none);
    EXPECT_EQ(reason(part(0, 1, 1)), DropReason::none);
    EXPECT_EQ(reason(part(0, 1024, 1024)), DropReason::none);
    EXPECT_EQ(reason(part(0, 1024, 1025)), DropReason::none);
    EXPECT_EQ(reason(part(1024, 1, 1025)), DropReason::none);
    EXPECT_EQ(reason(part(regmap::max_message_bytes / 1024 * 1024, 1023, regmap::max_message_bytes)),
              DropReason::none);

    EXPECT_EQ(reason(part(0, 1023, 1025)), DropReason::length) << "a first part shorter than the MTU";
    EXPECT_EQ(reason(part(0, 1025, 1025)), DropReason::length) << "longer than the MTU";
    EXPECT_EQ(reason(part(1024, 2, 1025)), DropReason::length) << "beyond the message";
    EXPECT_EQ(reason(part(0xfffffc00, 1024, 100)), DropReason::length) << "an offset that overflows 32 bits";
    EXPECT_EQ(reason(part(0x80000000, 1024, 0x80000400)), DropReason::length) << "a message above 2^31 - 1";
    EXPECT_EQ(reason(part(1, 1024, 1025)), DropReason::malformed) << "not a multiple of the MTU";
    EXPECT_EQ(reason(part(1024, 0, 1024)), DropReason::malformed)
        << "an empty part of a message that has bytes";
}

TEST_F(ReceivePipeTest, ATrimmedPacketIsJudgedByItsFirstHeadersAlone) {
    Packet packet = part(1, 77, 5);  // as nobody sends it: none of that is looked at
    packet.psn = 103;
    EXPECT_EQ(pipe_.judge(packet).reason, DropReason::length);
    packet.trimmed = true;
    const ReceivePipe::Judgement judgement = pipe_.judge(packet);
    EXPECT_EQ(judgement.reason, DropReason::none);
    EXPECT_EQ(judgement.window.verdict, engines::Verdict::accept);
    pipe_.refuse(5, 103);
    EXPECT_FALSE(pipe_.window(5).received(103));
    packet.source_device = 8;
    EXPECT_EQ(pipe_.judge(packet).reason, DropReason::peer_mismatch);
    packet.source_device = 9;
    packet.opcode = Opcode::mp_ack;
    EXPECT_EQ(pipe_.judge(packet).reason, DropReason::malformed);
}

TEST_F(ReceivePipeTest, ControlMessagesAreWholeAndSmall) {
    Packet packet = part(0, 1024, 1024);
    packet.opcode = Opcode::mp_ep_control;
    EXPECT_EQ(ReceivePipe::check(packet, 4096), DropReason::none);
    packet.message_bytes = packet.payload_bytes = 1025;
    EXPECT_EQ(ReceivePipe::check(packet, 4096), DropReason::length);
    packet = part(0, 1024, 2048);
    packet.opcode = Opcode::mp_ep_control;
    EXPECT_EQ(ReceivePipe::check(packet, 1024), DropReason::length);
}

TEST_F(ReceivePipeTest, UnknownOpcodesAndAcknowledgementsWithPayloadAreDropped) {
    for (const Opcode opcode :
         {Opcode::rc_send_only, Opcode::mp_read_request, Opcode::mp_atomic_response, Opcode{0xff}}) {
        Packet packet = part(0, 1, 1);
        packet.opcode = opcode;
        EXPECT_EQ(pipe_.judge(packet).reason, DropReason::opcode);
    }
    for (const Opcode opcode :
         {Opcode::mp_ack, Opcode::mp_probe, Opcode::mp_probe_reply, Opcode::mp_port_status}) {
        Packet packet = part(0, 0, 0);
        packet.opcode = opcode;
        EXPECT_EQ(pipe_.judge(packet).reason, DropReason::none);
        packet.payload_bytes = 1;
        EXPECT_EQ(pipe_.judge(packet).reason, DropReason::length);
    }
    EXPECT_EQ(pipe_.window(5).next_expected(), 100U) << "nothing of this touches the window";
}

TEST_F(ReceivePipeTest, OnlyThePeerOfAnOpenQueuePairIsHeard) {
    Packet packet = part(0, 1, 1);
    packet.psn = 100;
    packet.source_device = 8;
    EXPECT_EQ(pipe_.judge(packet).reason, DropReason::peer_mismatch);
    packet.source_device = 9;
    packet.qpn = 6;
    EXPECT_EQ(pipe_.judge(packet).reason, DropReason::unknown_qp);
    packet.qpn = 5 + 16;  // the same place, another generation
    EXPECT_EQ(pipe_.judge(packet).reason, DropReason::unknown_qp);
    packet.qpn = 5;
    EXPECT_EQ(pipe_.judge(packet).window.verdict, engines::Verdict::accept);
    EXPECT_EQ(pipe_.judge(packet).window.verdict, engines::Verdict::duplicate);
    packet.psn = 101 + 64;
    EXPECT_EQ(pipe_.judge(packet).window.verdict, engines::Verdict::out_of_window);
    pipe_.close(5);
    EXPECT_EQ(pipe_.judge(packet).reason, DropReason::unknown_qp);
}

TEST_F(ReceivePipeTest, ARefusedPacketMayComeAgain) {
    Packet packet = part(0, 1, 1);
    packet.psn = 103;
    EXPECT_EQ(pipe_.judge(packet).window.verdict, engines::Verdict::accept);
    pipe_.refuse(5, 103);
    EXPECT_FALSE(pipe_.window(5).received(103));
    EXPECT_EQ(pipe_.judge(packet).window.verdict, engines::Verdict::accept);
    packet.psn = 100;
    EXPECT_TRUE(pipe_.judge(packet).window.advanced);
    pipe_.refuse(5, 100);
    EXPECT_EQ(pipe_.window(5).next_expected(), 100U);
    EXPECT_TRUE(pipe_.window(5).received(103));
    EXPECT_EQ(pipe_.judge(packet).window.verdict, engines::Verdict::accept);
}

TEST_F(ReceivePipeTest, OpeningIsRefusedWhenItCannotBe) {
    EXPECT_FALSE(pipe_.open(5, 9, 0, 64, 1024)) << "open already";
    EXPECT_FALSE(pipe_.open(5 + 16, 9, 0, 64, 1024)) << "its place is taken";
    EXPECT_FALSE(pipe_.open(6, 9, 0, 65, 1024)) << "no such window";
    EXPECT_FALSE(pipe_.open(6, 9, 0, 64, 0)) << "no such MTU";
    EXPECT_TRUE(pipe_.open(6, 9, 0, 512, 256));
}

}  // namespace
}  // namespace plait::firmware
