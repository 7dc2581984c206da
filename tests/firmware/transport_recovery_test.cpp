// Loss, refusals, and planes that fail and return.

#include "transport_connection.hpp"

namespace plait::firmware::testing {
namespace {

std::uint64_t psn_count(const QueuePair& qp, const Packet& packet) {
    return engines::psn_add(packet.psn, 0U - qp.first_psn);
}

TEST(TransportRecovery, ALossInAStreamIsFoundWithinTwoRoundTrips) {
    Network network({});
    Connection connection(network, 4 << 20);
    const QueuePair& qp = *network.a.transport().queue_pair(connection.qpn_a);
    std::uint64_t lost_at = 0;
    std::uint64_t again_at = 0;
    network.filter = [&](std::uint32_t from, const Packet& packet) {
        if (from != 0 || !is_data(packet.opcode) || psn_count(qp, packet) != 100) return true;
        if (lost_at != 0) {
            again_at = network.now_ns;
            return true;
        }
        lost_at = network.now_ns;
        return false;
    };
    connection.post(connection.write(0, 4 << 20));
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 1; }));
    EXPECT_EQ(network.a.transport().statistics().retransmitted, 1U);
    EXPECT_EQ(network.a.transport().statistics().rto_count, 0U);
    EXPECT_LT(again_at - lost_at, 15'000U);  // RTT 3 us, and queues of 2 us twice
}

TEST(TransportRecovery, ATailLossWaitsForTheTimeoutAndNoLonger) {
    Network network({});
    Connection connection(network, 4096);
    unsigned copies = 0;
    network.filter = [&](std::uint32_t from, const Packet& packet) {
        return from != 0 || !is_data(packet.opcode) || ++copies > 2;
    };
    connection.post(connection.write(0, 100));
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 1; }));
    EXPECT_EQ(copies, 3U);
    EXPECT_EQ(network.a.transport().statistics().rto_count, 2U);
    // RTO = 8 x 5.5 us, then twice that; and a round trip of twice 1.5 us.
    EXPECT_GE(network.now_ns, 135'000U);
    EXPECT_LT(network.now_ns, 136'000U);
}

// Where every packet is sent again before its answer comes, no round trip can be measured.
TEST(TransportRecovery, AMuchLongerRoundTripThanAssumedIsLearnt) {
    constexpr std::uint32_t bytes = 4 << 20;
    Network network({.latency_ns = 400'000});
    Connection connection(network, bytes);
    connection.post(connection.write(0, bytes));
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 1; }));
    EXPECT_EQ(connection.sent()[0].status, Status::ok);
    EXPECT_LE(network.a.transport().statistics().retransmitted, 32U);
    EXPECT_LT(network.a.transport().statistics().probes_sent, 200U);
}

TEST(TransportRecovery, ALateAcknowledgementCancelsTheRetransmission) {
    Network network({});
    Connection connection(network, 4 << 20);
    const QueuePair& qp = *network.a.transport().queue_pair(connection.qpn_a);
    // Packet 50 is 20 us late. While it is taken for lost the planes give no credit, so that the news finds
    // it waiting.
    const std::uint32_t threshold = qp.reordering_packets;
    network.extra_delay_ns = [&](std::uint32_t from, const Packet& packet) -> std::uint64_t {
        if (from != 0 || !is_data(packet.opcode) || psn_count(qp, packet) != 50) return 0;
        network.at(network.now_ns + 3'000, [&] { network.a.hold_credits = true; });
        return 20'000;
    };
    connection.post(connection.write(0, 4 << 20));
    const TransportStatistics& statistics = network.a.transport().statistics();
    ASSERT_TRUE(network.run_while_not([&] { return statistics.cancelled_retransmissions != 0; }));
    EXPECT_EQ(statistics.losses, 1U);
    EXPECT_EQ(statistics.rto_count, 0U);
    EXPECT_TRUE(qp.lost.empty());
    EXPECT_GT(qp.reordering_packets, threshold) << "be slower to call a packet lost";
    network.a.hold_credits = false;
    for (const auto& [plane, bytes] : network.a.held_credits)
        network.a.transport().on_transmit_credit(plane, bytes);
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 1; }));
    EXPECT_EQ(statistics.retransmitted, 0U);
    EXPECT_EQ(statistics.cancelled_retransmissions, 1U);
    EXPECT_TRUE(connection.is_intact(0, 4 << 20));
}

