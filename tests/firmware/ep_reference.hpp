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

namespace plait::mesh_test {

using regmap::EntryPolicy;
using regmap::RowFormat;
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
        return options_.hidden * (options_.format == RowFormat::bf16 ? std::size_t{2} : std::size_t{1});
    }
    [[nodiscard]] std::size_t scale_bytes() const {
        return options_.format == RowFormat::bf16 ? 0 : options_.hidden / 128 * std::size_t{4};
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

    [[nodiscard]] std::uint32_t choices_of(const Routing& routing, std::int64_t expert) const {
        std::uint32_t count = 0;
        for (const RankTokens& rank : routing) {
            for (const auto& experts : rank.experts) {
                count += static_cast<std::uint32_t>(std::count(experts.begin(), experts.end(), expert));
            }
        }
        return count;
    }

    /// FP32 in rank order within a node, rounded; FP32 in node order over the nodes, rounded; zeros for no
    /// expert.
    [[nodiscard]] std::vector<std::uint16_t> combined(const Routing& routing,
                                                      const std::vector<std::vector<SourceToken>>& rows,
                                                      const std::vector<Call>& calls, std::uint32_t source,
                                                      std::uint32_t token) const {
        std::vector<std::uint16_t> sum(options_.hidden, 0);
        std::vector<float> totals(options_.hidden, 0.0F);
        bool any_node = false;
        for (std::uint32_t node = 0; node < mesh_options_.nodes; ++node) {
            std::vector<float> node_sum(options_.hidden, 0.0F);
            bool any_rank = false;
            for (std::uint32_t i = 0; i < mesh_options_.ranks_per_node; ++i) {
                const std::uint32_t rank = node * mesh_options_.ranks_per_node + i;
                if (!goes_to(routing, source, token, rank)) continue;
                std::size_t slot = 0;
                while (rows[rank][slot].source != source || rows[rank][slot].token != token) ++slot;
                for (std::uint32_t e = 0; e < options_.hidden; ++e) {
                    std::uint16_t value = 0;
                    std::memcpy(&value, calls[rank].x.data() + (slot * options_.hidden + e) * 2, 2);
                    node_sum[e] = any_rank ? node_sum[e] + to_float(value) : to_float(value);
                }
                any_rank = true;
            }
            if (!any_rank) continue;
            for (std::uint32_t e = 0; e < options_.hidden; ++e) {
                const float rounded = to_float(to_bf16(node_sum[e]));
                totals[e] = any_node ? totals[e] + rounded : rounded;
            }
            any_node = true;
        }
        if (!any_node) return sum;
        for (std::uint32_t e = 0; e < options_.hidden; ++e) sum[e] = to_bf16(totals[e]);
        return sum;
    }

  protected:
    JobOptions options_;

  private:
    MeshOptions mesh_options_;
};

}  // namespace plait::mesh_test
