// What firmware sends, when it sends it again, how requests end, and what a link that fails changes.
#include "transport_contract.hpp"

namespace plait::sim::testing {
namespace {

using SendContract = TransportContract;
INSTANTIATE_TEST_SUITE_P(Places, SendContract, places(), name_of_place);

TEST_P(SendContract, AMessageIsCutAtTheMtuAndEndsWithItsAcknowledgement) {
    for (size_t i = 0; i < 700; ++i) memory_.host[i] = static_cast<std::byte>(i * 7);
    regmap::WorkRequest request;
    request.opcode = regmap::WorkOpcode::write;
    request.flags = regmap::request_signalled;
    request.user_data = 5;
    request.local_address = memory_.device_address;
    request.local_key = key_;
    request.length = 700;
    request.remote_address = 0x5000'0000;
    request.remote_key = 0x1234;
    post(sends_, send_queue, request);
    run_for_us(30);
    ASSERT_EQ(data().size(), 3U);
    std::vector<uint8_t> whole(700);
    for (const auto& arrival : script(2).arrivals) {
        const Packet& packet = arrival.packet;
        EXPECT_EQ(packet.message_bytes, 700U);
        EXPECT_EQ(packet.message_number, 0U);
        EXPECT_EQ(packet.address, 0x5000'0000U) << "of the message's first byte";
        EXPECT_EQ(packet.remote_key, 0x1234U);
        EXPECT_EQ(packet.message_offset % mtu, 0U);
        EXPECT_EQ(packet.message_offset / mtu, engines::psn_add(packet.psn, 0U - connection_.first_psn));
        ASSERT_LE(packet.message_offset + packet.payload_bytes, whole.size());
        const auto bytes = bytes_of(2, arrival);
        std::copy(bytes.begin(), bytes.end(), whole.begin() + packet.message_offset);
    }
    EXPECT_EQ(whole, placed(0, 700));
    EXPECT_TRUE(completions().empty());
    acknowledge(3);
    run_for_us(20);
    EXPECT_EQ(completed(), (Completed{{5, Status::ok}}));
}

TEST_P(SendContract, MessagesEndInTheirOrderWhateverArrivesFirst) {
    post_write(1, 2);
    post_write(2, 2);
    run_for_us(10);
    Packet ack = ack_of(connection_, sent_psn(0));  // all of the second, and the first half of the first
    ack.psn = sent_psn(3);
    ack.ack.bitmap_base = sent_psn(0);
    ack.ack.bitmap_words = 1;
    ack.ack.bitmap[0] = 0b1101;
    send(connection_, ack);
    run_for_us(10);
    EXPECT_TRUE(completions().empty());
    acknowledge(4);
    run_for_us(20);
    EXPECT_EQ(completed(), (Completed{{1, Status::ok}, {2, Status::ok}}));
}

TEST_P(SendContract, WhatAcksLeaveOutIsSentAgainAndTheRestIsNot) {
    acknowledge_all_but({5, 7});
    post_write(1, 40);
    run_for_us(200);
    for (const auto& [number, count] : copies())
        EXPECT_EQ(count, number == 5 || number == 7 ? 2U : 1U) << number;
    EXPECT_EQ(copies().size(), 40U);
    EXPECT_EQ(completed(), (Completed{{1, Status::ok}}));
}

TEST_P(SendContract, WhatNobodyAcknowledgesIsSentAgainUnchangedAfterATime) {
    post_write(1, 1);
    run_for_us(20);
    ASSERT_EQ(data().size(), 1U);
    run_for_us(400);
    const auto sent = data();
    ASSERT_GE(sent.size(), 2U);
    for (const Packet& packet : sent) {
        EXPECT_EQ(packet.psn, connection_.first_psn);
        EXPECT_EQ(packet.message_number, sent[0].message_number);
        EXPECT_EQ(packet.payload_bytes, mtu);
    }
    acknowledge(1);
    run_for_us(20);
    EXPECT_EQ(completed(), (Completed{{1, Status::ok}}));
    const size_t count = data().size();
    run_for_us(3000);
    EXPECT_EQ(data().size(), count) << "no timer is left";
}

TEST_P(SendContract, AfterTheTimeLimitTheQueuePairFailsAndTheRestIsFlushed) {
    post_write(1, 1);
    post_write(2, 1);
    run_for_us(qp_time_limit_us - 100);
    EXPECT_TRUE(completions().empty());
    run_for_us(1000);
    EXPECT_EQ(completed(), (Completed{{1, Status::retry_exceeded}, {2, Status::flushed}}));
    post_write(3, 1);
    const size_t sent = data().size();
    run_for_us(1000);
    EXPECT_EQ(completed(), (Completed{{3, Status::flushed}}));
    EXPECT_EQ(data().size(), sent);
}

TEST_P(SendContract, ARefusedKeyFailsTheQueuePair) {
    post_write(1, 1);
    post_write(2, 1);
    post_write(3, 1);
    run_for_us(20);
    refuse(1, NackReason::remote_access);
    run_for_us(50);
    EXPECT_EQ(completed(), (Completed{{1, Status::ok}, {2, Status::remote_access}, {3, Status::flushed}}));
}

TEST_P(SendContract, ARefusalForNoBufferIsTriedAgain) {
    post_write(1, 1);
    run_for_us(20);
    refuse(0, NackReason::no_buffer);
    run_for_us(300);
    EXPECT_GE(copies()[0], 2U);
    EXPECT_TRUE(completions().empty());
    acknowledge(1);
    run_for_us(20);
    EXPECT_EQ(completed(), (Completed{{1, Status::ok}}));
}

TEST_P(SendContract, AnAckOfWhatWasNeverSentChangesNothing) {
    post_write(1, 1);
    run_for_us(20);
    acknowledge(30);
    run_for_us(20);
    EXPECT_TRUE(completions().empty());
    acknowledge(1);
    run_for_us(20);
    EXPECT_EQ(completed(), (Completed{{1, Status::ok}}));
}

// ---- links

TEST_P(SendContract, APlaneThatGoesDownIsToldAndNotUsedUntilItIsBack) {
    const Link link = Link::device_port(0, 2);
    fabric().set_link(link, false);
    run_for_us(50);
    EXPECT_EQ(read_register(regmap::reg::port_state_offset), 0b1011U);
    EXPECT_NE(
        read_register(regmap::reg::interrupt_status_offset) & regmap::reg::interrupt_status_port_change_mask,
        0U);
    const auto told = got(2, Opcode::mp_port_status);
    ASSERT_FALSE(told.empty());
    EXPECT_EQ(told.back().port_status.planes_up, 0b1011);
    EXPECT_EQ(told.back().port_status.source_device, 0U);
    acknowledge_all_but({});
    post_write(1, 40);
    run_for_us(100);
    for (const Packet& packet : data()) EXPECT_NE(packet.plane, 2);
    EXPECT_EQ(completed(), (Completed{{1, Status::ok}}));
    fabric().set_link(link, true);
    run_for_us(100);
    EXPECT_EQ(read_register(regmap::reg::port_state_offset), 0b1111U);
    EXPECT_EQ(got(2, Opcode::mp_port_status).back().port_status.planes_up, 0b1111);
    EXPECT_GT(got(2, Opcode::mp_port_status).back().port_status.sequence, told.back().port_status.sequence);
}

}  // namespace
}  // namespace plait::sim::testing
