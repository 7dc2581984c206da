#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "network.hpp"

namespace plait::sim {
namespace {

using testing::Network;
using testing::TestPacket;

constexpr int packet_count = 50'000;

double five_sigma(double probability) {
    return 5 * std::sqrt(packet_count * probability * (1 - probability));
}

std::unique_ptr<Network> run_with(const FaultConfig& faults, uint64_t seed) {
    FabricConfig config;
    config.devices = 32;
    config.seed = seed;
    config.faults = faults;
    auto network = std::make_unique<Network>(config);
    for (int i = 0; i < packet_count; ++i) {
        network->send(0, 16, 500, 0, static_cast<uint16_t>(i), static_cast<uint8_t>(i % 4));
    }
    network->run();
    EXPECT_TRUE(network->all_accounted_for());
    return network;
}

class Faults : public ::testing::Test {
  protected:
    const uint64_t seed_ = testing::test_seed(21);
    const ::testing::ScopedTrace trace_{__FILE__, __LINE__, "PLAIT_SEED=" + std::to_string(seed_)};
};

TEST_F(Faults, LossKeepsItsProbability) {
    const auto result = run_with({.loss = 0.02}, seed_);
    const Network& network = *result;
    EXPECT_NEAR(static_cast<double>(network.dropped(DropReason::random_loss)), packet_count * 0.02,
                five_sigma(0.02));
    EXPECT_EQ(network.fabric.totals().dropped_total(), network.dropped(DropReason::random_loss));
}

TEST_F(Faults, CorruptionFlagsAndDelivers) {
    const auto result = run_with({.corruption = 0.02}, seed_);
    const Network& network = *result;
    const auto corrupt = std::count_if(network.packets.begin(), network.packets.end(),
                                       [](const TestPacket& packet) { return packet.corrupt; });
    EXPECT_NEAR(static_cast<double>(corrupt), packet_count * 0.02, five_sigma(0.02));
    EXPECT_EQ(network.fabric.totals().corrupted, static_cast<uint64_t>(corrupt));
    EXPECT_EQ(network.fabric.totals().delivered, static_cast<uint64_t>(packet_count));
}

TEST_F(Faults, DuplicatesArriveTwice) {
    const auto result = run_with({.duplication = 0.02}, seed_);
    const Network& network = *result;
    const uint64_t duplicated = network.fabric.totals().duplicated;
    EXPECT_NEAR(static_cast<double>(duplicated), packet_count * 0.02, five_sigma(0.02));
    std::map<uint64_t, int> copies;
    for (const auto& delivery : network.deliveries) {
        ++copies[delivery.number];
    }
    const auto twice =
        std::count_if(copies.begin(), copies.end(), [](const auto& entry) { return entry.second == 2; });
    EXPECT_EQ(static_cast<uint64_t>(twice), duplicated);
    EXPECT_EQ(copies.size(), static_cast<size_t>(packet_count));
}

TEST_F(Faults, WithoutCloneNothingIsDuplicated) {
    FabricConfig config;
    config.faults.duplication = 1;
    Network network(config);
    network.send(0, 1, 500).clone = nullptr;
    network.run();
    EXPECT_EQ(network.deliveries.size(), 1U);
    EXPECT_EQ(network.fabric.totals().not_duplicated, 1U);
    EXPECT_EQ(network.fabric.totals().duplicated, 0U);
}

// One packet at a time, so that nothing but the injected delay adds to the 2 x 40 + 2 x 50 + 400 ns.
TEST_F(Faults, DelaysAreBoundedAndReorder) {
    FabricConfig config;
    config.seed = seed_;
    config.faults = {.delay = 0.1, .max_delay_ns = 5000};
    Network network(config);
    constexpr uint64_t interval_ps = 100'000;
    for (int i = 0; i < packet_count; ++i) {
        network.send(0, 1, 500, static_cast<uint64_t>(i) * interval_ps);
    }
    network.run();
    uint64_t delayed = 0, reordered = 0, longest_ps = 0, newest = 0;
    for (const auto& delivery : network.deliveries) {
        const uint64_t extra_ps = delivery.time_ps - delivery.number * interval_ps - 580'000;
        // A delayed packet may hold up one of the others on the last link, for the 40 ns it takes.
        delayed += extra_ps > 100'000 ? 1 : 0;
        longest_ps = std::max(longest_ps, extra_ps);
        reordered += delivery.number < newest ? 1 : 0;
        newest = std::max(newest, delivery.number);
    }
    EXPECT_NEAR(static_cast<double>(network.fabric.totals().delayed), packet_count * 0.1, five_sigma(0.1));
    EXPECT_NEAR(static_cast<double>(delayed), packet_count * 0.1 * 0.98, five_sigma(0.1) + 100);
    EXPECT_GT(longest_ps, 4'800'000U);
    EXPECT_LT(longest_ps, 5'000'000U + 500'000U);
    EXPECT_GT(reordered, delayed / 2);
    EXPECT_LE(reordered, network.fabric.totals().delayed);
}

TEST_F(Faults, NthPacketIsLost) {
    FabricConfig config;
    config.devices = 4;
    Network network(config);
    EXPECT_EQ(network.fabric.lose_nth(0, 1, 3), "");
    EXPECT_EQ(network.fabric.lose_nth(0, 1, 5), "");
    for (uint8_t i = 0; i < 8; ++i) {
        network.send(0, 1, 500, 0, 0, 0);
        network.send(2, 1, 500, 0, 0, 0);
        network.send(0, 3, 500, 0, 0, i % 4);
    }
    network.run();
    for (const TestPacket& packet : network.packets) {
        const bool expected = packet.number == 2 * 3 || packet.number == 4 * 3;
        EXPECT_EQ(packet.drops, expected ? 1 : 0) << packet.number;
    }
    EXPECT_EQ(network.dropped(DropReason::scheduled_loss), 2U);

    EXPECT_EQ(network.fabric.lose_nth(0, 1, 1), "");  // counted from here on
    EXPECT_EQ(network.send(0, 1, 500).drops, 0);
    network.run();
    EXPECT_EQ(network.packets.back().reason, DropReason::scheduled_loss);
    EXPECT_EQ(network.packets.back().drops, 1);

    EXPECT_NE(network.fabric.lose_nth(0, 4, 1).find("device 4 does not exist"), std::string::npos);
    EXPECT_NE(network.fabric.lose_nth(0, 1, 0), "");
}

TEST_F(Faults, OneBadLinkHitsOnlyItsPackets) {
    FabricConfig config;
    config.devices = 32;
    config.seed = seed_;
    Network network(config);
    ASSERT_EQ(network.fabric.impair(Link::device_port(1, 2), {.loss = 0.1, .corruption = 0.2}), "");
    for (int i = 0; i < packet_count; ++i) {
        network.send(1, 2, 100, 0, 0, 2);  // over the bad link
        network.send(3, 2, 100, 0, 0, 1);  // beside it
        network.send(1, 2, 100, 0, 0, 0);
    }
    network.run();
    uint64_t corrupt = 0;
    for (const TestPacket& packet : network.packets) {
        const bool bad_link = packet.source == 1 && packet.plane == 2;
        ASSERT_TRUE(bad_link || (packet.deliveries == 1 && !packet.corrupt));
        corrupt += packet.corrupt ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(network.dropped(DropReason::random_loss)), packet_count * 0.1,
                five_sigma(0.1));
    EXPECT_NEAR(static_cast<double>(corrupt), packet_count * 0.9 * 0.2, five_sigma(0.18));
    EXPECT_EQ(network.fabric.port_statistics(network.fabric.topology().device_to_leaf(1, 2)).drops[3],
              network.dropped(DropReason::random_loss));

    const uint64_t before = network.fabric.totals().delivered;
    ASSERT_EQ(network.fabric.impair(Link::device_port(1, 2), {}), "");
    for (int i = 0; i < 1000; ++i) {
        network.send(1, 2, 100, 0, 0, 2);
    }
    network.run();
    EXPECT_EQ(network.fabric.totals().delivered - before, 1000U);
}

// Every link of the way in turn: up to the leaf, to the spine, down again.
TEST_F(Faults, ABadLinkDuplicatesAndDelays) {
    FabricConfig config;
    config.devices = 32;
    config.leaf_up_ports = 1;
    config.seed = seed_;
    constexpr uint64_t interval_ps = 1'000'000;
    constexpr int count = 2000;
    for (const Link& link : {Link::device_port(0, 0), Link::leaf_spine(0, 0, 0), Link::leaf_spine(1, 0, 0),
                             Link::device_port(16, 0)}) {
        Network network(config);
        ASSERT_EQ(network.fabric.impair(link, {.duplication = 0.5, .delay = 0.5, .max_delay_ns = 50'000}),
                  "");
        for (int i = 0; i < count; ++i) network.send(0, 16, 500, static_cast<uint64_t>(i) * interval_ps);
        network.run();
        EXPECT_TRUE(network.all_accounted_for());
        const FabricTotals& totals = network.fabric.totals();
        EXPECT_NEAR(static_cast<double>(totals.duplicated), count * 0.5, 5 * std::sqrt(count * 0.25));
        EXPECT_NEAR(static_cast<double>(totals.delayed), count * 0.5, 5 * std::sqrt(count * 0.25));
        EXPECT_EQ(network.deliveries.size(), count + totals.duplicated);
        uint64_t longest_ps = 0, reordered = 0, newest = 0;
        for (const auto& delivery : network.deliveries) {
            longest_ps = std::max(longest_ps, delivery.time_ps - delivery.number * interval_ps);
            reordered += delivery.number < newest ? 1 : 0;
            newest = std::max(newest, delivery.number);
        }
        EXPECT_GT(longest_ps, 45'000'000U);
        EXPECT_LT(longest_ps, 55'000'000U);
        EXPECT_GT(reordered, totals.delayed / 2);
    }
}

TEST_F(Faults, ProbabilitiesAreChecked) {
    Network network(FabricConfig{});
    EXPECT_NE(network.fabric.set_faults({.loss = -0.1}), "");
    EXPECT_NE(network.fabric.set_faults({.corruption = 1.01}), "");
    EXPECT_NE(network.fabric.set_faults({.duplication = std::nan("")}), "");
    EXPECT_NE(network.fabric.impair(Link::whole_plane(0), {.loss = 2}), "");
    EXPECT_NE(network.fabric.impair(Link::whole_plane(0), {.delay = 0.5}), "");  // by how much?
    network.send(0, 1, 100);
    network.run();
    EXPECT_EQ(network.deliveries.size(), 1U);
    EXPECT_EQ(network.fabric.set_faults({.loss = 1}), "");
    network.send(0, 1, 100);
    network.run();
    EXPECT_EQ(network.dropped(DropReason::random_loss), 1U);
}

}  // namespace
}  // namespace plait::sim
