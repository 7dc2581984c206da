#include <plait/sim/app/memory_estimate.hpp>

#include <algorithm>
#include <fstream>

#include <sys/sysinfo.h>

#include <fmt/format.h>

namespace plait::sim {
namespace {

constexpr uint64_t kib = 1024;
constexpr uint64_t mib = 1024 * kib;
constexpr double gib = 1024.0 * static_cast<double>(mib);

// State of a device without queue pairs: queues, memory table, cores, ports.
constexpr uint64_t device_base_bytes = 2 * mib;
// State of a queue pair: packet entries of the window (both directions), message ring, entropy states.
constexpr uint64_t queue_pair_base_bytes = 12 * kib;
constexpr uint64_t window_entry_bytes = 40;
// What EP keeps of a token or row at each end: firmware tables, host buffers of indices, weights and sources.
constexpr uint64_t row_table_bytes = 96;
// Of a place for a row in low latency, whether one comes or not: what is expected, what came, its source.
constexpr uint64_t slot_table_bytes = 8 + 4 + 8;
constexpr uint64_t choice_bytes = 2 + 4 + 8 + 4;

uint64_t queue_pairs(const Scenario& scenario) {
    const uint64_t ranks = scenario.ranks();
    switch (scenario.workload) {
        case WorkloadKind::ep:
        case WorkloadKind::alltoall: return ranks * (ranks - 1);
        case WorkloadKind::permutation: return 2 * ranks;
        case WorkloadKind::incast: return 2 * uint64_t{scenario.flows.senders} + 2;
    }
    return 0;
}

}  // namespace

MemoryEstimate estimate_memory(const Scenario& scenario) {
    MemoryEstimate estimate;
    const uint64_t ranks = scenario.ranks();
    estimate.firmware_bytes =
        ranks * device_base_bytes +
        queue_pairs(scenario) *
            (queue_pair_base_bytes + scenario.transport.window_packets * window_entry_bytes);
    estimate.device_bytes =
        scenario.payload == PayloadMode::real ? ranks * scenario.device.packet_memory_bytes : 0;
    estimate.device_bytes +=
        ranks * scenario.device.accumulators * scenario.device.accumulator_elements * sizeof(float);
    if (scenario.workload == WorkloadKind::ep) {
        const EpWorkload& ep = scenario.ep;
        const uint64_t tokens = ranks * ep.tokens;
        const uint64_t rows = tokens * std::min<uint64_t>(ep.topk, ranks);
        estimate.routing_bytes = tokens * (ep.topk * choice_bytes * 2 + row_table_bytes) +
                                 rows * row_table_bytes + rows * ep.topk * (8 + 4);
        if (ep.mode == regmap::EpMode::low_latency)
            estimate.routing_bytes += ranks * ep.experts * ep.tokens * slot_table_bytes;
    }
    estimate.fixed_bytes = 256 * mib;
    return estimate;
}

uint64_t available_memory_bytes() {
    // sysinfo() does not count what the page cache would give back, so ask the kernel's own estimate first.
    std::ifstream meminfo("/proc/meminfo");
    for (std::string key, unit; meminfo >> key;) {
        uint64_t value = 0;
        if (!(meminfo >> value)) break;
        std::getline(meminfo, unit);
        if (key == "MemAvailable:") return value * kib;
    }
    struct sysinfo info {};
    if (sysinfo(&info) != 0) return UINT64_MAX;
    return (uint64_t{info.freeram} + info.bufferram) * info.mem_unit;
}

std::optional<std::string> refuse_for_memory(const Scenario& scenario, uint64_t available_bytes) {
    const MemoryEstimate estimate = estimate_memory(scenario);
    const double limit_bytes = scenario.limits.memory_gib * gib;
    const bool has_limit = limit_bytes > 0;
    const double allowed = has_limit ? std::min(limit_bytes, static_cast<double>(available_bytes))
                                     : static_cast<double>(available_bytes);
    if (static_cast<double>(estimate.total_bytes()) <= allowed) return std::nullopt;
    const auto show = [](auto bytes) { return static_cast<double>(bytes) / gib; };
    return fmt::format(
        "{}: takes about {:.2f} GiB (firmware state {:.2f}, packet memory and accumulators {:.2f}, routing "
        "{:.2f}), "
        "expected at most {:.2f} GiB: {}",
        scenario.file.string(), show(estimate.total_bytes()), show(estimate.firmware_bytes),
        show(estimate.device_bytes), show(estimate.routing_bytes), allowed / gib,
        has_limit && allowed >= limit_bytes ? "limits.memory_gib" : "the memory available now");
}

}  // namespace plait::sim
