// What a row becomes in each format, by the format's definition (docs/formats.md) and without a line of the
// engines. For finite elements.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include <plait/regmap.hpp>

namespace plait::sim {

/// A block of up to scale_block_elements as it is sent: a code for each element, and its scale as it lies on
/// the wire.
struct EncodedBlock {
    std::array<uint32_t, regmap::scale_block_elements> codes{};
    std::array<uint8_t, 4> scale{};
};

/// Slow: an element takes its time.
EncodedBlock encode_block(regmap::RowFormat format, std::span<const float> block);

/// Every element becomes what the receiver of the block decodes.
void send_block(regmap::RowFormat format, std::span<float> block);

/// BF16 by definition: the upper half of an FP32; rounding to nearest, ties to even. For finite values.
constexpr uint16_t round_to_bf16(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
constexpr float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

}  // namespace plait::sim
