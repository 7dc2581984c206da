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

PLAIT_ALWAYS_INLINE void start(float* __restrict acc, const uint16_t* __restrict row, size_t count) {
    for (size_t i = 0; i < count; ++i) acc[i] = bf16_to_float(row[i]);
}

PLAIT_ALWAYS_INLINE void accumulate(float* __restrict acc, const uint16_t* __restrict row, size_t count) {
    for (size_t i = 0; i < count; ++i) acc[i] += bf16_to_float(row[i]);
}

PLAIT_ALWAYS_INLINE void start_weighted(float* __restrict acc, const uint16_t* __restrict row, float weight,
                                        size_t count) {
    for (size_t i = 0; i < count; ++i) acc[i] = weight * bf16_to_float(row[i]);
}

PLAIT_ALWAYS_INLINE void accumulate_weighted(float* __restrict acc, const uint16_t* __restrict row,
                                             float weight, size_t count) {
    for (size_t i = 0; i < count; ++i) acc[i] += weight * bf16_to_float(row[i]);
}

PLAIT_ALWAYS_INLINE void round(uint16_t* __restrict out, const float* __restrict acc, size_t count) {
    for (size_t i = 0; i < count; ++i) out[i] = float_to_bf16(acc[i]);
}

/// One block; answers how many of its elements are not finite.
PLAIT_ALWAYS_INLINE uint32_t quantise(uint8_t* __restrict codes, float* __restrict scale,
                                      const uint16_t* __restrict row, size_t count) {
    constexpr int32_t infinity = 0x7F80;
    int32_t largest = 0;
    uint32_t non_finite = 0;
    for (size_t i = 0; i < count; ++i) {
        const int32_t magnitude = row[i] & 0x7FFF;
        const int32_t finite = magnitude < infinity ? magnitude : 0;
        largest = finite > largest ? finite : largest;
        non_finite += magnitude < infinity ? 0u : 1u;
    }
    const float floor = 1e-4f;
    const float row_max = bf16_to_float(static_cast<uint16_t>(largest));
    const float amax = row_max > floor ? row_max : floor;
    const float factor = e4m3_max / amax;
    *scale = amax * (1.0f / e4m3_max);
    for (size_t i = 0; i < count; ++i) {
        const uint8_t code = float_to_e4m3(bf16_to_float(row[i]) * factor);
        codes[i] = (row[i] & 0x7FFF) < infinity ? code : fp8_nan;
    }
    return non_finite;
}

PLAIT_ALWAYS_INLINE void dequantise(float* __restrict out, const uint8_t* __restrict codes, float scale,
                                    size_t count) {
    for (size_t i = 0; i < count; ++i) out[i] = e4m3_to_float(codes[i]) * scale;
}

PLAIT_ALWAYS_INLINE void dequantise_to_bf16(uint16_t* __restrict out, const uint8_t* __restrict codes,
                                            float scale, size_t count) {
    for (size_t i = 0; i < count; ++i) out[i] = float_to_bf16(e4m3_to_float(codes[i]) * scale);
}

}  // namespace plait::engines::row_loops
