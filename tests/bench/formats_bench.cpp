#include <benchmark/benchmark.h>

#include <plait/engines/bf16.hpp>
#include <plait/engines/quantise.hpp>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace plait::engines;

constexpr size_t hidden = 7168;

struct Row {
    explicit Row(RowFormat format)
        : bf16(hidden), sum(hidden), codes(code_bytes(format, hidden)), scales(scale_bytes(format, hidden)) {
        std::mt19937 random(1);
        std::normal_distribution<float> normal;
        for (float& x : sum) x = normal(random);
        for (size_t i = 0; i < hidden; ++i) bf16[i] = float_to_bf16(sum[i]);
        encode_row(format, std::span<const uint16_t>(bf16), codes, scales);
    }

    std::vector<uint16_t> bf16;
    std::vector<float> sum;
    std::vector<std::byte> codes, scales;
};

// One row of 7168 an iteration.
template <typename Work>
void run(benchmark::State& state, RowFormat format, Work work) {
    Row row(format);
    for (auto _ : state) {
        benchmark::DoNotOptimize(work(row));
        benchmark::ClobberMemory();
    }
    state.counters["per_element"] =
        benchmark::Counter(static_cast<double>(hidden) * static_cast<double>(state.iterations()),
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void encode(benchmark::State& state, RowFormat format) {
    run(state, format, [format](Row& row) {
        return encode_row(format, std::span<const uint16_t>(row.bf16), row.codes, row.scales);
    });
}

void encode_sum(benchmark::State& state, RowFormat format) {
    run(state, format, [format](Row& row) {
        return encode_row(format, std::span<const float>(row.sum), row.codes, row.scales);
    });
}

void decode(benchmark::State& state, RowFormat format) {
    run(state, format, [format](Row& row) {
        return decode_row({format, row.codes, row.scales}, std::span(row.bf16));
    });
}

void accumulate(benchmark::State& state, RowFormat format) {
    run(state, format, [format](Row& row) {
        return accumulate_row({format, row.codes, row.scales}, row.sum);
    });
}

void accumulate_weighted(benchmark::State& state, RowFormat format) {
    run(state, format, [format](Row& row) {
        return accumulate_row_weighted({format, row.codes, row.scales}, 0.5f, row.sum);
    });
}

#define BENCHMARK_FORMAT(FORMAT)                              \
    BENCHMARK_CAPTURE(encode, FORMAT, RowFormat::FORMAT);     \
    BENCHMARK_CAPTURE(encode_sum, FORMAT, RowFormat::FORMAT); \
    BENCHMARK_CAPTURE(decode, FORMAT, RowFormat::FORMAT);     \
    BENCHMARK_CAPTURE(accumulate, FORMAT, RowFormat::FORMAT); \
    BENCHMARK_CAPTURE(accumulate_weighted, FORMAT, RowFormat::FORMAT)

BENCHMARK_FORMAT(bf16);
BENCHMARK_FORMAT(f32);
BENCHMARK_FORMAT(e4m3_f32);
BENCHMARK_FORMAT(e4m3_ue8m0);
BENCHMARK_FORMAT(e5m2_f32);
BENCHMARK_FORMAT(e5m2_ue8m0);
BENCHMARK_FORMAT(logfmt8);
BENCHMARK_FORMAT(logfmt10);

}  // namespace
