// What firmware does with packets of plain messages, and what it answers.
#include "transport_contract.hpp"

namespace plait::sim::testing {
namespace {

using ReceiveContract = TransportContract;
INSTANTIATE_TEST_SUITE_P(Places, ReceiveContract, places(), name_of_place);

TEST_P(ReceiveContract, DataIsPlacedAndAcknowledgedByItsPath) {
    write(0, 100, some);
    EXPECT_EQ(placed(100, some.size()), some);
    ASSERT_EQ(acks().size(), 1U);
    const Packet ack = acks()[0];
    EXPECT_EQ(ack.qpn, connection_.peer_qpn);
    EXPECT_EQ(ack.psn, peer_psn) << "the packet that caused it";
    EXPECT_EQ(ack.ack.cumulative_psn, 0U) << "the next one expected: PSNs have 24 bits";
    EXPECT_EQ(ack.ack.reason, NackReason::none);
    EXPECT_EQ(ack.ack.bitmap_words, 0);
    EXPECT_EQ(ack.ack.entropy, 0xc001);
    EXPECT_EQ(ack.ack.plane, 1);
    EXPECT_EQ(ack.ack.marked, 0);
    EXPECT_EQ(ack.ack.acknowledged, 1);
}

TEST_P(ReceiveContract, PacketsOutOfOrderArePlacedAtOnceAndTheAckHasTheHole) {
    write(2, 200, some);
    EXPECT_EQ(placed(200, some.size()), some);
    ASSERT_EQ(acks().size(), 1U);
    const Packet ack = acks()[0];
    EXPECT_EQ(ack.ack.cumulative_psn, peer_psn) << "nothing in order yet";
    ASSERT_GE(ack.ack.bitmap_words, 1);
    const uint32_t bit = engines::psn_add(peer_psn + 2, 0U - ack.ack.bitmap_base);
    ASSERT_LT(bit, 64U);
    EXPECT_EQ(ack.ack.bitmap[0] & ~((uint64_t{1} << bit) - 1), uint64_t{1} << bit)
        << "this one, none behind it";
    write(0, 0, some);
    write(1, 100, some);
    EXPECT_EQ(acks().back().ack.cumulative_psn, engines::psn_add(peer_psn, 3));
    EXPECT_EQ(acks().back().ack.bitmap_words, 0);
    EXPECT_EQ(placed(0, some.size()), some);
}

TEST_P(ReceiveContract, ADuplicateIsAcknowledgedAgainAndNotPlaced) {
    write(0, 100, some);
    write(0, 100, std::vector<uint8_t>(8, 0xee));
    EXPECT_EQ(placed(100, some.size()), some);
    ASSERT_EQ(acks().size(), 2U);
    EXPECT_EQ(acks()[1].ack.cumulative_psn, 0U);
    EXPECT_EQ(acks()[1].ack.reason, NackReason::none);
    EXPECT_EQ(drops(DropReason::duplicate), 1U);
}

TEST_P(ReceiveContract, BeyondTheWindowIsRefusedAndComesAgainLater) {
    write(64, 100, some);
    ASSERT_EQ(acks().size(), 1U);
    EXPECT_EQ(acks()[0].ack.reason, NackReason::no_bitmap_room);
    EXPECT_EQ(acks()[0].psn, engines::psn_add(peer_psn, 64));
    EXPECT_EQ(placed(100, 8), std::vector<uint8_t>(8, 0));
    for (uint32_t psn = 0; psn < 64; ++psn) write(psn, 0, some, psn == 63);
    write(64, 100, some);
    EXPECT_EQ(placed(100, 8), some);
    EXPECT_EQ(acks().back().ack.cumulative_psn, engines::psn_add(peer_psn, 65));
}

TEST_P(ReceiveContract, AKeyThatThereIsNotIsRefusedAndNothingIsPlaced) {
    Packet packet = write_packet_of(0);
    packet.remote_key = key_ + 1;
    packet.message_bytes = 8;
    send(connection_, packet, some);
    run_for_us(20);
    ASSERT_EQ(acks().size(), 1U);
    EXPECT_EQ(acks()[0].ack.reason, NackReason::remote_access);
    EXPECT_EQ(acks()[0].ack.cumulative_psn, peer_psn) << "it counts as not received";
    EXPECT_EQ(placed(0, 8), std::vector<uint8_t>(8, 0));
    EXPECT_EQ(drops(DropReason::remote_access), 1U);
}

TEST_P(ReceiveContract, ARangeThatLeavesTheMemoryIsRefused) {
    write(0, 16 * 4096 - 7, some);
    ASSERT_EQ(acks().size(), 1U);
    EXPECT_EQ(acks()[0].ack.reason, NackReason::remote_access);
    write(0, 16 * 4096 - 8, some);
    EXPECT_EQ(placed(16 * 4096 - 8, 8), some);
}

TEST_P(ReceiveContract, AMessageWithoutAReceiveRequestWaitsForOne) {
    Packet packet = packet_of(connection_, Opcode::mp_send);
    packet.psn = peer_psn;
    packet.message_bytes = 8;
    send(connection_, packet, some);
    run_for_us(20);
    ASSERT_EQ(acks().size(), 1U);
    EXPECT_EQ(acks()[0].ack.reason, NackReason::receiver_not_ready);
    regmap::ReceiveRequest request;
    request.user_data = 77;
    request.address = memory_.device_address + 500;
    request.key = key_;
    request.length = 8;
    post(receives_, receive_queue, request);
    run_for_us(20);
    send(connection_, packet, some);
    run_for_us(20);
    EXPECT_EQ(placed(500, 8), some);
    const auto found = completions();
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].user_data, 77U);
    EXPECT_EQ(found[0].status, Status::ok);
    EXPECT_EQ(found[0].length, 8U);
}

