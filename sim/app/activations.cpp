#include <plait/sim/app/activations.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <plait/engines/instruction_sets.hpp>
#include <plait/sim/fabric/random.hpp>

namespace plait::sim {
namespace {

constexpr uint32_t pool_elements = Activations::pool_blocks * Activations::block;
constexpr uint64_t nobody = 0xffff;          // serves: no rank or expert has this number
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

// Eight sign masks for every byte of a pattern.
constexpr auto make_sign_table() {
    std::array<std::array<uint16_t, 8>, 256> table{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
        for (uint32_t bit = 0; bit < 8; ++bit) {
            if ((byte >> bit & 1) != 0) table[byte][bit] = 0x8000;
        }
    }
    return table;
}
constexpr auto sign_table = make_sign_table();

// Masks of 64 elements, the first of which is element `offset` of the row.
std::array<uint16_t, 64> expand(uint64_t signs, uint32_t offset) {
    signs = std::rotr(signs, static_cast<int>(offset % 64));
    std::array<uint16_t, 64> masks;
    for (size_t byte = 0; byte < 8; ++byte)
        std::memcpy(&masks[8 * byte], sign_table[signs >> (8 * byte) & 0xff].data(), 8 * sizeof masks[0]);
    return masks;
}

PLAIT_ROW_LOOP void copy_signed(uint16_t* __restrict to, const uint16_t* __restrict from, size_t count,
                                const std::array<uint16_t, 64>& masks) {
    size_t i = 0;
    for (; i + 64 <= count; i += 64) {
        for (size_t k = 0; k < 64; ++k) to[i + k] = static_cast<uint16_t>(from[i + k] ^ masks[k]);
    }
    for (; i < count; ++i) to[i] = static_cast<uint16_t>(from[i] ^ masks[i % 64]);
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
    for (uint32_t i = 0; i < heavy_count; ++i) {
        const uint32_t first = blocks * i / heavy_count;
        const uint32_t last = blocks * (i + 1) / heavy_count;
        const uint32_t in_block = first + static_cast<uint32_t>(random.uniform(last - first));
        const uint32_t width = std::min(block, hidden - in_block * block);
        heavy_.push_back(in_block * block + static_cast<uint32_t>(random.uniform(width)));
    }
}

void Activations::fill_pool(uint32_t number, std::span<uint16_t, block> elements,
                            const uint32_t* heavy) const {
    std::copy_n(pool_.begin() + number * block, block, elements.begin());
    if (heavy == nullptr) return;
    uint16_t& element = elements[*heavy % block];
    element = static_cast<uint16_t>(element + heavy_exponent);
}

RowName Activations::name_of(uint64_t rank, uint64_t token, uint64_t serving) const {
    const uint64_t hash = mix64(seed_ + (rank << 48 | serving << 32 | token) * golden_gamma);
    return {static_cast<uint32_t>(hash >> 32) % pool_blocks, mix64(hash + golden_gamma)};
}

RowName Activations::activation(uint32_t rank, uint32_t token) const { return name_of(rank, token, nobody); }

RowName Activations::bias(uint32_t rank, uint32_t token, uint32_t number) const {
    return name_of(rank, token, nobody - 1 - number);
}

RowName Activations::expert_output(uint32_t source_rank, uint32_t token, uint32_t serving) const {
    return name_of(source_rank, token, serving);
}

void Activations::fill(const RowName& name, std::span<uint16_t> part, uint32_t offset) const {
    copy_signed(part.data(), pool_.data() + name.start_block * block + offset, part.size(),
                expand(name.signs, offset));
    for (const uint32_t channel : heavy_) {
        if (channel >= offset && channel - offset < part.size()) {
            part[channel - offset] = static_cast<uint16_t>(part[channel - offset] + heavy_exponent);
        }
    }
}

}  // namespace plait::sim
