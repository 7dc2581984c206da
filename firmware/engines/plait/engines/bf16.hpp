#pragma once

#include <bit>
#include <cstdint>

namespace plait::engines {

/// BF16 is the upper half of an IEEE 754 binary32 number. A BF16 value travels as its 16 bits.
///
/// Every NaN that is made here is this one: which NaN an addition gives differs between processors, and
/// results must not.
inline constexpr uint16_t bf16_nan = 0x7FC0;

constexpr float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

/// Rounds to nearest, ties to even; overflow gives infinity, subnormals are kept, any NaN gives bf16_nan.
constexpr uint16_t float_to_bf16(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    return static_cast<uint16_t>((bits & 0x7FFF'FFFF) > 0x7F80'0000 ? bf16_nan : rounded);
}

}  // namespace plait::engines
