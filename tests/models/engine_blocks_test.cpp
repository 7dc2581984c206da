// Engines as blocks: what they are asked, and how long the device waits for their answers.
#include <gtest/gtest.h>

#include <plait/sim/models/firmware_error.hpp>
#include <utility>

#include "scripted_firmware.hpp"

namespace plait::sim::testing {
namespace {

using firmware::Packet;
using firmware::Payload;

constexpr uint64_t cycle_ps = 1000;

// What the blocks of all devices were asked and take.
struct Script {
    BlockCycles window = window_cycles;
    BlockCycles spray = spray_cycles;
    BlockCycles forward = forward_cycles;
    BlockCycles order = order_cycles;
    uint32_t icrc_tail = icrc_tail_cycles;
    std::vector<WindowCommand> windows;
    std::vector<WindowAnswer> window_answers;
    std::vector<SprayCommand> sprays;
    std::vector<ForwardRow> rows;
    std::vector<OrderCommand> orders;
    std::vector<size_t> icrc_bytes;
};

class ScriptedBlocks final : public EngineBlocks {
  public:
    explicit ScriptedBlocks(Script& script) : script_(script) {}

    BlockCycles window(const WindowCommand& command, const WindowAnswer& expected) override {
        script_.windows.push_back(command);
        script_.window_answers.push_back(expected);
        return command.opcode == regmap::WindowOpcode::receive ? script_.window : window_cycles;
    }
    BlockCycles spray(const SprayCommand& command, const SprayAnswer&) override {
        script_.sprays.push_back(command);
        return script_.spray;
    }
    BlockCycles icrc(std::span<const uint8_t> packet, uint32_t) override {
        script_.icrc_bytes.push_back(packet.size());
        return {script_.icrc_tail, 1};
    }
    BlockCycles forward(const ForwardRow& row, const ForwardAnswer&) override {
        script_.rows.push_back(row);
        return script_.forward;
    }
    BlockCycles order(const OrderCommand& command, const OrderAnswer&) override {
        script_.orders.push_back(command);
        return script_.order;
    }
    std::vector<BlockUse> use() const override { return {}; }

  private:
    Script& script_;
};

// A run of one little scene with blocks; a process has one cluster at a time.
class EngineBlocksTest : public ::testing::Test {
  protected:
    EngineBlocksTest()
        : cluster_(small_cluster(), [this](uint32_t) { return std::make_unique<ScriptedBlocks>(script_); }) {}

    DeviceModel& device(uint32_t number) { return cluster_.device(number); }

    // Whenever a packet is handled in device 1, it interrupts its host.
    void interrupt_for_each_packet() {
        cluster_.connect(0, 1);
        cluster_.firmware(1).packet = [this](const firmware::PacketEvent&) {
            handled_ps_.push_back(cluster_.queue().now_ps());
            device(1).interrupt(1);
        };
        device(1).on_interrupt({[](void* object, uint32_t) {
                                    auto& self = *static_cast<EngineBlocksTest*>(object);
                                    self.seen_ps_.push_back(self.cluster_.queue().now_ps());
                                },
                                this});
    }