TEST_P(ReceiveContract, PacketsForNobodyAndFromStrangersAreCountedAndNotAnswered) {
    Packet packet = write_packet_of(0);
    packet.message_bytes = 8;
    packet.qpn = 999;
    send(connection_, packet, some);
    packet.qpn = connection_.qpn;
    packet.source_device = 3;
    Connection stranger = connection_;
    stranger.peer = 3;
    send(stranger, packet, some);
    run_for_us(50);
    EXPECT_EQ(drops(DropReason::unknown_qp), 1U);
    EXPECT_EQ(drops(DropReason::peer_mismatch), 1U);
    EXPECT_TRUE(acks().empty());
    EXPECT_TRUE(script(3).arrivals.empty());
    EXPECT_EQ(placed(0, 8), std::vector<uint8_t>(8, 0));
}

TEST_P(ReceiveContract, MalformedPacketsAreCountedAndTakeNoPlaceInTheWindow) {
    Packet packet = write_packet_of(0);
    packet.message_bytes = 600;
    packet.message_offset = 100;  // no multiple of the MTU
    send(connection_, packet, std::vector<uint8_t>(mtu));
    packet.message_offset = 512;
    send(connection_, packet, std::vector<uint8_t>(mtu));  // beyond the end of its message
    run_for_us(50);
    EXPECT_EQ(drops(DropReason::malformed), 1U);
    EXPECT_EQ(drops(DropReason::length), 1U);
    EXPECT_TRUE(acks().empty());
    write(0, 0, some);
    EXPECT_EQ(placed(0, 8), some);
}

TEST_P(ReceiveContract, AProbeIsAnsweredByItsPathAsItCame) {
    Packet packet = packet_of(connection_, Opcode::mp_probe);
    packet.plane = 3;
    packet.probe = {connection_.peer_qpn, 3, 5, 77};
    send(connection_, packet);
    run_for_us(20);
    const auto replies = got(2, Opcode::mp_probe_reply);
    ASSERT_EQ(replies.size(), 1U);
    EXPECT_EQ(replies[0].plane, 3);
    EXPECT_EQ(replies[0].entropy, packet.entropy);
    EXPECT_EQ(replies[0].qpn, connection_.peer_qpn);
    EXPECT_EQ(replies[0].probe.source_qp, connection_.peer_qpn);
    EXPECT_EQ(replies[0].probe.entropy_index, 5);
    EXPECT_EQ(replies[0].probe.sequence, 77);
}

}  // namespace
}  // namespace plait::sim::testing
