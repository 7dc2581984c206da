#pragma once
// Where the tokens of one rank go, from its routing alone: a computation on the host, no device involved.

#include <cstdint>
#include <plait/result.hpp>
#include <span>
#include <vector>

namespace plait {

/// What get_dispatch_layout finds. A token counts once for a rank and once for a node, however many of its
/// experts live there; an expert counts every entry that names it.
struct DispatchLayout {
    std::vector<std::uint32_t> tokens_per_rank;    ///< [ranks]
    std::vector<std::uint32_t> tokens_per_node;    ///< [ranks / ranks_per_node]
    std::vector<std::uint32_t> tokens_per_expert;  ///< [experts]
    std::vector<std::uint8_t> is_token_in_rank;    ///< [tokens, ranks], 0 or 1
};

/// Layout of `topk_idx` [tokens, topk], row-major: expert ids, -1 = none. Expert e lives on rank e * ranks /
/// experts. Errors: invalid_parameter for shapes outside the limits of the device contract or that do not
/// divide, invalid_length when `topk_idx` does not hold tokens * topk entries, invalid_expert naming token,
/// position and value.
Result<DispatchLayout> get_dispatch_layout(std::span<const std::int64_t> topk_idx, std::uint32_t tokens,
                                           std::uint32_t topk, std::uint32_t experts, std::uint32_t ranks,
                                           std::uint32_t ranks_per_node);

/// Checks routing before it is given to a dispatch. The device checks it too and answers invalid_expert, but
/// does not say where. Errors: as get_dispatch_layout.
Result<void> check_expert_ids(std::span<const std::int64_t> topk_idx, std::uint32_t tokens,
                              std::uint32_t topk, std::uint32_t experts);

}  // namespace plait