TEST(TransportRecovery, TheThresholdFollowsTheReorderingOfTheNetwork) {
    Network network({.reorder = 0.1, .reorder_ns = 15'000});
    Connection connection(network, 4 << 20);
    for (unsigned i = 0; i < 10; ++i) connection.post(connection.write(0, 4 << 20));
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 10; }));
    EXPECT_TRUE(connection.is_intact(0, 4 << 20));
    const TransportStatistics& statistics = network.a.transport().statistics();
    EXPECT_EQ(statistics.losses, statistics.retransmitted + statistics.cancelled_retransmissions);
    EXPECT_LT(statistics.retransmitted, 10'240U / 50) << "late packets are not lost ones";
    EXPECT_LE(network.a.transport().queue_pair(connection.qpn_a)->reordering_packets, 256U);
}

TEST(TransportRecovery, NoPacketMemoryIsTriedAgainWithoutBlame) {
    Network network({});
    Connection connection(network, 1 << 20);
    network.b.packet_memory_full = true;
    connection.post(connection.write(0, 1 << 20));
    network.run_until(100'000);
    EXPECT_TRUE(connection.sent().empty());
    EXPECT_GT(network.b.dropped(DropReason::no_buffer), 0U);
    EXPECT_LT(network.a.transport().queue_pair(connection.qpn_a)->congestion.bytes(), 150'000U);
    network.b.packet_memory_full = false;
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 1; }, 1'000'000));
    EXPECT_TRUE(connection.is_intact(0, 1 << 20));
    EXPECT_EQ(network.a.sprays[connection.qpn_a].assumed_bad_count(), 0U);
    EXPECT_EQ(network.a.transport().statistics().planes_excluded, 0U);
}

