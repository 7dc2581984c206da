// Activations and expert outputs of EP scenarios: made by integer arithmetic from the seed, anywhere in a
// row, as fast as memory. And the combined rows they must lead to.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include <plait/sim/app/routing.hpp>

namespace plait::sim {

/// Rows of `hidden` BF16 elements, normal (standard deviation 1) with a few heavy channels (16 times as
/// large), none zero.
///
/// A seeded pool of normals is drawn once. A row is a window of the pool, at a place and with a repeating
/// pattern of 64 signs that are hashes of its name (source rank, token, serving rank): rows differ, and any
/// part can be made alone. Windows start at multiples of 128, so that a block quantised once serves every
/// row. Immutable: threads may share it.
class Activations {
  public:
    static constexpr uint32_t block = 128;  ///< Elements that share a scale.
    static constexpr uint32_t pool_blocks = 512;

    /// hidden: a multiple of 64, up to max_hidden.
    Activations(uint64_t seed, uint32_t hidden);

    /// Elements [offset, offset + part.size()) of the row of a token at its source; the part must lie in the
    /// row.
    void fill_activation_row(uint32_t rank, uint32_t token, std::span<uint16_t> part,
                             uint32_t offset = 0) const;

    /// The same for what `serving` answers for this token: a rank (the sum over its experts, as one BF16
    /// row), or in low latency an expert.
    void fill_expert_output(uint32_t source_rank, uint32_t token, uint32_t serving, std::span<uint16_t> part,
                            uint32_t offset = 0) const;

    /// Codes [offset, offset + part.size()) of the activation row quantised to E4M3: of each block of 128,
    /// amax = max(1e-4, max |x|), scale = amax * fl32(1/448), code = E4M3(x * (448 / amax)). hidden must be a
    /// multiple of 128.
    void fill_codes(uint32_t rank, uint32_t token, std::span<uint8_t> part, uint32_t offset = 0) const;
    /// Scales [first, first + part.size()) of the row.
    void fill_scales(uint32_t rank, uint32_t token, std::span<float> part, uint32_t first = 0) const;

    uint32_t hidden() const { return hidden_; }
    /// Channels that are heavy, ascending; no two in one block of 128.
    std::span<const uint32_t> heavy_channels() const { return heavy_; }

  private:
    struct Name {
        uint32_t start_block;
        uint64_t signs;
    };
    struct QuantisedBlock {
        uint8_t codes[block];
        float scale;
    };

    Name name_of(uint64_t rank, uint64_t token, uint64_t serving) const;
    void fill(const Name& name, std::span<uint16_t> part, uint32_t offset) const;
    const QuantisedBlock& quantised(const Name& name, uint32_t block_of_row) const;

    uint64_t seed_;
    uint32_t hidden_;
    std::vector<uint32_t> heavy_;
    std::vector<uint32_t> heavy_of_block_;   // of a row's block: 0 = none, else 1 + index in heavy_
    std::vector<uint16_t> pool_;             // pool_blocks and one row more, which repeats the beginning
    std::vector<QuantisedBlock> quantised_;  // [1 + heavy channels][pool_blocks]
};

/// Rows that combine must give: for each node in order the FP32 sum of its ranks' outputs in order of ranks,
/// rounded to BF16; then the FP32 sum over nodes in order, rounded again. In low latency a node's sum is over
/// its experts in order of the token's list, each times its weight, and an expert named twice has the sum of
/// both. A token without experts combines to zeros. `activations` and `routing` are borrowed.
class CombineReference {
  public:
    CombineReference(const EpShape& shape, regmap::EpMode mode, const Activations& activations,
                     const Routing& routing)
        : shape_(shape), mode_(mode), activations_(activations), routing_(routing) {}

    /// What is added up for a token.
    struct Term {
        uint32_t node;
        uint32_t serving;  ///< Rank, or in low latency expert.
        float weight;
    };
    /// In order: by node, then by rank, or in low latency by place in the token's list.
    std::vector<Term> terms_of(uint32_t rank, uint32_t token) const;

    /// Elements [offset, offset + part.size()) of the combined row.
    void fill_row(uint32_t rank, uint32_t token, std::span<uint16_t> part, uint32_t offset = 0) const;
    /// The same of the sum over some of the token's terms.
    void fill_sum(uint32_t rank, uint32_t token, std::span<const Term> terms, std::span<uint16_t> part,
                  uint32_t offset) const;

  private:
    EpShape shape_;
    regmap::EpMode mode_;
    const Activations& activations_;
    const Routing& routing_;
};

/// BF16 by definition: the upper half of an FP32; rounding to nearest, ties to even. For finite values.
constexpr uint16_t round_to_bf16(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
constexpr float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

}  // namespace plait::sim
