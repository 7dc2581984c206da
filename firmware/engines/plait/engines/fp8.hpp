#pragma once

#include <bit>
#include <cstdint>

namespace plait::engines {

// FP8 after the OCP specification "OFP8" 1.0. Encoding rounds to nearest, ties to even, and saturates: what
// lies beyond the largest finite value, infinities included, becomes that value. Every NaN becomes fp8_nan
// (no sign: the sign of a computed NaN differs between processors). Neither direction branches, so that a
// compiler can vectorise a loop over them.

inline constexpr uint8_t fp8_nan = 0x7F;
inline constexpr float e4m3_max = 448.0f;
inline constexpr float e5m2_max = 57344.0f;

namespace detail {

/// `mantissa_bits` below a hidden one, exponents biased by `bias`; `max_code` is the largest finite
/// magnitude.
template <uint32_t mantissa_bits, uint32_t bias, uint32_t max_code>
constexpr uint8_t encode_fp8(float value) {
    constexpr uint32_t dropped = 23 - mantissa_bits;
    constexpr uint32_t smallest_normal = (128 - bias) << 23;
    // Adding this leaves the subnormals' unit, 2^(1 - bias - mantissa_bits), as the last bit of the sum.
    constexpr uint32_t magic = (127 + 24 - bias - mantissa_bits) << 23;

    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7FFF'FFFF;
    const uint32_t half = (1u << (dropped - 1)) - 1 + (magnitude >> dropped & 1);
    const uint32_t normal = ((magnitude + half) >> dropped) - ((127 - bias) << mantissa_bits);
    const float sum = std::bit_cast<float>(magnitude) + std::bit_cast<float>(magic);
    const uint32_t subnormal = std::bit_cast<uint32_t>(sum) - magic;
    const uint32_t finite = normal < max_code ? normal : max_code;
    const uint32_t code = (magnitude < smallest_normal ? subnormal : finite) | (bits >> 24 & 0x80);
    return static_cast<uint8_t>(magnitude > 0x7F80'0000 ? fp8_nan : code);
}

template <uint32_t mantissa_bits, uint32_t bias>
constexpr float decode_fp8_finite(uint8_t code) {
    constexpr uint32_t hidden = 1u << mantissa_bits;
    constexpr float unit = std::bit_cast<float>((128 - bias - mantissa_bits) << 23);
    const uint32_t magnitude = code & 0x7Fu;
    const float subnormal = static_cast<float>(static_cast<int32_t>(magnitude)) * unit;
    const uint32_t normal = (magnitude << (23 - mantissa_bits)) + ((127 - bias) << 23);
    const uint32_t bits = magnitude < hidden ? std::bit_cast<uint32_t>(subnormal) : normal;
    return std::bit_cast<float>(bits | (code & 0x80u) << 24);
}

inline constexpr float quiet_nan = std::bit_cast<float>(0x7FC0'0000u);

}  // namespace detail

/// 1 sign, 4 exponent (bias 7), 3 mantissa bits; no infinities, largest 448.
constexpr uint8_t float_to_e4m3(float value) { return detail::encode_fp8<3, 7, 0x7E>(value); }

constexpr float e4m3_to_float(uint8_t code) {
    return (code & 0x7F) == 0x7F ? detail::quiet_nan : detail::decode_fp8_finite<3, 7>(code);
}

/// 1 sign, 5 exponent (bias 15), 2 mantissa bits; infinities 0x7C and 0xFC, largest finite 57344.
constexpr uint8_t float_to_e5m2(float value) { return detail::encode_fp8<2, 15, 0x7B>(value); }

constexpr float e5m2_to_float(uint8_t code) {
    const uint32_t magnitude = code & 0x7Fu;
    if (magnitude == 0x7C) return std::bit_cast<float>(0x7F80'0000u | (code & 0x80u) << 24);
    return magnitude > 0x7C ? detail::quiet_nan : detail::decode_fp8_finite<2, 15>(code);
}

/// UE8M0 after the OCP specification "Microscaling Formats" 1.0: 2^(code - 127); 255 is NaN.
constexpr float ue8m0_to_float(uint8_t code) {
    if (code == 0xFF) return detail::quiet_nan;
    return std::bit_cast<float>(code == 0 ? 0x0040'0000u : uint32_t{code} << 23);
}

}  // namespace plait::engines
