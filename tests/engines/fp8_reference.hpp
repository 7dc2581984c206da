#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace plait::engines::test {

/// An FP8 format by its definition in the OCP specification, in double arithmetic and by search.
struct Fp8Format {
    int mantissa_bits;
    int bias;
    uint32_t max_code;  // largest finite magnitude

    double value(uint32_t magnitude) const {
        const int exponent = static_cast<int>(magnitude >> mantissa_bits);
        const double fraction = std::ldexp(magnitude & ((1u << mantissa_bits) - 1), -mantissa_bits);
        return exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
    }

    /// The code nearest to x (no NaN); of two equally near ones the even one.
    uint8_t nearest(double x) const {
        const double wanted = std::min(std::fabs(x), value(max_code));  // saturates
        uint32_t best = 0;
        for (uint32_t magnitude = 1; magnitude <= max_code; ++magnitude) {
            const double distance = std::fabs(wanted - value(magnitude));
            const double best_distance = std::fabs(wanted - value(best));
            if (distance < best_distance || (distance == best_distance && magnitude % 2 == 0))
                best = magnitude;
        }
        return static_cast<uint8_t>(best | (std::signbit(x) ? 0x80 : 0));
    }
};

inline constexpr Fp8Format e4m3{3, 7, 0x7E};
inline constexpr Fp8Format e5m2{2, 15, 0x7B};

}  // namespace plait::engines::test
