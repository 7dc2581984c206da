#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace plait::engines {

/// Lowest set bit of each mask of eight, and how many are set: for processors
/// that have no instruction for it.
struct MaskTables {
    std::array<uint8_t, 256> lowest{};
    std::array<uint8_t, 256> count{};

    constexpr MaskTables() {
        for (uint32_t mask = 0; mask < 256; ++mask) {
            lowest[mask] = static_cast<uint8_t>(std::countr_zero(mask));
            count[mask] = static_cast<uint8_t>(std::popcount(mask));
        }
    }
};
inline constexpr MaskTables mask_tables;

/// Lowest set bit of a mask of planes, or of devices of a node: eight bits, one
/// set at least.
constexpr uint32_t lowest_bit(uint32_t mask) {
#if defined(__riscv) && !defined(__riscv_zbb)
    return mask_tables.lowest[static_cast<uint8_t>(mask)];
#else
    return static_cast<uint32_t>(std::countr_zero(mask));
#endif
}

/// How many bits of such a mask are set; none may be.
constexpr uint32_t count_bits(uint32_t mask) {
#if defined(__riscv) && !defined(__riscv_zbb)
    return mask_tables.count[static_cast<uint8_t>(mask)];
#else
    return static_cast<uint32_t>(std::popcount(mask));
#endif
}

}  // namespace plait::engines
