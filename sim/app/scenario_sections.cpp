#include <plait/sim/app/scenario_sections.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <plait/firmware/ep_bias.hpp>
#include <plait/firmware/ep_group.hpp>

namespace plait::sim {
namespace {

std::filesystem::path beside(const std::filesystem::path& scenario_file, const std::string& path) {
    return scenario_file.parent_path() / path;
}

void read_routing(TableReader& table, const Scenario& scenario, EpWorkload& ep) {
    std::string routing = "uniform";
    table.text("routing", routing);
    ep.routing = routing == "uniform"   ? RoutingKind::uniform
                 : routing == "grouped" ? RoutingKind::grouped
                 : routing == "skewed"  ? RoutingKind::skewed
                                        : RoutingKind::file;
    if (ep.routing == RoutingKind::file) {
        if (!routing.ends_with(".npy"))
            table.refuse("routing", "an .npy file, \"uniform\", \"grouped\" or \"skewed\"");
        ep.routing_file = beside(scenario.file, routing);
        table.integer("first_token", ep.first_token, 0, 1U << 30);
        std::string weights;
        table.text("routing_weights", weights);
        if (!weights.empty()) ep.weights_file = beside(scenario.file, weights);
    }
    if (ep.topk > ep.experts) table.refuse("topk", fmt::format("at most experts = {}", ep.experts));
    if (ep.routing == RoutingKind::grouped && (ep.experts % 8 != 0 || ep.topk > ep.experts / 2)) {
        table.fail("routing",
                   "\"grouped\" needs experts in 8 equal groups, and at most half of them in topk");
    }
}

// What a device can hold of a row (`check_parameters` and `limit_packet_memory` of the firmware), said with
// the scenario's own keys.
void check_device_limits(const TableReader& table, const Scenario& scenario) {
    const EpWorkload& ep = scenario.ep;
    const DeviceOptions& device = scenario.device;
    firmware::EpGroup group = combine_group(scenario);
    if (group.parts == 0) {
        table.fail(regmap::block_scale_bytes(ep.partial_format) != 0 ? "partial_format" : "combine_format",
                   fmt::format("contributions \"{}\" and partial rows \"{}\" come in blocks of {} elements, "
                               "expected scale_out.mtu_bytes and device.accumulator_elements that hold one",
                               name_of(ep.combine_format), name_of(ep.partial_format),
                               regmap::scale_block_elements));
    }
    const uint32_t most_parts = std::min(regmap::max_row_parts, device.accumulators / 4);
    if (group.parts > most_parts) {
        table.fail(
            "hidden",
            fmt::format("a row takes {} parts of {} elements, expected at most {}: see scale_out.mtu_bytes, "
                        "device.accumulator_elements and a quarter of device.accumulators",
                        group.parts, group.part_elements, most_parts));
    }
    if (firmware::row_room(group) > device.accumulators) {
        table.fail("hidden",
                   fmt::format("the sums of a row take {} quarters of an accumulator, expected at most "
                               "a quarter of all: device.accumulators = {}",
                               firmware::row_room(group), device.accumulators));
    }
    if (!firmware::limit_packet_memory(group, device.packet_memory_bytes)) {
        table.fail("hidden", fmt::format("rows of {} parts of {} elements do not fit into the shares of "
                                         "device.packet_memory_bytes = {}, expected more of it",
                                         group.parts, group.part_elements, device.packet_memory_bytes));
    }
    const uint32_t token_room = std::min(ep.topk, group.nodes) + firmware::bias_room(group, ep.biases);
    if (group.parts * token_room > group.token_limit) {
        table.fail("biases", fmt::format("a token's biases and rows do not fit into its share of "
                                         "device.packet_memory_bytes = {}, expected more of it",
                                         device.packet_memory_bytes));
    }
    const uint32_t counts = firmware::counts_bytes(group.parameters);
    if (counts > std::min(scenario.scale_out.mtu_bytes, regmap::max_control_bytes)) {
        table.fail("experts",
                   fmt::format("{} experts on each rank make a counts message of {} bytes, expected at "
                               "most scale_out.mtu_bytes and {}",
                               ep.experts / scenario.ranks(), counts, regmap::max_control_bytes));
    }
}

void read_formats(TableReader& table, EpWorkload& ep) {
    using regmap::RowFormat;
    const auto read = [&](const char* key, RowFormat& format) {
        table.choice(key, format,
                     {{"bf16", RowFormat::bf16},
                      {"e4m3_f32", RowFormat::e4m3_f32},
                      {"e4m3_ue8m0", RowFormat::e4m3_ue8m0},
                      {"e5m2_f32", RowFormat::e5m2_f32},
                      {"e5m2_ue8m0", RowFormat::e5m2_ue8m0},
                      {"logfmt8", RowFormat::logfmt8},
                      {"logfmt10", RowFormat::logfmt10},
                      {"f32", RowFormat::f32}});
    };
    read("dispatch_format", ep.dispatch_format);
    read("combine_format", ep.combine_format);
    read("partial_format", ep.partial_format);
    table.boolean("encode_dispatch", ep.encode_dispatch);
    table.boolean("encode_combine", ep.encode_combine);
    if (ep.dispatch_format == RowFormat::f32)
        table.refuse("dispatch_format", "BF16 or less, for the experts: f32 is for sums");
    const auto check = [&](const char* key, bool is_set, const char* of, RowFormat format) {
        if (!is_set || firmware::is_encoded(format)) return;
        table.fail(key,
                   fmt::format("nothing to encode, expected {} that is neither \"bf16\" nor \"f32\"", of));
    };
    check("encode_dispatch", ep.encode_dispatch, "a dispatch_format", ep.dispatch_format);
    check("encode_combine", ep.encode_combine, "a combine_format", ep.combine_format);
}

void read_ep(TableReader& table, Scenario& scenario) {
    using regmap::EntryPolicy;
    EpWorkload& ep = scenario.ep;
    table.choice("mode", ep.mode,
                 {{"normal", regmap::EpMode::normal}, {"low_latency", regmap::EpMode::low_latency}});
    table.integer("tokens", ep.tokens, 0, regmap::max_tokens_per_rank);
    table.integer("hidden", ep.hidden, regmap::min_hidden, regmap::max_hidden);
    table.integer("experts", ep.experts, 1, regmap::max_experts);
    table.integer("topk", ep.topk, 1, regmap::max_topk);
    read_formats(table, ep);
    table.choice("entry_policy", ep.entry_policy,
                 {{"same_index", EntryPolicy::same_index},
                  {"spread", EntryPolicy::spread},
                  {"target", EntryPolicy::target},
                  {"balanced", EntryPolicy::balanced}});
    table.integer("biases", ep.biases, 0, 2);
    table.integer("repeat", ep.repeat, 1, 1000);
    table.boolean("cached", ep.cached);
    table.integer("micro_batches", ep.micro_batches, 1, 2);
    table.integer("timeout_us", ep.timeout_us, 1, 3'600'000'000ULL);
    table.integers("idle_ranks", ep.idle_ranks, scenario.ranks() - 1);
    table.integers("absent_ranks", ep.absent_ranks, scenario.ranks() - 1);
    read_routing(table, scenario, ep);

    if (scenario.ranks() > regmap::max_ranks) {
        table.fail("kind", fmt::format("an EP group of {} ranks, expected at most {}: see topology.nodes",
                                       scenario.ranks(), regmap::max_ranks));
    }
    if (ep.experts % scenario.ranks() != 0) {
        table.fail("experts", fmt::format("{} experts on {} ranks, expected a multiple of the ranks",
                                          ep.experts, scenario.ranks()));
    }
    if (ep.hidden % 64 != 0) table.refuse("hidden", "a multiple of 64");
    check_device_limits(table, scenario);
    table.choice("weights_at", ep.weights_at_combine, {{"dispatch", false}, {"combine", true}});
    if (ep.mode == regmap::EpMode::normal) {
        if (ep.weights_at_combine)
            table.fail("weights_at",
                       "only a low-latency combine is weighted, expected mode = \"low_latency\"");
    } else {
        if (ep.cached) table.fail("cached", "low latency has no cached dispatch, expected false");
    }
    if (ep.cached && ep.repeat < 2)
        table.fail("cached", "no dispatch would use the handle again, expected repeat of 2 or more");
    std::sort(ep.idle_ranks.begin(), ep.idle_ranks.end());
}

void read_incast(TableReader& table, Scenario& scenario) {
    FlowWorkload& flows = scenario.flows;
    const uint32_t ranks = scenario.ranks();
    flows.senders = ranks - 1;
    table.integer("senders", flows.senders, 1, ranks - 1);
    table.integer("receiver", flows.receiver, 0, ranks - 1);
    if (!table.has("victim")) return;
    auto victim_table = table.table("victim");
    VictimFlow victim;
    for (const auto* key : {"source", "destination"}) {
        if (!victim_table.has(key))
            victim_table.refuse(key, fmt::format("an integer from 0 to {}", ranks - 1));
    }
    victim.bytes = flows.bytes_per_flow;
    victim_table.integer("source", victim.source, 0, ranks - 1);
    victim_table.integer("destination", victim.destination, 0, ranks - 1);
    victim_table.integer("bytes", victim.bytes, 0, 1ULL << 44);
    if (victim.destination == flows.receiver || victim.destination == victim.source) {
        victim_table.refuse("destination", "another device than the receiver and the victim's source");
    }
    victim_table.finish();
    flows.victim = victim;
}

void read_flows(TableReader& table, Scenario& scenario) {
    FlowWorkload& flows = scenario.flows;
    table.integer("bytes_per_flow", flows.bytes_per_flow, 0, 1ULL << 44);
    table.integer("message_bytes", flows.message_bytes, 1, regmap::max_message_bytes);
    table.integer("qps_per_flow", flows.qps_per_flow, 1, 64);
    table.choice("operation", flows.operation,
                 {{"write", FlowOperation::write},
                  {"write_immediate", FlowOperation::write_immediate},
                  {"send", FlowOperation::send}});
    const uint32_t ranks = scenario.ranks();
    if (ranks < 2)
        table.fail("kind", "one device has nobody to send to, expected a topology of 2 devices or more");
    if (scenario.workload == WorkloadKind::permutation) table.integer("shift", flows.shift, 0, ranks - 1);
    if (scenario.workload == WorkloadKind::incast) read_incast(table, scenario);
    if (scenario.workload == WorkloadKind::alltoall && ranks > 1000) {
        table.fail("kind",
                   fmt::format("alltoall of {} devices, expected at most 1000: a queue pair each", ranks));
    }
}

}  // namespace

firmware::EpGroup combine_group(const Scenario& scenario) {
    const EpWorkload& ep = scenario.ep;
    firmware::EpGroup group;
    regmap::GroupParameters& parameters = group.parameters;
    parameters.ranks = scenario.ranks();
    parameters.ranks_per_node = scenario.topology.gpus_per_node;
    parameters.experts = ep.experts;
    parameters.topk = ep.topk;
    parameters.hidden = ep.hidden;
    parameters.mtu_bytes = scenario.scale_out.mtu_bytes;
    parameters.combine_format = ep.combine_format;
    parameters.partial_format = ep.partial_format;
    parameters.mode = ep.mode;
    group.nodes = scenario.topology.nodes;
    group.row_choices = std::min(ep.topk, ep.experts / group.nodes);
    firmware::DeviceConfig config;
    config.accumulators = scenario.device.accumulators;
    config.accumulator_elements = scenario.device.accumulator_elements;
    if (!firmware::cut_parts(group, config)) group.parts = 0;
    return group;
}

void read_workload(TableReader table, Scenario& scenario) {
    if (!table.has("kind")) table.refuse("kind", "one of \"ep\", \"permutation\", \"alltoall\", \"incast\"");
    table.choice("kind", scenario.workload,
                 {{"ep", WorkloadKind::ep},
                  {"permutation", WorkloadKind::permutation},
                  {"alltoall", WorkloadKind::alltoall},
                  {"incast", WorkloadKind::incast}});
    if (scenario.workload == WorkloadKind::ep) {
        read_ep(table, scenario);
    } else {
        read_flows(table, scenario);
    }
    table.finish();
}

}  // namespace plait::sim
