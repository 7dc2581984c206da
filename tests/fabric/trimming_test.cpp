#include <gtest/gtest.h>

#include <algorithm>

#include "network.hpp"

namespace plait::sim {
namespace {

using testing::Network;
using testing::TestPacket;

constexpr uint32_t packet_bytes = 4000;  // 320 ns at 100 Gb/s
constexpr uint32_t trim_bytes = 250;     // 20 ns

FabricConfig trimming_switches() {
    FabricConfig config;
    config.devices = 32;
    config.buffer_bytes = 10 * packet_bytes;
    config.ecn_threshold_bytes = packet_bytes;
    config.trim_bytes = trim_bytes;
    return config;
}

// Each of `senders` devices sends `each` packets to device 0 at once.
void incast(Network& network, uint32_t senders, uint32_t each, uint32_t size_bytes = packet_bytes) {
    for (uint32_t number = 0; number < each; ++number) {
        for (uint32_t device = 1; device <= senders; ++device) network.send(device, 0, size_bytes);
    }
}

uint64_t trimmed_of(const Network& network) {
    return static_cast<uint64_t>(std::count_if(network.packets.begin(), network.packets.end(),
                                               [](const TestPacket& packet) { return packet.trimmed; }));
}

TEST(Trimming, WhatDoesNotFitArrivesAsItsHeaders) {
    Network network(trimming_switches());
    incast(network, 8, 5);
    network.run();
    EXPECT_TRUE(network.all_accounted_for());
    EXPECT_EQ(network.fabric.totals().dropped_total(), 0U);
    EXPECT_GT(network.fabric.totals().trimmed, 0U);
    EXPECT_EQ(network.fabric.totals().trimmed, trimmed_of(network));
    for (const TestPacket& packet : network.packets) {
        EXPECT_EQ(packet.size_bytes, packet.trimmed ? trim_bytes : packet_bytes);
        EXPECT_TRUE(!packet.trimmed || packet.ecn);
    }
    const uint32_t port = network.fabric.topology().leaf_to_device(0, 0);
    EXPECT_EQ(network.fabric.port_statistics(port).trimmed, network.fabric.totals().trimmed);
}

TEST(Trimming, HeadersPassTheQueue) {
    Network network(trimming_switches());
    incast(network, 8, 5);
    network.run();
    // All send at once: the first to be cut are those of the second round, which arrive at the switch at 690
    // ns and leave it at 1090. Ahead of them is the packet on the wire, then their own kind.
    const auto first = std::find_if(network.deliveries.begin(), network.deliveries.end(),
                                    [&](const auto& one) { return network.packets[one.number].trimmed; });
    ASSERT_NE(first, network.deliveries.end());
    EXPECT_EQ(first->time_ps, (690 + 400 + 320 + 20 + 50) * 1000U);
    const auto last_whole =
        std::find_if(network.deliveries.rbegin(), network.deliveries.rend(),
                     [&](const auto& one) { return !network.packets[one.number].trimmed; });
    EXPECT_GT(last_whole->time_ps, 3'500'000U);
}

TEST(Trimming, TakesTimeOnTheWire) {
    Network network(trimming_switches());
    incast(network, 8, 20);
    network.run();
    const PortStatistics port =
        network.fabric.port_statistics(network.fabric.topology().leaf_to_device(0, 0));
    EXPECT_EQ(port.busy_ps, ((160 - port.trimmed) * 320 + port.trimmed * 20) * 1000);
    EXPECT_EQ(port.packets, 160U);
    // What is cut goes out of turn, but never more than the wire carries in all: from the first arrival to
    // the last delivery, give or take a packet.
    const uint64_t time_ps = network.deliveries.back().time_ps - network.deliveries.front().time_ps;
    EXPECT_GE(time_ps + 2 * 320'000, port.busy_ps);
}

TEST(Trimming, WithoutItTheSameIsLost) {
    FabricConfig config = trimming_switches();
    config.trim_bytes = 0;
    Network network(config);
    incast(network, 8, 5);
    network.run();
    EXPECT_TRUE(network.all_accounted_for());
    EXPECT_GT(network.dropped(DropReason::queue_full), 0U);
    EXPECT_EQ(network.fabric.totals().trimmed, 0U);
}

TEST(Trimming, ShortPacketsPassWhole) {
    Network network(trimming_switches());
    incast(network, 8, 5);
    TestPacket& small = network.send(9, 0, trim_bytes, 690'000);
    network.run();
    EXPECT_EQ(small.deliveries, 1);
    EXPECT_FALSE(small.trimmed);
    EXPECT_EQ(small.size_bytes, trim_bytes);
}

TEST(Trimming, HeadersHaveABufferTooAndItEnds) {
    FabricConfig config = trimming_switches();
    config.trim_buffer_bytes = 4 * trim_bytes;
    Network network(config);
    incast(network, 15, 20);
    network.run();
    EXPECT_TRUE(network.all_accounted_for());
    EXPECT_GT(network.fabric.totals().trimmed, 0U);
    EXPECT_GT(network.dropped(DropReason::queue_full), 0U);
}

TEST(Trimming, WhatWasCutGoesAheadAtEverySwitchBehind) {
    FabricConfig config = trimming_switches();
    config.leaf_up_ports = 1;  // all cross one spine, and meet at the leaf's way up
    Network network(config);
    for (uint32_t number = 0; number < 4; ++number) {
        for (uint32_t device = 0; device < 4; ++device) network.send(device, 16, packet_bytes);
    }
    network.run();
    const uint32_t up = network.fabric.topology().leaf_to_spine(0, 0, 0);
    const uint64_t trimmed = network.fabric.port_statistics(up).trimmed;
    ASSERT_GT(trimmed, 0U);
    EXPECT_EQ(network.fabric.totals().trimmed, trimmed);  // once each
    EXPECT_EQ(trimmed_of(network), trimmed);
    EXPECT_TRUE(network.all_accounted_for());
}

TEST(Trimming, ALinkThatGoesDownLosesThem) {
    Network network(trimming_switches());
    incast(network, 8, 5);
    network.queue.run_until(1'100'000);
    std::vector<const TestPacket*> on_their_way;
    for (const TestPacket& packet : network.packets) {
        if (packet.trimmed && packet.deliveries == 0) on_their_way.push_back(&packet);
    }
    ASSERT_FALSE(on_their_way.empty());
    EXPECT_EQ(network.fabric.set_link(Link::device_port(0, 0), false), "");
    EXPECT_EQ(network.fabric.set_link(Link::device_port(0, 0), true), "");
    network.run();
    EXPECT_TRUE(network.all_accounted_for());
    for (const TestPacket* packet : on_their_way) EXPECT_EQ(packet->reason, DropReason::link_down);
    for (const TestPacket* packet : on_their_way) EXPECT_EQ(packet->drops, 1);
}

TEST(Trimming, RefusesABufferThatHoldsNoHeaders) {
    FabricConfig config = trimming_switches();
    config.trim_buffer_bytes = trim_bytes - 1;
    EXPECT_NE(LeafSpine::validate(config).find("trim_bytes"), std::string::npos);
}

}  // namespace
}  // namespace plait::sim
