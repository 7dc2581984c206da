#pragma once

#include <cstdint>

namespace plait::engines {

/// Packet sequence numbers are 24 bits and wrap; they are compared as serial numbers.
inline constexpr uint32_t psn_mask = 0xFF'FFFF;

/// The PSN `count` packets after `psn`; a negative count, converted to unsigned, goes back.
constexpr uint32_t psn_add(uint32_t psn, uint32_t count) { return (psn + count) & psn_mask; }

/// How many packets `a` lies after `b`, -2^23 .. 2^23 - 1 (the rule of the InfiniBand specification as its
/// implementations apply it: exactly 2^23 ahead counts as behind). Bits above the 24th are ignored.
constexpr int32_t psn_diff(uint32_t a, uint32_t b) { return static_cast<int32_t>((a - b) << 8) >> 8; }

}  // namespace plait::engines
