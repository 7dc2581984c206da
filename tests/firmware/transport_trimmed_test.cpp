// Packets whose payload a switch cut off: the sender hears of it at once.

#include "transport_connection.hpp"

namespace plait::firmware::testing {
namespace {

/// The switch on the way from device 0: cuts what `chosen` says, and sends it on as a packet of its own.
void trim_on_the_way(Network& network, const std::function<bool(const Packet&)>& chosen) {
    network.filter = [&network, chosen](std::uint32_t from, const Packet& packet) {
        if (from != 0 || !is_data(packet.opcode) || !chosen(packet)) return true;
        Packet left;
        left.opcode = packet.opcode;
        left.plane = packet.plane;
        left.entropy = packet.entropy;
        left.qpn = packet.qpn;
        left.psn = packet.psn;
        left.congestion = left.trimmed = true;
        network.at(network.now_ns + network.config.latency_ns,
                   [&network, left] { network.b.receive(left, {}); });
        return false;
    };
}

TEST(TransportTrimmed, ComesAgainInARoundTrip) {
    Network network({});
    Connection connection(network, 4096);
    unsigned copies = 0;
    trim_on_the_way(network, [&](const Packet&) { return ++copies <= 2; });
    connection.post(connection.write(0, 4096));
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 1; }));
    EXPECT_TRUE(connection.is_intact(0, 4096));
    EXPECT_EQ(copies, 3U);
    EXPECT_LT(network.now_ns, 3 * 4'000U);  // three round trips of 3 us; a time-out takes 44
    EXPECT_EQ(network.b.dropped(DropReason::trimmed), 2U);
    EXPECT_EQ(network.a.transport().statistics().nacks_received, 2U);
    EXPECT_EQ(network.a.transport().statistics().rto_count, 0U);
}

TEST(TransportTrimmed, AThirdOfAllIsRepeatedWithoutATimeout) {
    Network network({.seed = test_seed(3)});
    Connection connection(network, 4 << 20);
    trim_on_the_way(network, [&](const Packet&) { return network.random() % 3 == 0; });
    for (unsigned i = 0; i < 4; ++i) connection.post(connection.write(i << 20, 1 << 20));
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 4; }));
    EXPECT_TRUE(connection.is_intact(0, 4 << 20));
    const TransportStatistics& statistics = network.a.transport().statistics();
    EXPECT_GT(network.b.dropped(DropReason::trimmed), 300U);
    EXPECT_EQ(statistics.rto_count, 0U);
    EXPECT_EQ(statistics.planes_excluded, 0U);
    EXPECT_EQ(network.a.sprays[connection.qpn_a].assumed_bad_count(), 0U);
    EXPECT_EQ(network.b.transport().statistics().received, 1024U);  // each once
}

TEST(TransportTrimmed, NothingOfItIsBelieved) {
    Network network({});
    Connection connection(network, 1 << 20);
    connection.post(connection.write(0, 1 << 20));
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 1; }));
    const TransportStatistics& at_b = network.b.transport().statistics();
    const std::uint32_t next = network.b.windows[connection.qpn_b].next_expected();
    Packet forged;
    forged.trimmed = true;
    forged.qpn = connection.qpn_b;
    // Long received, just received, to come, far beyond the window; a message that lies everywhere.
    for (const std::uint32_t psn : {next - 200, next - 1, next, next + 5, next + 100'000}) {
        forged.psn = psn & 0xffffffU;
        forged.address = 0xdead;
        forged.message_bytes = forged.message_offset = ~0U;
        network.b.receive(forged, {});
        EXPECT_EQ(network.b.windows[connection.qpn_b].next_expected(), next);
        EXPECT_EQ(network.b.windows[connection.qpn_b].highest(), next);
    }
    network.run_until(network.now_ns + 1'000'000);
    EXPECT_EQ(at_b.received, 256U);
    connection.post(connection.write(0, 1 << 20));
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 2; }));
    EXPECT_EQ(at_b.received, 512U);
    EXPECT_EQ(network.a.transport().statistics().retransmitted, 0U);
}

}  // namespace
}  // namespace plait::firmware::testing