TEST(TransportRecovery, RowsOfAnOperationNotKnownYetAreTriedAgain) {
    Network network({.time_limit_us = 500});
    Connection connection(network, 1 << 20);
    bool known = false;
    network.b.judge_row = [&](const Packet&) {
        return known ? NackReason::none : NackReason::unknown_operation;
    };
    for (std::uint64_t tag = 0; tag < 100; ++tag)
        network.a.transport().enqueue(connection.qpn_a,
                                      {.opcode = Opcode::mp_ep_row, .tag = tag, .length_bytes = 7168});
    network.run_until(3'000'000);
    EXPECT_TRUE(network.a.failed.empty()) << "the peer answers";
    known = true;
    ASSERT_TRUE(network.run_while_not([&] { return network.a.done.size() == 100; }, 200'000));
    EXPECT_TRUE(network.b.rows_intact);
    for (const auto& [tag, bytes] : network.b.row_bytes) EXPECT_EQ(bytes, 7168U) << tag;
    EXPECT_TRUE(network.b.buffers.empty());
}

/// Bytes of a long stream that arrive between two times, in percent of what four planes carry.
class Stream {
  public:
    explicit Stream(Network& network) : network_(network), connection_(network, 1 << 20) {
        const auto refill = [this](std::uint32_t) { post(); };
        network.a.on_resume = refill;
        post();
    }
    unsigned percent(std::uint64_t from_ns, std::uint64_t to_ns) {
        network_.run_until(from_ns);
        const std::uint64_t before = network_.b.transport().statistics().received;
        network_.run_until(to_ns);
        const std::uint64_t packets = network_.b.transport().statistics().received - before;
        return static_cast<unsigned>(packets * (4096 + 86 + 24) * 100 / ((to_ns - from_ns) * 50));
    }
    /// Everything posted completes.
    void finish() {
        stop_ = true;
        ASSERT_TRUE(network_.run_while_not([&] { return connection_.sent().size() == posted_; }));
        for (const regmap::Completion& completion : connection_.sent())
            ASSERT_EQ(completion.status, Status::ok);
        EXPECT_TRUE(connection_.is_intact(0, 1 << 20));
        EXPECT_TRUE(network_.a.failed.empty());
    }
    const Connection& connection() const { return connection_; }

  private:
    void post() {
        while (!stop_ && network_.a.transport().submit_room(connection_.qpn_a) != 0) {
            connection_.post(connection_.write(posted_++ % 8 * 131'072, 131'072));
        }
    }
    Network& network_;
    Connection connection_;
    std::uint64_t posted_ = 0;
    bool stop_ = false;
};

TEST(TransportRecovery, LossCostsLittleMoreThanWhatIsLost) {
    const std::uint64_t seed = test_seed(9);
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    const auto percent = [&](double loss) {
        Network network({.loss = loss, .ack_loss = loss, .seed = seed});
        Stream stream(network);
        const unsigned result = stream.percent(100'000, 1'100'000);
        stream.finish();
        return result;
    };
    const unsigned calm = percent(0);
    EXPECT_GE(calm, 98U);
    EXPECT_GE(percent(0.001) * 100, calm * 97);
    EXPECT_GE(percent(0.01) * 100, calm * 95);
    EXPECT_GE(percent(0.1) * 100, calm * 75);
}

TEST(TransportPlanes, AnAnnouncedFailureCostsItsShareAndNothingElse) {
    for (const std::uint32_t failing : {0U, 1U}) {  // the sender's link, the receiver's link
        Network network({});
        Stream stream(network);
        EXPECT_GE(stream.percent(100'000, 300'000), 95U);
        network.set_port(failing, 2, false);
        EXPECT_GE(stream.percent(330'000, 600'000), 72U);  // 75 at most
        const std::uint64_t by_plane = network.a.packets_by_plane[2];
        EXPECT_GE(stream.percent(600'000, 800'000), 72U);
        EXPECT_LE(network.a.packets_by_plane[2] - by_plane, 4U) << "only probes";
        network.set_port(failing, 2, true);
        EXPECT_GE(stream.percent(850'000, 1'000'000), 95U);
        stream.finish();
        EXPECT_EQ(network.a.transport().statistics().rto_count, 0U);
    }
}

TEST(TransportPlanes, ASilentFailureIsFoundAndTheReturnTooWithoutBeingTold) {
    Network network({});
    Stream stream(network);
    EXPECT_GE(stream.percent(100'000, 300'000), 95U);
    network.dead_planes = 1U << 1;
    network.run_until(330'000);
    EXPECT_EQ(network.a.transport().statistics().planes_excluded, 1U) << "within a few round trips";
    EXPECT_GE(stream.percent(340'000, 1'000'000), 70U);
    network.dead_planes = 0;
    EXPECT_GE(stream.percent(1'150'000, 1'400'000), 95U);
    stream.finish();
}

TEST(TransportPlanes, AllPlanesDownIsSurvivedWithinTheTimeLimit) {
    Network network({.time_limit_us = 2000});
    Stream stream(network);
    network.run_until(100'000);
    for (std::uint8_t plane = 0; plane < 4; ++plane) network.set_port(0, plane, false);
    network.run_until(1'000'000);
    for (std::uint8_t plane = 0; plane < 4; ++plane) network.set_port(0, plane, true);
    EXPECT_GE(stream.percent(1'100'000, 1'300'000), 95U);
    stream.finish();
}

TEST(TransportPlanes, AllPlanesDownForLongerFailsTheQueuePair) {
    Network network({.time_limit_us = 500});
    Connection connection(network, 1 << 20);
    connection.post(connection.write(0, 1 << 20));
    network.run_until(10'000);
    for (std::uint8_t plane = 0; plane < 4; ++plane) network.set_port(0, plane, false);
    network.run_until(1'000'000);
    ASSERT_EQ(connection.sent().size(), 1U);
    EXPECT_EQ(connection.sent()[0].status, Status::retry_exceeded);
}

TEST(TransportPlanes, RandomFailuresLoseNothing) {
    const std::uint64_t seed = test_seed(5);
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    Network network(
        {.loss = 0.01, .duplicate = 0.01, .reorder = 0.05, .time_limit_us = 20'000, .seed = seed});
    Stream stream(network);
    std::mt19937_64 random(seed);
    for (unsigned i = 0; i < 60; ++i) {
        network.run_until(network.now_ns + random() % 60'000);
        const auto plane = static_cast<std::uint8_t>(random() % 4);
        if (random() % 2 == 0) network.dead_planes = random() % 2 == 0 ? 1U << plane : 0;
        else network.set_port(random() % 2 == 0 ? 0 : 1, plane, random() % 3 != 0);
    }
    network.dead_planes = 0;
    for (std::uint8_t plane = 0; plane < 4; ++plane) {
        network.set_port(0, plane, true);
        network.set_port(1, plane, true);
    }
    stream.finish();
}

struct Policy {
    const char* name;
    regmap::SprayPolicy value;
};

void PrintTo(const Policy& policy, std::ostream* stream) { *stream << policy.name; }

class Policies : public ::testing::TestWithParam<Policy> {};

TEST_P(Policies, ComparisonPoliciesDeliverToo) {
    Network network({.loss = 0.01});
    Connection connection(network, 2 << 20, 4096, 512, GetParam().value);
    connection.post(connection.write(0, 2 << 20));
    ASSERT_TRUE(network.run_while_not([&] { return connection.sent().size() == 1; }));
    EXPECT_EQ(connection.sent()[0].status, Status::ok);
    EXPECT_TRUE(connection.is_intact(0, 2 << 20));
}

INSTANTIATE_TEST_SUITE_P(All, Policies,
                         ::testing::Values(Policy{"spray", regmap::SprayPolicy::spray},
                                           Policy{"round_robin", regmap::SprayPolicy::round_robin},
                                           Policy{"single_path", regmap::SprayPolicy::single_path}));

}  // namespace
}  // namespace plait::firmware::testing
