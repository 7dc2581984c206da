// Which experts each token of each rank goes to, and how experts, ranks and nodes lie.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <plait/sim/app/scenario.hpp>

namespace plait::sim {

/// How an EP group lies on the cluster: expert e lives on rank e * ranks / experts, ranks of a node are
/// consecutive.
struct EpShape {
    uint32_t ranks = 1;
    uint32_t ranks_per_node = 1;
    uint32_t experts = 1;

    uint32_t nodes() const { return ranks / ranks_per_node; }
    uint32_t experts_per_rank() const { return experts / ranks; }
    uint32_t rank_of(uint32_t expert) const { return expert * ranks / experts; }
    uint32_t node_of(uint32_t rank) const { return rank / ranks_per_node; }
};

EpShape shape_of(const Scenario& scenario);

/// Top-k lists of every rank. A rank may bring fewer tokens than the others.
struct Routing {
    uint32_t topk = 0;
    std::vector<uint64_t> first;   ///< [ranks + 1]: number of a rank's first token among those of all ranks.
    std::vector<int16_t> experts;  ///< [all tokens, topk]; -1 = none.
    std::vector<float> weights;    ///< [all tokens, topk]

    uint32_t ranks() const { return static_cast<uint32_t>(first.size()) - 1; }
    uint32_t tokens(uint32_t rank) const { return static_cast<uint32_t>(first[rank + 1] - first[rank]); }
    std::span<const int16_t> experts_of(uint32_t rank, uint32_t token) const {
        return std::span(experts).subspan((first[rank] + token) * topk, topk);
    }
    std::span<const float> weights_of(uint32_t rank, uint32_t token) const {
        return std::span(weights).subspan((first[rank] + token) * topk, topk);
    }
};

/// Reads or makes the routing of an EP scenario. Throws InputError: a file that is not an array of the right
/// type and shape, with too few ranks or tokens, or with an expert id outside -1 .. experts - 1 (named with
/// its place).
Routing load_routing(const Scenario& scenario);

/// The part of every rank's tokens that micro-batch `number` of `count` takes: the tokens divided evenly, in
/// order.
Routing micro_batch(const Routing& routing, uint32_t number, uint32_t count);

}  // namespace plait::sim
