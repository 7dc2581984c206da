// What is sent arrives, once and whole, whatever the network does to it.

#include "transport_connection.hpp"

#include <set>

namespace plait::firmware::testing {
namespace {

using regmap::WorkOpcode;

void expect_success(const std::vector<regmap::Completion>& completions, std::size_t count) {
    ASSERT_EQ(completions.size(), count);
    for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(completions[i].status, Status::ok) << name(completions[i].status);
        EXPECT_EQ(completions[i].user_data % 1000, i) << "out of order";
    }
}

void expect_nothing_left(Network& network, const Connection& connection) {
    network.run_until(network.now_ns + 1'000'000);
    EXPECT_TRUE(network.a.buffers.empty());
    EXPECT_TRUE(network.b.buffers.empty());
    const QueuePair& qp = *network.a.transport().queue_pair(connection.qpn_a);
    EXPECT_EQ(qp.base, qp.next);
    EXPECT_EQ(qp.in_flight_bytes, 0U);
    EXPECT_TRUE(qp.lost.empty());
    EXPECT_EQ(qp.message_head, qp.message_tail);
}

class Sizes : public ::testing::TestWithParam<std::uint16_t> {};

TEST_P(Sizes, WritesOfEverySizeAroundTheMtu) {
    const std::uint16_t mtu = GetParam();
    Network network({});
    Connection connection(network, 1 << 20, mtu);
    const std::uint32_t sizes[] = {0, 1, mtu - 1U, mtu, mtu + 1U, 2U * mtu, 0, 7U * mtu + 3};
    std::uint64_t offset = 0;
    std::uint64_t packets = 0;
    for (const std::uint32_t size : sizes) {
        connection.post(connection.write(offset, size));
        offset += size;
        packets += size == 0 ? 1 : (size + mtu - 1U) / mtu;
    }
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == std::size(sizes); }));
    expect_success(connection.sent(), std::size(sizes));
    for (std::size_t i = 0; i < std::size(sizes); ++i) EXPECT_EQ(connection.sent()[i].length, sizes[i]);
    EXPECT_TRUE(connection.is_intact(0, offset));
    EXPECT_EQ(*network.b.at(Connection::target + offset), 0) << "written beyond the message";
    expect_nothing_left(network, connection);
    EXPECT_EQ(network.a.transport().statistics().data_packets_sent, packets);
    EXPECT_EQ(network.a.transport().statistics().retransmitted, 0U);
}

INSTANTIATE_TEST_SUITE_P(Mtus, Sizes, ::testing::Values(256, 1024, 4096));

TEST(TransportDelivery, UsesAllPlanesAlikeAndReachesNearlyLineRate) {
    Network network({});
    Connection connection(network, 8 << 20);
    connection.post(connection.write(0, 8 << 20));
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 1; }));
    EXPECT_TRUE(connection.is_intact(0, 8 << 20));
    // 8 MiB at 4 x 100 Gb/s with 4096 of 4210 bytes of payload: 172.5 us, and a round trip.
    EXPECT_LT(network.now_ns, 185'000U);
    const auto& planes = network.a.packets_by_plane;
    for (unsigned plane = 0; plane < 4; ++plane) EXPECT_NEAR(static_cast<double>(planes[plane]), 512, 8);
    EXPECT_LE(network.b.transport().statistics().acks_sent, 2048 / 4 + 8) << "acknowledgements are gathered";
}

struct Weather {
    const char* name;
    double loss, duplicate, reorder, ack_loss;
};

void PrintTo(const Weather& weather, std::ostream* stream) { *stream << weather.name; }

class Delivery : public ::testing::TestWithParam<Weather> {};

