#pragma once
// How evenly a queue pair uses its planes.

#include <algorithm>
#include <array>
#include <cstdint>
#include <plait/engines/bits.hpp>
#include <plait/regmap.hpp>

namespace plait::engines {

/// Bytes that each plane has got more than the one that got the fewest.
class PlaneBalance {
  public:
    /// Those of `planes` (bit p = plane p) that have got the fewest bytes: the next packet keeps things even
    /// on one of them. What the other planes have got is forgotten.
    constexpr uint32_t behind(uint32_t planes) {
        for (uint32_t others = uneven_ & ~planes; others != 0; others &= others - 1)
            ahead_bytes_[lowest_bit(others)] = 0;
        uneven_ &= planes;
        if (uneven_ != planes) return planes & ~uneven_;
        uint32_t fewest = ~0U;
        for (uint32_t left = planes; left != 0; left &= left - 1)
            fewest = std::min(fewest, ahead_bytes_[lowest_bit(left)]);
        for (uint32_t left = planes; left != 0; left &= left - 1) {
            const uint32_t plane = lowest_bit(left);
            ahead_bytes_[plane] -= fewest;
            if (ahead_bytes_[plane] == 0) uneven_ &= ~(1U << plane);
        }
        return planes & ~uneven_;
    }

    /// `bytes` is not 0.
    constexpr void sent(uint8_t plane, uint32_t bytes) {
        ahead_bytes_[plane] += bytes;
        uneven_ |= 1U << plane;
    }
    constexpr void forget() {
        if (uneven_ == 0) return;
        ahead_bytes_ = {};
        uneven_ = 0;
    }

  private:
    std::array<uint32_t, regmap::max_planes> ahead_bytes_{};
    uint32_t uneven_ = 0;  ///< Planes whose entry is not 0.
};

}  // namespace plait::engines
