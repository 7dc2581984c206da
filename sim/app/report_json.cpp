#include <plait/sim/app/report.hpp>

#include <algorithm>
#include <cmath>

#include <plait/sim/app/report_figures.hpp>

namespace plait::sim {
namespace {

using Json = nlohmann::ordered_json;

double rounded(double value, double decimals = 1000) { return std::round(value * decimals) / decimals; }

Json optional_us(const std::optional<double>& value) { return value ? Json(rounded(*value)) : Json(nullptr); }

Json latency_json(const LatencyFigures& latency) {
    return {{"packets", latency.packets}, {"p50", latency.p50_ns},   {"p90", latency.p90_ns},
            {"p99", latency.p99_ns},      {"p999", latency.p999_ns}, {"max", latency.max_ns}};
}

Json counters_json(const Counters& counters) {
    Json json = Json::object();
    for (const auto& [name, value] : counters) json[name] = value;
    return json;
}

Json phase_json(const RunReport& run, const PhaseOutcome& phase) {
    const PhaseFigures figures(run, phase);
    const double gpus = run.scenario.ranks();
    Json json;
    json["variant"] = run.scenario.variant;
    json["name"] = phase.name;
    json["micro_batch"] = phase.micro_batch;
    json["repetition"] = phase.repetition;
    json["complete"] = phase.complete;
    json["verified"] = phase.verified && run.scenario.payload == PayloadMode::real;
    json["start_us"] = rounded(static_cast<double>(phase.start_ps) / 1e6);
    json["time_us"] = rounded(figures.time_us);
    json["floor_us"] = rounded(figures.plan.floor_us);
    json["floor_best_us"] = rounded(figures.plan.floor_best_us);
    json["hottest_link"] = figures.plan.hottest_link;
    json["efficiency"] = rounded(figures.efficiency, 10000);
    json["goodput_gbytes_per_s"] = rounded(figures.goodput_gbytes_per_s);
    json["scale_out_bytes_per_gpu"] = rounded(static_cast<double>(phase.scale_out_bytes) / gpus);
    json["scale_up_bytes_per_gpu"] = rounded(static_cast<double>(phase.scale_up_bytes) / gpus);
    json["scale_out_bytes_per_gpu_with_duplicates"] =
        rounded(static_cast<double>(figures.plan.scale_out_bytes_with_duplicates) / gpus);
    json["saved_by_duplicate_removal"] = rounded(figures.saved_share, 10000);
    json["packets"] = phase.packets;
    json["retransmitted"] = phase.retransmitted;
    json["out_of_order_max"] = phase.out_of_order_max;
    json["latency_ns"] = latency_json(phase.latency);
    json["published_us"] = optional_us(figures.plan.published_us);
    json["non_finite"] = phase.non_finite;
    json["noise"] = figures.noise ? Json(rounded(*figures.noise, 1e6)) : Json(nullptr);
    return json;
}

Json flows_json(const RunReport& run) {
    const FlowFigures figures(run);
    Json json;
    json["count"] = figures.count;
    json["complete"] = figures.complete;
    json["time_us_min"] = rounded(figures.time_us_min);
    json["time_us_mean"] = rounded(figures.time_us_mean);
    json["time_us_max"] = rounded(figures.time_us_max);
    json["victim_time_us"] = optional_us(figures.victim_time_us);
    return json;
}

Json timeline_json(const RunReport& run) {
    const RunOutcome& outcome = run.outcome;
    Json json;
    const double bin_us = static_cast<double>(outcome.timeline_bin_ps) / 1e6;
    json["bin_us"] = rounded(bin_us);
    Json rates = Json::array();
    for (const uint64_t bytes : outcome.timeline_bytes) {
        rates.push_back(rounded(static_cast<double>(bytes) / run.scenario.ranks() / bin_us / 1000));
    }
    json["goodput_gbytes_per_s"] = std::move(rates);
    return json;
}

Json run_json(const RunReport& run) {
    const Scenario& scenario = run.scenario;
    const RunOutcome& outcome = run.outcome;
    Json json;
    json["variant"] = scenario.variant;
    json["complete"] = outcome.complete;
    json["verified"] = run.verified();
    json["errors"] = outcome.errors;
    json["simulated_us"] = rounded(static_cast<double>(outcome.simulated_ps) / 1e6);
    json["workload"] = name_of(scenario.workload);
    if (scenario.workload == WorkloadKind::ep) {
        json["mode"] = name_of(scenario.ep.mode);
        json["entry_policy"] = name_of(scenario.ep.entry_policy);
        json["dispatch_format"] = name_of(scenario.ep.dispatch_format);
        json["combine_format"] = name_of(scenario.ep.combine_format);
        json["partial_format"] = name_of(scenario.ep.partial_format);
        json["encode_dispatch"] = scenario.ep.encode_dispatch;
        json["encode_combine"] = scenario.ep.encode_combine;
        json["biases"] = scenario.ep.biases;
        json["tokens"] = scenario.ep.tokens;
    } else {
        json["flows"] = flows_json(run);
    }
    json["spray"] = name_of(scenario.transport.spray);
    json["high_water"] = {{"window_packets", outcome.high_water.window_packets},
                          {"accumulators", outcome.high_water.accumulators},
                          {"packet_memory_bytes", outcome.high_water.packet_memory_bytes},
                          {"switch_queue_bytes", outcome.high_water.switch_queue_bytes}};
    json["firmware_work"] = {
        {"instruction_counts", outcome.firmware.instruction_counts},
        {"instructions", outcome.firmware.instructions},
        {"instructions_per_data_packet", rounded(instructions_per_packet(outcome.firmware))},
        {"cores_for_line_rate", rounded(cores_for_line_rate(run))},
        {"core_load_mean", rounded(outcome.firmware.core_load_mean, 10000)},
        {"core_load_max", rounded(outcome.firmware.core_load_max, 10000)}};
    for (const auto& kind : outcome.firmware.kinds) {
        json["firmware_work"]["kinds"][kind.name] = {
            {"events", kind.events},
            {"instructions",
             rounded(static_cast<double>(kind.instructions) / static_cast<double>(kind.events))}};
    }
    for (const auto& path : outcome.firmware.paths) {
        json["firmware_work"]["paths"][path.name] = {
            {"events", path.events},
            {"instructions",
             rounded(static_cast<double>(path.instructions) / static_cast<double>(path.events))},
            {"most", path.most}};
    }
    if (outcome.firmware.stack_bytes != 0)
        json["firmware_work"]["stack_bytes"] = outcome.firmware.stack_bytes;
    for (const auto& block : outcome.blocks) {
        json["blocks"][block.name] = {
            {"commands", block.commands},
            {"cycles", rounded(static_cast<double>(block.cycles) /
                               static_cast<double>(std::max<uint64_t>(block.commands, 1)))},
            {"cycles_max", block.cycles_max}};
    }
    json["drops"] = counters_json(outcome.drops);
    json["counters"] = counters_json(outcome.counters);
    if (outcome.timeline_bin_ps != 0) json["timeline"] = timeline_json(run);
    return json;
}

}  // namespace

Json to_json(const Report& report) {
    const Scenario& scenario = report.runs.front().scenario;
    Json json;
    json["report_version"] = 1;
    json["scenario"] = scenario.name;
    json["description"] = scenario.description;
    json["complete"] = report.complete();
    json["verified"] = report.verified();
    json["interrupted"] = report.interrupted();
    json["seed"] = scenario.seed;
    json["payload"] = name_of(scenario.payload);
    json["firmware"] = name_of(scenario.firmware);
    json["engines"] = name_of(scenario.engines);
    json["topology"] = {{"nodes", scenario.topology.nodes},
                        {"gpus_per_node", scenario.topology.gpus_per_node},
                        {"gpus", scenario.ranks()},
                        {"planes", scenario.topology.planes}};
    json["phases"] = Json::array();
    json["runs"] = Json::array();
    for (const auto& run : report.runs) {
        for (const auto& phase : run.outcome.phases) json["phases"].push_back(phase_json(run, phase));
        json["runs"].push_back(run_json(run));
    }
    return json;
}

}  // namespace plait::sim