TEST_P(Delivery, EverythingArrivesOnceAndInOrderOfCompletion) {
    const Weather& weather = GetParam();
    const std::uint64_t seed = test_seed(7);
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    for (std::uint64_t round = 0; round < 4; ++round) {
        Network network({.loss = weather.loss,
                         .duplicate = weather.duplicate,
                         .reorder = weather.reorder,
                         .ack_loss = weather.ack_loss,
                         .time_limit_us = 20'000,
                         .seed = seed + round});
        Connection connection(network, 6 << 20, round % 2 == 0 ? 4096 : 1024, round < 2 ? 512 : 64);
        std::mt19937_64 random(seed + round);
        constexpr unsigned messages = 48;
        std::uint64_t offset = 0;
        unsigned receives = 0;
        std::vector<std::uint64_t> starts;
        for (unsigned i = 0; i < messages; ++i) {
            const std::uint32_t size = random() % 5 == 0 ? 0 : static_cast<std::uint32_t>(random() % 100'000);
            constexpr WorkOpcode opcodes[] = {WorkOpcode::write, WorkOpcode::write_immediate,
                                              WorkOpcode::send, WorkOpcode::send_immediate};
            const WorkOpcode opcode = opcodes[random() % 4];
            if (opcode != WorkOpcode::write) {
                connection.receive(offset, size);
                ++receives;
            }
            connection.post(connection.write(offset, size, opcode));
            offset += size;
            starts.push_back(offset);
        }
        // Whoever learns of a message finds it, and all before it, in place.
        network.b.on_completion = [&](std::uint32_t, const regmap::Completion& completion) {
            if ((completion.flags & 1) == 0) return;
            EXPECT_TRUE(connection.is_intact(0, starts[completion.immediate - 0xabc00000U]))
                << "immediate too early";
        };
        ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == messages; }));
        expect_success(connection.sent(), messages);
        expect_success(connection.arrived(), receives);
        EXPECT_TRUE(connection.is_intact(0, offset));
        expect_nothing_left(network, connection);
        EXPECT_TRUE(network.a.failed.empty());
        const TransportStatistics& receiver = network.b.transport().statistics();
        EXPECT_EQ(receiver.received, network.a.transport().queue_pair(connection.qpn_a)->next);
        if (weather.loss == 0 && weather.ack_loss == 0 && weather.reorder == 0) {
            EXPECT_EQ(network.a.transport().statistics().retransmitted, 0U);
        }
        if (weather.loss > 0) {
            EXPECT_GT(network.a.transport().statistics().retransmitted, 0U);
        }
        if (weather.duplicate > 0) {
            EXPECT_GT(receiver.duplicates, 0U);
        }
        if (weather.reorder > 0) {
            EXPECT_GT(receiver.out_of_order_max, 4U);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Weathers, Delivery,
                         ::testing::Values(Weather{"calm", 0, 0, 0, 0}, Weather{"loss", 0.01, 0, 0, 0.01},
                                           Weather{"heavy_loss", 0.1, 0, 0, 0.1},
                                           Weather{"duplicates", 0, 0.05, 0, 0},
                                           Weather{"reordering", 0, 0, 0.1, 0},
                                           Weather{"ack_loss", 0, 0, 0, 0.3},
                                           Weather{"all", 0.05, 0.05, 0.1, 0.05}),
                         [](const auto& weather) { return std::string(weather.param.name); });

/// A seed with which device 0's first queue pair starts a few packets below the wrap.
std::uint64_t seed_before_wrap() {
    for (std::uint64_t seed = 1;; ++seed)
        if ((derive_seed(seed, 0, 1) & engines::psn_mask) > engines::psn_mask - 300) return seed;
}

TEST(TransportDelivery, SequenceNumbersWrap) {
    for (const double loss : {0.0, 0.05}) {
        Network network({.loss = loss, .reorder = loss, .seed = seed_before_wrap()});
        Connection connection(network, 8 << 20);
        const std::uint32_t first = network.a.transport().queue_pair(connection.qpn_a)->first_psn;
        connection.receive(0, 100);
        connection.post(connection.write(0, 4 << 20));
        connection.post(connection.write(4 << 20, 2 << 20, WorkOpcode::write_immediate));
        ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 2; }));
        expect_success(connection.sent(), 2);
        expect_success(connection.arrived(), 1);
        EXPECT_TRUE(connection.is_intact(0, 6 << 20));
        EXPECT_LT(network.b.windows[connection.qpn_b].next_expected(), first);
        expect_nothing_left(network, connection);
    }
}

TEST(TransportDelivery, MessageAndReceiveNumbersWrap) {
    Network network({.loss = 0.02, .reorder = 0.1, .time_limit_us = 20'000});
    Connection connection(network, 1 << 20, 1024);
    auto& sender = const_cast<QueuePair&>(*network.a.transport().queue_pair(connection.qpn_a));
    auto& receiver = const_cast<QueuePair&>(*network.b.transport().queue_pair(connection.qpn_b));
    sender.message_head = sender.message_cursor = sender.message_tail = 0xffff'fff0;
    sender.work_head = sender.work_tail = 0xffff'fff4;
    sender.next_receive_number = receiver.receive_head = receiver.receive_posted = 0xffff'fff8;
    for (unsigned i = 0; i < 40; ++i) {
        connection.receive(i * 5000, 5000);
        connection.post(connection.write(i * 5000, 5000, WorkOpcode::send_immediate));
    }
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 40; }));
    expect_success(connection.sent(), 40);
    expect_success(connection.arrived(), 40);
    EXPECT_TRUE(connection.is_intact(0, 200'000));
    expect_nothing_left(network, connection);
}

TEST(TransportDelivery, InlinePayloadIsTakenFromTheRequest) {
    Network network({.loss = 0.2});
    Connection connection(network, 4096);
    regmap::WorkRequest request = connection.write(0, 0);
    request.flags = 3;
    request.inline_length = 64;
    request.local_key = 0;
    for (unsigned i = 0; i < 64; ++i) request.inline_data[i] = pattern(i);
    connection.post(request);
    std::memset(request.inline_data, 0, sizeof request.inline_data);
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 1; }));
    EXPECT_EQ(connection.sent()[0].status, Status::ok);
    EXPECT_EQ(connection.sent()[0].length, 64U);
    EXPECT_TRUE(connection.is_intact(0, 64));
}

