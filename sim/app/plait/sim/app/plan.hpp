// What is known of a run before it starts: its input, and the time no implementation could beat.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <plait/sim/app/flows.hpp>
#include <plait/sim/app/routing.hpp>
#include <plait/sim/app/scenario.hpp>

namespace plait::sim {

/// Bytes that cross the links of each device, framing included, each row once.
struct LinkLoads {
    std::vector<uint64_t> scale_out_transmit;
    std::vector<uint64_t> scale_out_receive;
    std::vector<uint64_t> scale_up_transmit;
    std::vector<uint64_t> scale_up_receive;
    std::vector<uint64_t> host_read;  ///< EP: rows alone, of the host interface.
    std::vector<uint64_t> host_write;

    explicit LinkLoads(uint32_t devices = 0)
        : scale_out_transmit(devices),
          scale_out_receive(devices),
          scale_up_transmit(devices),
          scale_up_receive(devices),
          host_read(devices),
          host_write(devices) {}
};

/// One phase: what it must move and how fast that could be. All devices together unless it says otherwise.
struct PhasePlan {
    std::string name;  ///< dispatch, combine, or transfer (flows).
    uint32_t micro_batch = 0;
    uint64_t rows = 0;           ///< EP: rows that leave their node. Flows: messages.
    uint64_t payload_bytes = 0;  ///< Over scale-out, without framing.
    uint64_t packets = 0;        ///< Data packets over scale-out.
    uint64_t scale_out_bytes = 0;
    uint64_t scale_up_bytes = 0;
    uint64_t scale_out_bytes_with_duplicates = 0;  ///< With one copy for each target rank; equal for flows.
    double floor_us = 0;       ///< The hottest link, with the scenario's own entry policy.
    double floor_best_us = 0;  ///< The same with perfect spreading: see floors in docs/report.md.
    std::string hottest_link;  ///< Such as "scale_out_receive of device 12".
    std::optional<double> published_us;
    LinkLoads loads;
};

struct Plan {
    std::optional<Routing> routing;  ///< EP.
    std::vector<Flow> flows;         ///< The other workloads.
    std::vector<PhasePlan> phases;  ///< EP: dispatch and combine of each micro-batch. Repetitions share them.

    /// Null if the plan has no such phase.
    const PhasePlan* phase(std::string_view name, uint32_t micro_batch) const;
};

/// Bytes of a dispatched row, codes and scales, and of a combined one, BF16.
uint32_t dispatch_row_bytes(const EpWorkload& ep);
uint32_t combined_row_bytes(const EpWorkload& ep);

/// Loads the input of a scenario and computes its floors. Throws InputError for bad routing.
Plan make_plan(const Scenario& scenario);

/// Floors of EP for this routing; the routing need not be the scenario's own.
std::vector<PhasePlan> plan_ep(const Scenario& scenario, const Routing& routing,
                               uint32_t micro_batch_number = 0);
PhasePlan plan_flows(const Scenario& scenario, const std::vector<Flow>& flows);

/// The published time of a phase of this shape (H800 GPUs, 160 GB/s scale-up, 50 GB/s scale-out), if there is
/// one.
std::optional<double> published_us(const Scenario& scenario, std::string_view phase);

}  // namespace plait::sim
