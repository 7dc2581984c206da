#pragma once
// How evenly a queue pair uses its planes.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <plait/regmap.hpp>

namespace plait::firmware {

/// Bytes that each plane has got more than the one that got the fewest.
class PlaneBalance {
  public:
    /// Those of `planes` (bit p = plane p) that have got the fewest bytes: the next packet keeps things even
    /// on one of them. What the other planes have got is forgotten.
    std::uint32_t behind(std::uint32_t planes) {
        std::uint32_t fewest = ~0U;
        for (std::uint32_t left = planes; left != 0; left &= left - 1)
            fewest = std::min(fewest, ahead_bytes_[static_cast<std::uint32_t>(std::countr_zero(left))]);
        std::uint32_t behind = 0;
        for (std::uint32_t plane = 0; plane < ahead_bytes_.size(); ++plane) {
            const bool counts = ((planes >> plane) & 1U) != 0;
            ahead_bytes_[plane] = counts ? ahead_bytes_[plane] - fewest : 0;
            if (counts && ahead_bytes_[plane] == 0) behind |= 1U << plane;
        }
        return behind;
    }

    void sent(std::uint8_t plane, std::uint32_t bytes) { ahead_bytes_[plane] += bytes; }
    void forget() { ahead_bytes_ = {}; }

  private:
    std::array<std::uint32_t, regmap::max_planes> ahead_bytes_{};
};

}  // namespace plait::firmware
