// Activations and expert outputs of EP scenarios: made by integer arithmetic from the seed, anywhere in a
// row, as fast as memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plait::sim {

/// What makes a row: where its window of the pool begins, and the signs of every 64 elements.
struct RowName {
    uint32_t start_block = 0;
    uint64_t signs = 0;
};

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

    /// The row of a token at its source.
    RowName activation(uint32_t rank, uint32_t token) const;

    /// What `serving` answers for this token: a rank (the sum over its experts, as one BF16 row), or in low
    /// latency an expert.
    RowName expert_output(uint32_t source_rank, uint32_t token, uint32_t serving) const;

    /// Bias `number` (0, 1) of a token.
    RowName bias(uint32_t rank, uint32_t token, uint32_t number) const;

    /// Elements [offset, offset + part.size()) of a row; the part must lie in the row.
    void fill(const RowName& name, std::span<uint16_t> part, uint32_t offset = 0) const;

    /// Block `number` of the pool, without signs, with one of its elements heavy if `heavy` names a channel.
    void fill_pool(uint32_t number, std::span<uint16_t, block> elements, const uint32_t* heavy) const;

    uint32_t hidden() const { return hidden_; }
    /// Channels that are heavy, ascending; no two in one block of 128.
    std::span<const uint32_t> heavy_channels() const { return heavy_; }

  private:
    RowName name_of(uint64_t rank, uint64_t token, uint64_t serving) const;

    uint64_t seed_;
    uint32_t hidden_;
    std::vector<uint32_t> heavy_;
    std::vector<uint16_t> pool_;  // pool_blocks and one row more, which repeats the beginning
};

}  // namespace plait::sim
