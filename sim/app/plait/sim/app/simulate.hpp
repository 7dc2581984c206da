// The door between the program and the simulation: what goes in, what is measured.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <plait/sim/app/plan.hpp>
#include <plait/sim/app/progress.hpp>
#include <plait/sim/app/scenario.hpp>
#include <plait/sim/models/cost_samples.hpp>

namespace plait::sim {

struct RunOptions {
    const Plan* plan = nullptr;  ///< Made by make_plan() from the same scenario; never null.
    uint64_t errors_kept = 20;   ///< Later ones are only counted.
    bool profile = false;        ///< riscv: note where instructions go.
};

/// Time from the send command of a data packet to its placement.
struct LatencyFigures {
    uint64_t packets = 0;
    uint64_t p50_ns = 0;
    uint64_t p90_ns = 0;
    uint64_t p99_ns = 0;
    uint64_t p999_ns = 0;
    uint64_t max_ns = 0;
};

/// Sums over all devices; bytes are wire bytes of data packets, framing and retransmissions included.
struct PhaseOutcome {
    std::string name;  ///< As in the plan.
    uint32_t micro_batch = 0;
    uint32_t repetition = 0;
    bool complete = false;
    bool verified = false;  ///< Everything that arrived was checked and right; counts too.
    uint64_t start_ps = 0;
    uint64_t time_ps = 0;
    uint64_t scale_out_bytes = 0;
    uint64_t scale_up_bytes = 0;
    uint64_t packets = 0;  ///< Data packets delivered over scale-out.
    uint64_t retransmitted = 0;
    uint64_t out_of_order_max = 0;  ///< Greatest distance of an arrival from the cumulative PSN.
    LatencyFigures latency;
    uint64_t non_finite = 0;  ///< EP: infinities and NaN that devices met, as their completions say.
    /// Combine, of some tokens: squares of what the rows are off the exact sums, and of these, added up.
    double error_energy = 0;
    double exact_energy = 0;
};

/// One flow of the workloads that are not EP, in the order of the plan.
struct FlowOutcome {
    bool complete = false;
    uint64_t time_ps = 0;
};

/// The most that was ever in use, of any device.
struct HighWater {
    uint64_t window_packets = 0;
    uint64_t accumulators = 0;
    uint64_t packet_memory_bytes = 0;
    uint64_t switch_queue_bytes = 0;
};

struct FirmwareFigures {
    std::string instruction_counts = "declared";  ///< Where they come from.
    uint64_t instructions = 0;
    uint64_t data_packets = 0;  ///< Sent and received.
    double core_load_mean = 0;  ///< Busy share of the simulated time.
    double core_load_max = 0;
    struct Kind {
        std::string name;
        uint64_t events = 0;
        uint64_t instructions = 0;
    };
    std::vector<Kind> kinds;  ///< Kinds of work that there was, all devices.
    struct Path {
        std::string name;
        uint64_t events = 0;
        uint64_t instructions = 0;
        uint64_t most = 0;  ///< Of one event.
    };
    std::vector<Path> paths;   ///< riscv: what single packets of plain messages took, all devices.
    uint64_t stack_bytes = 0;  ///< riscv: the most that a device used,
    CostSamples samples;       ///< and, where instructions are measured, what handlers took.
};

/// Where the instructions of a firmware image went, all devices.
struct FirmwareProfile {
    struct Row {
        std::string name;
        uint64_t calls = 0;
        uint64_t self = 0;   ///< Instructions of the function itself.
        uint64_t total = 0;  ///< With what it called.
    };
    std::vector<Row> events;     ///< By kind of event and packet, the most instructions first.
    std::vector<Row> functions;  ///< The most instructions of their own first.
    std::string folded;          ///< Stacks, a line each, for flame graphs.
};

/// What an engine's blocks did, all devices that have them.
struct BlockFigures {
    std::string name;
    uint64_t commands = 0;
    uint64_t cycles = 0;  ///< From each command to its answer, added up.
    uint32_t cycles_max = 0;
};

/// Named counters, in a fixed order: packets dropped by reason, ECN marks, ACKs, probes, ...
using Counters = std::vector<std::pair<std::string, uint64_t>>;

struct RunOutcome {
    bool complete = false;            ///< Every phase ended.
    bool interrupted = false;         ///< progress.interrupted() ended the run.
    std::vector<std::string> errors;  ///< One line each: what was wrong.
    std::string
        fault;  ///< Why a core stopped, and its state, or which engines differ; empty when all went on.
    uint64_t simulated_ps = 0;
    std::vector<PhaseOutcome> phases;  ///< In order of start.
    std::vector<FlowOutcome> flows;
    HighWater high_water;
    FirmwareFigures firmware;
    FirmwareProfile profile;  ///< If it was asked for.
    std::vector<BlockFigures> blocks;
    Counters drops;  ///< By reason; zeros left out.
    Counters counters;
    uint64_t timeline_bin_ps = 0;          ///< 0: no timeline.
    std::vector<uint64_t> timeline_bytes;  ///< Payload placed in each bin, all devices.

    // Wall clock: for the terminal only.
    uint64_t delivered_packets = 0;  ///< Data packets over scale-out and scale-up.
    double wall_seconds = 0;
};

/// Throws InputError, one line, when the scenario's firmware image cannot be run, or not with its engines.
void check_firmware(const Scenario& scenario);

/// Runs the scenario to its end, to its time limit, or until progress.interrupted(); polls that at least
/// every few milliseconds of wall clock. The same scenario and plan give the same outcome, wall clock apart.
RunOutcome simulate(const Scenario& scenario, const RunOptions& options, Progress& progress);

}  // namespace plait::sim
