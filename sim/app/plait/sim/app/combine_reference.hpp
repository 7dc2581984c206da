// The combined rows that an EP scenario must lead to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <plait/sim/app/activations.hpp>
#include <plait/sim/app/encoded_rows.hpp>
#include <plait/sim/app/routing.hpp>

namespace plait::sim {

/// Rows that combine must give: for each node in order the FP32 sum of its ranks' outputs, as the
/// contributions have them, in order of ranks, sent in the partial format; then the FP32 sum of the biases
/// and over nodes in order, rounded to BF16. In low latency a node's sum is over its experts in order of the
/// token's list, each times its weight, and an expert named twice has the sum of both. A token without any
/// term combines to zeros. What it is given is borrowed.
class CombineReference {
  public:
    /// `contributions`: of combine_format.
    CombineReference(const EpShape& shape, regmap::EpMode mode, const Activations& activations,
                     const EncodedRows& contributions, regmap::RowFormat partial_format,
                     const Routing& routing, uint32_t biases = 0)
        : shape_(shape),
          mode_(mode),
          activations_(activations),
          contributions_(contributions),
          partial_format_(partial_format),
          routing_(routing),
          biases_(biases) {}

    /// What is added up for a token.
    struct Term {
        uint32_t node;
        uint32_t serving;  ///< Rank, or in low latency expert.
        float weight;
    };
    /// In order: by node, then by rank, or in low latency by place in the token's list.
    std::vector<Term> terms_of(uint32_t rank, uint32_t token) const;

    /// Elements [offset, offset + part.size()) of the combined row: whole blocks, but for the row's last,
    /// where a format has blocks.
    void fill_row(uint32_t rank, uint32_t token, std::span<uint16_t> part, uint32_t offset = 0) const;
    /// The same of the sum over some of the token's terms, and the biases.
    void fill_sum(uint32_t rank, uint32_t token, std::span<const Term> terms, std::span<uint16_t> part,
                  uint32_t offset) const;

    /// What the biases and the experts' BF16 outputs, each times its weight, add up to, in double.
    void fill_exact(uint32_t rank, uint32_t token, std::span<double> part, uint32_t offset = 0) const;

  private:
    EpShape shape_;
    regmap::EpMode mode_;
    const Activations& activations_;
    const EncodedRows& contributions_;
    regmap::RowFormat partial_format_;
    const Routing& routing_;
    uint32_t biases_;
};

}  // namespace plait::sim
