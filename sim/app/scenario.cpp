#include <plait/sim/app/scenario.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include <plait/sim/app/scenario_sections.hpp>
#include <plait/sim/app/table_reader.hpp>

namespace plait::sim {
namespace {

void read_topology(TableReader table, TopologyOptions& topology) {
    table.integer("nodes", topology.nodes, 1, 2048);
    table.integer("gpus_per_node", topology.gpus_per_node, 1, regmap::max_ranks_per_node);
    table.integer("planes", topology.planes, 1, regmap::max_planes);
    table.finish();
}

void read_scale_out(TableReader table, ScaleOutOptions& fabric, const TopologyOptions& topology) {
    table.number("rate_gbps", fabric.rate_gbps, 1, 1600);
    table.power_of_two("mtu_bytes", fabric.mtu_bytes, regmap::min_mtu_bytes, regmap::max_mtu_bytes);
    table.integer("leaf_down_ports", fabric.leaf_down_ports, 1, 1024);
    table.integer("leaf_up_ports", fabric.leaf_up_ports, 1, 64);
    table.integer("spine_ports", fabric.spine_ports, 1, 1024);
    table.integer("switch_latency_ns", fabric.switch_latency_ns, 0, 1'000'000);
    table.integer("cable_ns", fabric.cable_ns, 0, 1'000'000);
    table.integer("buffer_bytes", fabric.buffer_bytes, 8192, 1U << 30);
    table.integer("ecn_threshold_bytes", fabric.ecn_threshold_bytes, 0, 1U << 30);
    table.boolean("trimming", fabric.trimming);
    table.number("loss", fabric.loss, 0, 1);
    table.number("corruption", fabric.corruption, 0, 1);
    table.number("duplication", fabric.duplication, 0, 1);
    table.number("reordering", fabric.reordering, 0, 1);
    table.integer("reordering_delay_ns", fabric.reordering_delay_ns, 0, 1'000'000'000);
    if (fabric.reordering > 0 && fabric.reordering_delay_ns == 0) {
        table.fail("reordering", "packets are late by no time, expected reordering_delay_ns above 0 with it");
    }
    if (fabric.leaf_down_ports % topology.gpus_per_node != 0) {
        table.fail("leaf_down_ports",
                   fmt::format("{} ports hold no whole nodes, expected a multiple of gpus_per_node = {}",
                               fabric.leaf_down_ports, topology.gpus_per_node));
    }
    const uint32_t devices = topology.nodes * topology.gpus_per_node;
    const uint32_t leaves = (devices + fabric.leaf_down_ports - 1) / fabric.leaf_down_ports;
    if (leaves > fabric.spine_ports) {
        table.fail("spine_ports", fmt::format("{} devices take {} leaves, expected at most spine_ports = {}",
                                              devices, leaves, fabric.spine_ports));
    }
    table.finish();
}

void read_scale_up(TableReader table, ScaleUpOptions& link) {
    table.number("rate_gbytes_per_s", link.rate_gbytes_per_s, 1, 10'000);
    table.integer("latency_ns", link.latency_ns, 0, 1'000'000);
    table.integer("credit_bytes", link.credit_bytes, 8192, 1U << 30);
    table.finish();
}

void read_host_interface(TableReader table, HostInterfaceOptions& host) {
    table.number("rate_gbytes_per_s", host.rate_gbytes_per_s, 1, 10'000);
    table.integer("latency_ns", host.latency_ns, 0, 1'000'000);
    table.finish();
}

void read_firmware(TableReader& root, Scenario& scenario) {
    root.choice("firmware", scenario.firmware,
                {{"native", FirmwarePlace::native}, {"riscv", FirmwarePlace::riscv}});
    if (scenario.firmware == FirmwarePlace::native) return;
    root.text("firmware_image", scenario.firmware_image);
    if (scenario.firmware_image.ends_with(".elf"))
        scenario.firmware_image = scenario.file.parent_path() / scenario.firmware_image;
}

// Devices that have blocks: those that are named, and those of nodes that are; without either, all.
void read_engines(TableReader& root, Scenario& scenario) {
    root.choice("engines", scenario.engines, {{"cpp", EnginePlace::cpp}, {"rtl", EnginePlace::rtl}});
    if (scenario.engines == EnginePlace::cpp) return;
    if (scenario.payload == PayloadMode::virtual_)
        root.fail("engines", "an ICRC needs the bytes of a packet, expected payload = \"real\" with \"rtl\"");
    const uint32_t per_node = scenario.topology.gpus_per_node;
    std::vector<uint32_t> nodes;
    root.integers("rtl_nodes", nodes, scenario.topology.nodes - 1);
    root.choices("rtl_blocks", scenario.rtl_blocks, engine_block_names);
    root.integers("rtl_devices", scenario.rtl_devices, scenario.ranks() - 1);
    std::vector<bool> has_blocks(scenario.ranks(), nodes.empty() && scenario.rtl_devices.empty());
    for (const uint32_t device : scenario.rtl_devices) has_blocks[device] = true;
    for (const uint32_t node : nodes) std::fill_n(has_blocks.begin() + node * per_node, per_node, true);
    scenario.rtl_devices.clear();
    for (uint32_t device = 0; device < scenario.ranks(); ++device)
        if (has_blocks[device]) scenario.rtl_devices.push_back(device);
}

// Of each event of a kind, and of each of its parts.
void read_instructions(TableReader table, HandlerCosts& costs) {
    constexpr uint64_t most = 1'000'000;
    TableReader each = table.table("each");
    for (size_t kind = 0; kind < work_kinds; ++kind) {
        const char* const name = work_name(static_cast<Work>(kind));
        table.integer(name, costs.instructions[kind], 0, most);
        TableReader parts = each.table(name);
        for (size_t part = 0; part < work_parts; ++part)
            parts.integer(work_part_name(static_cast<WorkPart>(part)), costs.each[kind][part], 0, most);
        parts.finish();
    }
    each.finish();
    table.finish();
}

void read_firmware_cost(TableReader& table, DeviceOptions& device, FirmwarePlace place) {
    if (place == FirmwarePlace::riscv) {
        device.instruction_counts = InstructionCounts::measured;
        table.boolean("engines", device.engines);
        table.integer("watchdog_instructions", device.watchdog_instructions, 1000, 1ULL << 40);
        table.choice("instruction_counts", device.instruction_counts,
                     {{"declared", InstructionCounts::declared}, {"measured", InstructionCounts::measured}});
    }
    table.integer("core_mhz", device.core_mhz, 1, 100'000);
    table.number("cycles_per_instruction", device.cycles_per_instruction, 0.1, 100);
    read_instructions(table.table("instructions"), device.instructions);
}

void read_device(TableReader table, DeviceOptions& device, FirmwarePlace place) {
    table.integer("firmware_cores", device.firmware_cores, 1, 1024);
    table.number("clock_ghz", device.clock_ghz, 0.01, 10);
    read_firmware_cost(table, device, place);
    table.integer("bytes_per_cycle", device.bytes_per_cycle, 1, 4096);
    table.integer("scale_out_pipes", device.scale_out_pipes, 1, 64);
    table.integer("scale_up_pipes", device.scale_up_pipes, 1, 64);
    table.integer("reduce_units", device.reduce_units, 1, 64);
    table.integer("encode_units", device.encode_units, 1, 64);
    table.integer("transmit_pipe_ns", device.transmit_pipe_ns, 0, 1'000'000);
    table.integer("receive_pipe_ns", device.receive_pipe_ns, 0, 1'000'000);
    table.integer("packet_memory_bytes", device.packet_memory_bytes, 64 * 1024, 1U << 31);
    table.integer("scale_up_reserve_bytes", device.scale_up_reserve_bytes, 0, device.packet_memory_bytes / 2);
    table.integer("accumulators", device.accumulators, 1, 65536);
    table.integer("accumulator_elements", device.accumulator_elements, 64, regmap::max_hidden);
    table.integer("transmit_ahead_bytes", device.transmit_ahead_bytes, 1, 1U << 20);
    table.finish();
}

void read_transport(TableReader table, TransportOptions& transport, const TopologyOptions& topology) {
    using regmap::SprayPolicy;
    table.power_of_two("window_packets", transport.window_packets, regmap::min_window_packets,
                       regmap::max_window_packets);
    table.integer("entropy_values", transport.entropy_values, 1, regmap::max_entropy_values);
    table.choice("spray", transport.spray,
                 {{"spray", SprayPolicy::spray},
                  {"round_robin", SprayPolicy::round_robin},
                  {"single_path", SprayPolicy::single_path}});
    table.integer("qp_time_limit_us", transport.qp_time_limit_us, 1, 60'000'000);
    table.integer("base_rtt_ns", transport.base_rtt_ns, 100, 10'000'000);
    if (transport.entropy_values % topology.planes != 0) {
        table.fail("entropy_values", fmt::format("{} values on {} planes, expected a multiple of the planes",
                                                 transport.entropy_values, topology.planes));
    }
    table.finish();
}

void read_limits(TableReader table, Limits& limits) {
    table.integer("simulated_time_us", limits.simulated_time_us, 1, 3'600'000'000ULL);
    table.number("memory_gib", limits.memory_gib, 0, 1 << 20);
    table.finish();
}

// What the blocks have room for.
void check_blocks(const TableReader& root, const Scenario& scenario) {
    if (scenario.engines == EnginePlace::cpp || !contains(scenario.rtl_blocks, EngineBlock::reduce)) return;
    const DeviceOptions& device = scenario.device;
    if (device.accumulators > 256 || device.accumulator_elements > 2048)
        root.fail("engines",
                  fmt::format("plait_reduce has 256 accumulators of 2048 elements, the device {} of "
                              "{}, expected other rtl_blocks",
                              device.accumulators, device.accumulator_elements));
}

Scenario read_scenario(TableReader& root, const std::filesystem::path& file) {
    Scenario scenario;
    scenario.name = file.stem().string();
    scenario.file = file;
    root.text("description", scenario.description);
    root.integer("seed", scenario.seed, 0, static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    root.choice("payload", scenario.payload,
                {{"real", PayloadMode::real}, {"virtual", PayloadMode::virtual_}});
    read_firmware(root, scenario);
    read_topology(root.table("topology"), scenario.topology);
    read_engines(root, scenario);
    read_scale_out(root.table("scale_out"), scenario.scale_out, scenario.topology);
    read_scale_up(root.table("scale_up"), scenario.scale_up);
    read_host_interface(root.table("host_interface"), scenario.host_interface);
    read_device(root.table("device"), scenario.device, scenario.firmware);
    check_blocks(root, scenario);
    read_transport(root.table("transport"), scenario.transport, scenario.topology);
    read_limits(root.table("limits"), scenario.limits);
    if (!root.has("workload")) root.refuse("workload", "a table that says what to run");
    read_workload(root.table("workload"), scenario);
    for (auto& table : root.tables("fault")) read_fault(table, scenario);
    std::stable_sort(scenario.faults.begin(), scenario.faults.end(),
                     [](const Fault& a, const Fault& b) { return a.at_ns < b.at_ns; });
    return scenario;
}

toml::table parse(std::string_view text, const std::string& file) {
    try {
        return toml::parse(text, file);
    } catch (const toml::parse_error& error) {
        throw InputError(
            fmt::format("{}:{}: not TOML: {}", file, error.source().begin.line, error.description()));
    }
}

Scenario read_variant(const toml::table& document, const toml::table& variant, size_t number,
                      const std::filesystem::path& file) {
    TableReader own(file.string(), fmt::format("variant[{}]", number), &variant);
    if (!own.has("name")) own.refuse("name", "text");
    if (own.has("variant")) own.fail("variant", "a variant has no variants, expected the keys of a scenario");
    TableReader root(file.string(), "", &document, &variant);
    (void)root.has("variant");
    std::string name;
    root.text("name", name);
    Scenario scenario = read_scenario(root, file);
    root.finish();
    scenario.variant = name;
    return scenario;
}

}  // namespace

void set_firmware(Scenario& scenario, FirmwarePlace place) {
    scenario.firmware = place;
    scenario.device.instruction_counts =
        place == FirmwarePlace::riscv ? InstructionCounts::measured : InstructionCounts::declared;
}

std::vector<Scenario> parse_scenario(std::string_view text, const std::filesystem::path& file) {
    const toml::table document = parse(text, file.string());
    std::vector<Scenario> result;
    TableReader base(file.string(), "", &document);
    if (!base.has("variant")) {
        result.push_back(read_scenario(base, file));
        base.finish();
        return result;
    }
    const size_t count = base.tables("variant").size();
    if (count == 0) base.refuse("variant", "at least one");
    if (document.contains("name"))
        base.fail("name", "unknown key, expected it in a variant: a scenario is named by its file");
    const auto& variants = *document.get_as<toml::array>("variant");
    for (size_t i = 0; i < count; ++i) {
        Scenario scenario = read_variant(document, *variants.get_as<toml::table>(i), i, file);
        for (const auto& earlier : result) {
            if (earlier.variant == scenario.variant) {
                TableReader(file.string(), fmt::format("variant[{}]", i), variants.get_as<toml::table>(i))
                    .refuse("name", "a name that no other variant has");
            }
        }
        result.push_back(std::move(scenario));
    }
    return result;
}

std::vector<Scenario> load_scenario(const std::filesystem::path& file) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error)) {
        throw InputError(fmt::format("{}: found no such file, expected a scenario (.toml)", file.string()));
    }
    constexpr uintmax_t most_bytes = 1 << 20;
    const auto size = std::filesystem::file_size(file, error);
    if (error || size > most_bytes) {
        throw InputError(
            fmt::format("{}: found {} bytes, expected at most {}", file.string(), size, most_bytes));
    }
    std::ifstream stream(file, std::ios::binary);
    if (!stream) throw InputError(fmt::format("{}: cannot be read", file.string()));
    const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    return parse_scenario(text, file);
}

}  // namespace plait::sim
