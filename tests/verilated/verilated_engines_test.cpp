// The Verilated engines of a device, asked as the device model asks them.
#include <gtest/gtest.h>

#include <plait/engines/icrc.hpp>
#include <plait/sim/models/order_engine.hpp>
#include <plait/sim/models/spray_port.hpp>
#include <plait/sim/verilated/verilated_engines.hpp>

namespace plait::sim {
namespace {

using regmap::OrderOpcode;
using regmap::SprayOpcode;
using regmap::WindowOpcode;

class VerilatedEnginesTest : public testing::Test {
  protected:
    // The C++ window of one queue pair.
    WindowAnswer open(uint32_t psn) {
        window_.reset(psn, 64);
        return state_of(window_);
    }
    WindowAnswer receive(uint32_t psn) {
        const engines::RxVerdict verdict = window_.receive(psn);
        WindowAnswer answer = state_of(window_);
        answer.verdict = verdict;
        return answer;
    }

    std::vector<std::string> lines_;
    std::unique_ptr<EngineBlocks> blocks_ =
        make_verilated_engines(6, 1, [this](const std::string& line) { lines_.push_back(line); });
    engines::RxWindow window_;
};

TEST_F(VerilatedEnginesTest, AgreeAndSayWhatTheyTook) {
    EXPECT_EQ(blocks_->window({WindowOpcode::open, 3, 7, 64}, open(7)).latency, window_cycles.latency);
    for (const uint32_t psn : {7U, 9U, 8U, 9U, 7U + 64 + 3}) {
        const BlockCycles cycles = blocks_->window({WindowOpcode::receive, 3, psn, 0}, receive(psn));
        EXPECT_EQ(cycles.latency, window_cycles.latency);
        EXPECT_EQ(cycles.interval, window_cycles.interval);
    }

    for (const size_t length : {size_t{41}, size_t{64}, size_t{1000}}) {
        const std::vector<uint8_t> packet(length, 0x45);
        const BlockCycles cycles = blocks_->icrc(packet, engines::icrc(packet));
        const auto beats = static_cast<uint32_t>((length + icrc_bytes_a_cycle - 1) / icrc_bytes_a_cycle);
        EXPECT_EQ(cycles.interval, beats);
        EXPECT_EQ(cycles.latency, beats - 1 + icrc_tail_cycles);
    }

    engines::SpraySelector selector;
    BlockCycles choice;
    SprayPort spray(selector, 900, blocks_.get(), choice);
    blocks_->spray({.opcode = SprayOpcode::credit, .bytes = 9, .plane = 1}, {});
    ASSERT_TRUE(spray.configure({engines::SprayPolicy::spray, 2, 6, 77, 1}));
    EXPECT_TRUE(spray.choose_due(spray.planes_due(0b10), 0b10, 900));
    EXPECT_EQ(choice.latency, spray_cycles.latency);
    EXPECT_EQ(choice.interval, spray_cycles.interval);
    spray.on_ack(1, true);
    spray.on_loss(3);
    EXPECT_TRUE(spray.plane_suspect(1));
    EXPECT_TRUE(spray.next_to_probe());
    spray.on_probe_returned(3);
    spray.on_gone(1, true);
    spray.exclude_plane(0);
    EXPECT_TRUE(spray.next_to_probe());
    spray.restore_plane(0);
    spray.forget_in_flight();
    EXPECT_EQ(spray.path(5).plane, 1);

    const ForwardRow row{0b1010, 4, 1, 2, {70, 80}};
    const BlockCycles forwarded = blocks_->forward(row, answer_of(row));
    EXPECT_EQ(forwarded.latency, forward_cycles.latency);
    EXPECT_EQ(forwarded.interval, forward_cycles.interval);

    OrderEngine order;
    const auto ask = [&](const OrderCommand& command) { return blocks_->order(command, order.run(command)); };
    EXPECT_EQ(ask({OrderOpcode::place, 0, 1, 0}).latency, order_cycles.latency);
    EXPECT_EQ(ask({OrderOpcode::release, 0, 1, 40}).latency, order_cycles.latency);
    ask({OrderOpcode::release, 0, 3, 41});
    ask({OrderOpcode::release, 0, 3, 42});
    EXPECT_GT(ask({OrderOpcode::place, 0, 5, 0}).latency, order_cycles.latency) << "it releases two";
    EXPECT_TRUE(lines_.empty()) << lines_.front();

    const std::vector<BlockUse> use = blocks_->use();
    ASSERT_EQ(use.size(), engine_block_names.size());
    EXPECT_EQ(use[0].commands, 6U);
    EXPECT_EQ(use[0].latency_cycles, 6U * window_cycles.latency);
    EXPECT_EQ(use[2].latency_cycles_max, 16U - 1 + icrc_tail_cycles);
}

TEST_F(VerilatedEnginesTest, TellOfADifferenceOnce) {
    blocks_->window({WindowOpcode::open, 3, 7, 64}, open(7));
    WindowAnswer wrong = receive(8);
    wrong.verdict.cumulative_psn = 9;
    blocks_->window({WindowOpcode::receive, 3, 8, 0}, wrong);
    ASSERT_EQ(lines_.size(), 1U);
    EXPECT_EQ(lines_[0],
              "device 6: plait_rx_window, command 2: opcode 0 qp 3 psn 8 packets 0: it answers status 0 "
              "verdict 0 next 7 hole highest 9 bitmap 0 0, the C++ engine status 0 verdict 0 next 9 hole "
              "highest 9 bitmap 0 0");
    blocks_->forward({0b1, 4, 1, 1, {70}}, {});
    EXPECT_EQ(blocks_->icrc(std::vector<uint8_t>(65), 0).latency, 1 + icrc_tail_cycles);
    EXPECT_EQ(lines_.size(), 1U);
}

TEST_F(VerilatedEnginesTest, EveryBlockIsCompared) {
    const std::vector<uint8_t> packet(100, 0x45);
    const ForwardRow row{0b1010, 4, 1, 2, {70, 80}};
    ForwardAnswer forwarded = answer_of(row);
    forwarded.indices[3] = 0;
    const auto line_of = [](auto ask) {
        std::string line;
        ask(*make_verilated_engines(0, 1, [&](const std::string& text) { line = text; }));
        return line;
    };
    EXPECT_NE(line_of([&](EngineBlocks& blocks) {
                  blocks.icrc(packet, ~engines::icrc(packet));
              }).find("plait_icrc, command 1: 100 bytes"),
              std::string::npos);
    EXPECT_NE(line_of([&](EngineBlocks& blocks) {
                  blocks.spray({.opcode = SprayOpcode::credit, .bytes = 9, .plane = 1}, {.granted = true});
              }).find("plait_spray"),
              std::string::npos);
    EXPECT_NE(line_of([&](EngineBlocks& blocks) { blocks.forward(row, forwarded); }).find("plait_forward"),
              std::string::npos);
    EXPECT_NE(line_of([&](EngineBlocks& blocks) {
                  blocks.order({OrderOpcode::place, 0, 1, 0}, {.placed = 2});
              }).find("plait_order"),
              std::string::npos);
}

constexpr std::array formats{regmap::RowFormat::bf16,       regmap::RowFormat::e4m3_f32,
                             regmap::RowFormat::e4m3_ue8m0, regmap::RowFormat::e5m2_f32,
                             regmap::RowFormat::e5m2_ue8m0, regmap::RowFormat::logfmt8,
                             regmap::RowFormat::logfmt10,   regmap::RowFormat::f32};

// Whole blocks to the cycle (LogFMT-10 fills a word more at times), less within two.
void expect_cycles(uint32_t measured, uint32_t expected, regmap::RowFormat format, size_t elements) {
    SCOPED_TRACE(std::string(regmap::name(format)) + ", elements " + std::to_string(elements));
    if (elements >= engines::quantise_block && format != regmap::RowFormat::logfmt10) {
        EXPECT_EQ(measured, expected);
    } else {
        EXPECT_NEAR(measured, expected, 2);
    }
}

TEST_F(VerilatedEnginesTest, RowsAreEncodedInTheCyclesThatTheDeviceReckonsWith) {
    for (const regmap::RowFormat format : formats) {
        if (format == regmap::RowFormat::f32) continue;
        for (const size_t elements : {1U, 40U, 128U, 700U, 2048U}) {
            const std::vector<uint16_t> values(elements, 0x3F80);
            const QuantiseRow row{format, values};
            const BlockCycles cycles = blocks_->quantise(row, answer_of(row));
            expect_cycles(cycles.latency, quantise_latency_cycles(format, elements), format, elements);
            EXPECT_EQ(cycles.interval, encode_cycles(elements));
        }
    }
    EXPECT_TRUE(lines_.empty()) << lines_.front();
}

TEST_F(VerilatedEnginesTest, SumsTakeTheCyclesThatTheDeviceReckonsWith) {
    using regmap::ReduceOpcode;
    for (const regmap::RowFormat format : formats) {
        for (const uint32_t elements : {1U, 40U, 128U, 700U, 2048U}) {
            const std::vector<float> sum(elements, 1);
            std::vector<std::byte> bytes(row_bytes(format, elements));
            const std::span codes = std::span(bytes).first(engines::code_bytes(format, elements));
            const std::span scales = std::span(bytes).subspan(codes.size());
            ASSERT_TRUE(engines::encode_row(format, std::span<const float>(sum), codes, scales));
            const engines::EncodedRow row{format, codes, scales};
            const auto ask = [&](const ReduceCommand& command, const ReduceAnswer& expected, bool gives) {
                return blocks_->reduce(command, std::span(&row, expected.fetched.size()), expected, gives);
            };
            ask({ReduceOpcode::open, 200, 2, format, elements}, {}, false);
            ask({ReduceOpcode::skip, 200, 0}, {}, false);
            ask({ReduceOpcode::skip, 200, 0}, {.status = regmap::Status::invalid_state}, false);
            const ReduceCycles cycles =
                ask({ReduceOpcode::add, 200, 1, format, static_cast<uint32_t>(bytes.size()), 77},
                    {.fetched = {77}}, true);
            EXPECT_EQ(cycles.rows, std::vector{row_cycles(format, elements)});
            // Of codes shorter than BF16 the block gives 32 a cycle, half a word or less; the device is to
            // have words of them.
            const uint32_t words = std::max(row_cycles(format, elements), encode_cycles(elements));
            expect_cycles(cycles.result, words + reduce_latency_cycles(format, elements), format, elements);
            expect_cycles(cycles.result_busy, words, format, elements);
            const auto all = [](std::span<const std::byte> from) {
                std::vector<uint8_t> to;
                for (const std::byte byte : from) to.push_back(static_cast<uint8_t>(byte));
                return to;
            };
            blocks_->reduced({200, 0, all(codes), all(scales)});
        }
    }
    EXPECT_TRUE(lines_.empty()) << lines_.front();
}

TEST_F(VerilatedEnginesTest, AnotherSumIsADifference) {
    blocks_->reduce({regmap::ReduceOpcode::open, 1, 0, regmap::RowFormat::bf16, 2}, {}, {}, true);
    EXPECT_TRUE(lines_.empty());
    blocks_->reduced({1, 0, {0, 0, 0x80, 0x3F}, {}});
    ASSERT_EQ(lines_.size(), 1U);
    EXPECT_NE(lines_[0].find("plait_reduce, command 1: opcode 0 sum 1"), std::string::npos) << lines_[0];
}

TEST_F(VerilatedEnginesTest, OnlyTheBlocksThatWereChosenAreThere) {
    const auto some = make_verilated_engines(0, 1, {}, 1U << static_cast<uint32_t>(EngineBlock::icrc));
    EXPECT_TRUE(some->has(EngineBlock::icrc));
    EXPECT_FALSE(some->has(EngineBlock::reduce));
    ASSERT_EQ(some->use().size(), 1U);
    EXPECT_EQ(some->use()[0].name, "plait_icrc");
}

}  // namespace
}  // namespace plait::sim
