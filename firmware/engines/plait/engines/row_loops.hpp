#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <plait/engines/bf16.hpp>
#include <plait/engines/fp8.hpp>
#include <plait/engines/instruction_sets.hpp>

// The loops over rows, written once and inlined into functions that are compiled for several instruction
// sets. No operation is fused or reordered in any of them, so that all give the same bits; the tests compare
// them.

namespace plait::engines::row_loops {

constexpr uint32_t float_bits(uint16_t bf16) { return uint32_t{bf16} << 16; }
constexpr uint32_t float_bits(float value) { return std::bit_cast<uint32_t>(value); }

/// Of an element that is BF16 or FP32.
template <typename Element>
constexpr float to_float(Element element) {
    return std::bit_cast<float>(float_bits(element));
}

template <typename Element>
PLAIT_ALWAYS_INLINE void start(float* __restrict acc, const Element* __restrict row, size_t count) {
    for (size_t i = 0; i < count; ++i) acc[i] = to_float(row[i]);
}

template <typename Element>
PLAIT_ALWAYS_INLINE void accumulate(float* __restrict acc, const Element* __restrict row, size_t count) {
    for (size_t i = 0; i < count; ++i) acc[i] += to_float(row[i]);
}

template <typename Element>
PLAIT_ALWAYS_INLINE void start_weighted(float* __restrict acc, const Element* __restrict row, float weight,
                                        size_t count) {
    for (size_t i = 0; i < count; ++i) acc[i] = weight * to_float(row[i]);
}

template <typename Element>
PLAIT_ALWAYS_INLINE void accumulate_weighted(float* __restrict acc, const Element* __restrict row,
                                             float weight, size_t count) {
    for (size_t i = 0; i < count; ++i) acc[i] += weight * to_float(row[i]);
}

PLAIT_ALWAYS_INLINE void round(uint16_t* __restrict out, const float* __restrict acc, size_t count) {
    for (size_t i = 0; i < count; ++i) out[i] = float_to_bf16(acc[i]);
}

struct E4m3 {
    static constexpr float max = e4m3_max;
    static constexpr uint32_t max_exponent = 8;
    static constexpr uint8_t encode(float value) { return float_to_e4m3(value); }
    static constexpr float decode(uint8_t code) { return e4m3_to_float(code); }
};

struct E5m2 {
    static constexpr float max = e5m2_max;
    static constexpr uint32_t max_exponent = 15;
    static constexpr uint8_t encode(float value) { return float_to_e5m2(value); }
    static constexpr float decode(uint8_t code) { return e5m2_to_float(code); }
};

/// The largest finite magnitude of a block, at least 1e-4; adds to `non_finite` what it has of infinities and
/// NaN.
template <typename Element>
PLAIT_ALWAYS_INLINE float block_max(const Element* __restrict row, size_t count, uint32_t& non_finite) {
    constexpr int32_t infinity = 0x7F80'0000;
    int32_t largest = 0;
    uint32_t spoilt = 0;
    for (size_t i = 0; i < count; ++i) {
        const auto magnitude = static_cast<int32_t>(float_bits(row[i]) & 0x7FFF'FFFF);
        const int32_t finite = magnitude < infinity ? magnitude : 0;
        largest = finite > largest ? finite : largest;
        spoilt += magnitude < infinity ? 0u : 1u;
    }
    non_finite += spoilt;
    constexpr float floor = 1e-4f;
    const auto row_max = std::bit_cast<float>(largest);
    return row_max > floor ? row_max : floor;
}

/// The smallest power of two by which all of a block with this maximum can be divided to lie within FP8's
/// range, as UE8M0.
template <typename Fp8>
constexpr uint8_t ue8m0_scale(float amax) {
    // Both formats' largest number has the significand 1.75.
    constexpr uint32_t fraction = 0x0060'0000;
    static_assert((std::bit_cast<uint32_t>(Fp8::max) & 0x007F'FFFF) == fraction);
    const uint32_t rounded_up = std::bit_cast<uint32_t>(amax) + 0x007F'FFFF - fraction;
    return static_cast<uint8_t>((rounded_up >> 23) - Fp8::max_exponent);
}

template <typename Fp8, typename Element>
PLAIT_ALWAYS_INLINE void quantise(uint8_t* __restrict codes, const Element* __restrict row, float factor,
                                  size_t count) {
    for (size_t i = 0; i < count; ++i) {
        const uint32_t bits = float_bits(row[i]);
        const uint8_t code = Fp8::encode(to_float(row[i]) * factor);
        const bool finite = (bits >> 16 & 0x7FFF) < 0x7F80;  // faster than a comparison of all 32 bits
        codes[i] = finite ? code : fp8_nan;
    }
}

template <typename Fp8>
PLAIT_ALWAYS_INLINE void dequantise(float* __restrict out, const uint8_t* __restrict codes, float scale,
                                    size_t count) {
    for (size_t i = 0; i < count; ++i) out[i] = Fp8::decode(codes[i]) * scale;
}

}  // namespace plait::engines::row_loops
