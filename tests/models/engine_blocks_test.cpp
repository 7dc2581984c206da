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
    BlockCycles quantise{50, 64};
    std::vector<regmap::RowFormat> quantised;
    std::vector<QuantiseAnswer> quantise_answers;
    uint32_t row_cycles = 64;
    uint32_t result_cycles = 147;
    std::vector<ReduceCommand> reductions;
    std::vector<ReduceAnswer> reduce_answers;
    uint32_t gave = 0;
    std::vector<ReduceResult> results;
};

class ScriptedBlocks final : public EngineBlocks {
  public:
    explicit ScriptedBlocks(Script& script) : script_(script) {}

    [[nodiscard]] bool has(EngineBlock) const override { return true; }
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
    BlockCycles quantise(const QuantiseRow& row, const QuantiseAnswer& expected) override {
        script_.quantised.push_back(row.format);
        script_.quantise_answers.push_back(expected);
        return script_.quantise;
    }
    ReduceCycles reduce(const ReduceCommand& command, std::span<const engines::EncodedRow> rows,
                        const ReduceAnswer& expected, bool gives_result) override {
        script_.reductions.push_back(command);
        script_.reduce_answers.push_back(expected);
        script_.gave += gives_result;
        return {std::vector<uint32_t>(rows.size(), script_.row_cycles), script_.result_cycles, 64};
    }
    void reduced(const ReduceResult& expected) override { script_.results.push_back(expected); }
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

TEST_F(EngineBlocksTest, SumsGoThroughTheirBlockAndTakeItsTime) {
    constexpr uint32_t elements = 512;
    const auto memory = device(0).host_memory().allocate(2 * elements);
    auto* const values = reinterpret_cast<uint16_t*>(memory->host);
    std::fill_n(values, elements, uint16_t{0x3F80});
    values[7] = 0x7F80;
    uint64_t done_ps = 0;
    cluster_.firmware(0).reduced = [&](uint32_t, firmware::BufferId buffer) {
        done_ps = cluster_.queue().now_ps();
        device(0).release(buffer);
    };
    const auto time_of_sum = [&](uint32_t sum) {
        const uint64_t start_ps = cluster_.queue().now_ps();
        device(0).reduce_open(sum, {.contributions = 2, .elements = elements});
        const std::array<float, 2> weights{0.5F, 2};
        device(0).reduce_weigh(sum, weights);
        for (const uint8_t position : std::array<uint8_t, 3>{1, 1, 0})
            device(0).reduce_read(sum, position, {memory->device_address, 2 * elements});
        cluster_.run_out();
        return done_ps - start_ps;
    };
    const uint64_t usual_ps = time_of_sum(3);
    using regmap::ReduceOpcode;
    std::vector<ReduceOpcode> opcodes;
    for (const ReduceCommand& command : script_.reductions) opcodes.push_back(command.opcode);
    EXPECT_EQ(opcodes, (std::vector{ReduceOpcode::open, ReduceOpcode::weigh, ReduceOpcode::weigh,
                                    ReduceOpcode::add, ReduceOpcode::add, ReduceOpcode::add}));
    for (const ReduceCommand& command : script_.reductions) EXPECT_EQ(command.sum, 3U);
    EXPECT_EQ(script_.reductions[2].value, 0x4000'0000U);
    EXPECT_EQ(script_.reductions[3].length, 2 * elements);
    EXPECT_TRUE(script_.reduce_answers[3].fetched.empty());
    EXPECT_EQ(script_.reduce_answers[4].status, regmap::Status::invalid_state)
        << "a second row of a position";
    const uint32_t waited = script_.reductions[3].value;
    const uint32_t last = script_.reductions[5].value;
    EXPECT_EQ(script_.reduce_answers[5].fetched, (std::vector{last, waited}));
    EXPECT_EQ(script_.gave, 1U);
    ASSERT_EQ(script_.results.size(), 1U);
    EXPECT_EQ(script_.results[0].non_finite, 1U);
    EXPECT_EQ(script_.results[0].codes[1], 0x40) << "2.5 of BF16 is 0x4020";

    script_.row_cycles += 100;
    script_.result_cycles += 500;
    EXPECT_EQ(time_of_sum(4), usual_ps + (2 * 100 + 500) * cycle_ps);
}

TEST_F(EngineBlocksTest, ASumThatIsGivenUpIsClosedInItsBlock) {
    const auto memory = device(0).host_memory().allocate(1024);
    device(0).reduce_open(5, {.contributions = 3, .elements = 512});
    device(0).reduce_read(5, 2, {memory->device_address, 1024});
    cluster_.run_out();
    device(0).reduce_skip(5, 1);
    device(0).reduce_close(5);
    cluster_.run_out();
    ASSERT_EQ(script_.reductions.size(), 4U);
    EXPECT_EQ(script_.reductions[2].opcode, regmap::ReduceOpcode::skip);
    EXPECT_EQ(script_.reductions[3].opcode, regmap::ReduceOpcode::close);
    EXPECT_EQ(script_.reduce_answers[3].handles, (std::vector{script_.reductions[1].value}));
    device(0).reduce_open(5, {.contributions = 0, .elements = 512});
    device(0).reduce_close(5);
    EXPECT_EQ(script_.reductions.size(), 5U) << "its result is out, so the block has no such sum";
    EXPECT_EQ(script_.results.size(), 1U);
}

TEST_F(EngineBlocksTest, RowsThatAreEncodedTakeTheBlocksTime) {
    const auto memory = device(0).host_memory().allocate(4096);
    const auto time_of_row = [&] {
        const uint64_t start_ps = cluster_.queue().now_ps();
        firmware::ScaleUpHeader header;
        header.kind = regmap::ScaleUpKind::row;
        header.length = 2048;
        Payload payload = from_host(memory->device_address, 4096);
        payload.encoding = {regmap::RowFormat::e4m3_f32, 0, 0};
        device(0).scale_up(0b10, header, {}, payload, false);
        cluster_.run_out();
        return cluster_.firmware(1).frames.back().time_ps - start_ps;
    };
    const uint64_t usual_ps = time_of_row();
    EXPECT_EQ(script_.quantised, std::vector{regmap::RowFormat::e4m3_f32});
    EXPECT_EQ(script_.quantise_answers[0].codes.size(), 2048U);
    script_.quantise.latency += 30;
    script_.quantise.interval += 200;
    EXPECT_EQ(time_of_row(), usual_ps + 230 * cycle_ps);
}

}  // namespace
}  // namespace plait::sim::testing
