#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <plait/engines/bf16.hpp>
#include <plait/engines/instruction_sets.hpp>

namespace plait::engines {

// LogFMT: a tile of up to 128 elements has evenly spaced logarithms between its smallest and its largest
// magnitude. Integers and single FP32 operations compute it all, so that each result is the same bits on
// every machine (docs/decisions/0008-logfmt.md).

/// Header of a tile, 4 bytes on the wire: the magnitudes of code 1 and of the largest code, as BF16. Both are
/// 0 in a tile without a finite element that is not zero.
struct LogFmtHeader {
    uint16_t min;
    uint16_t max;

    bool operator==(const LogFmtHeader&) const = default;
};
static_assert(sizeof(LogFmtHeader) == 4);

/// Codes of `bits`: a sign above a magnitude code K. K = 0 is zero, and NaN with the sign set; K = 1 is the
/// tile's minimum, the largest K its maximum, with `intervals` equal steps of the logarithm between them.
template <uint32_t bits>
struct LogFmt {
    static constexpr uint32_t sign = 1u << (bits - 1);
    static constexpr uint32_t nan = sign;
    static constexpr uint32_t intervals = sign - 2;
};

/// Octaves between minimum and maximum of a tile, at most.
inline constexpr uint32_t logfmt_octaves = 32;

namespace detail {

inline constexpr uint32_t log_fraction_bits = 25;

/// log2(1 + i / 128) in units of 2^-25, rounded down: a bit for each squaring.
inline constexpr std::array<uint32_t, 128> log2_table = [] {
    std::array<uint32_t, 128> table{};
    for (uint32_t i = 0; i < 128; ++i) {
        double x = 1.0 + i / 128.0;
        for (uint32_t bit = 0; bit < log_fraction_bits; ++bit) {
            x *= x;
            const bool set = x >= 2.0;
            table[i] = table[i] << 1 | (set ? 1 : 0);
            if (set) x /= 2.0;
        }
    }
    return table;
}();

/// A choice without a branch. For `?:` GCC moves the computation that is not needed behind a branch, and then
/// vectorises no more.
PLAIT_ALWAYS_INLINE constexpr uint32_t select(bool condition, uint32_t yes, uint32_t no) {
    const uint32_t mask = 0u - static_cast<uint32_t>(condition);
    return (yes & mask) | (no & ~mask);
}

/// log2 of a finite BF16 magnitude that is not zero, in units of 2^-25, modulo 2^32: differences of up to 64
/// octaves are right.
PLAIT_ALWAYS_INLINE constexpr uint32_t log2_bf16(uint32_t magnitude) {
    // A subnormal is an integer times 2^-133; as FP32 that integer is normal.
    const auto integer = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)));
    const uint32_t normalised = select(magnitude < 0x80, (integer >> 16) - (133u << 7), magnitude);
    return ((normalised >> 7) << log_fraction_bits) + log2_table[normalised & 0x7F];
}

/// 2^f for 0 <= f < 1, by a polynomial with a relative error below 2^-22. Its coefficients are positive and
/// rounding is monotone, hence so is this function; it is 1 at 0 and nowhere above 2.
PLAIT_ALWAYS_INLINE constexpr float exp2_fraction(float f) {
    float sum = 0x1.eca6fp-10f;
    sum = sum * f + 0x1.269dfp-7f;
    sum = sum * f + 0x1.c9444p-5f;
    sum = sum * f + 0x1.ebd8ap-3f;
    sum = sum * f + 0x1.62e4c8p-1f;
    return sum * f + 1.0f;
}
static_assert(exp2_fraction(0x1.fffffep-1f) <= 2.0f);

/// The magnitudes of a tile's codes, from its header.
template <uint32_t bits>
struct LogFmtScale {
    float min;
    float max;
    uint32_t log_min;
    uint32_t log_range;  ///< of max / min, units of 2^-25
    float step;          ///< of log2 from one code to the next

    constexpr explicit LogFmtScale(const LogFmtHeader& header)
        : min(bf16_to_float(header.min)),
          max(bf16_to_float(header.max)),
          log_min(log2_bf16(header.min)),
          log_range(log2_bf16(header.max) - log_min),
          step(static_cast<float>(static_cast<int32_t>(log_range)) * 0x1p-25f /
               static_cast<float>(LogFmt<bits>::intervals)) {}

    /// Of the code `index` above the minimum's.
    PLAIT_ALWAYS_INLINE constexpr float magnitude(int32_t index) const {
        const float octaves = static_cast<float>(index) * step;
        const auto whole = static_cast<int32_t>(octaves);
        const float fraction = octaves - static_cast<float>(whole);
        const auto power = std::bit_cast<float>((127 + whole) << 23);
        const float value = min * power * exp2_fraction(fraction);
        return std::bit_cast<float>(select(index == static_cast<int32_t>(LogFmt<bits>::intervals),
                                           std::bit_cast<uint32_t>(max), std::bit_cast<uint32_t>(value)));
    }
};

/// What an encoder can have written: finite, ordered, at most 32 octaves apart, both zero or neither.
constexpr bool is_sound(const LogFmtHeader& header) {
    if (header.max >= 0x7F80 || header.min > header.max) return false;
    if (header.min == 0) return header.max == 0;
    return bf16_to_float(header.max) <= bf16_to_float(header.min) * 0x1p32f;
}

}  // namespace detail

}  // namespace plait::engines
