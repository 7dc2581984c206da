#include <plait/ep_layout.hpp>

#include "ep_limits.hpp"

namespace plait {
namespace {

Result<void> check_shape(std::size_t entries, std::uint32_t tokens, std::uint32_t topk) {
    if (auto checked = check_range("tokens", tokens, 0, regmap::max_tokens_per_rank); !checked)
        return checked;
    if (entries == std::size_t{tokens} * topk) return {};
    return Error{Status::invalid_length,
                 "topk_idx holds " + std::to_string(entries) +
                     " entries, expected tokens * topk = " + std::to_string(std::size_t{tokens} * topk)};
}

}  // namespace

Result<void> check_topology(std::uint32_t ranks, std::uint32_t ranks_per_node, std::uint32_t experts,
                            std::uint32_t topk) {
    if (auto checked = check_range("ranks", ranks, 1, regmap::max_ranks); !checked) return checked;
    if (auto checked = check_range("ranks_per_node", ranks_per_node, 1, regmap::max_ranks_per_node); !checked)
        return checked;
    if (auto checked = check_multiple("ranks", ranks, "ranks_per_node", ranks_per_node); !checked)
        return checked;
    if (auto checked = check_range("experts", experts, 1, regmap::max_experts); !checked) return checked;
    if (auto checked = check_multiple("experts", experts, "ranks", ranks); !checked) return checked;
    return check_range("topk", topk, 1, regmap::max_topk);
}

Result<void> check_expert_ids(std::span<const std::int64_t> topk_idx, std::uint32_t tokens,
                              std::uint32_t topk, std::uint32_t experts) {
    if (auto checked = check_range("experts", experts, 1, regmap::max_experts); !checked) return checked;
    if (auto checked = check_range("topk", topk, 1, regmap::max_topk); !checked) return checked;
    if (auto checked = check_shape(topk_idx.size(), tokens, topk); !checked) return checked;
    for (std::size_t i = 0; i < topk_idx.size(); ++i) {
        if (topk_idx[i] >= -1 && topk_idx[i] < std::int64_t{experts}) continue;
        return Error{Status::invalid_expert, "topk_idx: token " + std::to_string(i / topk) + ", position " +
                                                 std::to_string(i % topk) + " is " +
                                                 std::to_string(topk_idx[i]) + ", expected -1 .. " +
                                                 std::to_string(experts - 1)};
    }
    return {};
}

Result<DispatchLayout> get_dispatch_layout(std::span<const std::int64_t> topk_idx, std::uint32_t tokens,
                                           std::uint32_t topk, std::uint32_t experts, std::uint32_t ranks,
                                           std::uint32_t ranks_per_node) {
    if (auto checked = check_topology(ranks, ranks_per_node, experts, topk); !checked) return checked.error();
    if (auto checked = check_expert_ids(topk_idx, tokens, topk, experts); !checked) return checked.error();

    DispatchLayout layout;
    layout.tokens_per_rank.resize(ranks);
    layout.tokens_per_node.resize(ranks / ranks_per_node);
    layout.tokens_per_expert.resize(experts);
    layout.is_token_in_rank.resize(std::size_t{tokens} * ranks);
    const std::uint32_t experts_per_rank = experts / ranks;

    for (std::uint32_t token = 0; token < tokens; ++token) {
        const std::span<std::uint8_t> in_rank =
            std::span(layout.is_token_in_rank).subspan(std::size_t{token} * ranks, ranks);
        for (const std::int64_t expert : topk_idx.subspan(std::size_t{token} * topk, topk)) {
            if (expert < 0) continue;
            ++layout.tokens_per_expert[static_cast<std::size_t>(expert)];
            in_rank[static_cast<std::size_t>(expert) / experts_per_rank] = 1;
        }
        for (std::uint32_t first = 0; first < ranks; first += ranks_per_node) {
            std::uint32_t hits = 0;
            for (std::uint32_t rank = first; rank < first + ranks_per_node; ++rank) {
                layout.tokens_per_rank[rank] += in_rank[rank];
                hits += in_rank[rank];
            }
            if (hits != 0) ++layout.tokens_per_node[first / ranks_per_node];
        }
    }
    return layout;
}

}  // namespace plait
