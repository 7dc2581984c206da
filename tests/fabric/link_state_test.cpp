#include <gtest/gtest.h>

#include "network.hpp"

namespace plait::sim {
namespace {

using testing::LinkChange;
using testing::Network;
using testing::TestPacket;

FabricConfig small(uint32_t planes = 2) {
    FabricConfig config;
    config.devices = 8;
    config.planes = planes;
    config.leaf_down_ports = 4;
    config.leaf_up_ports = 4;
    return config;
}

uint16_t entropy_for_spine(const LeafSpine& fabric, uint32_t source, uint32_t destination, uint32_t spine) {
    for (uint32_t entropy = 0; entropy < 65'536; ++entropy) {
        if (fabric.spine_of(source, destination, 0, static_cast<uint16_t>(entropy)) == spine) {
            return static_cast<uint16_t>(entropy);
        }
    }
    ADD_FAILURE() << "no entropy leads to spine " << spine;
    return 0;
}

// 1000 bytes: in flight to the leaf until 130 ns, in the switch until 530, on the last link until 660.
TEST(LinkState, WhatIsOnTheLinkIsLost) {
    struct Case {
        uint64_t down_ps;
        uint32_t device;  // whose link fails
        bool arrives;
    };
    const Case cases[] = {{129'999, 0, false}, {130'000, 0, true},  {129'999, 1, true},
                          {130'000, 1, false}, {659'999, 1, false}, {660'000, 1, true}};
    for (const Case& failure : cases) {
        SCOPED_TRACE(failure.down_ps);
        Network network(small());
        const TestPacket& packet = network.send(0, 1, 1000);
        network.queue.run_until(failure.down_ps);
        // A break and repair in one instant loses what was under way all the same.
        EXPECT_EQ(network.fabric.set_link(Link::device_port(failure.device, 0), false), "");
        EXPECT_EQ(network.fabric.set_link(Link::device_port(failure.device, 0), true), "");
        network.run();
        EXPECT_EQ(packet.deliveries, failure.arrives ? 1 : 0);
        EXPECT_TRUE(network.all_accounted_for());
    }
}

TEST(LinkState, DownPortLosesWithoutACallbackInTheCall) {
    Network network(small());
    network.fabric.set_link(Link::device_port(0, 0), false);
    EXPECT_FALSE(network.fabric.link_up(0, 0));
    EXPECT_TRUE(network.fabric.link_up(0, 1));
    const TestPacket& lost = network.send(0, 1, 1000);
    const TestPacket& to_it = network.send(1, 0, 1000);
    const TestPacket& other_plane = network.send(0, 1, 1000, 0, 0, 1);
    EXPECT_EQ(lost.drops, 0);
    network.run();
    EXPECT_EQ(lost.drops, 1);
    EXPECT_EQ(lost.reason, DropReason::link_down);
    EXPECT_EQ(to_it.reason, DropReason::link_down);
    EXPECT_EQ(other_plane.deliveries, 1);
    EXPECT_EQ(network.dropped(DropReason::link_down), 2U);
    network.fabric.set_link(Link::device_port(0, 0), true);
    EXPECT_EQ(network.send(0, 1, 1000).deliveries, 0);
    network.run();
    EXPECT_EQ(network.packets.back().deliveries, 1);
}

TEST(LinkState, QueueIsLostAndThePortStartsEmpty) {
    Network network(small());
    for (int i = 0; i < 10; ++i) {
        network.send(0, 1, 1000);
    }
    network.fabric.set_link(Link::device_port(0, 0), false);
    EXPECT_EQ(network.fabric.transmit_free_at_ps(0, 0), 0U);
    network.fabric.set_link(Link::device_port(0, 0), true);
    network.send(0, 1, 1000);
    network.run();
    ASSERT_EQ(network.deliveries.size(), 1U);
    EXPECT_EQ(network.deliveries[0].time_ps, 660'000U);
    EXPECT_EQ(network.fabric.port_statistics(network.fabric.topology().device_to_leaf(0, 0)).busy_ps,
              80'000U);
    EXPECT_TRUE(network.all_accounted_for());
}

TEST(LinkState, DevicesAreToldUnlessSilent) {
    Network network(small());
    network.fabric.set_link(Link::device_port(3, 1), false, true);
    EXPECT_TRUE(network.link_changes.empty());
    EXPECT_FALSE(network.fabric.link_up(3, 1));
    network.fabric.set_link(Link::device_port(3, 1), false);  // now it becomes known
    network.fabric.set_link(Link::device_port(3, 1), false);  // once
    network.fabric.set_link(Link::device_port(3, 1), true);
    EXPECT_EQ(network.link_changes, (std::vector<LinkChange>{{3, 1, false}, {3, 1, true}}));

    network.link_changes.clear();
    network.fabric.set_link(Link::whole_leaf(1, 0), false);
    network.fabric.set_link(Link::whole_plane(0), false);   // devices 4 to 7 know already
    network.fabric.set_link(Link::whole_leaf(1, 0), true);  // and still have no plane
    EXPECT_EQ(network.link_changes, (std::vector<LinkChange>{{4, 0, false},
                                                             {5, 0, false},
                                                             {6, 0, false},
                                                             {7, 0, false},
                                                             {0, 0, false},
                                                             {1, 0, false},
                                                             {2, 0, false},
                                                             {3, 0, false}}));
    network.link_changes.clear();
    network.fabric.set_link(Link::device_port(2, 0), false);
    network.fabric.set_link(Link::whole_plane(0), true);
    EXPECT_EQ(network.link_changes.size(), 7U);  // all but device 2, whose own link is down
    EXPECT_FALSE(network.fabric.link_up(2, 0));
    EXPECT_TRUE(network.fabric.link_up(7, 0));

    network.link_changes.clear();
    network.fabric.set_link(Link::whole_spine(1, 1), false);
    network.fabric.set_link(Link::leaf_spine(0, 2, 1), false);
    EXPECT_TRUE(network.link_changes.empty());  // no device has a port on those
}

// The sender's leaf avoids a failed uplink, and also a spine that has lost the destination's leaf.
TEST(LinkState, AnnouncedSpineFailuresAreAvoided) {
    const Link failures[] = {Link::leaf_spine(0, 2, 0), Link::leaf_spine(1, 2, 0), Link::whole_spine(2, 0)};
    for (const Link& failure : failures) {
        Network network(small());
        const uint16_t entropy = entropy_for_spine(network.fabric, 0, 4, 2);
        ASSERT_EQ(network.fabric.set_link(failure, false), "");
        EXPECT_NE(network.fabric.spine_of(0, 4, 0, entropy), 2U);
        for (uint16_t value = 0; value < 400; ++value) {
            network.send(0, 4, 200, 0, value);
        }
        network.run();
        EXPECT_EQ(network.fabric.totals().delivered, 400U);
        ASSERT_EQ(network.fabric.set_link(failure, true), "");
        EXPECT_EQ(network.fabric.spine_of(0, 4, 0, entropy), 2U);
    }
}

TEST(LinkState, SilentSpineFailureLosesItsShare) {
    for (const Link& failure :
         {Link::leaf_spine(0, 2, 0), Link::leaf_spine(1, 2, 0), Link::whole_spine(2, 0)}) {
        Network network(small());
        uint64_t expected = 0;
        ASSERT_EQ(network.fabric.set_link(failure, false, true), "");
        for (uint16_t value = 0; value < 400; ++value) {
            expected += network.fabric.spine_of(0, 4, 0, value) == 2 ? 1 : 0;
            network.send(0, 4, 200, 0, value);
        }
        network.run();
        EXPECT_EQ(network.dropped(DropReason::link_down), expected);
        EXPECT_NEAR(static_cast<double>(expected), 100, 5 * 8.7);
        EXPECT_TRUE(network.all_accounted_for());
    }
}

TEST(LinkState, NoSpineLeftIsNoRoute) {
    Network network(small());
    for (uint32_t spine = 0; spine < 4; ++spine) {
        network.fabric.set_link(Link::leaf_spine(spine % 2, spine, 0), false);
    }
    EXPECT_EQ(network.fabric.spine_of(0, 4, 0, 1), LeafSpine::no_spine);
    const TestPacket& lost = network.send(0, 4, 100);
    const TestPacket& near = network.send(0, 3, 100);
    const TestPacket& other_plane = network.send(0, 4, 100, 0, 0, 1);
    network.run();
    EXPECT_EQ(lost.reason, DropReason::no_route);
    EXPECT_EQ(lost.drops, 1);
    EXPECT_EQ(near.deliveries, 1);
    EXPECT_EQ(other_plane.deliveries, 1);
}

TEST(LinkState, UnknownLinksAreRefused) {
    Network network(small());
    const Link unknown[] = {Link::device_port(8, 0),   Link::device_port(0, 2), Link::leaf_spine(2, 0, 0),
                            Link::leaf_spine(0, 4, 0), Link::whole_leaf(2, 0),  Link::whole_spine(4, 0),
                            Link::whole_plane(2)};
    for (const Link& link : unknown) {
        EXPECT_NE(network.fabric.set_link(link, false).find("does not exist"), std::string::npos);
        EXPECT_NE(network.fabric.impair(link, {0.5, 0}).find("does not exist"), std::string::npos);
    }
    EXPECT_FALSE(network.fabric.link_up(8, 0));
    EXPECT_TRUE(network.link_changes.empty());
}

// Whatever fails and returns, every packet meets exactly one end.
TEST(LinkState, RandomFailuresLoseNoAccount) {
    const uint64_t seed = testing::test_seed(11);
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    FabricConfig config = small();
    config.seed = seed;
    config.faults = {
        .loss = 0.02, .corruption = 0.02, .duplication = 0.02, .delay = 0.1, .max_delay_ns = 3000};
    Network network(config);
    Random random(seed, "failures");
    const auto pick = [&](uint32_t bound) { return static_cast<uint32_t>(random.uniform(bound)); };
    for (int round = 0; round < 2000; ++round) {
        const auto plane = static_cast<uint8_t>(pick(2));
        const Link links[] = {Link::device_port(pick(8), plane), Link::leaf_spine(pick(2), pick(4), plane),
                              Link::whole_leaf(pick(2), plane), Link::whole_spine(pick(4), plane),
                              Link::whole_plane(plane)};
        if (random.bernoulli(0.3)) {
            ASSERT_EQ(network.fabric.set_link(links[pick(5)], random.bernoulli(0.85), random.bernoulli(0.3)),
                      "");
        }
        for (int i = 0; i < 10; ++i) {
            network.send(pick(8), pick(8), 64 + pick(4096), network.queue.now_ps() + pick(1'000'000),
                         static_cast<uint16_t>(random.next()), static_cast<uint8_t>(pick(2)));
        }
        network.queue.run_until(network.queue.now_ps() + pick(1'000'000));
    }
    network.run();
    EXPECT_TRUE(network.all_accounted_for());
    EXPECT_GT(network.fabric.totals().delivered, 2000U);
    EXPECT_GT(network.dropped(DropReason::link_down), 100U);
}

}  // namespace
}  // namespace plait::sim