TEST(TransportDelivery, OnlySignalledRequestsComplete) {
    Network network({});
    Connection connection(network, 1 << 20);
    for (unsigned i = 0; i < 8; ++i) {
        regmap::WorkRequest request = connection.write(i * 1000, 1000);
        request.flags = i % 4 == 3 ? 1 : 0;
        connection.post(request);
    }
    network.run_until(1'000'000);
    ASSERT_EQ(connection.sent().size(), 2U);
    EXPECT_EQ(connection.sent()[0].request_index, 3);
    EXPECT_EQ(connection.sent()[1].request_index, 7);
}

TEST(TransportDelivery, ALonePacketIsAcknowledgedWithinARoundTrip) {
    Network network({});
    Connection connection(network, 4096);
    connection.post(connection.write(0, 64));
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 1; }));
    EXPECT_LT(network.now_ns, 3'100U);  // twice 1500 ns of wire
}

TEST(TransportDelivery, TheWindowHoldsTheSender) {
    Network network({});
    Connection connection(network, 2 << 20, 256, 64);
    connection.post(connection.write(0, 1 << 20));
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 1; }));
    EXPECT_EQ(network.a.transport().statistics().window_high_water, 64U);
    EXPECT_EQ(network.b.dropped(DropReason::out_of_window), 0U);
    EXPECT_TRUE(connection.is_intact(0, 1 << 20));
}

TEST(TransportDelivery, RoomIsToldAndResumed) {
    Network network({});
    Connection connection(network, 1 << 20);
    Transport<TestDevice>& transport = network.a.transport();
    unsigned posted = 0;
    const auto post_all = [&](std::uint32_t) {
        while (posted < 1000 && transport.submit_room(connection.qpn_a) != 0) {
            connection.post(connection.write(posted * 100, 100));
            ++posted;
        }
    };
    network.a.on_resume = post_all;
    post_all(0);
    EXPECT_EQ(posted, work_ring);
    EXPECT_EQ(transport.submit_room(connection.qpn_a), 0U);
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 1000; }));
    expect_success(connection.sent(), 0 + connection.sent().size());
    EXPECT_GT(network.a.resumed[Connection::send_queue], 0U);
}

TEST(TransportDelivery, SmallMessagesOfEp) {
    const std::uint64_t seed = test_seed(3);
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    Network network({.loss = 0.01, .reorder = 0.05, .seed = seed});
    Connection connection(network, 1 << 20);
    Transport<TestDevice>& transport = network.a.transport();
    constexpr std::uint32_t rows = 2000;
    std::uint32_t enqueued = 0;
    const auto refill = [&](std::uint32_t qpn) {
        while (enqueued < rows &&
               transport.enqueue(qpn, {.opcode = Opcode::mp_ep_row, .tag = enqueued, .length_bytes = 7392}))
            ++enqueued;
        if (enqueued < rows) {
            EXPECT_EQ(transport.room(qpn), 0U);
        }
    };
    network.a.on_refill = refill;
    refill(connection.qpn_a);
    EXPECT_LT(enqueued, rows);
    ASSERT_TRUE(network.run_while_not([&] { return network.a.done.size() == rows; }));
    EXPECT_TRUE(network.b.rows_intact);
    std::set<std::uint64_t> tags;
    for (const auto& [tag, status] : network.a.done) {
        EXPECT_EQ(status, Status::ok);
        EXPECT_TRUE(tags.insert(tag).second) << "done twice";
    }
    for (const auto& [tag, bytes] : network.b.row_bytes) EXPECT_EQ(bytes, 7392U) << tag;
    EXPECT_EQ(network.b.row_bytes.size(), rows);
    expect_nothing_left(network, connection);
    EXPECT_EQ(transport.peer_of(connection.qpn_a), 1U);
}

TEST(TransportDelivery, ManyQueuePairsShareThePlanesFairly) {
    Network network({});
    std::vector<Connection> connections;
    for (unsigned i = 0; i < 6; ++i) connections.emplace_back(network, 1 << 20);
    std::map<std::uint32_t, unsigned> packets;
    for (Connection& connection : connections) connection.post(connection.write(0, 1 << 20));
    network.filter = [&](std::uint32_t from, const Packet& packet) {
        if (from == 0 && is_data(packet.opcode)) ++packets[packet.qpn];
        return true;
    };
    network.run_until(20'000);  // the first one had the planes to itself
    packets.clear();
    network.run_until(80'000);
    ASSERT_EQ(packets.size(), 6U);
    unsigned least = ~0U;
    unsigned most = 0;
    for (const auto& [qpn, count] : packets) {
        least = std::min(least, count);
        most = std::max(most, count);
    }
    EXPECT_GT(least, 80U);
    EXPECT_LE(most - least, 4U);
}

}  // namespace
}  // namespace plait::firmware::testing