    Script script_;
    ScriptedCluster cluster_;
    std::vector<uint64_t> handled_ps_;  // by the handler, which runs when the packet arrives
    std::vector<uint64_t> seen_ps_;     // by the host
};

TEST_F(EngineBlocksTest, APacketWaitsForItsVerdict) {
    interrupt_for_each_packet();
    const auto delay_of = [&](uint32_t psn) {
        device(0).send(write_packet(0, 1, 0, psn), {});
        cluster_.run();
        return seen_ps_.back() - handled_ps_.back();
    };
    const uint64_t usual_ps = delay_of(0);
    script_.window.latency += 100;
    EXPECT_EQ(delay_of(1), usual_ps + 100 * cycle_ps);
    script_.icrc_tail += 40;
    EXPECT_EQ(delay_of(2), usual_ps + 140 * cycle_ps);
}

TEST_F(EngineBlocksTest, ABusyBlockHoldsUpWhatFollows) {
    interrupt_for_each_packet();
    script_.window.interval = 2000;
    for (uint32_t psn = 0; psn < 4; ++psn) device(0).send(write_packet(0, 1, 0, psn), {});
    cluster_.run();
    ASSERT_EQ(seen_ps_.size(), 4U);
    EXPECT_LT(seen_ps_[0] - handled_ps_[0], 1000 * cycle_ps);
    for (size_t i = 2; i < seen_ps_.size(); ++i) EXPECT_EQ(seen_ps_[i] - seen_ps_[i - 1], 2000 * cycle_ps);
}

TEST_F(EngineBlocksTest, FirmwaresCommandsReachTheWindow) {
    cluster_.connect(0, 1);
    cluster_.firmware(1).packet = [&](const firmware::PacketEvent& event) {
        (void)device(1).window(1);
        device(1).window_refuse(1, event.packet.psn);
    };
    device(0).send(write_packet(0, 1, 0, 5), {});
    cluster_.run();
    device(1).window_close(1);
    device(1).window_close(1);
    using regmap::WindowOpcode;
    const std::array expected{WindowOpcode::open, WindowOpcode::open,   WindowOpcode::receive,
                              WindowOpcode::read, WindowOpcode::refuse, WindowOpcode::close};
    ASSERT_EQ(script_.windows.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(script_.windows[i].opcode, expected[i]) << i;
    EXPECT_EQ(script_.window_answers[2].highest, 6U);
    EXPECT_TRUE(script_.window_answers[2].verdict.hole);
    EXPECT_EQ(script_.window_answers[3].bitmap[0], 1U << 5);
    EXPECT_EQ(script_.window_answers[4].highest, 0U);
    EXPECT_EQ(script_.window_answers[5], WindowAnswer{});
}

TEST_F(EngineBlocksTest, APacketDepartsWhenItsPathIsKnown) {
    using regmap::SprayOpcode;
    ASSERT_EQ(script_.sprays.size(), 4U * 4U) << "the credit of each device's planes";
    EXPECT_EQ(script_.sprays[0].opcode, SprayOpcode::credit);
    EXPECT_EQ(script_.sprays[0].bytes, device(0).config().transmit_ahead_bytes);
    cluster_.connect(0, 1);
    SprayPort spray = device(0).spray_port(1, device(0).spray(1));
    ASSERT_TRUE(spray.configure({engines::SprayPolicy::spray, 4, 8, 1, 4}));
    const auto way_of = [&](uint32_t psn) {
        const auto path = spray.choose_due(spray.planes_due(0b1111), 0b1111, 100);
        const uint64_t start = cluster_.queue().now_ps();
        device(0).send(write_packet(0, 1, 0, psn, path->plane), {});
        cluster_.run();
        return cluster_.firmware(1).arrivals.back().time_ps - start;
    };
    const uint64_t usual_ps = way_of(0);
    const std::array expected{SprayOpcode::configure, SprayOpcode::due, SprayOpcode::choose,
                              SprayOpcode::credit};
    ASSERT_EQ(script_.sprays.size(), 16U + expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(script_.sprays[16 + i].opcode, expected[i]) << i;
    script_.spray.latency += 70;
    EXPECT_EQ(way_of(1), usual_ps + 70 * cycle_ps);
}

TEST_F(EngineBlocksTest, FramesLeaveWhenTheirSetIsKnown) {
    firmware::ScaleUpHeader header;
    header.kind = regmap::ScaleUpKind::control;
    const std::array<uint8_t, 8> control{};
    Payload payload;
    payload.inline_bytes = control;
    const std::array<uint32_t, 2> index{7, 9};
    const auto way_of = [&](uint32_t from) {
        const uint64_t start = cluster_.queue().now_ps();
        device(from).scale_up(0b11, header, index, payload, false);
        cluster_.run();
        return cluster_.firmware(from ^ 1U).frames.back().time_ps - start;
    };
    const uint64_t usual_ps = way_of(0);
    ASSERT_EQ(script_.rows.size(), 1U);
    EXPECT_EQ(script_.rows[0].index_count, 2);
    EXPECT_EQ(script_.rows[0].indices[1], 9U);
    script_.forward.latency += 300;
    EXPECT_EQ(way_of(0), usual_ps + 300 * cycle_ps);
    EXPECT_THROW(device(0).scale_up(0b11, header, std::span(index).first(1), payload, false), FirmwareError);
    EXPECT_THROW(device(0).scale_up(0b100, header, {}, payload, false), FirmwareError);
    EXPECT_THROW(device(0).scale_up(0, header, {}, payload, false), FirmwareError);
}

TEST_F(EngineBlocksTest, EveryFrameThatLeavesOrArrivesHasItsIcrcComputed) {
    cluster_.connect(0, 1);
    const auto memory = device(0).host_memory().allocate(1000);
    const Packet packet = write_packet(0, 1, 1000);
    device(0).send(packet, from_host(memory->device_address, 1000));
    cluster_.run();
    const size_t bytes = firmware::frame_bytes(packet) - regmap::Ethernet::size_bytes - 4;
    EXPECT_EQ(script_.icrc_bytes, (std::vector<size_t>{bytes, bytes}));
}

TEST_F(EngineBlocksTest, AWriteWaitsForThePlacementsBeforeIt) {
    cluster_.connect(0, 1);
    const auto target = device(1).host_memory().allocate(8192);
    cluster_.firmware(1).packet = [&](const firmware::PacketEvent& event) {
        device(1).place(event.buffer, 0, {target->device_address, 4096}, true);
        const std::array<uint8_t, 4> flag{1};
        device(1).write(target->device_address + 4096, flag);
    };
    const auto memory = device(0).host_memory().allocate(4096);
    device(0).send(write_packet(0, 1, 4096), from_host(memory->device_address, 4096));
    cluster_.run_out();
    EXPECT_EQ(static_cast<uint8_t>(target->host[4096]), 1);
    using regmap::OrderOpcode;
    ASSERT_EQ(script_.orders.size(), 2U);
    EXPECT_EQ(script_.orders[0].opcode, OrderOpcode::release);
    EXPECT_EQ(script_.orders[0].count, 1U);
    EXPECT_EQ(script_.orders[1].opcode, OrderOpcode::place);
}

TEST_F(EngineBlocksTest, ADeadDeviceDropsWhatWaits) {
    cluster_.connect(0, 1);
    const auto target = device(1).host_memory().allocate(8192);
    cluster_.firmware(1).packet = [&](const firmware::PacketEvent& event) {
        device(1).place(event.buffer, 0, {target->device_address, 4096}, true);
        const std::array<uint8_t, 4> flag{1};
        device(1).write(target->device_address + 4096, flag);
        device(1).write(target->device_address + 4096, flag);
        device(1).kill();
    };
    const auto memory = device(0).host_memory().allocate(4096);
    device(0).send(write_packet(0, 1, 4096), from_host(memory->device_address, 4096));
    cluster_.run_out();
    EXPECT_EQ(static_cast<uint8_t>(target->host[4096]), 0);
    EXPECT_EQ(script_.orders.back().opcode, regmap::OrderOpcode::reset);
}

}  // namespace
}  // namespace plait::sim::testing
