#pragma once

#include <cstddef>
#include <cstring>
#include <plait/engines/logfmt_loops.hpp>
#include <plait/engines/quantise.hpp>
#include <plait/engines/row_loops.hpp>

// One block of a row in any format, see row_loops.hpp for the rules. `codes` and `scale` point to the block's
// own bytes on the wire, `count` is at most quantise_block and not 0; the format is a known one.

namespace plait::engines::row_loops {

static_assert(std::endian::native == std::endian::little, "rows are copied as they lie on the wire");

template <typename T>
PLAIT_ALWAYS_INLINE T load(const uint8_t* bytes) {
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

template <typename T>
PLAIT_ALWAYS_INLINE void store(uint8_t* bytes, T value) {
    std::memcpy(bytes, &value, sizeof value);
}

/// Packs 10-bit codes, the first in the lowest bits: (10 * count + 7) / 8 bytes, the last one filled with 0.
PLAIT_ALWAYS_INLINE void pack10(uint8_t* __restrict bytes, const uint16_t* __restrict codes, size_t count) {
    const auto packed = [](const uint16_t* four) {
        return four[0] | uint64_t{four[1]} << 10 | uint64_t{four[2]} << 20 | uint64_t{four[3]} << 30;
    };
    for (; count >= 4; count -= 4, codes += 4, bytes += 5) {
        const uint64_t five = packed(codes);
        store(bytes, static_cast<uint32_t>(five));
        bytes[4] = static_cast<uint8_t>(five >> 32);
    }
    if (count == 0) return;
    uint16_t four[4] = {};
    std::memcpy(four, codes, count * sizeof four[0]);
    const uint64_t last = packed(four);
    std::memcpy(bytes, &last, (10 * count + 7) / 8);
}

PLAIT_ALWAYS_INLINE void unpack10(uint16_t* __restrict codes, const uint8_t* __restrict bytes, size_t count) {
    const auto unpack = [](uint16_t* four, uint64_t five) {
        for (size_t i = 0; i < 4; ++i) four[i] = static_cast<uint16_t>(five >> (10 * i) & 0x3FF);
    };
    for (; count >= 4; count -= 4, codes += 4, bytes += 5)
        unpack(codes, load<uint32_t>(bytes) | uint64_t{bytes[4]} << 32);
    if (count == 0) return;
    uint64_t last = 0;
    std::memcpy(&last, bytes, (10 * count + 7) / 8);
    uint16_t four[4];
    unpack(four, last);
    std::memcpy(codes, four, count * sizeof four[0]);
}

template <typename Fp8, typename Element>
PLAIT_ALWAYS_INLINE uint32_t encode_fp8_f32(uint8_t* codes, uint8_t* scale, const Element* block,
                                            size_t count) {
    uint32_t non_finite = 0;
    const float amax = block_max(block, count, non_finite);
    store(scale, amax * (1.0f / Fp8::max));
    quantise<Fp8>(codes, block, Fp8::max / amax, count);
    return non_finite;
}

template <typename Fp8, typename Element>
PLAIT_ALWAYS_INLINE uint32_t encode_fp8_ue8m0(uint8_t* codes, uint8_t* scale, const Element* block,
                                              size_t count) {
    uint32_t non_finite = 0;
    const uint32_t exponent = ue8m0_scale<Fp8>(block_max(block, count, non_finite));
    *scale = static_cast<uint8_t>(exponent);
    const auto factor = std::bit_cast<float>((254 - exponent) << 23);
    quantise<Fp8>(codes, block, factor, count);
    return non_finite;
}

template <uint32_t bits>
PLAIT_ALWAYS_INLINE uint32_t encode_logfmt(uint8_t* codes, uint8_t* scale, const uint16_t* block,
                                           size_t count) {
    uint32_t non_finite = 0;
    uint16_t unpacked[quantise_block];
    const LogFmtHeader header = logfmt_header(block, count, non_finite);
    logfmt_encode<bits>(unpacked, block, header, count);
    store(scale, header);
    if constexpr (bits == 10) {
        pack10(codes, unpacked, count);
    } else {
        for (size_t i = 0; i < count; ++i) codes[i] = static_cast<uint8_t>(unpacked[i]);
    }
    return non_finite;
}

template <uint32_t bits>
PLAIT_ALWAYS_INLINE uint32_t encode_logfmt(uint8_t* codes, uint8_t* scale, const float* block, size_t count) {
    uint16_t rounded[quantise_block];
    round(rounded, block, count);
    return encode_logfmt<bits>(codes, scale, rounded, count);
}

/// Elements as they are, BF16 or FP32; a NaN is the same one on every machine.
template <typename Code, typename Element>
PLAIT_ALWAYS_INLINE uint32_t encode_plain(uint8_t* codes, const Element* block, size_t count) {
    uint32_t non_finite = 0;
    for (size_t i = 0; i < count; ++i) {
        const uint32_t bits = float_bits(block[i]);
        non_finite += (bits & 0x7FFF'FFFF) < 0x7F80'0000 ? 0u : 1u;
        if constexpr (sizeof(Code) == 2) {
            store(codes + 2 * i, float_to_bf16(std::bit_cast<float>(bits)));
        } else {
            store(codes + 4 * i, (bits & 0x7FFF'FFFF) > 0x7F80'0000 ? float_bits(bf16_nan) : bits);
        }
    }
    return non_finite;
}

/// Answers how many elements are infinite or NaN.
template <typename Element>
PLAIT_ALWAYS_INLINE uint32_t encode_block(RowFormat format, uint8_t* codes, uint8_t* scale,
                                          const Element* block, size_t count) {
    switch (format) {
        case RowFormat::bf16: return encode_plain<uint16_t>(codes, block, count);
        case RowFormat::f32: return encode_plain<float>(codes, block, count);
        case RowFormat::e4m3_f32: return encode_fp8_f32<E4m3>(codes, scale, block, count);
        case RowFormat::e5m2_f32: return encode_fp8_f32<E5m2>(codes, scale, block, count);
        case RowFormat::e4m3_ue8m0: return encode_fp8_ue8m0<E4m3>(codes, scale, block, count);
        case RowFormat::e5m2_ue8m0: return encode_fp8_ue8m0<E5m2>(codes, scale, block, count);
        case RowFormat::logfmt8: return encode_logfmt<8>(codes, scale, block, count);
        case RowFormat::logfmt10: return encode_logfmt<10>(codes, scale, block, count);
    }
    __builtin_unreachable();
}

template <uint32_t bits>
PLAIT_ALWAYS_INLINE void decode_logfmt(float* out, const uint8_t* codes, const uint8_t* scale, size_t count) {
    uint16_t unpacked[quantise_block];
    if constexpr (bits == 10) {
        unpack10(unpacked, codes, count);
    } else {
        for (size_t i = 0; i < count; ++i) unpacked[i] = codes[i];
    }
    logfmt_decode<bits>(out, unpacked, load<LogFmtHeader>(scale), count);
}

PLAIT_ALWAYS_INLINE void decode_block(RowFormat format, float* __restrict out, const uint8_t* codes,
                                      const uint8_t* scale, size_t count) {
    switch (format) {
        case RowFormat::bf16:
            for (size_t i = 0; i < count; ++i) out[i] = bf16_to_float(load<uint16_t>(codes + 2 * i));
            return;
        case RowFormat::f32: std::memcpy(out, codes, 4 * count); return;
        case RowFormat::e4m3_f32: return dequantise<E4m3>(out, codes, load<float>(scale), count);
        case RowFormat::e5m2_f32: return dequantise<E5m2>(out, codes, load<float>(scale), count);
        case RowFormat::e4m3_ue8m0: return dequantise<E4m3>(out, codes, ue8m0_to_float(*scale), count);
        case RowFormat::e5m2_ue8m0: return dequantise<E5m2>(out, codes, ue8m0_to_float(*scale), count);
        case RowFormat::logfmt8: return decode_logfmt<8>(out, codes, scale, count);
        case RowFormat::logfmt10: return decode_logfmt<10>(out, codes, scale, count);
    }
    __builtin_unreachable();
}

}  // namespace plait::engines::row_loops
