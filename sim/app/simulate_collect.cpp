#include <algorithm>
#include <plait/sim/app/firmware_place.hpp>
#include <plait/sim/app/world.hpp>

namespace plait::sim {
namespace {

void put(Counters& counters, const char* name, uint64_t value) { counters.emplace_back(name, value); }

uint64_t queue_high_water(World& world) {
    const LeafSpine& fabric = world.cluster.fabric();
    uint64_t most = 0;
    for (uint32_t port = 0; port < fabric.topology().ports(); ++port)
        most = std::max(most, fabric.port_statistics(port).max_queue_bytes);
    return most;
}

void collect_counters(World& world, const WorldStatistics& sum) {
    RunOutcome& outcome = world.outcome;
    for (uint32_t reason = 1; reason < regmap::drop_reason_count; ++reason) {
        if (sum.devices.drops[reason] != 0)
            put(outcome.drops, regmap::name(static_cast<regmap::DropReason>(reason)),
                sum.devices.drops[reason]);
    }
    if (sum.devices.lost_in_fabric != 0) put(outcome.drops, "lost_in_fabric", sum.devices.lost_in_fabric);
    if (sum.devices.lost_in_scale_up != 0)
        put(outcome.drops, "lost_in_scale_up", sum.devices.lost_in_scale_up);
    const firmware::TransportStatistics& transport = sum.transport;
    put(outcome.counters, "data_packets_sent", transport.data_packets_sent);
    put(outcome.counters, "retransmitted", transport.retransmitted);
    put(outcome.counters, "cancelled_retransmissions", transport.cancelled_retransmissions);
    put(outcome.counters, "losses_assumed", transport.losses);
    put(outcome.counters, "timeouts", transport.rto_count);
    put(outcome.counters, "duplicates", transport.duplicates);
    put(outcome.counters, "acks_sent", transport.acks_sent);
    put(outcome.counters, "nacks_received", transport.nacks_received);
    put(outcome.counters, "probes_sent", transport.probes_sent);
    put(outcome.counters, "planes_excluded", transport.planes_excluded);
    put(outcome.counters, "planes_restored", transport.planes_restored);
    put(outcome.counters, "qp_errors", transport.qp_errors);
    put(outcome.counters, "ecn_marks", world.cluster.fabric().totals().ecn_marks);
    put(outcome.counters, "trimmed", world.cluster.fabric().totals().trimmed);
    put(outcome.counters, "host_faults", sum.devices.host_faults);
    put(outcome.counters, "packet_memory_refused", sum.devices.packet_memory_refused);
    put(outcome.counters, "scale_up_waited", sum.devices.scale_up_waited);
    put(outcome.counters, "reductions", sum.devices.reductions);
    put(outcome.counters, "reduce_refused", sum.devices.reduce_refused);
}

FirmwareProfile profile_of(const Profile& profile) {
    const auto rows = [](const std::vector<Profile::Row>& from) {
        std::vector<FirmwareProfile::Row> to;
        for (const Profile::Row& row : from) to.push_back({row.name, row.calls, row.self, row.total});
        return to;
    };
    return {rows(profile.events()), rows(profile.functions()), profile.folded()};
}

void collect_processor(World& world) {
    RunOutcome& outcome = world.outcome;
    std::vector<PathCounts::Path> paths = PathCounts().paths();
    for (uint32_t number = 0; number < world.cluster.devices(); ++number) {
        const auto& firmware = dynamic_cast<const RiscvFirmware&>(world.cluster.device(number).firmware());
        outcome.firmware.stack_bytes =
            std::max(outcome.firmware.stack_bytes, firmware.memory().stack_used_bytes());
        for (size_t i = 0; i < paths.size(); ++i) paths[i].add(firmware.paths().paths()[i]);
    }
    for (const PathCounts::Path& path : paths)
        if (path.events != 0)
            outcome.firmware.paths.push_back(
                {std::string(path.name), path.events, path.instructions, path.most});
    if (const Profile* profile = world.processor->profile()) outcome.profile = profile_of(*profile);
    if (world.processor->fault())
        outcome.fault = world.processor->fault()->summary + '\n' + world.processor->fault()->core_state;
}

void collect_blocks(World& world) {
    std::vector<BlockFigures>& blocks = world.outcome.blocks;
    for (const uint32_t number : world.scenario.rtl_devices) {
        const std::vector<BlockUse> all = world.cluster.device(number).engine_blocks()->use();
        blocks.resize(all.size());
        for (size_t i = 0; i < all.size(); ++i) {
            blocks[i].name = all[i].name;
            blocks[i].commands += all[i].commands;
            blocks[i].cycles += all[i].latency_cycles;
            blocks[i].cycles_max = std::max(blocks[i].cycles_max, all[i].latency_cycles_max);
        }
    }
}

LatencyFigures latency_figures(const LatencyHistogram& histogram) {
    return {histogram.count(),
            histogram.percentile_ns(0.5),
            histogram.percentile_ns(0.9),
            histogram.percentile_ns(0.99),
            histogram.percentile_ns(0.999),
            histogram.max_ns()};
}

}  // namespace

void PhaseMeter::end(PhaseOutcome& phase) {
    WorldStatistics now = world_.statistics();
    phase.scale_out_bytes = now.devices.scale_out_data_sent.bytes - before_.devices.scale_out_data_sent.bytes;
    phase.scale_up_bytes = now.devices.scale_up_data_sent.bytes - now.devices.loopback.bytes -
                           (before_.devices.scale_up_data_sent.bytes - before_.devices.loopback.bytes);
    phase.packets =
        now.devices.scale_out_data_delivered.packets - before_.devices.scale_out_data_delivered.packets;
    phase.retransmitted = now.transport.retransmitted - before_.transport.retransmitted;
    phase.out_of_order_max = now.transport.out_of_order_max;
    now.devices.latency -= before_.devices.latency;
    phase.latency = latency_figures(now.devices.latency);
}

void collect(World& world) {
    RunOutcome& outcome = world.outcome;
    const WorldStatistics sum = world.statistics();
    if (outcome.simulated_ps == 0) outcome.simulated_ps = world.cluster.queue().now_ps();
    double busy_max = 0;
    for (uint32_t number = 0; number < world.cluster.devices(); ++number) {
        const DeviceStatistics device = world.cluster.device(number).statistics();
        if (const CostSamples* const samples = world.cluster.device(number).cost_samples())
            outcome.firmware.samples += *samples;
        busy_max = std::max(busy_max, static_cast<double>(device.core_busy_max_ps));
        outcome.high_water.packet_memory_bytes =
            std::max(outcome.high_water.packet_memory_bytes, device.packet_memory_high_water_bytes);
        outcome.high_water.accumulators =
            std::max(outcome.high_water.accumulators, device.accumulator_high_water);
        outcome.high_water.window_packets =
            std::max<uint64_t>(outcome.high_water.window_packets, device.window_high_water);
    }
    outcome.high_water.switch_queue_bytes = queue_high_water(world);
    for (size_t kind = 0; kind < work_kinds; ++kind) {
        const WorkCount& work = sum.devices.work[kind];
        outcome.firmware.instructions += work.instructions;
        if (work.events != 0)
            outcome.firmware.kinds.push_back(
                {work_name(static_cast<Work>(kind)), work.events, work.instructions});
    }
    outcome.firmware.data_packets =
        sum.transport.data_packets_sent + sum.devices.scale_out_data_delivered.packets;
    const double time = static_cast<double>(outcome.simulated_ps);
    const double cores = static_cast<double>(world.scenario.device.firmware_cores) * world.cluster.devices();
    outcome.firmware.core_load_mean = static_cast<double>(sum.devices.core_busy_ps) / cores / time;
    outcome.firmware.core_load_max = busy_max / time;
    outcome.firmware.instruction_counts = name_of(world.scenario.device.instruction_counts);
    if (world.processor != nullptr) collect_processor(world);
    collect_blocks(world);
    outcome.delivered_packets =
        sum.devices.scale_out_data_delivered.packets + sum.devices.scale_up_data_delivered.packets;
    collect_counters(world, sum);
}

}  // namespace plait::sim
