#include <plait/sim/app/activations.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include <plait/engines/instruction_sets.hpp>
#include <plait/sim/fabric/random.hpp>

namespace plait::sim {
namespace {

constexpr uint32_t pool_elements = Activations::pool_blocks * Activations::block;
constexpr uint16_t heavy_exponent = 4 << 7;  // times 2^4, in the exponent field of BF16

// BF16 of a nearly normal value: the sum of twelve uniform 16-bit values has, in units of 2^-16, a variance
// of 1.
uint16_t draw_normal(Random& random) {
    int64_t sum = -12 * 65535 / 2;
    for (int i = 0; i < 3; ++i) {
        const uint64_t bits = random.next();
        for (int part = 0; part < 4; ++part) sum += static_cast<int64_t>(bits >> (16 * part) & 0xffff);
    }
    const bool negative = sum < 0;
    auto magnitude = static_cast<uint32_t>(negative ? -sum : std::max<int64_t>(sum, 1));
    // value = magnitude * 2^-16: eight significant bits, to nearest, ties to even.
    auto exponent = static_cast<uint32_t>(std::bit_width(magnitude)) - 1;
    if (exponent > 7) {
        const uint32_t dropped = exponent - 7;
        const uint32_t half = (1U << (dropped - 1)) - 1 + (magnitude >> dropped & 1);
        magnitude = (magnitude + half) >> dropped;
        if (magnitude == 256) {
            magnitude = 128;
            ++exponent;
        }
    } else {
        magnitude <<= 7 - exponent;
    }
    const uint32_t bits = (exponent + 127 - 16) << 7 | (magnitude & 0x7f);
    return static_cast<uint16_t>(bits | (negative ? 0x8000U : 0U));
}

// Nearest E4M3 of a finite value by its definition: 3 bits of fraction, exponents from -6, 448 the largest.
uint8_t to_e4m3(float value) {
    const float magnitude = std::min(std::fabs(value), 448.0F);
    int exponent = 0;
    (void)std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, f in [1/2, 1)
    exponent = std::max(exponent - 1, -6);
    const float unit = std::ldexp(1.0F, exponent - 3);
    auto steps = static_cast<uint32_t>(std::nearbyint(magnitude / unit));  // 0 .. 16; the division is exact
    if (steps == 16) {
        steps = 8;
        ++exponent;
    }
    const uint32_t code = steps < 8 ? steps : static_cast<uint32_t>(exponent + 7) << 3 | (steps - 8);
    return static_cast<uint8_t>(code | (std::signbit(value) ? 0x80U : 0U));
}

// Eight sign masks for every byte of a pattern.
template <class Mask>
constexpr auto make_sign_table() {
    std::array<std::array<Mask, 8>, 256> table{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
        for (uint32_t bit = 0; bit < 8; ++bit) {
            if ((byte >> bit & 1) != 0)
                table[byte][bit] = static_cast<Mask>(Mask{1} << (8 * sizeof(Mask) - 1));
        }
    }
    return table;
}
constexpr auto signs_of_16_bits = make_sign_table<uint16_t>();
constexpr auto signs_of_8_bits = make_sign_table<uint8_t>();

// Masks of 64 elements, the first of which is element `offset` of the row.
template <class Mask>
std::array<Mask, 64> expand(uint64_t signs, uint32_t offset,
                            const std::array<std::array<Mask, 8>, 256>& table) {
    signs = std::rotr(signs, static_cast<int>(offset % 64));
    std::array<Mask, 64> masks;
    for (size_t byte = 0; byte < 8; ++byte)
        std::memcpy(&masks[8 * byte], table[signs >> (8 * byte) & 0xff].data(), 8 * sizeof(Mask));
    return masks;
}

template <class Element>
PLAIT_ALWAYS_INLINE void copy_with(Element* __restrict to, const Element* __restrict from, size_t count,
                                   const std::array<Element, 64>& masks, size_t first_mask) {
    size_t i = 0;
    if (first_mask == 0) {
        for (; i + 64 <= count; i += 64) {
            for (size_t k = 0; k < 64; ++k) to[i + k] = static_cast<Element>(from[i + k] ^ masks[k]);
        }
    }
    for (; i < count; ++i) to[i] = static_cast<Element>(from[i] ^ masks[(first_mask + i) % 64]);
}

PLAIT_ROW_LOOP void copy_signed(uint16_t* to, const uint16_t* from, size_t count,
                                const std::array<uint16_t, 64>& masks, size_t first_mask) {
    copy_with(to, from, count, masks, first_mask);
}
PLAIT_ROW_LOOP void copy_signed(uint8_t* to, const uint8_t* from, size_t count,
                                const std::array<uint8_t, 64>& masks, size_t first_mask) {
    copy_with(to, from, count, masks, first_mask);
}

}  // namespace

Activations::Activations(uint64_t seed, uint32_t hidden)
    : seed_(hash_combine(mix64(seed), hash_name("activations"))), hidden_(hidden) {
    Random random(seed, "activations");
    pool_.resize(pool_elements + hidden + block);
    for (uint32_t i = 0; i < pool_elements; ++i) pool_[i] = draw_normal(random);
    for (size_t i = pool_elements; i < pool_.size(); ++i) pool_[i] = pool_[i - pool_elements];

    // One heavy channel in a thousand or so, in different blocks.
    const uint32_t blocks = hidden / block + (hidden % block != 0 ? 1 : 0);
    const uint32_t heavy_count = std::max(1U, blocks / 8);
    heavy_of_block_.resize(blocks);
    for (uint32_t i = 0; i < heavy_count; ++i) {
        const uint32_t first = blocks * i / heavy_count;
        const uint32_t last = blocks * (i + 1) / heavy_count;
        const uint32_t in_block = first + static_cast<uint32_t>(random.uniform(last - first));
        const uint32_t width = std::min(block, hidden - in_block * block);
        heavy_.push_back(in_block * block + static_cast<uint32_t>(random.uniform(width)));
        heavy_of_block_[in_block] = i + 1;
    }
    if (hidden % block != 0) return;

    // Each block of the pool, plain and with each heavy channel in it.
    quantised_.resize((1 + heavy_.size()) * pool_blocks);
    for (size_t variant = 0; variant <= heavy_.size(); ++variant) {
        for (uint32_t number = 0; number < pool_blocks; ++number) {
            std::array<float, block> values;
            for (uint32_t i = 0; i < block; ++i) {
                const bool heavy = variant != 0 && heavy_[variant - 1] % block == i;
                values[i] = bf16_to_float(
                    static_cast<uint16_t>(pool_[number * block + i] + (heavy ? heavy_exponent : 0)));
            }
            float amax = 1e-4F;
            for (const float value : values) amax = std::max(amax, std::fabs(value));
            QuantisedBlock& result = quantised_[variant * pool_blocks + number];
            const float factor = 448.0F / amax;
            for (uint32_t i = 0; i < block; ++i) result.codes[i] = to_e4m3(values[i] * factor);
            result.scale = amax * (1.0F / 448.0F);
        }
    }
}

Activations::Name Activations::name_of(uint64_t rank, uint64_t token, uint64_t serving) const {
    const uint64_t hash = mix64(seed_ + (rank << 48 | serving << 32 | token) * golden_gamma);
    return {static_cast<uint32_t>(hash >> 32) % pool_blocks, mix64(hash + golden_gamma)};
}

void Activations::fill(const Name& name, std::span<uint16_t> part, uint32_t offset) const {
    const auto masks = expand(name.signs, offset, signs_of_16_bits);
    copy_signed(part.data(), pool_.data() + name.start_block * block + offset, part.size(), masks, 0);
    for (const uint32_t channel : heavy_) {
        if (channel >= offset && channel - offset < part.size()) {
            part[channel - offset] = static_cast<uint16_t>(part[channel - offset] + heavy_exponent);
        }
    }
}

void Activations::fill_activation_row(uint32_t rank, uint32_t token, std::span<uint16_t> part,
                                      uint32_t offset) const {
    constexpr uint64_t nobody = 0xffff;
    fill(name_of(rank, token, nobody), part, offset);
}

void Activations::fill_expert_output(uint32_t source_rank, uint32_t token, uint32_t serving_rank,
                                     std::span<uint16_t> part, uint32_t offset) const {
    fill(name_of(source_rank, token, serving_rank), part, offset);
}

const Activations::QuantisedBlock& Activations::quantised(const Name& name, uint32_t block_of_row) const {
    return quantised_[heavy_of_block_[block_of_row] * pool_blocks +
                      (name.start_block + block_of_row) % pool_blocks];
}

void Activations::fill_codes(uint32_t rank, uint32_t token, std::span<uint8_t> part, uint32_t offset) const {
    const Name name = name_of(rank, token, 0xffff);
    const auto masks = expand(name.signs, 0, signs_of_8_bits);
    for (size_t done = 0; done < part.size();) {
        const uint32_t at = offset + static_cast<uint32_t>(done);
        const size_t count = std::min<size_t>(block - at % block, part.size() - done);
        copy_signed(part.data() + done, quantised(name, at / block).codes + at % block, count, masks,
                    at % 64);
        done += count;
    }
}

void Activations::fill_scales(uint32_t rank, uint32_t token, std::span<float> part, uint32_t first) const {
    const Name name = name_of(rank, token, 0xffff);
    for (uint32_t i = 0; i < part.size(); ++i) part[i] = quantised(name, first + i).scale;
}

}  // namespace plait::sim
