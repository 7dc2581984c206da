#pragma once

#include <algorithm>
#include <plait/engines/fp8.hpp>
#include <plait/engines/logfmt.hpp>

// LogFMT's loops over the elements of a tile; see row_loops.hpp for the rules.

namespace plait::engines::row_loops {

/// Header of a tile of BF16; adds to `non_finite` what it has of infinities and NaN.
PLAIT_ALWAYS_INLINE LogFmtHeader logfmt_header(const uint16_t* __restrict row, size_t count,
                                               uint32_t& non_finite) {
    constexpr int32_t infinity = 0x7F80;
    int32_t largest = 0;
    int32_t smallest = infinity;
    uint32_t spoilt = 0;
    for (size_t i = 0; i < count; ++i) {
        const int32_t magnitude = row[i] & 0x7FFF;
        const int32_t finite = magnitude < infinity ? magnitude : 0;
        const int32_t above_zero = magnitude > 0 ? magnitude : infinity;
        largest = finite > largest ? finite : largest;
        smallest = above_zero < smallest ? above_zero : smallest;
        spoilt += magnitude < infinity ? 0u : 1u;
    }
    non_finite += spoilt;
    if (largest == 0) return {0, 0};
    // 2^-32 of the maximum, rounded up to a BF16.
    const float lowest = bf16_to_float(static_cast<uint16_t>(largest)) * 0x1p-32f;
    const auto clamp = static_cast<int32_t>((std::bit_cast<uint32_t>(lowest) + 0xFFFF) >> 16);
    return {static_cast<uint16_t>(std::max(smallest, clamp)), static_cast<uint16_t>(largest)};
}

/// The code whose magnitude is nearest to each element; of two equally near ones the smaller.
template <uint32_t bits>
PLAIT_ALWAYS_INLINE void logfmt_encode(uint16_t* __restrict codes, const uint16_t* __restrict row,
                                       const LogFmtHeader& header, size_t count) {
    using Format = LogFmt<bits>;
    const detail::LogFmtScale<bits> scale(header);
    constexpr float last = Format::intervals - 1;
    const float codes_per_log = scale.log_range == 0
                                    ? 0
                                    : static_cast<float>(Format::intervals) /
                                          static_cast<float>(static_cast<int32_t>(scale.log_range));
    for (size_t i = 0; i < count; ++i) {
        const uint32_t magnitude = row[i] & 0x7FFFu;
        const auto x = std::bit_cast<float>(magnitude << 16);
        // Off by less than half a code, so that the nearest one is this or the next.
        const auto distance = static_cast<int32_t>(detail::log2_bf16(magnitude) - scale.log_min);
        const float estimate = static_cast<float>(distance) * codes_per_log;
        const float at_least = estimate > 0 ? estimate : 0;
        const auto index = static_cast<int32_t>(at_least < last ? at_least : last);
        // The differences are exact, since the numbers are within a factor of two.
        const bool next = x - scale.magnitude(index) > scale.magnitude(index + 1) - x;
        const uint32_t inside = static_cast<uint32_t>(index) + 1 + static_cast<uint32_t>(next);
        const auto below = static_cast<uint32_t>(x > scale.min - x);
        const uint32_t code = detail::select((x < scale.min) | (x == 0), below, inside);
        const uint32_t sign = detail::select(code != 0, (row[i] & 0x8000u) >> (16 - bits), 0);
        codes[i] = static_cast<uint16_t>(detail::select(magnitude < 0x7F80, code | sign, Format::nan));
    }
}

/// The values of codes, FP32; NaN for all of a tile whose header no encoder writes.
template <uint32_t bits>
PLAIT_ALWAYS_INLINE void logfmt_decode(float* __restrict out, const uint16_t* __restrict codes,
                                       const LogFmtHeader& header, size_t count) {
    using Format = LogFmt<bits>;
    constexpr auto nan = std::bit_cast<uint32_t>(detail::quiet_nan);
    if (!detail::is_sound(header)) {
        std::fill_n(out, count, detail::quiet_nan);
        return;
    }
    const detail::LogFmtScale<bits> scale(header);
    for (size_t i = 0; i < count; ++i) {
        const uint32_t code = codes[i];
        const uint32_t k = code & (Format::sign - 1);
        const auto index = static_cast<int32_t>(k) - static_cast<int32_t>(k != 0);
        const auto magnitude = std::bit_cast<uint32_t>(scale.magnitude(index));
        const uint32_t value = detail::select(k != 0, magnitude, 0) | (code & Format::sign) << (32 - bits);
        out[i] = std::bit_cast<float>(detail::select(code != Format::nan, value, nan));
    }
}

}  // namespace plait::engines::row_loops
