#include <plait/sim/app/encoded_rows.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <plait/engines/instruction_sets.hpp>
#include <plait/sim/app/row_reference.hpp>

namespace plait::sim {
namespace {

using regmap::RowFormat;

PLAIT_ROW_LOOP void copy_xor(uint8_t* __restrict to, const uint8_t* __restrict from,
                             const uint8_t* __restrict mask, size_t count) {
    for (size_t i = 0; i < count; ++i) to[i] = from[i] ^ mask[i];
}

PLAIT_ROW_LOOP void copy_signed(float* __restrict to, const float* __restrict from,
                                const uint32_t* __restrict mask, size_t count) {
    for (size_t i = 0; i < count; ++i)
        to[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(from[i]) ^ mask[i]);
}

// The sign bits of eight codes of a byte, for every byte of a pattern.
constexpr auto make_sign_table() {
    std::array<std::array<uint8_t, 8>, 256> table{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
        for (uint32_t bit = 0; bit < 8; ++bit)
            table[byte][bit] = static_cast<uint8_t>((byte >> bit & 1) << 7);
    }
    return table;
}
constexpr auto sign_table = make_sign_table();

/// The sign bits of a block of codes.
std::array<uint8_t, Activations::block * sizeof(float)> sign_mask(uint64_t signs, uint32_t code_bits) {
    std::array<uint8_t, Activations::block * sizeof(float)> mask;
    if (code_bits == 8) {  // most runs have them
        for (uint32_t i = 0; i < Activations::block; i += 8)
            std::memcpy(&mask[i], sign_table[signs >> i % 64 & 0xff].data(), 8);
        return mask;
    }
    mask.fill(0);
    for (uint32_t i = 0; i < Activations::block; ++i) {
        const uint32_t bit = i * code_bits + code_bits - 1;
        mask[bit / 8] = static_cast<uint8_t>(mask[bit / 8] | (signs >> i % 64 & 1) << bit % 8);
    }
    return mask;
}

/// Codes of `bits` one after the other, the first in the lowest bits.
void pack(uint8_t* bytes, std::span<const uint32_t> codes, uint32_t bits) {
    for (size_t i = 0; i < codes.size(); ++i) {
        for (uint32_t bit = 0; bit < bits; ++bit) {
            const size_t at = i * bits + bit;
            bytes[at / 8] = static_cast<uint8_t>(bytes[at / 8] | (codes[i] >> bit & 1) << at % 8);
        }
    }
}

}  // namespace

EncodedRows::EncodedRows(const Activations& activations, regmap::RowFormat format)
    : activations_(activations),
      format_(format),
      code_bits_(regmap::code_bits(format)),
      code_bytes_(activations.hidden() * code_bits_ / 8),
      scale_bytes_((activations.hidden() + block - 1) / block * regmap::block_scale_bytes(format)),
      kind_of_block_((activations.hidden() + block - 1) / block) {
    if (format != RowFormat::bf16) encode_pool();
}

void EncodedRows::encode_pool() {
    const auto heavy = activations_.heavy_channels();
    const uint32_t short_count = activations_.hidden() % block;
    const size_t blocks = (1 + heavy.size() + (short_count != 0 ? 1 : 0)) * Activations::pool_blocks;
    codes_.resize(blocks * block * code_bits_ / 8);
    scales_.resize(blocks * regmap::block_scale_bytes(format_));
    values_.resize(blocks * block);
    encode_kind(0, block, nullptr);
    const uint32_t* last_heavy = nullptr;
    for (uint32_t i = 0; i < heavy.size(); ++i) {
        kind_of_block_[heavy[i] / block] = 1 + i;
        encode_kind(1 + i, block, &heavy[i]);
        if (heavy[i] / block + 1 == kind_of_block_.size()) last_heavy = &heavy[i];
    }
    if (short_count == 0) return;
    kind_of_block_.back() = static_cast<uint32_t>(1 + heavy.size());
    encode_kind(kind_of_block_.back(), short_count, last_heavy);
}

// The pool's blocks with `count` elements and perhaps a heavy channel, without signs.
void EncodedRows::encode_kind(uint32_t kind, uint32_t count, const uint32_t* heavy) {
    std::array<uint16_t, block> row;
    std::array<float, block> values;
    const uint32_t scale_bytes = regmap::block_scale_bytes(format_);
    for (uint32_t number = 0; number < Activations::pool_blocks; ++number) {
        activations_.fill_pool(number, row, heavy);
        for (uint32_t i = 0; i < count; ++i) values[i] = bf16_to_float(row[i]);
        const std::span used = std::span(values).first(count);
        const EncodedBlock encoded = encode_block(format_, used);
        const size_t at = kind * Activations::pool_blocks + number;
        pack(&codes_[at * block * code_bits_ / 8], std::span(encoded.codes).first(count), code_bits_);
        std::copy_n(encoded.scale.begin(), scale_bytes,
                    scales_.begin() + static_cast<std::ptrdiff_t>(at * scale_bytes));
        send_block(format_, used);
        std::copy(used.begin(), used.end(), values_.begin() + static_cast<std::ptrdiff_t>(at * block));
    }
}

size_t EncodedRows::block_of(const RowName& name, uint32_t block_of_row) const {
    return kind_of_block_[block_of_row] * Activations::pool_blocks +
           (name.start_block + block_of_row) % Activations::pool_blocks;
}

void EncodedRows::fill_codes(const RowName& name, std::span<std::byte> part, uint32_t offset) const {
    if (format_ == RowFormat::bf16) {
        const std::span elements(reinterpret_cast<uint16_t*>(part.data()), part.size() / 2);
        return activations_.fill(name, elements, offset / 2);
    }
    const uint32_t block_bytes = block * code_bits_ / 8;
    const auto mask = sign_mask(name.signs, code_bits_);
    for (size_t done = 0; done < part.size();) {
        const uint32_t at = offset + static_cast<uint32_t>(done);
        const uint32_t in_block = at % block_bytes;
        const size_t count = std::min<size_t>(block_bytes - in_block, part.size() - done);
        copy_xor(reinterpret_cast<uint8_t*>(part.data()) + done,
                 &codes_[block_of(name, at / block_bytes) * block_bytes + in_block], mask.data() + in_block,
                 count);
        done += count;
    }
}

void EncodedRows::fill_scales(const RowName& name, std::span<std::byte> part, uint32_t offset) const {
    const uint32_t scale = regmap::block_scale_bytes(format_);
    if (scale == 0) return;                                               // there are none
    if (scale == sizeof(float) && (offset | part.size()) % scale == 0) {  // most runs have them, whole
        for (uint32_t at = 0; at < part.size(); at += sizeof(float))
            std::memcpy(part.data() + at, &scales_[block_of(name, (offset + at) / scale) * scale],
                        sizeof(float));
        return;
    }
    for (size_t done = 0; done < part.size();) {
        const uint32_t at = offset + static_cast<uint32_t>(done);
        const size_t count = std::min<size_t>(scale - at % scale, part.size() - done);
        std::memcpy(part.data() + done, &scales_[block_of(name, at / scale) * scale + at % scale], count);
        done += count;
    }
}

void EncodedRows::fill_values(const RowName& name, std::span<float> part, uint32_t offset) const {
    if (format_ == RowFormat::bf16) {
        std::vector<uint16_t> elements(part.size());
        activations_.fill(name, elements, offset);
        std::transform(elements.begin(), elements.end(), part.begin(), bf16_to_float);
        return;
    }
    std::array<uint32_t, block> mask;
    for (uint32_t i = 0; i < block; ++i) mask[i] = static_cast<uint32_t>(name.signs >> i % 64 & 1) << 31;
    for (size_t done = 0; done < part.size();) {
        const uint32_t at = offset + static_cast<uint32_t>(done);
        const size_t count = std::min<size_t>(block - at % block, part.size() - done);
        copy_signed(part.data() + done, &values_[block_of(name, at / block) * block + at % block],
                    mask.data() + at % block, count);
        done += count;
    }
}

}  // namespace plait::sim
