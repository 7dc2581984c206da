#include <fmt/format.h>

#include <algorithm>
#include <plait/sim/app/firmware_place.hpp>
#include <plait/sim/app/world.hpp>

namespace plait::sim {
namespace {

FabricConfig fabric_config(const Scenario& scenario) {
    const ScaleOutOptions& from = scenario.scale_out;
    FabricConfig config;
    config.devices = scenario.ranks();
    config.planes = scenario.topology.planes;
    config.devices_per_node = scenario.topology.gpus_per_node;
    config.leaf_down_ports = from.leaf_down_ports;
    config.leaf_up_ports = from.leaf_up_ports;
    config.spine_ports = from.spine_ports;
    config.rate_gbps = from.rate_gbps;
    config.switch_latency_ns = from.switch_latency_ns;
    config.cable_ns = from.cable_ns;
    config.buffer_bytes = from.buffer_bytes;
    config.ecn_threshold_bytes = from.ecn_threshold_bytes;
    config.trim_bytes = from.trimming ? wire_bytes(regmap::trimmed_frame_bytes) : 0;
    config.faults =
        FaultConfig{from.loss, from.corruption, from.duplication, from.reordering, from.reordering_delay_ns};
    config.seed = scenario.seed;
    return config;
}

DeviceParameters device_parameters(const Scenario& scenario) {
    const auto& from = scenario.device;
    DeviceParameters device;
    device.host.rate_gbytes_per_s = scenario.host_interface.rate_gbytes_per_s;
    device.host.latency_ns = scenario.host_interface.latency_ns;
    device.cores.cores = from.firmware_cores;
    device.engines.clock_ghz = from.clock_ghz;
    device.cores.clock_ghz = from.core_mhz == 0 ? from.clock_ghz : from.core_mhz / 1000.0;
    device.cores.cycles_per_instruction = from.cycles_per_instruction;
    device.cores.costs = from.instructions;
    device.cores.costs_are_measured = from.instruction_counts == InstructionCounts::measured;
    device.engines.bytes_per_cycle = from.bytes_per_cycle;
    device.engines.scale_out_pipes = from.scale_out_pipes;
    device.engines.scale_up_pipes = from.scale_up_pipes;
    device.engines.reduce_units = from.reduce_units;
    device.engines.encode_units = from.encode_units;
    device.engines.transmit_latency_ns = from.transmit_pipe_ns;
    device.engines.receive_latency_ns = from.receive_pipe_ns;
    device.engines.packet_memory_bytes = from.packet_memory_bytes;
    device.engines.scale_up_reserve_bytes = from.scale_up_reserve_bytes;
    device.firmware.accumulators = from.accumulators;
    device.firmware.accumulator_elements = from.accumulator_elements;
    device.firmware.packet_memory_bytes = from.packet_memory_bytes;
    device.firmware.transmit_ahead_bytes = from.transmit_ahead_bytes;
    device.firmware.base_rtt_ns = scenario.transport.base_rtt_ns;
    device.firmware.max_groups = 1;
    device.firmware.group_memory_bytes = 256ULL << 20;
    return device;
}

ClusterParameters cluster_parameters(const Scenario& scenario) {
    ClusterParameters parameters;
    parameters.fabric = fabric_config(scenario);
    parameters.scale_up.rate_gbytes_per_s = scenario.scale_up.rate_gbytes_per_s;
    parameters.scale_up.latency_ns = scenario.scale_up.latency_ns;
    parameters.scale_up.credit_bytes = scenario.scale_up.credit_bytes;
    parameters.device = device_parameters(scenario);
    parameters.virtual_payload = scenario.payload == PayloadMode::virtual_;
    parameters.seed = scenario.seed;
    if (const std::string wrong = validate(parameters); !wrong.empty()) {
        throw InputError(fmt::format("{}: {}", scenario.file.string(), wrong));
    }
    return parameters;
}

void add(PacketCount& sum, const PacketCount& one) {
    sum.packets += one.packets;
    sum.bytes += one.bytes;
}

void add(DeviceStatistics& sum, const DeviceStatistics& one) {
    add(sum.scale_out_data_sent, one.scale_out_data_sent);
    add(sum.scale_out_data_delivered, one.scale_out_data_delivered);
    add(sum.scale_up_data_sent, one.scale_up_data_sent);
    add(sum.scale_up_data_delivered, one.scale_up_data_delivered);
    add(sum.loopback, one.loopback);
    for (size_t i = 0; i < sum.drops.size(); ++i) sum.drops[i] += one.drops[i];
    for (size_t i = 0; i < sum.work.size(); ++i) {
        sum.work[i].events += one.work[i].events;
        sum.work[i].instructions += one.work[i].instructions;
    }
    sum.lost_in_fabric += one.lost_in_fabric;
    sum.lost_in_scale_up += one.lost_in_scale_up;
    sum.core_busy_ps += one.core_busy_ps;
    sum.host_faults += one.host_faults;
    sum.packet_memory_refused += one.packet_memory_refused;
    sum.scale_up_waited += one.scale_up_waited;
    sum.reductions += one.reductions;
    sum.reduce_refused += one.reduce_refused;
    sum.latency += one.latency;
}

void add(firmware::TransportStatistics& sum, const firmware::TransportStatistics& one) {
    sum.data_packets_sent += one.data_packets_sent;
    sum.retransmitted += one.retransmitted;
    sum.cancelled_retransmissions += one.cancelled_retransmissions;
    sum.losses += one.losses;
    sum.rto_count += one.rto_count;
    sum.duplicates += one.duplicates;
    sum.out_of_order_max = std::max(sum.out_of_order_max, one.out_of_order_max);
    sum.acks_sent += one.acks_sent;
    sum.nacks_received += one.nacks_received;
    sum.probes_sent += one.probes_sent;
    sum.planes_excluded += one.planes_excluded;
    sum.planes_restored += one.planes_restored;
    sum.qp_errors += one.qp_errors;
}

}  // namespace

void Barrier::wait(const std::function<void()>& last) {
    if (last) last_ = last;
    if (++arrived_ == members_) return open();
    for (const uint64_t round = round_; round == round_;) sc_core::wait(opened_);
}

void Barrier::leave() {
    --members_;
    if (members_ != 0 && arrived_ == members_) open();
}

void Barrier::open() {
    if (last_) last_();
    last_ = {};
    arrived_ = 0;
    ++round_;
    kernel_.notify(opened_);
}

World::World(const Scenario& s, const RunOptions& options, Progress& bar, RunOutcome& out)
    : scenario(s),
      plan(*options.plan),
      progress(bar),
      outcome(out),
      processor(make_processor(s, options.profile)),
      cluster("cluster", cluster_parameters(s), firmware_factory(processor),
              engine_blocks_factory(scenario, [this](const std::string& line) { engines_differ(line); })),
      kernel("kernel", cluster.queue()),
      programs("programs", kernel),
      barrier(kernel, s.ranks()),
      links(s.ranks()),
      errors_kept(options.errors_kept) {}

void World::stop_host(uint32_t rank, uint64_t for_ns) {
    blame(rank);
    if (links[rank] == nullptr) return;  // it has ended
    const uint64_t until_ps = for_ns == 0 ? EventQueue::never : Kernel::now_ps() + for_ns * 1000;
    links[rank]->stop_until(until_ps, [this] {
        barrier.leave();
        programs.abandon();
    });
}

// From inside an event of a device: nothing that happens after this one counts.
void World::engines_differ(const std::string& line) {
    error(line);
    outcome.fault = line + '\n';
    cut_short_ = true;
    kernel.stop();
}

void World::error(std::string line) {
    if (++errors_ <= errors_kept) outcome.errors.push_back(std::move(line));
}

void World::placed(uint64_t bytes) {
    placed_bytes_ += bytes;
    if (outcome.timeline_bin_ps == 0) return;
    const uint64_t bin = cluster.queue().now_ps() / outcome.timeline_bin_ps;
    if (bin >= outcome.timeline_bytes.size()) outcome.timeline_bytes.resize(bin + 1);
    outcome.timeline_bytes[bin] += bytes;
}

WorldStatistics World::statistics() {
    WorldStatistics sum;
    for (uint32_t number = 0; number < cluster.devices(); ++number) {
        add(sum.devices, cluster.device(number).statistics());
        look_at(cluster.device(number).firmware(),
                [&sum](const auto& firmware) { add(sum.transport, firmware.transport().statistics()); });
    }
    return sum;
}

bool World::run() {
    programs.spawn_background("watch", [this] { watch(); });
    sc_core::sc_start();
    if (firmware_stopped()) error(processor->fault()->summary);
    return !cut_short_;
}

// The progress bar, Ctrl-C and the time limit.
void World::watch() {
    constexpr uint64_t interval_ns = 2000;
    const uint64_t limit_ps = scenario.limits.simulated_time_us * 1'000'000;
    while (true) {
        Kernel::sleep(interval_ns);
        progress.update(placed_bytes_, expected_bytes_, Kernel::now_ps());
        if (progress.interrupted()) outcome.interrupted = true;
        else if (Kernel::now_ps() < limit_ps && !firmware_stopped()) continue;
        else if (!firmware_stopped())
            error(fmt::format("stopped at the limit of {} us of simulated time",
                              scenario.limits.simulated_time_us));
        cut_short_ = true;
        kernel.stop();
        return;
    }
}

Result<std::vector<std::byte>> WorldBootstrap::all_gather(std::span<const std::byte> mine, uint64_t) {
    board_.contributions.resize(ranks_);
    board_.contributions[rank_].assign(mine.begin(), mine.end());
    world_.barrier.wait();
    std::vector<std::byte> all;
    for (const auto& part : board_.contributions) all.insert(all.end(), part.begin(), part.end());
    world_.barrier.wait();
    return all;
}

}  // namespace plait::sim
