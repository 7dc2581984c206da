#include <plait/sim/app/flows.hpp>

#include <numeric>

#include <plait/sim/fabric/random.hpp>

namespace plait::sim {
namespace {

// A permutation without fixed points, drawn: nodes are put in a random cycle, each node sends to the next one
// in it, the devices in a random order. With a single node the devices themselves are put in a cycle.
std::vector<uint32_t> draw_permutation(const Scenario& scenario) {
    Random random(scenario.seed, "permutation");
    const auto shuffled = [&](uint32_t count) {
        std::vector<uint32_t> order(count);
        std::iota(order.begin(), order.end(), 0U);
        for (uint32_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.uniform(i)]);
        return order;
    };
    const uint32_t units = scenario.topology.nodes > 1 ? scenario.topology.nodes : scenario.ranks();
    const uint32_t size = scenario.ranks() / units;
    const auto cycle = shuffled(units);
    std::vector<uint32_t> destination(scenario.ranks());
    for (uint32_t i = 0; i < units; ++i) {
        const auto order = shuffled(size);
        for (uint32_t k = 0; k < size; ++k) {
            destination[cycle[i] * size + k] = cycle[(i + 1) % units] * size + order[k];
        }
    }
    return destination;
}

}  // namespace

std::vector<Flow> flows_of(const Scenario& scenario) {
    std::vector<Flow> flows;
    const FlowWorkload& workload = scenario.flows;
    const uint32_t ranks = scenario.ranks();
    const auto add = [&](uint32_t source, uint32_t destination) {
        flows.push_back({source, destination, workload.bytes_per_flow, workload.message_bytes, false});
    };
    switch (scenario.workload) {
        case WorkloadKind::ep: break;
        case WorkloadKind::permutation: {
            const auto drawn = draw_permutation(scenario);
            for (uint32_t source = 0; source < ranks; ++source) {
                add(source, workload.shift != 0 ? (source + workload.shift) % ranks : drawn[source]);
            }
            break;
        }
        case WorkloadKind::alltoall:
            for (uint32_t distance = 1; distance < ranks; ++distance) {
                for (uint32_t source = 0; source < ranks; ++source) add(source, (source + distance) % ranks);
            }
            break;
        case WorkloadKind::incast:
            for (uint32_t i = 1; i <= workload.senders; ++i)
                add((workload.receiver + i) % ranks, workload.receiver);
            if (workload.victim) {
                flows.push_back({workload.victim->source, workload.victim->destination,
                                 workload.victim->bytes, workload.message_bytes, true});
            }
            break;
    }
    return flows;
}

}  // namespace plait::sim
