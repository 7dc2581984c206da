// Scale-up frames and the reduce engine: multicast, order, staging, turn keeping.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include <plait/sim/fabric/random.hpp>

#include "scripted_firmware.hpp"

namespace plait::sim::testing {
namespace {

using firmware::Payload;
using firmware::ScaleUpHeader;
using regmap::ScaleUpKind;

constexpr uint64_t ns = 1000;

ClusterParameters one_node() {
    ClusterParameters parameters;
    parameters.fabric.devices = 4;
    parameters.fabric.devices_per_node = 4;
    parameters.fabric.leaf_down_ports = 4;
    parameters.fabric.leaf_up_ports = 4;
    return parameters;
}

ScaleUpHeader row(uint32_t length, uint32_t token = 0) {
    ScaleUpHeader header;
    header.kind = ScaleUpKind::row;
    header.length = length;
    header.token = token;
    return header;
}

void release_rows(ScriptedCluster& cluster) {
    for (uint32_t device = 0; device < cluster->devices(); ++device) {
        cluster.firmware(device).scale_up = [&cluster, device](const firmware::ScaleUpEvent& event) {
            cluster.device(device).release(event.buffer);
        };
    }
}

TEST(ScaleUpPort, AMulticastTakesTheSumOfItsPartsAndTellsWhenTheLastCopyHasLeft) {
    ScriptedCluster cluster(one_node());
    release_rows(cluster);
    const auto memory = cluster.device(1).host_memory().allocate(4096);
    ScaleUpHeader header = row(4096);
    header.tag = 77;
    header.choice_count = 2;
    const std::array<uint32_t, 3> index{10, 11, 12};
    cluster.device(1).scale_up(0b1011, header, index, from_host(memory->device_address, 4096), true);
    cluster.run();

    const uint64_t size = 32 + 2 * 8 + 4096;
    const uint64_t ready = 2 * 400 * ns + 20480 + (size + 63) / 64 * ns + 80 * ns;
    const uint64_t link = RateClock(160 * 8).time_ps(size);
    const auto arrival = [&](uint32_t device) { return cluster.firmware(device).frames.at(0).time_ps; };
    EXPECT_EQ(arrival(1), ready + (size + 63) / 64 * ns) << "its own copy never uses the link";
    EXPECT_EQ(std::min(arrival(0), arrival(3)), ready + link + 300 * ns + link);
    EXPECT_EQ(std::max(arrival(0), arrival(3)), ready + 2 * link + 300 * ns + link);
    EXPECT_TRUE(cluster.firmware(2).frames.empty());
    EXPECT_EQ(cluster.firmware(0).frames[0].header.index, 10U);
    EXPECT_EQ(cluster.firmware(1).frames[0].header.index, 11U);
    EXPECT_EQ(cluster.firmware(3).frames[0].header.index, 12U);
    EXPECT_EQ(cluster.firmware(0).frames[0].header.source_local, 1U);
    ASSERT_EQ(cluster.firmware(1).sent.size(), 1U);
    EXPECT_EQ(cluster.firmware(1).sent[0].value, 77U);
    EXPECT_EQ(cluster.firmware(1).sent[0].time_ps, ready + std::max(2 * link, (size + 63) / 64 * ns));
    EXPECT_EQ(cluster.device(1).statistics().scale_up_data_sent.packets, 3U);
    EXPECT_EQ(cluster.device(1).statistics().loopback.packets, 1U);
    EXPECT_EQ(cluster->live_objects(), 0U);
}

TEST(ScaleUpPort, FramesThatAreReadyOvertakeThoseThatWaitForTheirPayload) {
    ScriptedCluster cluster(one_node());
    release_rows(cluster);
    const auto memory = cluster.device(0).host_memory().allocate(4096);
    const std::array<uint8_t, 8> bytes{1, 2, 3, 4, 5, 6, 7, 8};
    Payload control;
    control.inline_bytes = bytes;
    for (uint32_t token = 0; token < 8; ++token) {
        if (token % 2 == 0) {
            cluster.device(0).scale_up(0b0110, row(4096, token), {}, from_host(memory->device_address, 4096),
                                       false);
        } else {
            ScaleUpHeader header = row(0, token);
            header.kind = ScaleUpKind::control;
            cluster.device(0).scale_up(0b0110, header, {}, control, false);
        }
    }
    cluster.run();
    for (const uint32_t device : {1U, 2U}) {
        const auto& frames = cluster.firmware(device).frames;
        ASSERT_EQ(frames.size(), 8U);
        const std::array<uint32_t, 8> order{1, 3, 5, 7, 0, 2, 4, 6};
        for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(frames[i].header.token, order[i]);
        EXPECT_EQ(frames[0].control, std::vector<uint8_t>(bytes.begin(), bytes.end()));
        EXPECT_EQ(frames[0].buffer, 0U);
    }
}

TEST(ScaleUpPort, ForwardingHoldsTheSendersBufferAndChargesTheReceiver) {
    ScriptedCluster cluster(one_node());
    cluster.device(0).window_open(1, 3, 0, 64, 4096);
    const auto source = cluster.device(3).host_memory().allocate(4096);
    for (size_t i = 0; i < 4096; ++i) source->host[i] = static_cast<std::byte>(i * 13);
    cluster.firmware(0).packet = [&](const firmware::PacketEvent& event) {
        Payload payload;
        payload.buffer = event.buffer;
        cluster.device(0).scale_up(0b0110, row(4096), {}, payload, false);
        cluster.device(0).release(event.buffer);
    };
    std::vector<firmware::BufferId> kept;
    std::array<std::optional<SharedMemory>, 3> target;
    for (const uint32_t device : {1U, 2U}) {
        target[device] = cluster.device(device).host_memory().allocate(4096);
        cluster.firmware(device).scale_up = [&, device](const firmware::ScaleUpEvent& event) {
            EXPECT_EQ(cluster.device(device).packet_memory().used_bytes(), 4096U);
            cluster.device(device).place(event.buffer, 0, {target[device]->device_address, 4096});
            cluster.device(device).release(event.buffer);
        };
    }
    cluster.device(3).send(write_packet(3, 0, 4096), from_host(source->device_address, 4096));
    cluster.run_out();
    for (const uint32_t device : {1U, 2U}) {
        ASSERT_EQ(cluster.firmware(device).frames.size(), 1U);
        EXPECT_EQ(std::memcmp(target[device]->host, source->host, 4096), 0);
        EXPECT_EQ(cluster.device(device).statistics().latency.count(), 1U);
    }
    EXPECT_EQ(cluster.device(0).packet_memory().used_bytes(), 0U);
    EXPECT_EQ(cluster.device(0).statistics().packet_memory_high_water_bytes, 4096U);
    EXPECT_EQ(cluster->live_objects(), 0U);
}

TEST(ScaleUpPort, AFullReceiverLosesNothing) {
    ClusterParameters parameters = one_node();
    parameters.device.engines.packet_memory_bytes = 4 * 4096;
    parameters.device.engines.scale_up_reserve_bytes = 0;
    ScriptedCluster cluster(parameters);
    std::vector<firmware::BufferId> held;
    cluster.firmware(1).scale_up = [&](const firmware::ScaleUpEvent& event) { held.push_back(event.buffer); };
    const auto memory = cluster.device(0).host_memory().allocate(4096);
    for (uint32_t token = 0; token < 20; ++token) {
        cluster.device(0).scale_up(0b0010, row(4096, token), {}, from_host(memory->device_address, 4096),
                                   false);
    }
    size_t released = 0;
    while (released < 20) {
        cluster.run_out();
        ASSERT_EQ(held.size(), std::min<size_t>(released + 4, 20));
        cluster.device(1).release(held[released++]);
    }
    for (uint32_t token = 0; token < 20; ++token)
        EXPECT_EQ(cluster.firmware(1).frames[token].header.token, token);
    EXPECT_EQ(cluster.device(1).statistics().scale_up_waited, 16U);
    EXPECT_EQ(cluster.device(1).statistics().packet_memory_high_water_bytes, 4U * 4096);
    EXPECT_EQ(cluster.device(1).packet_memory().used_bytes(), 0U);
}

TEST(ScaleUpPort, WhatADeadDeviceWasOwedIsLostAndTheSenderStillHears) {
    ScriptedCluster cluster(one_node());
    release_rows(cluster);
    const auto memory = cluster.device(0).host_memory().allocate(4096);
    for (uint32_t i = 0; i < 100; ++i) {
        ScaleUpHeader header = row(4096);
        header.tag = i;
        cluster.device(0).scale_up(0b0110, header, {}, from_host(memory->device_address, 4096), true);
    }
    cluster.queue().run_until(2000 * ns);
    cluster.device(1).kill();
    cluster.run();
    EXPECT_EQ(cluster.firmware(0).sent.size(), 100U);
    EXPECT_EQ(cluster.firmware(2).frames.size(), 100U);
    EXPECT_LT(cluster.firmware(1).frames.size(), 100U);
    ASSERT_EQ(cluster.firmware(0).scale_up_changes.size(), 1U);
    EXPECT_EQ(cluster.firmware(0).scale_up_changes[0].value, 1U * 2);
    EXPECT_EQ(cluster->live_objects(), 0U);
}

// ---- reduction, against arithmetic written out here

float bf16_value(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t rounded_bf16(float value) {
    // Nearest by trying: the two neighbours, ties to the even code. Finite values only.
    const auto below = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    const auto above = static_cast<uint16_t>(below + 1);
    const double exact = value;
    const double down = std::abs(exact - static_cast<double>(bf16_value(below)));
    const double up = std::abs(exact - static_cast<double>(bf16_value(above)));
    if (down != up) return down < up ? below : above;
    return below % 2 == 0 ? below : above;
}

uint64_t seed_of_run() {
    const char* const given = std::getenv("PLAIT_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 0) : 1;
}

struct Contributions {
    uint32_t elements = 0;
    std::vector<std::vector<uint16_t>> rows;
    std::vector<SharedMemory> memory;

    Contributions(ScriptedCluster& cluster, uint32_t count, uint32_t length, Random& random)
        : elements(length) {
        for (uint32_t i = 0; i < count; ++i) {
            auto& values = rows.emplace_back(length);
            for (uint16_t& value : values) {
                // exponents of 2^-8 .. 2^7, any sign and mantissa
                value = static_cast<uint16_t>(random.uniform(2) << 15 | (119 + random.uniform(16)) << 7 |
                                              random.uniform(128));
            }
            memory.push_back(*cluster.device(i % 4).host_memory().allocate(2 * length));
            std::memcpy(memory.back().host, values.data(), 2 * length);
        }
    }

    std::vector<uint16_t> sum(uint32_t without = UINT32_MAX) const {
        std::vector<uint16_t> result(elements);
        for (uint32_t e = 0; e < elements; ++e) {
            float total = -0.0F;
            for (uint32_t i = 0; i < rows.size(); ++i) {
                if (i != without) total = total + bf16_value(rows[i][e]);
            }
            result[e] = rounded_bf16(total);
        }
        return result;
    }

    void send(ScriptedCluster& cluster, uint32_t i, uint32_t accumulator) const {
        ScaleUpHeader header;
        header.kind = ScaleUpKind::contribution;
        header.length = 2 * elements;
        header.tag = firmware::SumName::tag(accumulator, i);
        cluster.device(i % 4).scale_up(0b0001, header, {}, from_host(memory[i].device_address, 2 * elements),
                                       false);
    }
};

std::vector<uint16_t> content(ScriptedCluster& cluster, uint32_t device, firmware::BufferId buffer) {
    const PayloadSlice& slice = cluster.device(device).packet_memory().slice(buffer);
    std::vector<uint16_t> values(slice.length / 2);
    std::memcpy(values.data(), cluster->pools().payload.bytes(slice), slice.length);
    return values;
}

TEST(Reduction, DoesNotDependOnTheOrderOfArrivalAndLeavesNothing) {
    const uint64_t seed = seed_of_run();
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    Random random(seed, "reduction");
    ScriptedCluster cluster(one_node());
    std::vector<uint16_t> result;
    cluster.firmware(0).reduced = [&](uint32_t, firmware::BufferId buffer) {
        result = content(cluster, 0, buffer);
        cluster.device(0).release(buffer);
    };
    for (int round = 0; round < 20; ++round) {
        const auto count = static_cast<uint32_t>(1 + random.uniform(8));
        const Contributions contributions(cluster, count, static_cast<uint32_t>(1 + random.uniform(2048)),
                                          random);
        std::vector<uint32_t> order(count);
        std::iota(order.begin(), order.end(), 0U);
        for (uint32_t i = count; i-- > 1;) std::swap(order[i], order[random.uniform(i + 1)]);
        cluster.device(0).reduce_open(
            5, {.contributions = static_cast<uint8_t>(count), .elements = contributions.elements});
        for (const uint32_t i : order) {
            contributions.send(cluster, i, 5);
            cluster.run_out();
        }
        EXPECT_EQ(result, contributions.sum()) << "round " << round;
        EXPECT_EQ(cluster.device(0).packet_memory().used_bytes(), 0U);
        EXPECT_EQ(cluster.device(0).reduce_engine().in_use(), 0U);
    }
    EXPECT_TRUE(cluster.firmware(0).frames.empty()) << "contributions are no business of firmware's";
    EXPECT_EQ(cluster->live_objects(), 0U);
    EXPECT_EQ(cluster.device(0).statistics().reductions, 20U);
    EXPECT_EQ(cluster.device(0).statistics().accumulator_high_water, 1U);
}

TEST(Reduction, TakesACycleFor64BytesOfEveryContributionAndOfTheResult) {
    ScriptedCluster cluster(one_node());
    Random random(1, "reduction time");
    const Contributions contributions(cluster, 2, 2048, random);
    cluster.device(0).reduce_open(0, {.contributions = 2, .elements = 2048});
    contributions.send(cluster, 0, 0);  // device 0, looped back
    cluster.run();
    cluster.queue().run_until(10'000 * ns);
    contributions.send(cluster, 1, 0);  // device 1
    cluster.run();
    const uint64_t size = 32 + 4096;
    const uint64_t cycles = (size + 63) / 64 * ns;
    const uint64_t link = RateClock(160 * 8).time_ps(size);
    const uint64_t arrival =
        10'000 * ns + 800 * ns + 20480 + cycles + 80 * ns + link + 300 * ns + link + cycles + 80 * ns;
    ASSERT_EQ(cluster.firmware(0).results.size(), 1U);
    EXPECT_EQ(cluster.firmware(0).results[0].time_ps, arrival + 64 * ns + (64 + 83) * ns);
    EXPECT_EQ(cluster.device(0).statistics().reduce_busy_ps, 3 * 64 * ns);
}

TEST(Reduction, SkippedPositionsAreLeftOutAndNothingAtAllIsZeros) {
    ScriptedCluster cluster(one_node());
    Random random(1, "skip");
    const Contributions contributions(cluster, 3, 100, random);
    std::vector<uint16_t> result;
    cluster.firmware(0).reduced = [&](uint32_t, firmware::BufferId buffer) {
        result = content(cluster, 0, buffer);
        cluster.device(0).release(buffer);
    };
    for (uint32_t skipped = 0; skipped < 3; ++skipped) {
        cluster.device(0).reduce_open(1, {.contributions = 3, .elements = 100});
        for (uint32_t i = 0; i < 3; ++i) {
            if (i == skipped) {
                cluster.device(0).reduce_skip(1, static_cast<uint8_t>(i));
            } else {
                contributions.send(cluster, i, 1);
            }
            cluster.run();
        }
        EXPECT_EQ(result, contributions.sum(skipped)) << "without " << skipped;
    }
    cluster.device(0).reduce_open(1, {.contributions = 2, .elements = 100});
    cluster.device(0).reduce_skip(1, 1);
    cluster.device(0).reduce_skip(1, 0);
    cluster.run();
    EXPECT_EQ(result, std::vector<uint16_t>(100, 0));
    result.clear();
    cluster.device(0).reduce_open(1, {.contributions = 0, .elements = 100});
    cluster.run();
    EXPECT_EQ(result, std::vector<uint16_t>(100, 0));
    EXPECT_EQ(cluster->live_objects(), 0U);
}

TEST(Reduction, WhatFitsNoTurnIsRefusedAndClosingFreesWhatWaits) {
    ScriptedCluster cluster(one_node());
    Random random(1, "refuse");
    const Contributions contributions(cluster, 4, 64, random);
    const Contributions other_size(cluster, 4, 65, random);
    contributions.send(cluster, 0, 2);  // not open
    cluster.run();
    cluster.device(0).reduce_open(2, {.contributions = 3, .elements = 64});
    contributions.send(cluster, 1, 2);
    contributions.send(cluster, 1, 2);                                // came before
    contributions.send(cluster, 3, 2);                                // no such position
    other_size.send(cluster, 0, 2);                                   // other size
    contributions.send(cluster, 0, firmware::SumName::of(60000, 0));  // no such accumulator
    contributions.send(cluster, 0, firmware::SumName::of(2, 1));      // a sum that is over, or to come
    cluster.run();
    EXPECT_EQ(cluster.device(0).statistics().reduce_refused, 6U);
    EXPECT_EQ(cluster.device(0).packet_memory().live(), 1U) << "the one that waits for its turn";
    cluster.device(0).reduce_close(2);
    cluster.run_out();
    EXPECT_EQ(cluster.device(0).packet_memory().live(), 0U);
    EXPECT_EQ(cluster.device(0).packet_memory().used_bytes(), 0U);
    EXPECT_TRUE(cluster.firmware(0).results.empty());
    EXPECT_EQ(cluster->live_objects(), 0U);
}

TEST(VirtualPayload, HasLengthsAndTimesButNoBytes) {
    ClusterParameters parameters = one_node();
    std::array<uint64_t, 2> placed{};
    for (const bool is_virtual : {false, true}) {
        parameters.virtual_payload = is_virtual;
        ScriptedCluster cluster(parameters);
        cluster.connect(0, 1);
        const auto source = cluster.device(0).host_memory().allocate(4096);
        const auto target = cluster.device(1).host_memory().allocate(4096);
        source->host[0] = std::byte{5};
        cluster.firmware(1).packet = [&](const firmware::PacketEvent& event) {
            cluster.device(1).place(event.buffer, 0, {target->device_address, 4096});
            cluster.device(1).release(event.buffer);
        };
        cluster.device(0).send(write_packet(0, 1, 4096), from_host(source->device_address, 4096));
        cluster.run();
        placed[is_virtual ? 1 : 0] = cluster.device(1).statistics().last_placement_ps;
        EXPECT_EQ(target->host[0], is_virtual ? std::byte{0} : std::byte{5});
        EXPECT_EQ(cluster.device(1).statistics().host_faults, 0U);
        EXPECT_EQ(cluster->live_objects(), 0U);
    }
    EXPECT_NE(placed[0], 0U);
    EXPECT_EQ(placed[0], placed[1]);
}

}  // namespace
}  // namespace plait::sim::testing
