#include <algorithm>
#include <array>
#include <cstring>
#include <plait/engines/block_loops.hpp>
#include <plait/engines/quantise.hpp>

namespace plait::engines {

namespace {

const uint8_t* bytes_of(std::span<const std::byte> bytes) {
    return reinterpret_cast<const uint8_t*>(bytes.data());
}
uint8_t* bytes_of(std::span<std::byte> bytes) { return reinterpret_cast<uint8_t*>(bytes.data()); }

bool fits(RowFormat format, size_t elements, size_t codes, size_t scales) {
    return code_bits(format) != 0 && codes == code_bytes(format, elements) &&
           scales == scale_bytes(format, elements);
}

// The loops below take full blocks apart from a short last one, so that the former have a constant length.

template <typename Element>
PLAIT_ALWAYS_INLINE uint32_t encode_blocks(RowFormat format, const Element* row, size_t elements,
                                           uint8_t* codes, uint8_t* scale) {
    const size_t block_codes = code_bytes(format, quantise_block);
    const size_t block_scale = block_scale_bytes(format);
    uint32_t non_finite = 0;
    for (; elements >= quantise_block; elements -= quantise_block) {
        non_finite += row_loops::encode_block(format, codes, scale, row, quantise_block);
        row += quantise_block;
        codes += block_codes;
        scale += block_scale;
    }
    return elements == 0 ? non_finite
                         : non_finite + row_loops::encode_block(format, codes, scale, row, elements);
}

PLAIT_ROW_LOOP uint32_t encode(RowFormat format, const uint16_t* row, size_t elements, uint8_t* codes,
                               uint8_t* scales) {
    return encode_blocks(format, row, elements, codes, scales);
}

PLAIT_ROW_LOOP uint32_t encode_sum(RowFormat format, const float* row, size_t elements, uint8_t* codes,
                                   uint8_t* scales) {
    return encode_blocks(format, row, elements, codes, scales);
}

enum class Use : uint8_t { store, store_weighted, add, add_weighted };

PLAIT_ALWAYS_INLINE void use_block(RowFormat format, const uint8_t* codes, const uint8_t* scale, Use use,
                                   float weight, float* acc, size_t count) {
    if (use == Use::store) {
        row_loops::decode_block(format, acc, codes, scale, count);
        return;
    }
    float values[quantise_block];
    row_loops::decode_block(format, values, codes, scale, count);
    if (use == Use::store_weighted) row_loops::start_weighted(acc, values, weight, count);
    if (use == Use::add) row_loops::accumulate(acc, values, count);
    if (use == Use::add_weighted) row_loops::accumulate_weighted(acc, values, weight, count);
}

PLAIT_ROW_LOOP void decode(RowFormat format, const uint8_t* codes, const uint8_t* scale, Use use,
                           float weight, float* acc, size_t elements) {
    const size_t block_codes = code_bytes(format, quantise_block);
    const size_t block_scale = block_scale_bytes(format);
    for (; elements >= quantise_block; elements -= quantise_block) {
        use_block(format, codes, scale, use, weight, acc, quantise_block);
        acc += quantise_block;
        codes += block_codes;
        scale += block_scale;
    }
    if (elements != 0) use_block(format, codes, scale, use, weight, acc, elements);
}

PLAIT_ROW_LOOP void decode_to_bf16(RowFormat format, const uint8_t* codes, const uint8_t* scale,
                                   uint16_t* out, size_t elements) {
    const size_t block_codes = code_bytes(format, quantise_block);
    const size_t block_scale = block_scale_bytes(format);
    float values[quantise_block];
    for (; elements >= quantise_block; elements -= quantise_block) {
        row_loops::decode_block(format, values, codes, scale, quantise_block);
        row_loops::round(out, values, quantise_block);
        out += quantise_block;
        codes += block_codes;
        scale += block_scale;
    }
    if (elements == 0) return;
    row_loops::decode_block(format, values, codes, scale, elements);
    row_loops::round(out, values, elements);
}

/// Copies what of `piece`, which begins at byte `piece_offset` of a row, lies in `out`, which begins at
/// `offset`.
void copy_overlap(std::span<const std::byte> piece, size_t piece_offset, std::span<std::byte> out,
                  size_t offset) {
    const size_t first = std::max(piece_offset, offset);
    const size_t last = std::min(piece_offset + piece.size(), offset + out.size());
    if (first < last)
        std::memcpy(out.data() + (first - offset), piece.data() + (first - piece_offset), last - first);
}

bool decode_for(Use use, const EncodedRow& row, float weight, std::span<float> acc) {
    if (!fits(row.format, acc.size(), row.codes.size(), row.scales.size())) return false;
    decode(row.format, bytes_of(row.codes), bytes_of(row.scales), use, weight, acc.data(), acc.size());
    return true;
}

}  // namespace

std::optional<uint32_t> encode_row(RowFormat format, std::span<const uint16_t> bf16,
                                   std::span<std::byte> codes, std::span<std::byte> scales) {
    if (!fits(format, bf16.size(), codes.size(), scales.size())) return std::nullopt;
    return encode(format, bf16.data(), bf16.size(), bytes_of(codes), bytes_of(scales));
}

std::optional<uint32_t> encode_row(RowFormat format, std::span<const float> row, std::span<std::byte> codes,
                                   std::span<std::byte> scales) {
    if (!fits(format, row.size(), codes.size(), scales.size())) return std::nullopt;
    return encode_sum(format, row.data(), row.size(), bytes_of(codes), bytes_of(scales));
}

std::optional<uint32_t> encode_bytes(RowFormat format, size_t elements, size_t offset,
                                     std::span<const uint16_t> range, std::span<std::byte> out) {
    const size_t all_codes = code_bytes(format, elements);
    const size_t row_bytes = all_codes + scale_bytes(format, elements);
    if (code_bits(format) == 0 || offset > row_bytes || out.size() > row_bytes - offset) return std::nullopt;
    const auto [first, last] = elements_behind(format, elements, offset, out.size());
    if (range.size() != last - first) return std::nullopt;
    uint32_t non_finite = 0;
    for (size_t at = first; at < last; at += quantise_block) {
        const size_t count = std::min(quantise_block, last - at);
        std::array<std::byte, quantise_block * sizeof(float)> codes;
        std::array<std::byte, sizeof(float)> scale;
        const std::span block_codes = std::span(codes).first(code_bytes(format, count));
        const std::span block_scale = std::span(scale).first(block_scale_bytes(format));
        const size_t codes_offset = code_bytes(format, at);
        const uint32_t spoilt =
            encode(format, range.data() + (at - first), count, bytes_of(block_codes), bytes_of(block_scale));
        if (codes_offset >= offset && codes_offset - offset < out.size()) non_finite += spoilt;
        copy_overlap(block_codes, codes_offset, out, offset);
        copy_overlap(block_scale, all_codes + scale_bytes(format, at), out, offset);
    }
    return non_finite;
}

bool decode_row(const EncodedRow& row, std::span<float> out) { return decode_for(Use::store, row, 0, out); }

bool decode_row(const EncodedRow& row, std::span<uint16_t> bf16) {
    if (!fits(row.format, bf16.size(), row.codes.size(), row.scales.size())) return false;
    decode_to_bf16(row.format, bytes_of(row.codes), bytes_of(row.scales), bf16.data(), bf16.size());
    return true;
}

bool decode_row_weighted(const EncodedRow& row, float weight, std::span<float> acc) {
    return decode_for(Use::store_weighted, row, weight, acc);
}

bool accumulate_row(const EncodedRow& row, std::span<float> acc) { return decode_for(Use::add, row, 0, acc); }

bool accumulate_row_weighted(const EncodedRow& row, float weight, std::span<float> acc) {
    return decode_for(Use::add_weighted, row, weight, acc);
}

}  // namespace plait::engines
