#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <plait/regmap.hpp>
#include <span>

namespace plait::engines {

// Rows in every format of the wire: BF16 or FP32 in, codes and scales out, and back. A row is its elements'
// codes, then a scale (or LogFMT's header) for each block of 128 elements, the last of which may be short.
// Numbers are little-endian. Nothing here needs to be aligned. Layout, values and error:
// docs/formats.md.

using regmap::block_scale_bytes;
using regmap::code_bits;
using regmap::RowFormat;

/// Elements that share a scale.
inline constexpr size_t quantise_block = regmap::scale_block_elements;

/// Blocks of a row of `elements`; the last one may be short.
constexpr size_t quantise_blocks(size_t elements) { return (elements + quantise_block - 1) / quantise_block; }

/// Bytes of the codes of a row of `elements`; bits that fill up the last byte are 0.
constexpr size_t code_bytes(RowFormat format, size_t elements) {
    return elements / 8 * code_bits(format) + (elements % 8 * code_bits(format) + 7) / 8;
}

/// Bytes of the scales of a row of `elements`.
constexpr size_t scale_bytes(RowFormat format, size_t elements) {
    return quantise_blocks(elements) * block_scale_bytes(format);
}

/// An encoded row to be read.
struct EncodedRow {
    RowFormat format;
    std::span<const std::byte> codes;
    std::span<const std::byte> scales;
};

/// Encodes a row and answers how many of its elements are infinite or NaN. Each of them becomes a NaN and
/// leaves the others as they are (bf16 and f32 keep infinities). Nothing is answered or written unless the
/// format is known, `codes` has exactly code_bytes() and `scales` scale_bytes() of the row.
std::optional<uint32_t> encode_row(RowFormat format, std::span<const uint16_t> bf16,
                                   std::span<std::byte> codes, std::span<std::byte> scales);

/// The same of FP32, for sums. LogFMT rounds them to BF16 first.
std::optional<uint32_t> encode_row(RowFormat format, std::span<const float> row, std::span<std::byte> codes,
                                   std::span<std::byte> scales);

/// Elements first .. last - 1 of a row, whole blocks of it.
struct ElementRange {
    size_t first;
    size_t last;
};

/// What bytes [offset, offset + length) of an encoded row of `elements`, codes and then scales, are made of.
/// They lie in the row, and the format is known.
constexpr ElementRange elements_behind(RowFormat format, size_t elements, size_t offset, size_t length) {
    const size_t codes = code_bytes(format, elements);
    const size_t end = offset + length;
    if (offset < codes && end > codes) return {0, elements};
    const bool in_codes = end <= codes || block_scale_bytes(format) == 0;
    const size_t block = in_codes ? code_bytes(format, quantise_block) : block_scale_bytes(format);
    const size_t before = in_codes ? 0 : codes;
    const size_t last = (end - before + block - 1) / block * quantise_block;
    return {(offset - before) / block * quantise_block, last < elements ? last : elements};
}

/// Bytes [offset, offset + out.size()) of what encode_row() makes of a row of `elements`; `range` has those
/// of elements_behind(). Answers how many infinities and NaN there are in the blocks whose first code is
/// among the bytes, so that those of a row are counted once. Nothing is answered or written unless the format
/// is known, the bytes lie in the row, and `range` has as many elements as they need.
std::optional<uint32_t> encode_bytes(RowFormat format, size_t elements, size_t offset,
                                     std::span<const uint16_t> range, std::span<std::byte> out);

/// The values of a row, rounded to FP32: code * scale. Also the first contribution of a sum. This and what
/// follows is false, and writes nothing, unless the format is known and the row has the bytes that as many
/// elements as the destination has take.
bool decode_row(const EncodedRow& row, std::span<float> out);

/// The same, rounded once more to BF16.
bool decode_row(const EncodedRow& row, std::span<uint16_t> bf16);

/// First weighted contribution: acc = weight * value, a rounding more.
bool decode_row_weighted(const EncodedRow& row, float weight, std::span<float> acc);

/// acc += value
bool accumulate_row(const EncodedRow& row, std::span<float> acc);

/// acc += weight * value, where product and sum are two roundings.
bool accumulate_row_weighted(const EncodedRow& row, float weight, std::span<float> acc);

}  // namespace plait::engines
