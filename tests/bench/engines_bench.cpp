#include <benchmark/benchmark.h>

#include <algorithm>
#include <plait/engines/bf16.hpp>
#include <plait/engines/order.hpp>
#include <plait/engines/reduce.hpp>
#include <plait/engines/rx_window.hpp>
#include <plait/engines/spray.hpp>
#include <random>
#include <vector>

namespace {

using namespace plait::engines;

std::vector<uint16_t> normal_row(size_t count) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<uint16_t> row(count);
    for (uint16_t& x : row) x = float_to_bf16(normal(random));
    return row;
}

void rx_window_in_order(benchmark::State& state) {
    RxWindow window;
    window.reset(0, 512);
    uint32_t psn = 0;
    for (auto _ : state) {
        benchmark::DoNotOptimize(window.receive(psn));
        psn = psn_add(psn, 1);
    }
}
BENCHMARK(rx_window_in_order);

// Packets displaced at random within groups of `range`, as spraying does it.
void rx_window_reordered(benchmark::State& state) {
    constexpr size_t packets = size_t{1} << 16;
    std::vector<uint32_t> order(packets);
    for (size_t i = 0; i < packets; ++i) order[i] = static_cast<uint32_t>(i);
    std::mt19937 random(1);
    for (size_t first = 0; first < packets; first += static_cast<size_t>(state.range(0)))
        std::shuffle(order.begin() + static_cast<std::ptrdiff_t>(first),
                     order.begin() + static_cast<std::ptrdiff_t>(first) + state.range(0), random);
    RxWindow window;
    window.reset(0, 512);
    size_t i = 0;
    uint32_t base = 0;
    for (auto _ : state) {
        benchmark::DoNotOptimize(window.receive(psn_add(base, order[i])));
        if (++i == packets) {
            i = 0;
            base = psn_add(base, packets);
        }
    }
}
BENCHMARK(rx_window_reordered)->Arg(16)->Arg(256);

void spray_choose(benchmark::State& state) {
    SpraySelector selector;
    selector.configure({SprayPolicy::spray, 4, 128, 1, 4});
    uint64_t entropies = 0;
    for (auto _ : state) {
        if (const auto choice = selector.choose(0xF)) {
            entropies += choice->entropy;
            selector.on_ack(choice->entropy_index, false);
        }
    }
    benchmark::DoNotOptimize(entropies);
}
BENCHMARK(spray_choose);

void order_place_and_release(benchmark::State& state) {
    std::vector<OrderCounter> counters(64);
    std::vector<OrderRelease> pool(64);
    OrderTable table;
    table.configure(counters, pool);
    uint64_t count = 0;
    for (auto _ : state) {
        ++count;
        benchmark::DoNotOptimize(table.release(3, count, count));
        table.place(3, 1, [](uint64_t tag) { benchmark::DoNotOptimize(tag); });
    }
}
BENCHMARK(order_place_and_release);

void reduce_accumulate(benchmark::State& state) {
    const auto row = normal_row(static_cast<size_t>(state.range(0)));
    std::vector<float> acc(row.size());
    for (auto _ : state) {
        accumulate_bf16(acc, row.data());
        benchmark::DoNotOptimize(acc.data());
        benchmark::ClobberMemory();
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(reduce_accumulate)->Arg(2048)->Arg(7168);

void reduce_round(benchmark::State& state) {
    const auto row = normal_row(static_cast<size_t>(state.range(0)));
    std::vector<float> acc(row.size());
    std::vector<uint16_t> out(row.size());
    start_bf16(acc, row.data());
    for (auto _ : state) {
        round_bf16(acc, out.data());
        benchmark::DoNotOptimize(out.data());
        benchmark::ClobberMemory();
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(reduce_round)->Arg(2048);

}  // namespace
