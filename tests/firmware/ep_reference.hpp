#pragma once
// A slow and obvious reference for dispatch and combine: which rows go where, and what they add up to.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <plait/regmap.hpp>
#include <vector>

#include "mesh.hpp"
#include "mesh_rows.hpp"

namespace plait::mesh_test {

using regmap::EntryPolicy;
using regmap::Status;

inline std::uint64_t job_seed(std::uint64_t own) {
    const char* text = std::getenv("PLAIT_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 0) : own;
}

struct JobOptions {
    std::uint32_t experts_per_rank = 2;
    std::uint32_t topk = 4;
    std::uint32_t hidden = 256;
    std::uint32_t max_tokens = 32;
    RowFormat format = RowFormat::bf16;
    EntryPolicy policy = EntryPolicy::same_index;
    std::uint32_t handles = 2;
    std::uint32_t timeout_us = 2'000'000;
    regmap::EpMode mode = regmap::EpMode::normal;
    RowFormat combine_format = RowFormat::bf16;
    RowFormat partial_format = RowFormat::bf16;
    std::uint32_t flags = 0;   ///< Of GroupParameters.
    std::uint32_t biases = 0;  ///< Of a combine: 0 .. 2.
};

/// What one rank gives to a dispatch: its tokens' top-k lists; [tokens][topk].
struct RankTokens {
    std::vector<std::vector<std::int64_t>> experts;
    std::vector<std::vector<float>> weights;
};
using Routing = std::vector<RankTokens>;

inline float to_float(std::uint16_t bf16) {
    const std::uint32_t bits = std::uint32_t{bf16} << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

/// Nearest of the two neighbours, the even one in the middle. Finite values only.
inline std::uint16_t to_bf16(float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    const std::uint32_t below = bits & 0xffff;
    std::uint32_t upper = bits >> 16;
    if (below > 0x8000 || (below == 0x8000 && (upper & 1) != 0)) ++upper;
    return static_cast<std::uint16_t>(upper);
}

/// One call of one rank: its request and where its buffers lie.
struct Call {
    regmap::EpRequest request;
    std::vector<std::uint8_t> x;  ///< As given.
    std::vector<std::uint8_t> scales;
    std::array<std::vector<std::uint16_t>, 2> bias;  ///< combine: [tokens, hidden]; empty: absent.
    std::uint32_t capacity = 0;
};

class EpReference {
  public:
    EpReference(const MeshOptions& mesh_options, const JobOptions& options)
        : options_(options), mesh_options_(mesh_options) {}

    // Shapes.

    [[nodiscard]] std::uint32_t ranks() const { return mesh_options_.ranks(); }
    [[nodiscard]] std::uint32_t experts() const { return ranks() * options_.experts_per_rank; }
    [[nodiscard]] std::uint32_t node_of(std::uint32_t rank) const {
        return rank / mesh_options_.ranks_per_node;
    }
    [[nodiscard]] std::uint32_t rank_of(std::int64_t expert) const {
        return static_cast<std::uint32_t>(expert) / options_.experts_per_rank;
    }
    [[nodiscard]] std::size_t data_bytes() const {
        return engines::code_bytes(options_.format, options_.hidden);
    }
    [[nodiscard]] std::size_t scale_bytes() const {
        return engines::scale_bytes(options_.format, options_.hidden);
    }
    /// What the rows of x of a dispatch, and of a combine, are given as.
    [[nodiscard]] RowFormat x_format() const {
        return (options_.flags & regmap::group_encode_dispatch) != 0 ? RowFormat::bf16 : options_.format;
    }
    [[nodiscard]] RowFormat outputs_format() const {
        return (options_.flags & regmap::group_encode_combine) != 0 ? RowFormat::bf16
                                                                    : options_.combine_format;
    }
    [[nodiscard]] std::size_t code_bytes(RowFormat format) const {
        return engines::code_bytes(format, options_.hidden);
    }
    [[nodiscard]] std::size_t scale_bytes(RowFormat format) const {
        return engines::scale_bytes(format, options_.hidden);
    }

    /// Row `number` of what was given, codes and scales.
    [[nodiscard]] std::vector<std::uint8_t> given_row(const Call& call, RowFormat format,
                                                      std::size_t number) const {
        const auto slice = [](const std::vector<std::uint8_t>& rows, std::size_t index, std::size_t bytes) {
            const auto first = rows.begin() + static_cast<std::ptrdiff_t>(index * bytes);
            return std::vector<std::uint8_t>(first, first + static_cast<std::ptrdiff_t>(bytes));
        };
        std::vector<std::uint8_t> row = slice(call.x, number, code_bytes(format));
        const std::vector<std::uint8_t> scales = slice(call.scales, number, scale_bytes(format));
        row.insert(row.end(), scales.begin(), scales.end());
        return row;
    }
    /// The same as it travels in `wire`.
    [[nodiscard]] std::vector<std::uint8_t> sent_row(const Call& call, RowFormat given, RowFormat wire,
                                                     std::size_t number, std::uint32_t& non_finite) const {
        const std::vector<std::uint8_t> row = given_row(call, given, number);
        if (given == wire) return row;
        std::vector<std::uint16_t> values(options_.hidden);
        std::memcpy(values.data(), row.data(), row.size());
        return encode(wire, values, non_finite);
    }

    static std::vector<std::uint8_t> as_bytes(const std::vector<std::uint16_t>& values) {
        std::vector<std::uint8_t> bytes(values.size() * 2);
        if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
        return bytes;
    }
    /// Rows that the caller has encoded itself.
    void encode_rows(Call& call, const std::vector<std::uint16_t>& values) const {
        std::uint32_t spoilt = 0;
        for (auto first = values.begin(); first != values.end(); first += options_.hidden) {
            const std::vector<std::uint16_t> one(first, first + options_.hidden);
            const std::vector<std::uint8_t> row = encode(options_.combine_format, one, spoilt);
            const auto codes = static_cast<std::ptrdiff_t>(code_bytes(options_.combine_format));
            call.x.insert(call.x.end(), row.begin(), row.begin() + codes);
            call.scales.insert(call.scales.end(), row.begin() + codes, row.end());
        }
    }

    // Reference.

    [[nodiscard]] bool goes_to(const Routing& routing, std::uint32_t source, std::uint32_t token,
                               std::uint32_t rank) const {
        for (const std::int64_t expert : routing[source].experts[token]) {
            if (expert >= 0 && rank_of(expert) == rank) return true;
        }
        return false;
    }
    struct SourceToken {
        std::uint32_t source;
        std::uint32_t token;
    };
    [[nodiscard]] std::vector<SourceToken> expected_rows(const Routing& routing, std::uint32_t rank) const {
        std::vector<SourceToken> rows;
        for (std::uint32_t source = 0; source < ranks(); ++source) {
            for (std::uint32_t token = 0; token < routing[source].experts.size(); ++token) {
                if (goes_to(routing, source, token, rank)) rows.push_back({source, token});
            }
        }
        return rows;
    }

    /// A few more than a dispatch brings.
    [[nodiscard]] std::uint32_t capacity_for(const Routing& routing, std::uint32_t rank) const {
        return static_cast<std::uint32_t>(expected_rows(routing, rank).size()) + 3;
    }

    [[nodiscard]] std::uint32_t choices_of(const Routing& routing, std::int64_t expert) const {
        std::uint32_t count = 0;
        for (const RankTokens& rank : routing) {
            for (const auto& experts : rank.experts) {
                count += static_cast<std::uint32_t>(std::count(experts.begin(), experts.end(), expert));
            }
        }
        return count;
    }

    /// FP32 in rank order within a node, encoded as a partial row; FP32 in node order over the nodes, after
    /// the biases, rounded to BF16; zeros for nothing at all.
    [[nodiscard]] std::vector<std::uint16_t> combined(const Routing& routing,
                                                      const std::vector<std::vector<SourceToken>>& rows,
                                                      const std::vector<Call>& calls, std::uint32_t source,
                                                      std::uint32_t token) const {
        std::uint32_t spoilt = 0;
        Sum total = bias_of(calls[source], token);
        for (std::uint32_t node = 0; node < mesh_options_.nodes; ++node) {
            Sum node_sum;
            for (std::uint32_t i = 0; i < mesh_options_.ranks_per_node; ++i) {
                const std::uint32_t rank = node * mesh_options_.ranks_per_node + i;
                if (!goes_to(routing, source, token, rank)) continue;
                std::size_t slot = 0;
                while (rows[rank][slot].source != source || rows[rank][slot].token != token) ++slot;
                add(node_sum, options_.combine_format,
                    sent_row(calls[rank], outputs_format(), options_.combine_format, slot, spoilt));
            }
            if (node_sum.empty()) continue;
            add(total, options_.partial_format, encode(options_.partial_format, node_sum, spoilt));
        }
        std::vector<std::uint16_t> row(options_.hidden, 0);
        for (std::size_t e = 0; e < total.size(); ++e) row[e] = to_bf16(total[e]);
        return row;
    }

  protected:
    using Sum = std::vector<float>;  ///< Empty: nothing was added yet.

    /// What a token's sum begins with.
    [[nodiscard]] Sum bias_of(const Call& call, std::uint32_t token) const {
        Sum sum;
        for (const std::vector<std::uint16_t>& bias : call.bias) {
            if (bias.empty()) continue;
            const auto first = bias.begin() + static_cast<std::ptrdiff_t>(token) * options_.hidden;
            add(sum, RowFormat::bf16, as_bytes({first, first + options_.hidden}));
        }
        return sum;
    }

    void add(Sum& sum, RowFormat format, const std::vector<std::uint8_t>& row, float weight = 1.0F) const {
        Sum values(options_.hidden);
        ASSERT_TRUE(engines::decode_row(as_row(format, values.size(), row), std::span(values)));
        for (float& value : values) value *= weight;
        if (sum.empty()) {
            sum = values;
        } else {
            for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += values[e];
        }
    }

    JobOptions options_;

  private:
    MeshOptions mesh_options_;
};

}  // namespace plait::mesh_test
