#include <gtest/gtest.h>

#include <deque>
#include <initializer_list>
#include <plait/sim/fabric/scale_up.hpp>
#include <vector>

#include "network.hpp"

namespace plait::sim {
namespace {

struct NodePacket : ScaleUpPacket {
    uint64_t number = 0;
    uint64_t sent_ps = 0;
    uint64_t delivered_ps = 0;
    int sent_calls = 0;
    int deliveries = 0;
    int drops = 0;
};

// A switch whose devices only record.
class Node {
  public:
    explicit Node(const ScaleUpConfig& config = {}) : node_switch(queue, config), ends_(config.ports) {
        for (uint16_t port = 0; port < config.ports; ++port) {
            ends_[port] = {this, port};
            node_switch.attach(port, {deliver, port_change, &ends_[port]});
        }
    }

    NodePacket& send(uint16_t source, uint16_t destination, uint32_t size_bytes, uint64_t ready_ps = 0) {
        NodePacket& packet = packets.emplace_back();
        packet.owner = this;
        packet.number = packets.size() - 1;
        packet.size_bytes = size_bytes;
        packet.source = source;
        packet.destination = destination;
        packet.drop = [](ScaleUpPacket* lost, DropReason reason) {
            EXPECT_EQ(reason, DropReason::link_down);
            ++static_cast<NodePacket*>(lost)->drops;
        };
        packet.sent = [](ScaleUpPacket* gone) {
            auto& node_packet = *static_cast<NodePacket*>(gone);
            ++node_packet.sent_calls;
            node_packet.sent_ps = static_cast<Node*>(gone->owner)->queue.now_ps();
        };
        node_switch.send(&packet, ready_ps);
        return packet;
    }

    void run() { queue.run_until(EventQueue::never); }

    bool all_accounted_for() const {
        const ScaleUpTotals& totals = node_switch.totals();
        for (const NodePacket& packet : packets) {
            if (packet.deliveries + packet.drops != 1 || packet.sent_calls > 1 ||
                (packet.deliveries == 1 && packet.sent_calls != 1)) {
                return false;
            }
        }
        for (uint16_t source = 0; source < node_switch.config().ports; ++source) {
            for (uint16_t destination = 0; destination < node_switch.config().ports; ++destination) {
                if (node_switch.outstanding_bytes(source, destination) != 0 ||
                    node_switch.waiting_bytes(source, destination) != 0) {
                    return false;
                }
            }
        }
        return totals.offered == packets.size() && totals.delivered + totals.dropped == totals.offered;
    }

    struct Change {
        uint16_t device;
        uint16_t port;
        bool up;
        bool operator==(const Change&) const = default;
    };

    EventQueue queue;
    ScaleUpSwitch node_switch;
    std::deque<NodePacket> packets;
    std::vector<Change> changes;

