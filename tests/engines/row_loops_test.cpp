// The row loops give the same bits whatever they are compiled for.

#include <gtest/gtest.h>

#include <plait/engines/block_loops.hpp>
#include <random>
#include <vector>

#include "encoded.hpp"
#include "seed.hpp"

namespace plait::engines {
namespace {

struct Loops {
    void (*start)(float*, const uint16_t*, size_t);
    void (*accumulate)(float*, const uint16_t*, size_t);
    void (*start_weighted)(float*, const uint16_t*, float, size_t);
    void (*accumulate_weighted)(float*, const uint16_t*, float, size_t);
    void (*round)(uint16_t*, const float*, size_t);
    uint32_t (*encode)(RowFormat, uint8_t*, uint8_t*, const uint16_t*, size_t);
    uint32_t (*encode_sum)(RowFormat, uint8_t*, uint8_t*, const float*, size_t);
    void (*decode)(RowFormat, float*, const uint8_t*, const uint8_t*, size_t);
};

#define COMPILE_LOOPS(NAME, ATTRIBUTE)                                                                       \
    struct NAME {                                                                                            \
        ATTRIBUTE static void start(float* a, const uint16_t* r, size_t n) { row_loops::start(a, r, n); }    \
        ATTRIBUTE static void add(float* a, const uint16_t* r, size_t n) { row_loops::accumulate(a, r, n); } \
        ATTRIBUTE static void start_weighted(float* a, const uint16_t* r, float w, size_t n) {               \
            row_loops::start_weighted(a, r, w, n);                                                           \
        }                                                                                                    \
        ATTRIBUTE static void add_weighted(float* a, const uint16_t* r, float w, size_t n) {                 \
            row_loops::accumulate_weighted(a, r, w, n);                                                      \
        }                                                                                                    \
        ATTRIBUTE static void round(uint16_t* o, const float* a, size_t n) { row_loops::round(o, a, n); }    \
        ATTRIBUTE static uint32_t encode(RowFormat f, uint8_t* c, uint8_t* s, const uint16_t* r, size_t n) { \
            return row_loops::encode_block(f, c, s, r, n);                                                   \
        }                                                                                                    \
        ATTRIBUTE static uint32_t encode_sum(RowFormat f, uint8_t* c, uint8_t* s, const float* r,            \
                                             size_t n) {                                                     \
            return row_loops::encode_block(f, c, s, r, n);                                                   \
        }                                                                                                    \
        ATTRIBUTE static void decode(RowFormat f, float* o, const uint8_t* c, const uint8_t* s, size_t n) {  \
            row_loops::decode_block(f, o, c, s, n);                                                          \
        }                                                                                                    \
        static constexpr Loops loops{start, add,    start_weighted, add_weighted,                            \
                                     round, encode, encode_sum,     decode};                                 \
    }

COMPILE_LOOPS(Scalar, __attribute__((optimize("no-tree-vectorize"))));
COMPILE_LOOPS(Baseline, );
#if defined(__x86_64__)
COMPILE_LOOPS(Avx2, __attribute__((target("avx2"))));
COMPILE_LOOPS(Avx2Fma, __attribute__((target("avx2,fma"))));
COMPILE_LOOPS(Avx512, __attribute__((target("avx512f"))));
#endif

struct EncodedBits {
    std::vector<uint8_t> codes, scales;
    std::vector<uint32_t> values;
    uint32_t non_finite = 0;

    bool operator==(const EncodedBits&) const = default;
};

struct Results {
    std::vector<uint32_t> acc, weighted;  // the bits
    std::vector<uint16_t> rounded, rounded_weighted;
    std::vector<EncodedBits> encoded;  // the first row and the sum in every format

    bool operator==(const Results&) const = default;
};

// Which NaN an addition gives is no concern: the rows' last rounding makes them all alike.
std::vector<uint32_t> bits_of(const std::vector<float>& values) {
    std::vector<uint32_t> bits;
    for (float value : values) bits.push_back(value != value ? 0x7FC00000u : std::bit_cast<uint32_t>(value));
    return bits;
}

template <typename Element, typename Encode>
EncodedBits encode(const Loops& loops, Encode encode_block, RowFormat format,
                   const std::vector<Element>& row) {
    EncodedBits result;
    result.codes.resize(code_bytes(format, row.size()));
    result.scales.resize(scale_bytes(format, row.size()));
    std::vector<float> values(row.size());
    for (size_t first = 0; first < row.size(); first += quantise_block) {
        const size_t count = std::min(quantise_block, row.size() - first);
        uint8_t* const codes = result.codes.data() + code_bytes(format, first);
        uint8_t* const scale = result.scales.data() + scale_bytes(format, first);
        result.non_finite += encode_block(format, codes, scale, row.data() + first, count);
        loops.decode(format, values.data() + first, codes, scale, count);
    }
    result.values = bits_of(values);
    return result;
}

Results run(const Loops& loops, const std::vector<std::vector<uint16_t>>& rows, float weight) {
    const size_t count = rows[0].size();
    std::vector<float> acc(count), weighted(count);
    Results results;
    results.rounded.resize(count);
    results.rounded_weighted.resize(count);
    loops.start(acc.data(), rows[0].data(), count);
    loops.start_weighted(weighted.data(), rows[0].data(), weight, count);
    for (size_t r = 1; r < rows.size(); ++r) {
        loops.accumulate(acc.data(), rows[r].data(), count);
        loops.accumulate_weighted(weighted.data(), rows[r].data(), weight, count);
    }
    loops.round(results.rounded.data(), acc.data(), count);
    loops.round(results.rounded_weighted.data(), weighted.data(), count);
    results.acc = bits_of(acc);
    results.weighted = bits_of(weighted);
    for (float& x : acc) x = x != x ? 0 : x;  // f32 would keep the NaN
    for (const auto& [name, format] : test::row_formats) {
        results.encoded.push_back(encode(loops, loops.encode, format, rows[0]));
        results.encoded.push_back(encode(loops, loops.encode_sum, format, acc));
    }
    return results;
}

void compare(const std::vector<std::vector<uint16_t>>& rows, float weight) {
    const Results expected = run(Scalar::loops, rows, weight);
    EXPECT_EQ(run(Baseline::loops, rows, weight), expected);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        EXPECT_EQ(run(Avx2::loops, rows, weight), expected);
    }
    if (__builtin_cpu_supports("fma")) {
        EXPECT_EQ(run(Avx2Fma::loops, rows, weight), expected);
    }
    if (__builtin_cpu_supports("avx512f")) {
        EXPECT_EQ(run(Avx512::loops, rows, weight), expected);
    }
#endif
}

TEST(RowLoops, SameBitsForEveryInstructionSet) {
    const uint64_t seed = test::seed_or(29);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    std::normal_distribution<float> normal;
    for (size_t count : {1u, 5u, 31u, 127u, 128u, 1000u}) {
        std::vector<std::vector<uint16_t>> ordinary(4, std::vector<uint16_t>(count));
        auto any_bits = ordinary;
        for (auto& row : ordinary)
            for (uint16_t& x : row) x = float_to_bf16(normal(random));
        for (auto& row : any_bits)
            for (uint16_t& x : row) x = static_cast<uint16_t>(random());
        compare(ordinary, normal(random));
        compare(any_bits, normal(random));
    }
}

TEST(RowLoops, EveryBf16) {
    std::vector<uint16_t> all(0x10000);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
    compare({all, all}, 0.3f);
}

}  // namespace
}  // namespace plait::engines
