#include <plait/sim/app/report.hpp>

#include <algorithm>

#include <sys/resource.h>

#include <fmt/format.h>

#include <plait/sim/app/report_figures.hpp>

namespace plait::sim {
namespace {

using Row = std::vector<std::string>;

// Columns as wide as they need to be, numbers to the right.
std::string table(const std::vector<Row>& rows, size_t left_columns) {
    std::vector<size_t> widths(rows.front().size());
    for (const auto& row : rows) {
        for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows) {
        std::string line;
        for (size_t i = 0; i < row.size(); ++i) {
            line += i < left_columns ? fmt::format("{:<{}}  ", row[i], widths[i])
                                     : fmt::format("{:>{}}  ", row[i], widths[i]);
        }
        text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
    }
    return text;
}

std::string title(const Report& report) {
    const Scenario& scenario = report.runs.front().scenario;
    std::string text = fmt::format(
        "{}: {} nodes x {} GPUs, {} planes of {:g} Gb/s, seed {}, firmware {}, payload {}\n", scenario.name,
        scenario.topology.nodes, scenario.topology.gpus_per_node, scenario.topology.planes,
        scenario.scale_out.rate_gbps, scenario.seed, name_of(scenario.firmware), name_of(scenario.payload));
    if (scenario.payload == PayloadMode::virtual_)
        text += "The payload is virtual: sizes were simulated, no byte was moved or checked.\n";
    return text;
}

Row phase_row(const RunReport& run, const PhaseOutcome& phase) {
    const PhaseFigures figures(run, phase);
    const double gpu_megabytes = 1e6 * run.scenario.ranks();
    std::string name = phase.name;
    if (run.scenario.ep.micro_batches > 1) name += fmt::format(" batch {}", phase.micro_batch);
    if (phase.repetition > 0) name += fmt::format(" #{}", phase.repetition + 1);
    if (!phase.complete) {
        name += " (incomplete)";
    } else if (!phase.verified) {
        name += " (WRONG)";
    }
    const auto& published = figures.plan.published_us;
    return {run.scenario.variant,
            name,
            fmt::format("{:.1f}", figures.time_us),
            fmt::format("{:.1f}", figures.plan.floor_us),
            fmt::format("{:.1f}", figures.plan.floor_best_us),
            fmt::format("{:.3f}", figures.efficiency),
            fmt::format("{:.2f}", figures.goodput_gbytes_per_s),
            fmt::format("{:.2f}", static_cast<double>(phase.scale_out_bytes) / gpu_megabytes),
            fmt::format("{:.2f}", static_cast<double>(phase.scale_up_bytes) / gpu_megabytes),
            fmt::format("{:.0f} %", figures.saved_share * 100),
            fmt::format("{}", phase.packets),
            fmt::format("{}", phase.retransmitted),
            fmt::format("{}", phase.out_of_order_max),
            published ? fmt::format("{:.0f}", *published) : "-",
            figures.noise ? fmt::format("{:.3f} %", *figures.noise * 100) : "-"};
}

std::string phases_table(const Report& report) {
    std::vector<Row> rows{{"", "phase", "time us", "floor", "best floor", "efficiency", "GB/s a GPU",
                           "out MB a GPU", "up MB a GPU", "saved", "packets", "resent", "reordered",
                           "published us", "noise"}};
    for (const auto& run : report.runs) {
        for (const auto& phase : run.outcome.phases) rows.push_back(phase_row(run, phase));
    }
    return table(rows, 2);
}

std::string latency_table(const Report& report) {
    std::vector<Row> rows{{"", "packet latency ns", "50 %", "90 %", "99 %", "99.9 %", "max"}};
    for (const auto& run : report.runs) {
        for (const auto& phase : run.outcome.phases) {
            const auto& latency = phase.latency;
            if (latency.packets == 0) continue;
            rows.push_back({run.scenario.variant, phase.name, fmt::format("{}", latency.p50_ns),
                            fmt::format("{}", latency.p90_ns), fmt::format("{}", latency.p99_ns),
                            fmt::format("{}", latency.p999_ns), fmt::format("{}", latency.max_ns)});
        }
    }
    return rows.size() > 1 ? table(rows, 2) : std::string();
}

std::string counters_line(const char* what, const Counters& counters) {
    if (counters.empty()) return {};
    std::string line = what;
    for (const auto& [name, value] : counters) line += fmt::format(" {} {},", name, value);
    line.back() = '\n';
    return line;
}

std::string run_lines(const RunReport& run) {
    const RunOutcome& outcome = run.outcome;
    std::string text =
        run.scenario.variant.empty() ? std::string() : fmt::format("{}:\n", run.scenario.variant);
    text += fmt::format(
        "high water: window {} packets, accumulators {}, packet memory {:.0f} KiB, switch queue {:.0f} KiB\n",
        outcome.high_water.window_packets, outcome.high_water.accumulators,
        static_cast<double>(outcome.high_water.packet_memory_bytes) / 1024,
        static_cast<double>(outcome.high_water.switch_queue_bytes) / 1024);
    text += fmt::format(
        "firmware: {:.0f} instructions a data packet ({}), {:.1f} cores at 1 GHz for line rate, load of {} "
        "cores {:.1f} % mean, {:.1f} % max\n",
        instructions_per_packet(outcome.firmware), outcome.firmware.instruction_counts,
        cores_for_line_rate(run), run.scenario.device.firmware_cores, outcome.firmware.core_load_mean * 100,
        outcome.firmware.core_load_max * 100);
    if (!run.plan.flows.empty()) {
        const FlowFigures flows(run);
        text += fmt::format("flows: {} of {} complete, {:.1f} .. {:.1f} us, mean {:.1f}", flows.complete,
                            flows.count, flows.time_us_min, flows.time_us_max, flows.time_us_mean);
        text += flows.victim_time_us ? fmt::format(", victim {:.1f} us\n", *flows.victim_time_us) : "\n";
    }
    text += counters_line("dropped:", outcome.drops) + counters_line("counters:", outcome.counters);
    for (const auto& error : outcome.errors) text += fmt::format("error: {}\n", error);
    return text;
}

std::string verdict(const Report& report) {
    if (report.interrupted()) return "INCOMPLETE: ended by the user; these are the figures so far.\n";
    if (!report.complete()) return "INCOMPLETE: not every phase ended.\n";
    if (!report.succeeded()) return "WRONG: the result differs from the reference.\n";
    return report.verified() ? "Every byte was checked and is right.\n" : "Complete; counts are right.\n";
}

std::string wall_clock(const Report& report) {
    uint64_t packets = 0;
    double seconds = 0;
    for (const auto& run : report.runs) {
        packets += run.outcome.delivered_packets;
        seconds += run.outcome.wall_seconds;
    }
    struct rusage usage {};
    getrusage(RUSAGE_SELF, &usage);
    return fmt::format(
        "simulated in {:.1f} s: {:.0f} data packets delivered a second, peak memory {:.2f} GiB\n", seconds,
        seconds > 0 ? static_cast<double>(packets) / seconds : 0.0,
        static_cast<double>(usage.ru_maxrss) / (1024.0 * 1024.0));
}

}  // namespace

std::string to_text(const Report& report, bool with_wall_clock) {
    std::string text = title(report) + '\n' + phases_table(report) + '\n';
    const auto latencies = latency_table(report);
    if (!latencies.empty()) text += latencies + '\n';
    for (const auto& run : report.runs) text += run_lines(run);
    text += verdict(report);
    if (with_wall_clock) text += wall_clock(report);
    return text;
}

}  // namespace plait::sim
