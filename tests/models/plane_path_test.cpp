// A packet's way from host to host: times by hand computation, order, credits, losses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "scripted_firmware.hpp"

namespace plait::sim::testing {
namespace {

using firmware::Packet;
using firmware::Payload;

constexpr uint64_t ns = 1000;

// The parts of the way, written out with the reference device's numbers.
struct Way {
    uint64_t handler = 200 * ns;
    uint64_t switches = 400 * ns;
    uint64_t cable = 50 * ns;
    uint64_t pipe = 80 * ns;

    uint64_t host_read(uint64_t bytes) const { return 2 * 400 * ns + bytes * 1000 / 200; }
    uint64_t pipe_ps(const Packet& packet) const {
        return pipe + (wire_bytes(firmware::frame_bytes(packet)) + 63) / 64 * ns;
    }
};

TEST(PlanePath, TakesTheSumOfItsPartsUnderOneLeafAndAcross) {
    ScriptedCluster cluster(small_cluster());
    const Way way;
    for (const uint32_t peer : {1U, 2U}) {
        cluster.connect(0, peer, peer);
        const auto memory = cluster.device(0).host_memory().allocate(4096);
        const Packet packet = write_packet(0, peer, 4096, 0, 0, peer);
        const uint64_t start = cluster.queue().now_ps();
        cluster.device(0).send(packet, from_host(memory->device_address, 4096));
        cluster.run();
        const uint64_t hops = peer == 1 ? 1 : 3;
        const uint64_t expected = way.handler + way.host_read(4096) + way.pipe_ps(packet) +
                                  (hops + 1) * (wire_ps(packet) + way.cable) + hops * way.switches;
        ASSERT_EQ(cluster.firmware(peer).arrivals.size(), 1U);
        EXPECT_EQ(cluster.firmware(peer).arrivals[0].time_ps - start, expected);
        const auto& credits = cluster.firmware(0).credits;
        ASSERT_FALSE(credits.empty());
        EXPECT_EQ(credits.back().time_ps - start, way.handler + way.host_read(4096) + way.pipe_ps(packet));
        EXPECT_EQ(credits.back().value, 4096U) << "payload of the packet that starts";
    }
}

TEST(PlanePath, PlacementWaitsForReceiveEngineAndFirmware) {
    ScriptedCluster cluster(small_cluster());
    cluster.connect(0, 1);
    const auto target = cluster.device(1).host_memory().allocate(64);
    const std::array<uint8_t, 64> data{1, 2, 3};
    cluster.firmware(1).packet = [&](const firmware::PacketEvent& event) {
        cluster.device(1).place(event.buffer, 0, {target->device_address, 64});
        cluster.device(1).release(event.buffer);
    };
    const Packet packet = write_packet(0, 1, 64);
    Payload payload;
    payload.inline_bytes = data;
    cluster.device(0).send(packet, payload);
    cluster.run_out();

    const Way way;
    const uint64_t arrival =
        way.handler + way.pipe_ps(packet) + 2 * (wire_ps(packet) + way.cable) + way.switches;
    const uint64_t visible = arrival + way.pipe_ps(packet) + 150 * ns + 64 * 1000 / 200 + 400 * ns;
    EXPECT_EQ(cluster.device(1).statistics().last_placement_ps, visible);
    EXPECT_EQ(cluster.device(1).statistics().latency.count(), 1U);
    EXPECT_EQ(cluster.device(1).statistics().latency.max_ns(), (visible - way.handler) / ns);
    EXPECT_EQ(std::memcmp(target->host, data.data(), data.size()), 0);
    EXPECT_EQ(cluster.device(1).packet_memory().used_bytes(), 0U);
    EXPECT_EQ(cluster->live_objects(), 0U);
}

TEST(PlanePath, DataLeaveAtLineRateAndControlPassesThem) {
    ScriptedCluster cluster(small_cluster());
    cluster.connect(0, 1);
    const auto memory = cluster.device(0).host_memory().allocate(4096);
    const Packet data = write_packet(0, 1, 4096);
    for (uint32_t psn = 0; psn < 6; ++psn) {
        cluster.device(0).send(write_packet(0, 1, 4096, psn), from_host(memory->device_address, 4096));
    }
    cluster.queue().run_until(1500 * ns);  // the first ones are on the wire, the rest waits
    Packet ack = write_packet(0, 1, 0);
    ack.opcode = firmware::Opcode::mp_ack;
    ack.ack = {};
    cluster.device(0).send(ack, {});
    cluster.run();

    const auto& arrivals = cluster.firmware(1).arrivals;
    ASSERT_EQ(arrivals.size(), 7U);
    const auto at = std::ranges::find(arrivals, firmware::Opcode::mp_ack,
                                      [](const auto& arrival) { return arrival.packet.opcode; });
    ASSERT_NE(at, arrivals.end());
    EXPECT_LT(at - arrivals.begin(), 6) << "the ACK came last";
    EXPECT_EQ(arrivals.back().time_ps - arrivals.front().time_ps, 5 * wire_ps(data) + wire_ps(ack));
    EXPECT_EQ(cluster.firmware(0).credits.size(), 6U) << "an ACK uses no credit";
}

TEST(PlanePath, ABufferCanBeSentOnAndIsHeldUntilItLeaves) {
    ScriptedCluster cluster(small_cluster());
    cluster.connect(0, 1, 1);
    cluster.connect(1, 2, 2);
    const auto memory = cluster.device(0).host_memory().allocate(4096);
    for (size_t i = 0; i < 4096; ++i) memory->host[i] = static_cast<std::byte>(i * 7);
    uint64_t used_after_release = 0;
    cluster.firmware(1).packet = [&](const firmware::PacketEvent& event) {
        Payload payload;
        payload.buffer = event.buffer;
        payload.buffer_offset = 64;
        cluster.device(1).send(write_packet(1, 2, 1000, 0, 1, 2), payload);
        cluster.device(1).release(event.buffer);
        used_after_release = cluster.device(1).packet_memory().used_bytes();
    };
    std::vector<std::byte> got(1000);
    const auto target = cluster.device(2).host_memory().allocate(1000);
    cluster.firmware(2).packet = [&](const firmware::PacketEvent& event) {
        cluster.device(2).place(event.buffer, 0, {target->device_address, 1000});
        cluster.device(2).release(event.buffer);
    };
    cluster.device(0).send(write_packet(0, 1, 4096), from_host(memory->device_address, 4096));
    cluster.run_out();
    EXPECT_EQ(used_after_release, 4096U);
    EXPECT_EQ(std::memcmp(target->host, memory->host + 64, 1000), 0);
    for (uint32_t device = 0; device < 4; ++device) {
        EXPECT_EQ(cluster.device(device).packet_memory().used_bytes(), 0U);
        EXPECT_EQ(cluster.device(device).packet_memory().live(), 0U);
    }
    EXPECT_EQ(cluster->live_objects(), 0U);
}

TEST(PlanePath, WithoutPacketMemoryTheEventHasNoBufferAndTheWindowTakesThePacketBack) {
    ClusterParameters parameters = small_cluster();
    parameters.device.engines.packet_memory_bytes = 3 * 4096;
    parameters.device.engines.scale_up_reserve_bytes = 4096;
    ScriptedCluster cluster(parameters);
    cluster.connect(0, 1);
    const auto memory = cluster.device(0).host_memory().allocate(4096);
    std::vector<firmware::BufferId> buffers;
    cluster.firmware(1).packet = [&](const firmware::PacketEvent& event) {
        buffers.push_back(event.buffer);
        if (event.buffer == 0) cluster.device(1).window_refuse(event.packet.qpn, event.packet.psn);
    };
    for (uint32_t psn = 0; psn < 3; ++psn) {
        cluster.device(0).send(write_packet(0, 1, 4096, psn), from_host(memory->device_address, 4096));
    }
    cluster.run();
    ASSERT_EQ(buffers.size(), 3U);
    EXPECT_NE(buffers[0], 0U);
    EXPECT_NE(buffers[1], 0U);
    EXPECT_EQ(buffers[2], 0U) << "the third would take the scale-up reserve";
    const DeviceStatistics statistics = cluster.device(1).statistics();
    EXPECT_EQ(statistics.packet_memory_refused, 1U);
    EXPECT_EQ(statistics.packet_memory_high_water_bytes, 2U * 4096);
    EXPECT_EQ(statistics.scale_out_data_delivered.packets, 2U);
    EXPECT_EQ(cluster.device(1).window(1).next_expected(), 2U);
    for (const firmware::BufferId buffer : {buffers[0], buffers[1]}) cluster.device(1).release(buffer);
    cluster.device(0).send(write_packet(0, 1, 4096, 2), from_host(memory->device_address, 4096));
    cluster.run();
    EXPECT_NE(buffers.back(), 0U);
    EXPECT_EQ(cluster.device(1).window(1).next_expected(), 3U);
}

TEST(PlanePath, EveryCorruptedPacketIsDroppedWithAReason) {
    ClusterParameters parameters = small_cluster();
    parameters.fabric.faults.corruption = 1;
    ScriptedCluster cluster(parameters);
    cluster.connect(0, 1);
    const auto memory = cluster.device(0).host_memory().allocate(4096);
    for (uint32_t psn = 0; psn < 200; ++psn) {
        cluster.device(0).send(write_packet(0, 1, static_cast<uint16_t>(psn * 20), psn),
                               from_host(memory->device_address, psn * 20));
    }
    cluster.run();
    const DeviceStatistics statistics = cluster.device(1).statistics();
    uint64_t dropped = 0;
    for (const uint64_t count : statistics.drops) dropped += count;
    EXPECT_EQ(statistics.scale_out_corrupt.packets, 200U);
    // A few flips hit only bits that the ICRC and the decoder leave out (UDP checksum, reserved bits): these
    // packets are good.
    EXPECT_EQ(dropped + cluster.firmware(1).arrivals.size(), 200U);
    EXPECT_GT(dropped, 180U);
    EXPECT_GT(statistics.drops[static_cast<size_t>(regmap::DropReason::icrc)], 100U);
    EXPECT_EQ(cluster.device(1).packet_memory().live(),
              std::ranges::count_if(cluster.firmware(1).arrivals,
                                    [](const auto& arrival) { return arrival.buffer != 0; }));
}

TEST(PlanePath, ForeignPacketsAreDroppedAndCounted) {
    ScriptedCluster cluster(small_cluster());
    cluster.device(1).window_open(1, 3, 0, 64, 4096);  // expects device 3
    cluster.device(0).send(write_packet(0, 1, 0), {});
    cluster.device(0).send(write_packet(0, 1, 0, 0, 0, 2), {});
    cluster.run();
    const DeviceStatistics statistics = cluster.device(1).statistics();
    EXPECT_EQ(statistics.drops[static_cast<size_t>(regmap::DropReason::peer_mismatch)], 1U);
    EXPECT_EQ(statistics.drops[static_cast<size_t>(regmap::DropReason::unknown_qp)], 1U);
    EXPECT_EQ(cluster.firmware(1).drops, 2U) << "for its registers";
    EXPECT_TRUE(cluster.firmware(1).arrivals.empty());
}

TEST(PlanePath, DmaToUnmappedMemoryIsCountedAndHarmless) {
    ScriptedCluster cluster(small_cluster());
    cluster.connect(0, 1);
    cluster.firmware(1).packet = [&](const firmware::PacketEvent& event) {
        cluster.device(1).place(event.buffer, 0, {0x1000, 64});
        cluster.device(1).release(event.buffer);
    };
    cluster.device(0).send(write_packet(0, 1, 64), from_host(0xffff'ffff'ffff'fff0, 64));
    cluster.device(0).fetch({firmware::FetchOwner::admin, 7}, {0x2000, 64});
    cluster.run();
    EXPECT_EQ(cluster.device(0).statistics().host_faults, 2U);
    EXPECT_EQ(cluster.device(1).statistics().host_faults, 1U);
    ASSERT_EQ(cluster.firmware(0).fetched.size(), 1U);
    EXPECT_EQ(cluster.firmware(0).fetched_status, regmap::Status::out_of_range);
    EXPECT_TRUE(cluster.firmware(0).fetched_bytes.empty());
}

TEST(PlanePath, FetchTakesARoundTripAndItsBytes) {
    ScriptedCluster cluster(small_cluster());
    const auto memory = cluster.device(0).host_memory().allocate(4096);
    memory->host[4095] = std::byte{9};
    cluster.device(0).fetch({firmware::FetchOwner::queues, 1}, {memory->device_address, 4096});
    cluster.device(0).fetch({firmware::FetchOwner::queues, 2}, {memory->device_address, 64});
    cluster.device(0).fetch({firmware::FetchOwner::queues, 3}, {memory->device_address, 4097});
    cluster.run();
    const auto& fetched = cluster.firmware(0).fetched;
    ASSERT_EQ(fetched.size(), 3U);
    // All are issued at once. The link's backlog of 2 x 4096 + 64 bytes is over long before the first data
    // are back, and the short one is answered when what was asked for before it has been read.
    EXPECT_EQ(fetched[0].time_ps, 800 * ns + 20480);
    EXPECT_EQ(fetched[0].value, 1U);
    EXPECT_EQ(fetched[1].time_ps, 800 * ns + 20480);
    EXPECT_EQ(fetched[1].value, 2U);
    EXPECT_EQ(cluster.firmware(0).fetched_status, regmap::Status::invalid_length);
}

TEST(PlanePath, APortThatGoesDownIsToldUnlessSilent) {
    ScriptedCluster cluster(small_cluster());
    EXPECT_EQ(cluster->fabric().set_link(Link::device_port(0, 2), false), "");
    EXPECT_FALSE(cluster.device(0).port_up(2));
    EXPECT_EQ(cluster->fabric().set_link(Link::device_port(0, 1), false, true), "");
    EXPECT_TRUE(cluster.device(0).port_up(1)) << "a silent failure does not show";
    EXPECT_FALSE(cluster.device(0).port_up(4)) << "no such plane";
    EXPECT_EQ(cluster->fabric().set_link(Link::device_port(0, 2), true), "");
    EXPECT_TRUE(cluster.device(0).port_up(2));
    ASSERT_EQ(cluster.firmware(0).port_changes.size(), 2U);
    EXPECT_EQ(cluster.firmware(0).port_changes[0].value, 2U * 2);
    EXPECT_EQ(cluster.firmware(0).port_changes[1].value, 2U * 2 + 1);
}

TEST(PlanePath, ADeadDeviceReadsAllOnesAndTouchesNothingAnyMore) {
    ScriptedCluster cluster(small_cluster());
    cluster.connect(0, 1);
    const auto memory = cluster.device(0).host_memory().allocate(4096);
    cluster.device(0).write(memory->device_address, std::array<uint8_t, 1>{1});
    for (uint32_t psn = 0; psn < 20; ++psn) {
        cluster.device(0).send(write_packet(0, 1, 4096, psn), from_host(memory->device_address, 4096));
        cluster.device(1).send(write_packet(1, 0, 0, psn), {});
    }
    cluster.device(0).kill();
    EXPECT_TRUE(cluster.device(0).is_dead());
    EXPECT_EQ(cluster.device(0).read_register(4), UINT32_MAX);
    cluster.device(0).write_register(4, 1);
    cluster.run();
    EXPECT_EQ(memory->host[0], std::byte{0});
    EXPECT_TRUE(cluster.firmware(0).arrivals.empty());
    EXPECT_TRUE(cluster.firmware(0).register_writes.empty());
    EXPECT_TRUE(cluster.firmware(1).arrivals.empty());
    EXPECT_EQ(cluster.firmware(1).scale_up_changes.size(), 1U);
    EXPECT_TRUE(cluster.firmware(3).scale_up_changes.empty());
    EXPECT_EQ(cluster->live_objects(), 0U);
}

uint64_t trace_of(uint64_t seed) {
    ClusterParameters parameters = small_cluster();
    parameters.seed = seed;
    parameters.fabric.faults = {
        .loss = 0.05, .corruption = 0.05, .duplication = 0.05, .delay = 0.1, .max_delay_ns = 2000};
    ScriptedCluster cluster(parameters);
    uint64_t hash = 0;
    for (uint32_t device = 0; device < 4; ++device) {
        for (uint32_t peer = 0; peer < 4; ++peer) {
            if (peer != device) cluster.device(device).window_open(peer + 1, peer, 0, 512, 4096);
        }
        cluster.firmware(device).packet = [&cluster, &hash, device](const firmware::PacketEvent& event) {
            const uint64_t now_ps = cluster.queue().now_ps();
            hash = hash_combine(hash, hash_combine(now_ps, uint64_t{device} << 32 | event.packet.psn));
            cluster.device(device).release(event.buffer);
        };
    }
    for (uint32_t psn = 0; psn < 100; ++psn) {
        for (uint32_t device = 0; device < 4; ++device) {
            const uint32_t peer = (device + 1 + psn % 3) % 4;
            Payload payload;
            const std::array<uint8_t, 64> bytes{};
            payload.inline_bytes = bytes;
            Packet packet =
                write_packet(device, peer, 64, psn / 3, static_cast<uint8_t>(psn % 4), device + 1);
            packet.entropy = static_cast<uint16_t>(0xc000 + psn);
            cluster.device(device).send(packet, payload);
        }
    }
    cluster.run();
    EXPECT_EQ(cluster->live_objects(), 0U);
    return hash;
}

TEST(PlanePath, TheSameSeedGivesTheSameRunAndAnotherSeedAnotherOne) {
    const uint64_t first = trace_of(1);
    EXPECT_EQ(first, trace_of(1));
    EXPECT_NE(first, trace_of(2));
}

TEST(Timers, FireOnceAtTheLatestDeadlineSet) {
    ScriptedCluster cluster(small_cluster());
    using firmware::TimerKind;
    DeviceModel& device = cluster.device(0);
    device.set_timer({TimerKind::qp, 5}, 1000);
    device.set_timer({TimerKind::qp, 5}, 3000);  // later: the pending event is kept
    device.set_timer({TimerKind::qp, 6}, 5000);
    device.set_timer({TimerKind::qp, 6}, 2000);  // earlier
    device.set_timer({TimerKind::ep_call, 7}, 2500);
    device.cancel_timer({TimerKind::ep_call, 7});
    device.set_timer({TimerKind::device, 8}, 100);
    device.cancel_timer({TimerKind::device, 8});
    device.set_timer({TimerKind::device, 8}, 4000);
    device.set_timer({TimerKind::device, 9}, ~uint64_t{0});  // never
    cluster.run();
    const auto& timers = cluster.firmware(0).timers;
    ASSERT_EQ(timers.size(), 3U);
    EXPECT_EQ(timers[0].value, 6U);
    EXPECT_EQ(timers[0].time_ps, 2000 * ns);
    EXPECT_EQ(timers[1].value, 5U);
    EXPECT_EQ(timers[1].time_ps, 3000 * ns);
    EXPECT_EQ(timers[2].value, 8U);
    EXPECT_EQ(timers[2].time_ps, 4000 * ns);
    device.set_timer({TimerKind::qp, 5}, 0);  // past: at once
    cluster.run();
    ASSERT_EQ(timers.size(), 4U);
    EXPECT_EQ(timers[3].time_ps, cluster.queue().now_ps());
}

TEST(Cluster, ImpossibleParametersAreRefusedWithTheReason) {
    ClusterParameters parameters = small_cluster();
    EXPECT_EQ(validate(parameters), "");
    parameters.fabric.devices = 3;
    EXPECT_NE(validate(parameters), "");
    parameters = small_cluster();
    parameters.device.engines.reduce_units = 0;
    EXPECT_NE(validate(parameters).find("reduce units"), std::string::npos);
    parameters = small_cluster();
    parameters.device.engines.packet_memory_bytes = 1024;
    EXPECT_NE(validate(parameters).find("packet memory"), std::string::npos);
    EXPECT_THROW(ScriptedCluster{parameters}, std::invalid_argument);
}

}  // namespace
}  // namespace plait::sim::testing
