// Verilated blocks: cycles a second under a full load, the commands given and the answers taken included.
#include <benchmark/benchmark.h>

#include "../contract/engines/forward_backends.hpp"
#include "../contract/engines/icrc_backends.hpp"
#include "../contract/engines/order_backends.hpp"
#include "../contract/engines/quantise_backends.hpp"
#include "../contract/engines/reduce_backends.hpp"
#include "../contract/engines/spray_backends.hpp"
#include "../contract/engines/window_backends.hpp"

namespace plait::contract {
namespace {

constexpr size_t batch = 1000;

/// Runs the commands again and again; they must leave the block as they found it, or as good.
template <typename Block>
void run_block(benchmark::State& state, Block& block, const std::vector<typename Block::Command>& commands,
               size_t answers) {
    const uint64_t before = block.cycles();
    for (auto _ : state) benchmark::DoNotOptimize(block.run(commands, answers));
    state.counters["cycles"] =
        benchmark::Counter(static_cast<double>(block.cycles() - before), benchmark::Counter::kIsRate);
}

void rtl_rx_window(benchmark::State& state) {
    WindowRtl block;
    // Four queue pairs in turn, neighbours swapped; closed at the end, so that they begin again.
    std::vector<WindowCommand> commands;
    for (uint32_t qp = 0; qp < 4; ++qp) commands.push_back({regmap::WindowOpcode::open, qp, 0xFFFFF0, 512});
    for (uint32_t i = 0; i < batch; ++i)
        commands.push_back(
            {regmap::WindowOpcode::receive, i % 4, engines::psn_add(0xFFFFF0, (i / 4) ^ 1), 0});
    for (uint32_t qp = 0; qp < 4; ++qp) commands.push_back({regmap::WindowOpcode::close, qp, 0, 0});
    run_block(state, block, commands, commands.size());
}
BENCHMARK(rtl_rx_window);

void rtl_spray(benchmark::State& state) {
    SprayRtl block;
    std::vector<SprayCommand> commands;
    for (uint32_t qp = 0; qp < 4; ++qp)
        commands.push_back({.opcode = regmap::SprayOpcode::configure,
                            .qp = qp,
                            .config = {engines::SprayPolicy::spray, 4, 128, qp, 4}});
    block.run(commands);
    // Each packet takes a credit, which comes back, and is soon gone; four queue pairs in turn.
    commands.clear();
    for (uint32_t i = 0; i < batch; i += 4) {
        const auto plane = static_cast<uint8_t>(i / 16 % 4);
        const auto lane = static_cast<uint8_t>(1U << plane);
        commands.push_back({.opcode = regmap::SprayOpcode::credit, .bytes = 1, .plane = plane});
        commands.push_back(
            {.opcode = regmap::SprayOpcode::choose, .qp = i / 4 % 4, .up = lane, .bytes = 4200});
        commands.push_back({.opcode = regmap::SprayOpcode::acknowledged, .qp = i / 4 % 4, .flag = true});
        commands.push_back(
            {.opcode = regmap::SprayOpcode::gone, .qp = i / 4 % 4, .plane = plane, .flag = true});
    }
    run_block(state, block, commands, commands.size());
}
BENCHMARK(rtl_spray);

void rtl_icrc(benchmark::State& state) {
    VerilatedBlock<IcrcPorts> block;
    std::vector<IcrcBeat> beats;
    for (size_t i = 0; i < batch / 65; ++i) sim::append(beats, IcrcPacket(4160, 0x45));
    run_block(state, block, beats, batch / 65);
}
BENCHMARK(rtl_icrc);

void rtl_order(benchmark::State& state) {
    VerilatedBlock<OrderPorts> block;
    std::vector<OrderCommand> commands;
    for (uint32_t i = 0; i < batch; ++i) commands.push_back({regmap::OrderOpcode::place, i % 64, 4096, 0});
    run_block(state, block, commands, commands.size());
}
BENCHMARK(rtl_order);

void rtl_forward(benchmark::State& state) {
    ForwardRtl block;
    const std::vector<ForwardRow> rows(batch, {0b1011'0110, 8, 3, 5, {1, 2, 3, 4, 5}});
    run_block(state, block, rows, rows.size());
}
BENCHMARK(rtl_forward);

// The argument is the format that BF16 is encoded as.
void rtl_quantise(benchmark::State& state) {
    QuantiseRtl block;
    const std::vector<QuantiseRow> rows(
        16, {static_cast<regmap::RowFormat>(state.range(0)), std::vector<uint16_t>(2048, 0x3F80)});
    const uint64_t before = block.cycles();
    for (auto _ : state) benchmark::DoNotOptimize(block.run(rows));
    state.counters["cycles"] =
        benchmark::Counter(static_cast<double>(block.cycles() - before), benchmark::Counter::kIsRate);
}
BENCHMARK(rtl_quantise)
    ->Arg(static_cast<int>(regmap::RowFormat::e4m3_f32))
    ->Arg(static_cast<int>(regmap::RowFormat::logfmt10));

// The argument is the format of the rows.
void rtl_reduce(benchmark::State& state) {
    constexpr uint32_t elements = 4096;
    const auto format = static_cast<regmap::RowFormat>(state.range(0));
    const ReduceRow row{format, std::vector<uint8_t>(engines::code_bytes(format, elements), 0x38),
                        std::vector<uint8_t>(engines::scale_bytes(format, elements), 0x3F)};
    const auto bytes = static_cast<uint32_t>(row.codes.size() + row.scales.size());
    std::vector<ReduceCommand> commands{
        {regmap::ReduceOpcode::open, 0, 32, regmap::RowFormat::bf16, elements}};
    for (uint32_t position = 0; position < 32; ++position)
        commands.push_back({regmap::ReduceOpcode::add, 0, position, format, bytes, 0});
    ReduceRtl block;
    const uint64_t before = block.cycles();
    for (auto _ : state) benchmark::DoNotOptimize(block.run(commands, std::span(&row, 1)));
    state.counters["cycles"] =
        benchmark::Counter(static_cast<double>(block.cycles() - before), benchmark::Counter::kIsRate);
}
BENCHMARK(rtl_reduce)
    ->Arg(static_cast<int>(regmap::RowFormat::e4m3_f32))
    ->Arg(static_cast<int>(regmap::RowFormat::logfmt10));

}  // namespace
}  // namespace plait::contract
