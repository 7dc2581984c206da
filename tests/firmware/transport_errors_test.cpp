// What fails says so: once, in order, with the right status, and nothing that was refused has happened.

#include "transport_connection.hpp"

namespace plait::firmware::testing {
namespace {

using regmap::WorkOpcode;

std::vector<Status> statuses(const std::vector<regmap::Completion>& completions) {
    std::vector<Status> result;
    for (const regmap::Completion& completion : completions) result.push_back(completion.status);
    return result;
}

void expect_in_order(const std::vector<regmap::Completion>& completions, std::uint64_t first = 0) {
    for (std::size_t i = 0; i < completions.size(); ++i) EXPECT_EQ(completions[i].user_data, first + i);
}

TEST(TransportErrors, InvalidRequestsCompleteInOrderAndDoNothing) {
    Network network({});
    Connection connection(network, 1 << 20);
    const auto spoilt = [&](auto spoil) {
        regmap::WorkRequest request = connection.write(100'000, 100);
        request.flags = 0;  // errors complete all the same
        spoil(request);
        connection.post(request);
    };
    connection.post(connection.write(0, 50'000));
    spoilt([](auto& request) { request.opcode = static_cast<WorkOpcode>(0); });
    spoilt([](auto& request) { request.opcode = static_cast<WorkOpcode>(9); });
    spoilt([](auto& request) { request.flags = 4; });
    spoilt([](auto& request) { request.reserved = 1; });
    spoilt([](auto& request) { request.reserved_atomic[1] = 1; });
    spoilt([](auto& request) { request.length = 1U << 31; });
    spoilt([](auto& request) { request.inline_length = 65, request.flags = 2, request.length = 65; });
    spoilt([](auto& request) { request.inline_length = 8, request.flags = 2, request.length = 9; });
    spoilt([](auto& request) { request.local_key += 1; });
    spoilt([](auto& request) { request.length = 1 << 20; });  // leaves the region
    spoilt([](auto& request) { request.local_address = ~std::uint64_t{0} - 10; });
    connection.post(connection.write(50'000, 100));
    EXPECT_TRUE(connection.sent().empty()) << "before the request ahead of them";
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 13; }));
    using enum Status;
    const std::vector<Status> expected{ok,
                                       invalid_opcode,
                                       invalid_opcode,
                                       invalid_parameter,
                                       invalid_parameter,
                                       invalid_parameter,
                                       invalid_length,
                                       invalid_length,
                                       invalid_length,
                                       invalid_key,
                                       out_of_range,
                                       out_of_range,
                                       ok};
    EXPECT_EQ(statuses(connection.sent()), expected);
    expect_in_order(connection.sent());
    EXPECT_EQ(*network.b.at(Connection::target + 100'000), 0);
    EXPECT_TRUE(network.a.failed.empty());
}

TEST(TransportErrors, CreateAndConnectRefuseWhatTheyCannotDo) {
    Network network({});
    Transport<TestDevice>& transport = network.a.transport();
    regmap::AdminRequest good;
    good.mtu_bytes = 4096;
    good.window_packets = 512;
    good.entropy_values = 64;
    const auto spoilt = [&](auto spoil) {
        regmap::AdminRequest request = good;
        spoil(request);
        return transport.create_qp(request).status;
    };
    EXPECT_EQ(spoilt([](auto& request) { request.transport = regmap::Transport::rc; }),
              Status::invalid_parameter);
    EXPECT_EQ(spoilt([](auto& request) { request.mtu_bytes = 1500; }), Status::invalid_parameter);
    EXPECT_EQ(spoilt([](auto& request) { request.mtu_bytes = 8192; }), Status::invalid_parameter);
    EXPECT_EQ(spoilt([](auto& request) { request.window_packets = 32; }), Status::invalid_parameter);
    EXPECT_EQ(spoilt([](auto& request) { request.window_packets = 100; }), Status::invalid_parameter);
    EXPECT_EQ(spoilt([](auto& request) { request.entropy_values = 0; }), Status::invalid_parameter);
    EXPECT_EQ(spoilt([](auto& request) { request.entropy_values = 63; }), Status::invalid_parameter);
    EXPECT_EQ(spoilt([](auto& request) { request.spray_policy = static_cast<regmap::SprayPolicy>(7); }),
              Status::invalid_parameter);
    for (std::size_t i = 1; i < TestDevice::max_qps; ++i)
        EXPECT_EQ(transport.create_qp(good).status, Status::ok);
    EXPECT_EQ(transport.create_qp(good).status, Status::limit_exceeded);
    regmap::AdminRequest connect;
    EXPECT_EQ(transport.connect_qp(connect), Status::invalid_qp);
    connect.object = 3;
    EXPECT_EQ(transport.connect_qp(connect), Status::invalid_parameter);
    connect.peer_qpn = 1;
    EXPECT_FALSE(transport.is_usable(3));
    EXPECT_EQ(transport.connect_qp(connect), Status::ok);
    EXPECT_TRUE(transport.is_usable(3));
    EXPECT_EQ(transport.connect_qp(connect), Status::invalid_state);
    EXPECT_EQ(transport.destroy_qp(3), Status::ok);
    EXPECT_EQ(transport.destroy_qp(3), Status::invalid_qp);
    EXPECT_EQ(transport.create_qp(good).qpn, 3U);
    EXPECT_EQ(transport.destroy_qp(0), Status::invalid_qp);
    EXPECT_EQ(transport.destroy_qp(1U << 20), Status::invalid_qp);
}

TEST(TransportErrors, ABadRemoteKeyFailsTheRequestAndPlacesNothing) {
    Network network({});
    Connection connection(network, 1 << 20);
    connection.receive(0, 100);
    network.b.add_memory(0x9000'0000, 8192, false, regmap::access_local_write);
    regmap::WorkRequest request = connection.write(0, 10'000);
    request.remote_address = Connection::target + (1 << 20) - 9'999;  // the last byte leaves the region
    request.user_data = 1;
    connection.post(connection.write(0, 100));
    network.run_until(100'000);
    connection.post(request);
    connection.post(connection.write(5000, 100));
    network.run_until(500'000);
    using enum Status;
    EXPECT_EQ(statuses(connection.sent()), (std::vector{ok, remote_access, flushed}));
    expect_in_order(connection.sent());
    for (unsigned i = 0; i < 9'999; ++i) EXPECT_EQ(*network.b.at(request.remote_address + i), 0);
    EXPECT_GE(network.b.dropped(DropReason::remote_access), 1U);
    ASSERT_EQ(network.a.failed.size(), 1U);
    EXPECT_EQ(network.a.failed[0].second, remote_access);
    // The peer's queue pair lives, its receive request waits on.
    EXPECT_TRUE(network.b.transport().is_usable(connection.qpn_b));
    EXPECT_TRUE(connection.arrived().empty());
    // Each later request: exactly one flushed completion.
    EXPECT_GT(network.a.transport().submit_room(connection.qpn_a), 0U);
    connection.post(connection.write(0, 10));
    connection.post(connection.write(0, 10));
    network.run_until(2'000'000);
    EXPECT_EQ(statuses(connection.sent()), (std::vector{ok, remote_access, flushed, flushed, flushed}));
    EXPECT_TRUE(network.b.buffers.empty());
}

TEST(TransportErrors, KeysNeedTheRightToBeWritten) {
    Network network({});
    Connection connection(network, 1 << 20);
    const std::uint32_t key = network.b.add_memory(0x9000'0000, 8192, false, regmap::access_local_write);
    regmap::WorkRequest request = connection.write(0, 100);
    request.remote_address = 0x9000'0000;
    request.remote_key = key;
    connection.post(request);
    network.run_until(500'000);
    EXPECT_EQ(statuses(connection.sent()), std::vector{Status::remote_access});
    EXPECT_EQ(*network.b.at(0x9000'0000), 0);
}

TEST(TransportErrors, AMessageLongerThanItsReceiveBuffer) {
    Network network({});
    Connection connection(network, 1 << 20);
    connection.receive(0, 9'999);
    connection.receive(20'000, 10'000);
    connection.post(connection.write(0, 10'000, WorkOpcode::send));
    network.run_until(500'000);
    EXPECT_EQ(statuses(connection.sent()), std::vector{Status::remote_invalid});
    EXPECT_EQ(statuses(connection.arrived()), (std::vector{Status::receive_too_small, Status::flushed}));
    EXPECT_EQ(*network.b.at(Connection::target + 9'999), 0);
    EXPECT_FALSE(network.b.transport().is_usable(connection.qpn_b));
    EXPECT_TRUE(network.b.buffers.empty());
}

TEST(TransportErrors, TheSenderWaitsForAReceiveRequest) {
    Network network({});
    Connection connection(network, 1 << 20);
    connection.post(connection.write(0, 100'000, WorkOpcode::send));
    connection.post(connection.write(100'000, 10'000, WorkOpcode::write_immediate));
    network.run_until(12'000'000);  // longer than the time limit: the peer answers, so it lives
    EXPECT_TRUE(connection.sent().empty());
    EXPECT_EQ(*network.b.at(Connection::target), 0);
    const std::uint64_t refused = network.b.dropped(DropReason::receiver_not_ready);
    EXPECT_GT(refused, 100U);
    EXPECT_LT(refused, 3'000U) << "one packet at a time while the receiver is not ready";
    connection.receive(0, 100'000);
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 1; }, 100'000));
    connection.receive(200'000, 1);  // WRITE with immediate does not look at the buffer
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 2; }, 100'000));
    EXPECT_EQ(statuses(connection.arrived()), (std::vector{Status::ok, Status::ok}));
    EXPECT_TRUE(connection.is_intact(0, 110'000));
    EXPECT_EQ(connection.arrived()[1].length, 10'000U);
    EXPECT_EQ(connection.arrived()[1].opcode, 128 + static_cast<int>(WorkOpcode::write_immediate));
}

TEST(TransportErrors, InvalidReceiveRequestsCompleteAndTakeNoMessage) {
    Network network({});
    Connection connection(network, 1 << 20);
    regmap::ReceiveRequest bad;
    bad.address = Connection::target;
    bad.key = connection.target_key + 1;
    bad.length = 100;
    network.b.transport().post_receive(connection.qpn_b, bad, 0);
    ASSERT_EQ(statuses(connection.arrived()), std::vector{Status::invalid_key});
    connection.receive(0, 100);
    connection.post(connection.write(0, 100, WorkOpcode::send));
    ASSERT_TRUE(network.run_while_not([&] { return connection.arrived().size() == 2; }));
    EXPECT_EQ(connection.arrived()[1].status, Status::ok);
    EXPECT_TRUE(connection.is_intact(0, 100));
}

TEST(TransportErrors, ADeadPeerIsGivenUpAfterTheTimeLimit) {
    Network network({.time_limit_us = 1000});
    Connection connection(network, 1 << 20);
    connection.post(connection.write(0, 1000));
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 1; }));
    network.filter = [](std::uint32_t, const Packet&) { return false; };
    const std::uint64_t start = network.now_ns;
    network.a.transport().enqueue(connection.qpn_a,
                                  {.opcode = Opcode::mp_ep_row, .tag = 77, .length_bytes = 5000});
    for (unsigned i = 0; i < 5; ++i) connection.post(connection.write(i * 1000, 1000));
    regmap::ReceiveRequest receive;
    network.a.transport().post_receive(connection.qpn_a, receive, 0);
    ASSERT_TRUE(network.run_while_not([&] { return !network.a.failed.empty(); }));
    EXPECT_GE(network.now_ns - start, 1'000'000U);
    EXPECT_LE(network.now_ns - start, 1'200'000U);
    using enum Status;
    EXPECT_EQ(statuses(connection.sent()),
              (std::vector{ok, retry_exceeded, flushed, flushed, flushed, flushed}));
    expect_in_order(connection.sent());
    EXPECT_EQ(statuses(network.a.completions[Connection::receive_queue]), std::vector{flushed});
    EXPECT_EQ(network.a.done, (std::vector<std::pair<std::uint64_t, Status>>{{77, flushed}}));
    EXPECT_EQ(network.a.failed,
              (std::vector<std::pair<std::uint32_t, Status>>{{connection.qpn_a, retry_exceeded}}));
    EXPECT_FALSE(network.a.transport().enqueue(connection.qpn_a, {.length_bytes = 1}));
    const std::uint64_t sent = network.a.transport().statistics().data_packets_sent;
    EXPECT_LT(sent, 300U) << "time-outs back off";
    network.run_until(network.now_ns + 10'000'000);
    EXPECT_EQ(network.a.transport().statistics().data_packets_sent, sent);
    EXPECT_EQ(connection.sent().size(), 6U);
}

TEST(TransportErrors, AFullCompletionQueueFailsTheQueuePair) {
    Network network({});
    Connection connection(network, 1 << 20);
    network.a.on_completion = [&](std::uint32_t, const regmap::Completion& completion) {
        if (completion.user_data == 1) network.a.transport().queue_overflow(connection.qpn_a);
    };
    for (unsigned i = 0; i < 4; ++i) connection.post(connection.write(i * 100'000, 100'000));
    network.run_until(1'000'000);
    using enum Status;
    EXPECT_EQ(statuses(connection.sent()), (std::vector{ok, ok, limit_exceeded, flushed}));
    EXPECT_EQ(network.a.failed.size(), 1U);
}

TEST(TransportErrors, DestroyFlushesAndTheNumberIsDead) {
    Network network({});
    Connection connection(network, 1 << 20);
    connection.receive(0, 100);
    for (unsigned i = 0; i < 3; ++i) connection.post(connection.write(i * 100'000, 100'000));
    network.run_until(3'000);
    EXPECT_EQ(network.a.transport().destroy_qp(connection.qpn_a), Status::ok);
    using enum Status;
    EXPECT_EQ(statuses(connection.sent()), (std::vector{flushed, flushed, flushed}));
    EXPECT_EQ(network.b.transport().destroy_qp(connection.qpn_b), Status::ok);
    EXPECT_EQ(statuses(connection.arrived()), std::vector{flushed});
    network.run_until(5'000'000);
    EXPECT_EQ(connection.sent().size(), 3U);
    EXPECT_TRUE(network.b.buffers.empty());
    connection.post(connection.write(0, 1));
    EXPECT_EQ(connection.sent().size(), 3U);
}

TEST(TransportErrors, ForeignAndSetAsideOpcodesAreCountedAndForgotten) {
    Network network({});
    Connection connection(network, 1 << 20);
    Packet packet;
    packet.qpn = connection.qpn_b;
    packet.psn = network.a.transport().queue_pair(connection.qpn_a)->first_psn;
    packet.payload_bytes = 4;
    for (const Opcode opcode : {Opcode::mp_read_request, Opcode::mp_atomic_request, Opcode::rc_send_only}) {
        packet.opcode = opcode;
        network.b.receive(packet, {1, 2, 3, 4});
    }
    EXPECT_EQ(network.b.dropped(DropReason::opcode), 3U);
    EXPECT_TRUE(network.b.buffers.empty());
    EXPECT_EQ(network.b.windows[connection.qpn_b].next_expected(), packet.psn);
    packet.qpn = 7;
    network.b.transport().on_packet({.packet = packet});
    EXPECT_EQ(network.b.dropped(DropReason::unknown_qp), 1U);
}

TEST(TransportErrors, ContradictoryPacketsOfOneMessageAreRefused) {
    Network network({});
    Connection connection(network, 1 << 20);
    connection.receive(0, 10'000);
    Packet packet;
    packet.opcode = Opcode::mp_send;
    packet.qpn = connection.qpn_b;
    packet.psn = network.a.transport().queue_pair(connection.qpn_a)->first_psn;
    packet.payload_bytes = 4096;
    packet.message_bytes = 10'000;
    const std::vector<std::uint8_t> bytes(4096);
    network.b.receive(packet, bytes);
    packet.psn = engines::psn_add(packet.psn, 1);
    packet.message_offset = 4096;
    packet.message_bytes = 9'000;
    network.b.receive(packet, bytes);
    EXPECT_EQ(network.b.dropped(DropReason::malformed), 1U);
    packet.message_bytes = 10'000;
    packet.message_number = 5;
    network.b.receive(packet, bytes);
    EXPECT_EQ(network.b.dropped(DropReason::malformed), 2U);
    EXPECT_EQ(network.b.windows[connection.qpn_b].next_expected(), packet.psn);
    EXPECT_TRUE(network.b.buffers.empty());
}

TEST(TransportErrors, AcknowledgementsOfWhatWasNeverSentChangeNothing) {
    const std::uint64_t seed = test_seed(11);
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    Network network({.seed = seed});
    Connection connection(network, 1 << 20);
    connection.post(connection.write(0, 500'000));
    network.run_until(1'000);
    const QueuePair& qp = *network.a.transport().queue_pair(connection.qpn_a);
    Packet packet;
    packet.opcode = Opcode::mp_ack;
    packet.qpn = connection.qpn_a;
    const auto psn = [&](std::uint64_t count) {
        return engines::psn_add(qp.first_psn, static_cast<std::uint32_t>(count));
    };
    const auto expect_refused = [&](AckHeader ack, std::uint32_t cause) {
        packet.ack = ack;
        packet.psn = cause;
        const std::uint64_t before = network.a.dropped(DropReason::stale_ack);
        const std::uint64_t base = qp.base;
        network.a.receive(packet, {});
        EXPECT_EQ(network.a.dropped(DropReason::stale_ack), before + 1);
        EXPECT_EQ(qp.base, base);
    };
    AckHeader ack;
    ack.cumulative_psn = psn(qp.next + 1);
    expect_refused(ack, psn(0));
    ack.cumulative_psn = psn(0);
    expect_refused(ack, psn(qp.next));
    ack.bitmap_base = psn(qp.next - 1);
    ack.bitmap_words = 1;
    ack.bitmap[0] = 2;
    expect_refused(ack, psn(0));
    ack.bitmap[0] = 0;
    ack.bitmap_words = 3;
    expect_refused(ack, psn(0));
    ack.bitmap_words = 0;
    ack.reason = static_cast<NackReason>(99);
    expect_refused(ack, psn(0));
    // Anything at all: nothing breaks, and the message arrives or the queue pair fails.
    for (unsigned i = 0; i < 20'000; ++i) {
        packet.ack = AckHeader{};
        packet.ack.cumulative_psn = psn(qp.base + network.random() % 700 - 600);
        packet.ack.bitmap_base = psn(qp.base + network.random() % 1200 - 600);
        packet.ack.bitmap_words = network.random() % 4;
        packet.ack.entropy = static_cast<std::uint16_t>(network.random());
        packet.ack.plane = static_cast<std::uint8_t>(network.random());
        packet.ack.reason = static_cast<NackReason>(network.random() % 5);
        packet.ack.bitmap = {network.random() >> network.random() % 64,
                             network.random() >> network.random() % 64};
        packet.psn = psn(qp.base + network.random() % 700 - 600);
        network.a.receive(packet, {});
        network.run_until(network.now_ns + 100);
    }
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 1; }));
}

}  // namespace
}  // namespace plait::firmware::testing