  private:
    struct End {
        Node* node = nullptr;
        uint16_t port = 0;
    };
    static void deliver(void* object, ScaleUpPacket* packet) {
        const End& end = *static_cast<End*>(object);
        auto& arrived = *static_cast<NodePacket*>(packet);
        EXPECT_EQ(arrived.destination, end.port);
        ++arrived.deliveries;
        arrived.delivered_ps = end.node->queue.now_ps();
    }
    static void port_change(void* object, uint16_t port, bool up) {
        const End& end = *static_cast<End*>(object);
        end.node->changes.push_back({end.port, port, up});
    }
    std::vector<End> ends_;
};

// 4000 bytes take 25 ns at 160 GB/s; the switch 300 ns.
TEST(ScaleUp, LatencyIsTheSumOfItsParts) {
    Node node;
    const NodePacket& packet = node.send(0, 1, 4000, 1000);
    node.run();
    EXPECT_EQ(packet.sent_ps, 26'000U);
    EXPECT_EQ(packet.delivered_ps, 351'000U);
    EXPECT_EQ(node.queue.processed(), 2U);  // two events a packet
}

class ScaleUpSizes : public ::testing::TestWithParam<uint32_t> {};

// A pair alone sends without a gap: n packets take n serialisations, the latency and one more serialisation.
TEST_P(ScaleUpSizes, OnePairReachesTheFullRate) {
    Node node;
    constexpr uint64_t count = 2000;
    for (uint64_t i = 0; i < count; ++i) {
        node.send(3, 4, GetParam());
    }
    node.run();
    const double serialise_ps = GetParam() * 6.25;
    EXPECT_NEAR(static_cast<double>(node.queue.now_ps()), (count + 1) * serialise_ps + 300'000, count);
    EXPECT_EQ(node.node_switch.totals().delivered_bytes, count * GetParam());
    EXPECT_EQ(node.queue.processed(), 2 * count);
    for (uint64_t i = 1; i < count; ++i) {
        ASSERT_LE(node.packets[i - 1].delivered_ps, node.packets[i].delivered_ps);  // in order
    }
    EXPECT_TRUE(node.all_accounted_for());
}

INSTANTIATE_TEST_SUITE_P(Matrix, ScaleUpSizes, ::testing::Values(1, 64, 4095, 4096, 4097, 8192, 32'768));

TEST(ScaleUp, TheLargestPacketPasses) {
    Node node;
    for (int i = 0; i < 10; ++i) {
        node.send(0, 1, node.node_switch.config().credit_bytes);
    }
    node.run();
    EXPECT_EQ(node.node_switch.totals().delivered, 10U);
    EXPECT_TRUE(node.all_accounted_for());
}

TEST(ScaleUp, RefusesWhatCannotPass) {
    Node node;
    EXPECT_THROW(node.send(0, 1, 0), std::invalid_argument);
    EXPECT_THROW(node.send(0, 1, node.node_switch.config().credit_bytes + 1), std::invalid_argument);
    EXPECT_THROW(node.send(0, 8, 100), std::out_of_range);
    EXPECT_THROW(node.send(8, 0, 100), std::out_of_range);
    ScaleUpPacket no_drop;
    no_drop.size_bytes = 100;
    EXPECT_THROW(node.node_switch.send(&no_drop, 0), std::invalid_argument);
    EXPECT_THROW(node.node_switch.set_port(8, false), std::out_of_range);
    EXPECT_EQ(node.node_switch.totals().offered, 0U);
    EXPECT_EQ(node.queue.pending(), 0U);

    for (const ScaleUpConfig& config : {ScaleUpConfig{.ports = 0}, ScaleUpConfig{.rate_gbytes_per_s = 0},
                                        ScaleUpConfig{.credit_bytes = 0}}) {
        EXPECT_NE(ScaleUpSwitch::validate(config), "");
        EXPECT_THROW(ScaleUpSwitch(node.queue, config), std::invalid_argument);
    }
}

// Seven send to one: nothing is lost, the receiver's port never idles, and everybody gets the same share.
TEST(ScaleUp, IncastIsLosslessAndFair) {
    const uint64_t seed = testing::test_seed(31);
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    Node node({.seed = seed});
    constexpr uint32_t size = 4096, count = 1000;
    for (uint32_t i = 0; i < count; ++i) {
        for (uint16_t source = 1; source < 8; ++source) {
            node.send(source, 0, size);
        }
    }
    const uint64_t half_ps = 300'000 + 25'600 * (7 * count / 2);
    node.queue.run_until(half_ps);
    std::vector<uint32_t> delivered(8);
    for (const NodePacket& packet : node.packets) {
        delivered[packet.source] += static_cast<uint32_t>(packet.deliveries);
    }
    for (uint16_t source = 1; source < 8; ++source) {
        EXPECT_NEAR(delivered[source], count / 2, 20) << "source " << source;
    }
    node.run();
    EXPECT_TRUE(node.all_accounted_for());
    EXPECT_EQ(node.node_switch.totals().delivered, 7U * count);
    EXPECT_EQ(node.queue.now_ps(), 25'600 + 300'000 + 25'600ULL * 7 * count);
    const PortStatistics output = node.node_switch.output_statistics(0);
    EXPECT_EQ(output.busy_ps, 25'600ULL * 7 * count);
    EXPECT_LE(output.max_queue_bytes, 7ULL * node.node_switch.config().credit_bytes);
    EXPECT_GT(node.node_switch.totals().blocked, 0U);
}

// Device 1 takes part in an incast to 0 and then sends to 2: that packet waits only for what already has
// credits.
TEST(ScaleUp, ABlockedDestinationBlocksNoOther) {
    Node node;
    constexpr uint32_t size = 4096, count = 1000;
    for (uint32_t i = 0; i < count; ++i) {
        for (uint16_t source = 1; source < 8; ++source) {
            node.send(source, 0, size);
        }
    }
    const NodePacket& free_packet = node.send(1, 2, size);
    EXPECT_EQ(node.node_switch.outstanding_bytes(1, 0), node.node_switch.config().credit_bytes);
    node.run();
    const uint64_t committed = node.node_switch.config().credit_bytes / size;
    EXPECT_EQ(free_packet.delivered_ps, (committed + 2) * 25'600 + 300'000);
    EXPECT_GT(node.packets[7 * (count - 1)].delivered_ps, 10 * free_packet.delivered_ps);
}

TEST(ScaleUp, ADeadPortLosesOnlyItsOwn) {
    Node node;
    constexpr uint32_t size = 4096, count = 500;
    for (uint32_t i = 0; i < count; ++i) {
        for (uint16_t source = 0; source < 8; ++source) {
            node.send(source, static_cast<uint16_t>((source + 1) % 8), size);
            node.send(source, static_cast<uint16_t>((source + 2) % 8), size);
        }
    }
    node.queue.run_until(2'000'000);
    node.node_switch.set_port(5, false);
    EXPECT_FALSE(node.node_switch.port_up(5));
    std::vector<Node::Change> expected;
    for (const uint16_t device : std::initializer_list<uint16_t>{0, 1, 2, 3, 4, 6, 7}) {
        expected.push_back({device, 5, false});
    }
    EXPECT_EQ(node.changes, expected);
    const NodePacket& late = node.send(0, 5, size);
    EXPECT_EQ(late.drops, 0);  // no callback inside the call
    node.run();
    EXPECT_EQ(late.drops, 1);
    EXPECT_TRUE(node.all_accounted_for());
    uint64_t lost = 0;
    for (const NodePacket& packet : node.packets) {
        ASSERT_TRUE(packet.drops == 0 || packet.source == 5 || packet.destination == 5);
        lost += static_cast<uint64_t>(packet.drops);
    }
    EXPECT_EQ(node.node_switch.totals().dropped, lost);
    EXPECT_GT(lost, count);

    node.changes.clear();
    node.node_switch.set_port(5, true, true);
    EXPECT_TRUE(node.changes.empty());
    const NodePacket& back = node.send(5, 0, size, node.queue.now_ps());
    const NodePacket& again = node.send(0, 5, size, node.queue.now_ps());
    node.run();
    EXPECT_EQ(back.deliveries + again.deliveries, 2);
}

// A packet that had left a source before its death is delivered; one that had not is lost.
TEST(ScaleUp, WhatHasLeftADeadSourceArrives) {
    Node node;
    const NodePacket& gone = node.send(0, 1, 4000);
    const NodePacket& held = node.send(0, 1, 4000);
    node.queue.run_until(30'000);
    node.node_switch.set_port(0, false);
    node.run();
    EXPECT_EQ(gone.deliveries, 1);
    EXPECT_EQ(held.drops, 1);
    EXPECT_EQ(held.sent_calls, 0);
    EXPECT_TRUE(node.all_accounted_for());
}

TEST(ScaleUp, RandomTrafficAndFailuresLoseNoAccount) {
    const uint64_t seed = testing::test_seed(33);
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    Node node({.ports = 5, .credit_bytes = 10'000, .seed = seed});
    Random random(seed, "scale-up");
    for (int round = 0; round < 3000; ++round) {
        for (int i = 0; i < 8; ++i) {
            node.send(static_cast<uint16_t>(random.uniform(5)), static_cast<uint16_t>(random.uniform(5)),
                      static_cast<uint32_t>(1 + random.uniform(10'000)),
                      node.queue.now_ps() + random.uniform(100'000));
        }
        if (random.bernoulli(0.05)) {
            node.node_switch.set_port(static_cast<uint16_t>(random.uniform(5)), random.bernoulli(0.6),
                                      random.bernoulli(0.5));
        }
        node.queue.run_until(node.queue.now_ps() + random.uniform(300'000));
    }
    node.run();
    EXPECT_TRUE(node.all_accounted_for());
    EXPECT_GT(node.node_switch.totals().delivered, 1000U);
    EXPECT_GT(node.node_switch.totals().dropped, 100U);
    EXPECT_GT(node.node_switch.totals().blocked, 100U);
}

}  // namespace
}  // namespace plait::sim
