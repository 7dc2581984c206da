#include <plait/sim/app/routing.hpp>

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <plait/sim/app/npy.hpp>
#include <plait/sim/fabric/random.hpp>

namespace plait::sim {
namespace {

// [R, T, K] from either shape.
struct Extents {
    uint64_t ranks = 0, tokens = 0, topk = 0;
};

Extents extents(const std::vector<uint64_t>& shape) {
    return shape.size() == 3 ? Extents{shape[0], shape[1], shape[2]} : Extents{1, shape[0], shape[1]};
}

// An array of [T, K] holds the tokens of all ranks one after the other.
template <class Value>
Extents fit(const NpyArray<Value>& array, const std::filesystem::path& file, const Scenario& scenario) {
    Extents have = extents(array.shape);
    const EpWorkload& ep = scenario.ep;
    const auto refuse = [&](const std::string& found, const std::string& expected) {
        throw InputError(fmt::format("{}: found {}, expected {}", file.string(), found, expected));
    };
    if (array.shape.size() == 2 && scenario.ranks() != 0)
        have = {scenario.ranks(), have.tokens / scenario.ranks(), have.topk};
    if (have.topk != ep.topk)
        refuse(fmt::format("{} choices a token", have.topk), fmt::format("workload.topk = {}", ep.topk));
    if (have.ranks < scenario.ranks()) {
        refuse(fmt::format("tokens of {} ranks", have.ranks),
               fmt::format("{} or more: nodes * gpus_per_node", scenario.ranks()));
    }
    if (have.tokens < uint64_t{ep.first_token} + ep.tokens) {
        refuse(
            fmt::format("{} tokens a rank", have.tokens),
            fmt::format("{} or more: workload.first_token + tokens", uint64_t{ep.first_token} + ep.tokens));
    }
    return have;
}

void read_files(const Scenario& scenario, Routing& routing) {
    const EpWorkload& ep = scenario.ep;
    const auto array = read_npy_integers(ep.routing_file);
    const Extents have = fit(array, ep.routing_file, scenario);
    NpyArray<float> weights;
    if (!ep.weights_file.empty()) {
        weights = read_npy_floats(ep.weights_file);
        if (weights.shape != array.shape) {
            throw InputError(fmt::format("{}: found another shape than {}, expected the same",
                                         ep.weights_file.string(), ep.routing_file.string()));
        }
    }
    for (uint32_t rank = 0; rank < scenario.ranks(); ++rank) {
        const uint64_t start = (rank * have.tokens + ep.first_token) * have.topk;
        for (uint64_t i = 0; i < uint64_t{routing.tokens(rank)} * ep.topk; ++i) {
            const int32_t expert = array.values[start + i];
            if (expert < -1 || expert >= static_cast<int32_t>(ep.experts)) {
                throw InputError(
                    fmt::format("{}: found expert {} at rank {}, token {}, choice {}, expected -1 to {}",
                                ep.routing_file.string(), expert, rank, ep.first_token + i / ep.topk,
                                i % ep.topk, ep.experts - 1));
            }
            routing.experts[routing.first[rank] * ep.topk + i] = static_cast<int16_t>(expert);
            if (!weights.values.empty())
                routing.weights[routing.first[rank] * ep.topk + i] = weights.values[start + i];
        }
    }
}

// The first `chosen.size()` of a seeded shuffle of `pool`.
void draw(Random& random, std::vector<int16_t>& pool, std::span<int16_t> chosen) {
    for (size_t i = 0; i < chosen.size(); ++i) {
        std::swap(pool[i], pool[i + random.uniform(pool.size() - i)]);
        chosen[i] = pool[i];
    }
}

void make_random(const Scenario& scenario, Routing& routing) {
    const EpWorkload& ep = scenario.ep;
    constexpr uint32_t groups = 8, groups_of_token = 4, unlike_tokens = 10;
    Random random(scenario.seed, "routing");
    std::vector<int16_t> every(ep.experts);
    std::iota(every.begin(), every.end(), int16_t{0});
    std::vector<int16_t> favourites(ep.topk);
    draw(random, every, favourites);
    std::vector<int16_t> group_order(groups);
    std::iota(group_order.begin(), group_order.end(), int16_t{0});
    std::vector<int16_t> chosen_groups(groups_of_token);
    for (uint32_t rank = 0; rank < scenario.ranks(); ++rank) {
        for (uint32_t token = 0; token < routing.tokens(rank); ++token) {
            const auto chosen =
                std::span(routing.experts).subspan((routing.first[rank] + token) * ep.topk, ep.topk);
            if (ep.routing == RoutingKind::skewed && token >= unlike_tokens) {
                std::copy(favourites.begin(), favourites.end(), chosen.begin());
            } else if (ep.routing == RoutingKind::grouped) {
                draw(random, group_order, chosen_groups);
                std::vector<int16_t> pool;
                for (const int16_t group : chosen_groups) {
                    for (uint32_t i = 0; i < ep.experts / groups; ++i) {
                        pool.push_back(
                            static_cast<int16_t>(static_cast<uint32_t>(group) * (ep.experts / groups) + i));
                    }
                }
                draw(random, pool, chosen);
            } else {
                draw(random, every, chosen);
            }
        }
    }
}

}  // namespace

EpShape shape_of(const Scenario& scenario) {
    return {scenario.ranks(), scenario.topology.gpus_per_node, scenario.ep.experts};
}

Routing load_routing(const Scenario& scenario) {
    const EpWorkload& ep = scenario.ep;
    Routing routing;
    routing.topk = ep.topk;
    routing.first.push_back(0);
    for (uint32_t rank = 0; rank < scenario.ranks(); ++rank) {
        const bool idle = std::binary_search(ep.idle_ranks.begin(), ep.idle_ranks.end(), rank);
        routing.first.push_back(routing.first.back() + (idle ? 0 : ep.tokens));
    }
    routing.experts.resize(routing.first.back() * ep.topk);
    routing.weights.resize(routing.experts.size());
    const float sum = static_cast<float>(ep.topk * (ep.topk + 1)) / 2.0F;
    for (size_t i = 0; i < routing.weights.size(); ++i) {
        routing.weights[i] = 2.5F * static_cast<float>(ep.topk - i % ep.topk) / sum;
    }
    if (ep.routing == RoutingKind::file) {
        read_files(scenario, routing);
    } else {
        make_random(scenario, routing);
    }
    return routing;
}

Routing micro_batch(const Routing& routing, uint32_t number, uint32_t count) {
    Routing part;
    part.topk = routing.topk;
    part.first.push_back(0);
    for (uint32_t rank = 0; rank < routing.ranks(); ++rank) {
        const uint64_t tokens = routing.tokens(rank);
        const uint64_t begin = (routing.first[rank] + tokens * number / count) * routing.topk;
        const uint64_t end = (routing.first[rank] + tokens * (number + 1) / count) * routing.topk;
        part.experts.insert(part.experts.end(), routing.experts.begin() + static_cast<std::ptrdiff_t>(begin),
                            routing.experts.begin() + static_cast<std::ptrdiff_t>(end));
        part.weights.insert(part.weights.end(), routing.weights.begin() + static_cast<std::ptrdiff_t>(begin),
                            routing.weights.begin() + static_cast<std::ptrdiff_t>(end));
        part.first.push_back(part.first.back() + (end - begin) / routing.topk);
    }
    return part;
}

}  // namespace plait::sim
