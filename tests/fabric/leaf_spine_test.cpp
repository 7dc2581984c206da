#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "network.hpp"

namespace plait::sim {
namespace {

using testing::Delivery;
using testing::Network;
using testing::TestPacket;

FabricConfig two_leaves() {
    FabricConfig config;
    config.devices = 32;
    return config;
}

// 1000 bytes take 80 ns at 100 Gb/s; a cable 50 ns, a switch 400 ns.
TEST(LeafSpine, LatencyIsTheSumOfItsParts) {
    Network network(two_leaves());
    network.send(0, 15, 1000);           // under one leaf: 2 links, 1 switch
    network.send(1, 16, 1000, 0, 7, 3);  // across: 4 links, 3 switches
    network.run();
    ASSERT_EQ(network.deliveries.size(), 2U);
    EXPECT_EQ(network.deliveries[0].time_ps, (2 * 80 + 2 * 50 + 400) * 1000U);
    EXPECT_EQ(network.deliveries[0].device, 15U);
    EXPECT_EQ(network.deliveries[1].time_ps, (4 * 80 + 4 * 50 + 3 * 400) * 1000U);
    EXPECT_EQ(network.deliveries[1].device, 16U);
    EXPECT_EQ(network.queue.processed(), 2U + 4U);  // one event a hop
}

TEST(LeafSpine, TransmitPortSerialises) {
    Network network(two_leaves());
    std::vector<TestPacket> packets(3);
    std::vector<Slot> slots;
    for (TestPacket& packet : packets) {
        packet.drop = [](FabricPacket*, DropReason) {};
        packet.size_bytes = 1000;
        packet.destination = 1;
        slots.push_back(network.fabric.transmit(0, &packet, 10'000));
    }
    EXPECT_EQ(slots[0].start_ps, 10'000U);
    EXPECT_EQ(slots[0].end_ps, 90'000U);
    EXPECT_EQ(slots[2].start_ps, 170'000U);
    EXPECT_EQ(network.fabric.transmit_free_at_ps(0, 0), 250'000U);
    EXPECT_EQ(network.fabric.transmit_free_at_ps(0, 1), 0U);  // another plane, another port
    network.run();
    ASSERT_EQ(network.deliveries.size(), 3U);
    EXPECT_EQ(network.deliveries[2].time_ps - network.deliveries[1].time_ps, 80'000U);
    const PortStatistics port =
        network.fabric.port_statistics(network.fabric.topology().device_to_leaf(0, 0));
    EXPECT_EQ(port.packets, 3U);
    EXPECT_EQ(port.bytes, 3000U);
    EXPECT_EQ(port.busy_ps, 240'000U);
    EXPECT_EQ(port.max_queue_bytes, 3000U);
}

class LeafSpineSizes : public ::testing::TestWithParam<uint32_t> {};

// The time of one bit is 10 ps: an independent formula for every size.
TEST_P(LeafSpineSizes, EverySizeCrosses) {
    Network network(two_leaves());
    network.send(0, 31, GetParam());
    network.run();
    ASSERT_EQ(network.deliveries.size(), 1U);
    EXPECT_EQ(network.deliveries[0].time_ps, 4 * (uint64_t{GetParam()} * 8 * 10 + 50'000) + 3 * 400'000);
    EXPECT_EQ(network.fabric.totals().delivered_bytes, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Matrix, LeafSpineSizes,
                         ::testing::Values(1, 84, 1500, 4095, 4096, 4097, 8192, 65'535, 65'536, 256 * 1024));

TEST(LeafSpine, RefusesWhatCannotCross) {
    Network network(two_leaves());
    EXPECT_THROW(network.send(0, 1, 0), std::invalid_argument);
    EXPECT_THROW(network.send(0, 1, 256 * 1024 + 1), std::invalid_argument);
    EXPECT_THROW(network.send(32, 1, 100), std::out_of_range);
    EXPECT_THROW(network.send(0, 1, 100, 0, 0, 4), std::out_of_range);
    FabricPacket no_drop;
    no_drop.size_bytes = 100;
    EXPECT_THROW(network.fabric.transmit(0, &no_drop, 0), std::invalid_argument);
    EXPECT_EQ(network.fabric.totals().offered, 0U);
    EXPECT_EQ(network.queue.pending(), 0U);

    const TestPacket& lost = network.send(0, 32, 100);
    network.run();
    EXPECT_EQ(lost.drops, 1);
    EXPECT_EQ(lost.reason, DropReason::no_route);
}

// More than 4 GiB through one port: no counter of 32 bits anywhere.
TEST(LeafSpine, CountsBeyondFourGibibytes) {
    Network network(two_leaves());
    constexpr uint64_t packets = 17'000;
    for (uint64_t i = 0; i < packets; ++i) {
        network.send(0, 1, 256 * 1024);
    }
    network.run();
    EXPECT_EQ(network.fabric.totals().delivered_bytes, packets * 256 * 1024);
    EXPECT_EQ(network.fabric.port_statistics(network.fabric.topology().leaf_to_device(1, 0)).bytes,
              packets * 256 * 1024);
    EXPECT_EQ(network.queue.now_ps(), (packets + 1) * 256 * 1024 * 80 + 500'000);
}

// Three senders, one receiver, equal packets: in each slot three arrive and one leaves. The reference counts
// bytes.
TEST(LeafSpine, DropsTheTailAndMarks) {
    constexpr uint32_t size = 4096, rounds = 100;
    constexpr uint32_t buffer = 256 * 1024, threshold = 64 * 1024;
    uint32_t queue_bytes = 0, most_bytes = 0, drops = 0, marks = 0;
    for (uint32_t round = 0; round < rounds; ++round) {
        for (int sender = 0; sender < 3; ++sender) {
            if (queue_bytes + size > buffer) {
                ++drops;
                continue;
            }
            marks += queue_bytes > threshold ? 1 : 0;
            queue_bytes += size;
            most_bytes = std::max(most_bytes, queue_bytes);
        }
        queue_bytes -= size;
    }

    Network network(two_leaves());
    for (uint32_t round = 0; round < rounds; ++round) {
        for (uint32_t sender = 0; sender < 3; ++sender) {
            network.send(sender, 9, size);
        }
    }
    network.run();
    const PortStatistics port =
        network.fabric.port_statistics(network.fabric.topology().leaf_to_device(9, 0));
    EXPECT_EQ(port.drops[static_cast<size_t>(DropReason::queue_full)], drops);
    EXPECT_EQ(port.packets, 3 * rounds - drops);
    EXPECT_EQ(port.ecn_marks, marks);
    EXPECT_EQ(port.max_queue_bytes, most_bytes);
    const auto marked =
        std::count_if(network.packets.begin(), network.packets.end(),
                      [](const TestPacket& packet) { return packet.ecn && packet.deliveries == 1; });
    EXPECT_EQ(static_cast<uint32_t>(marked), marks);
    EXPECT_GT(drops, 0U);
    EXPECT_TRUE(network.all_accounted_for());
}

// All packets of a round arrive at the same instant; a fixed order would make the same senders lose always.
TEST(LeafSpine, EqualTimesAreFair) {
    const uint64_t seed = testing::test_seed(5);
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    FabricConfig config = two_leaves();
    config.seed = seed;
    Network network(config);
    constexpr uint32_t senders = 8, rounds = 4000;
    for (uint32_t round = 0; round < rounds; ++round) {
        for (uint32_t sender = 0; sender < senders; ++sender) {
            network.send(sender, 15, 4096);
        }
    }
    network.run();
    std::map<uint32_t, uint32_t> arrived;
    for (const TestPacket& packet : network.packets) {
        arrived[packet.source] += static_cast<uint32_t>(packet.deliveries);
    }
    // One in eight gets through: 500 for each sender, standard deviation 21.
    const double fair = static_cast<double>(network.fabric.totals().delivered) / senders;
    EXPECT_NEAR(fair, rounds / senders, 20);
    for (const auto& [sender, count] : arrived) {
        EXPECT_NEAR(count, fair, 5 * 21) << "sender " << sender;
    }
    EXPECT_EQ(arrived.size(), senders);
}

// Every device sends to one on the other leaf, with a new entropy for each packet: near the line rate.
TEST(LeafSpine, SprayedPermutationNearLineRate) {
    const uint64_t seed = testing::test_seed(6);
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    FabricConfig config = two_leaves();
    config.seed = seed;
    config.buffer_bytes = 4 << 20;  // room for the unevenness of random spraying at full load
    Network network(config);
    Random random(seed, "entropy");
    constexpr uint32_t packets = 2000, size = 4150;
    for (uint32_t i = 0; i < packets; ++i) {
        for (uint32_t device = 0; device < config.devices; ++device) {
            for (uint8_t plane = 0; plane < config.planes; ++plane) {
                network.send(device, (device + 16) % 32, size, 0, static_cast<uint16_t>(random.next()),
                             plane);
            }
        }
    }
    network.run();
    EXPECT_TRUE(network.all_accounted_for());
    EXPECT_EQ(network.fabric.totals().delivered, uint64_t{packets} * 32 * 4);
    const double ideal_ps = packets * size * 80.0;
    EXPECT_LT(static_cast<double>(network.queue.now_ps()), ideal_ps / 0.9);
    EXPECT_GT(static_cast<double>(network.queue.now_ps()), ideal_ps);
}

TEST(LeafSpine, EntropySelectsTheSpineEvenly) {
    const Network network(two_leaves());
    const LeafSpine& fabric = network.fabric;
    std::vector<int> counts(16);
    for (uint32_t entropy = 0; entropy < 65'536; ++entropy) {
        ++counts.at(fabric.spine_of(0, 16, 1, static_cast<uint16_t>(entropy)));
    }
    for (const int count : counts) {
        EXPECT_NEAR(count, 4096, 5 * 64);
    }
    std::set<uint32_t> by_plane, by_destination;
    for (uint32_t i = 0; i < 16; ++i) {
        by_plane.insert(fabric.spine_of(0, 16, static_cast<uint8_t>(i % 4), 9));
        by_destination.insert(fabric.spine_of(0, 16 + i, 0, 9));
    }
    EXPECT_GT(by_plane.size(), 1U);
    EXPECT_GT(by_destination.size(), 4U);
}

// One entropy value is one path, so its packets stay in order.
TEST(LeafSpine, OnePathKeepsTheOrder) {
    Network network(two_leaves());
    for (uint32_t i = 0; i < 1000; ++i) {
        network.send(0, 16, 64 + i % 7 * 500, 0, 1234);
        network.send(1, 16, 3000, 0, 77);
    }
    network.run();
    std::map<uint32_t, uint64_t> last;
    for (const Delivery& delivery : network.deliveries) {
        const uint32_t source = network.packets[delivery.number].source;
        EXPECT_TRUE(last.find(source) == last.end() || last[source] < delivery.number);
        last[source] = delivery.number;
    }
    EXPECT_TRUE(network.all_accounted_for());
}

uint64_t trace_of(uint64_t seed) {
    FabricConfig config = two_leaves();
    config.seed = seed;
    config.faults = {
        .loss = 0.01, .corruption = 0.01, .duplication = 0.01, .delay = 0.05, .max_delay_ns = 2000};
    Network network(config);
    Random random(99, "traffic");  // the same traffic for every seed of the fabric
    for (int i = 0; i < 5000; ++i) {
        network.send(static_cast<uint32_t>(random.uniform(32)), static_cast<uint32_t>(random.uniform(32)),
                     4096, 0, static_cast<uint16_t>(random.next()), static_cast<uint8_t>(random.uniform(4)));
    }
    network.run();
    EXPECT_TRUE(network.all_accounted_for());
    return network.trace_hash();
}

TEST(LeafSpine, SameSeedSameTrace) {
    EXPECT_EQ(trace_of(1), trace_of(1));
    EXPECT_NE(trace_of(1), trace_of(2));
}

TEST(Topology, ImpossibleOnesAreRefused) {
    const auto message_for = [](auto change) {
        FabricConfig config = two_leaves();
        change(config);
        const std::string message = LeafSpine::validate(config);
        EventQueue queue;
        if (message.empty()) {
            EXPECT_NO_THROW(LeafSpine(queue, config));
        } else {
            EXPECT_THROW(LeafSpine(queue, config), std::invalid_argument);
        }
        return message;
    };
    EXPECT_EQ(message_for([](FabricConfig&) {}), "");
    EXPECT_NE(message_for([](FabricConfig& c) { c.devices = 0; }).find("no devices"), std::string::npos);
    EXPECT_NE(message_for([](FabricConfig& c) { c.planes = 0; }).find("planes"), std::string::npos);
    EXPECT_NE(message_for([](FabricConfig& c) { c.planes = 65; }).find("planes"), std::string::npos);
    EXPECT_NE(message_for([](FabricConfig& c) { c.leaf_down_ports = 0; }).find("no ports"),
              std::string::npos);
    EXPECT_NE(message_for([](FabricConfig& c) { c.devices_per_node = 5; }).find("share a leaf"),
              std::string::npos);
    EXPECT_NE(message_for([](FabricConfig& c) { c.leaf_up_ports = 0; }).find("nothing connects"),
              std::string::npos);
    EXPECT_NE(message_for([](FabricConfig& c) { c.leaf_up_ports = 65; }).find("spines"), std::string::npos);
    EXPECT_NE(message_for([](FabricConfig& c) { c.spine_ports = 1; }).find("spine has 1 ports"),
              std::string::npos);
    EXPECT_NE(message_for([](FabricConfig& c) { c.rate_gbps = 0; }).find("rate_gbps"), std::string::npos);
    EXPECT_NE(message_for([](FabricConfig& c) { c.buffer_bytes = 0; }).find("buffer_bytes"),
              std::string::npos);
    EXPECT_NE(message_for([](FabricConfig& c) { c.ecn_threshold_bytes = 1 << 20; }).find("ecn"),
              std::string::npos);
    EXPECT_NE(message_for([](FabricConfig& c) { c.faults.loss = 1.5; }).find("loss"), std::string::npos);
    EXPECT_NE(message_for([](FabricConfig& c) { c.faults.delay = 0.1; }).find("max_delay_ns"),
              std::string::npos);
    // One leaf needs no spine.
    EXPECT_EQ(message_for([](FabricConfig& c) { c.devices = 16, c.leaf_up_ports = 0; }), "");
}

// Every link direction has its own port number, and all numbers are used.
TEST(Topology, PortNumbersAreABijection) {
    FabricConfig config = two_leaves();
    config.devices = 39;
    const Topology topology(config);
    std::set<uint32_t> numbers;
    for (uint32_t plane = 0; plane < config.planes; ++plane) {
        for (uint32_t device = 0; device < config.devices; ++device) {
            numbers.insert(topology.device_to_leaf(device, plane));
            numbers.insert(topology.leaf_to_device(device, plane));
        }
        for (uint32_t leaf = 0; leaf < 3; ++leaf) {
            for (uint32_t spine = 0; spine < 16; ++spine) {
                numbers.insert(topology.leaf_to_spine(leaf, spine, plane));
                numbers.insert(topology.spine_to_leaf(leaf, spine, plane));
            }
        }
    }
    EXPECT_EQ(numbers.size(), 2U * 4 * (39 + 3 * 16));
    EXPECT_EQ(topology.ports(), numbers.size());
    EXPECT_EQ(*numbers.rbegin(), numbers.size() - 1);
}

TEST(Packet, WireBytesFollowEthernet) {
    EXPECT_EQ(wire_bytes(1), 84U);  // a minimum frame takes 84 byte times: 64 + 8 + 12
    EXPECT_EQ(wire_bytes(60), 84U);
    EXPECT_EQ(wire_bytes(1514), 1538U);  // the well-known cost of a full standard frame
}

}  // namespace
}  // namespace plait::sim
