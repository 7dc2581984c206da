#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <plait/regmap.hpp>
#include <span>

namespace plait::engines {

/// Elements that share a scale.
inline constexpr size_t quantise_block = regmap::scale_block_elements;

/// Scales of a row of `elements`; the last block may be short.
constexpr size_t quantise_scales(size_t elements) { return (elements + quantise_block - 1) / quantise_block; }

/// Quantises a row of BF16 to E4M3 with one FP32 scale for each block of 128 (the last one may be short):
/// amax = max(1e-4, max |x|), code = E4M3(x * (448 / amax)), scale = amax * fl32(1 / 448), each operation
/// rounded to FP32.
///
/// An infinity or NaN becomes a NaN code and does not count for amax, so that it spoils its own element only
/// (the published rule spoils the block with an infinity). Answers how many there were. Nothing is answered
/// or written unless `codes` holds as many elements as `row` and `scales` quantise_scales() of them.
std::optional<uint32_t> quantise_e4m3(std::span<const uint16_t> row, std::span<uint8_t> codes,
                                      std::span<float> scales);

/// out = code * scale, rounded to FP32. False, and nothing written, unless the sizes fit as for
/// quantise_e4m3().
bool dequantise_e4m3(std::span<const uint8_t> codes, std::span<const float> scales, std::span<float> out);

/// The same, rounded once more to BF16.
bool dequantise_e4m3_to_bf16(std::span<const uint8_t> codes, std::span<const float> scales,
                             std::span<uint16_t> out);

}  // namespace plait::engines
