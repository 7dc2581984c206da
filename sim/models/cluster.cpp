#include <plait/sim/models/cluster.hpp>

#include <stdexcept>
#include <string>

#include <plait/sim/fabric/random.hpp>

namespace plait::sim {

namespace {

std::string validate_device(const DeviceParameters& device) {
    const auto within = [](double value, double low, double high) { return value >= low && value <= high; };
    const EngineParameters& engines = device.engines;
    if (!within(device.host.rate_gbytes_per_s, 0.125, 10000)) {
        return "host interface rate must be 0.125 to 10000 GB/s";
    }
    if (device.cores.cores == 0 || device.cores.cores > 1024) {
        return "firmware cores must be 1 to 1024";
    }
    if (!within(device.cores.clock_ghz, 0.01, 100) || !within(engines.clock_ghz, 0.01, 100)) {
        return "clocks must be 0.01 to 100 GHz";
    }
    for (const uint32_t servers :
         {engines.scale_out_pipes, engines.scale_up_pipes, engines.reduce_units, engines.encode_units}) {
        if (servers == 0 || servers > ServerGroup::max_servers) {
            return "packet pipes, reduce units and encoders must be 1 to " +
                   std::to_string(ServerGroup::max_servers);
        }
    }
    if (engines.bytes_per_cycle == 0) {
        return "engine bytes per cycle must not be 0";
    }
    if (engines.packet_memory_bytes < engines.scale_up_reserve_bytes ||
        engines.packet_memory_bytes - engines.scale_up_reserve_bytes < PayloadBlock::capacity) {
        return "packet memory must be larger than its scale-up reserve by a packet of " +
               std::to_string(PayloadBlock::capacity) + " bytes at least";
    }
    if (device.firmware.max_qps == 0 || device.firmware.max_qps > 65536) {
        return "queue pairs of a device must be 1 to 65536";
    }
    if (2 * device.firmware.accumulator_elements > PayloadBlock::capacity) {
        return "accumulators must not be larger than a packet: at most 2048 elements";
    }
    return {};
}

ScaleUpConfig scale_up_of(const ClusterParameters& parameters, uint32_t node) {
    ScaleUpConfig config = parameters.scale_up;
    config.ports = parameters.fabric.devices_per_node;
    config.node = node;
    config.seed = hash_combine(parameters.seed, hash_name("scale-up"));
    return config;
}

FabricConfig fabric_of(const ClusterParameters& parameters) {
    FabricConfig config = parameters.fabric;
    config.seed = hash_combine(parameters.seed, hash_name("fabric"));
    return config;
}

const ClusterParameters& checked(const ClusterParameters& parameters) {
    const std::string problem = validate(parameters);
    if (!problem.empty()) {
        throw std::invalid_argument(problem);
    }
    return parameters;
}

}  // namespace

std::string validate(const ClusterParameters& parameters) {
    std::string problem = validate(parameters.fabric);
    if (problem.empty() && parameters.fabric.planes > regmap::max_planes) {
        problem = "planes must be 1 to " + std::to_string(regmap::max_planes);
    }
    if (problem.empty() && parameters.fabric.devices_per_node > regmap::max_ranks_per_node) {
        problem = "devices of a node must be 1 to " + std::to_string(regmap::max_ranks_per_node);
    }
    if (problem.empty() && parameters.fabric.devices % parameters.fabric.devices_per_node != 0) {
        problem = "devices must be a multiple of the devices of a node";
    }
    if (problem.empty()) {
        problem = ScaleUpSwitch::validate(scale_up_of(parameters, 0));
    }
    return problem.empty() ? validate_device(parameters.device) : problem;
}

Node::Node(sc_core::sc_module_name module_name, EventQueue& queue, LeafSpine& fabric, PacketPools& pools,
           uint32_t number, const ClusterParameters& parameters, const FirmwareFactory& make_firmware,
           const EngineBlocksFactory& make_blocks)
    : sc_module(module_name), switch_("scale_up_switch", queue, scale_up_of(parameters, number)) {
    const uint32_t devices = parameters.fabric.devices_per_node;
    for (uint32_t local = 0; local < devices; ++local) {
        const DeviceSurroundings surroundings{queue,
                                              fabric,
                                              switch_.network,
                                              pools,
                                              number * devices + local,
                                              static_cast<uint8_t>(local),
                                              parameters.virtual_payload,
                                              parameters.seed,
                                              &make_blocks};
        const std::string device_name = "device" + std::to_string(local);
        devices_.push_back(std::make_unique<DeviceModel>(device_name.c_str(), surroundings, parameters.device,
                                                         make_firmware));
    }
}

Cluster::Cluster(sc_core::sc_module_name module_name, const ClusterParameters& parameters,
                 const FirmwareFactory& make_firmware, const EngineBlocksFactory& make_blocks)
    : sc_module(module_name),
      parameters_(checked(parameters)),
      fabric_("fabric", queue_, fabric_of(parameters_)) {
    const uint32_t nodes = parameters_.fabric.devices / parameters_.fabric.devices_per_node;
    for (uint32_t number = 0; number < nodes; ++number) {
        const std::string node_name = "node" + std::to_string(number);
        nodes_.push_back(std::make_unique<Node>(node_name.c_str(), queue_, fabric_.planes, pools_, number,
                                                parameters_, make_firmware, make_blocks));
    }
}

DeviceModel& Cluster::device(uint32_t number) {
    return node(number / parameters_.fabric.devices_per_node)
        .device(number % parameters_.fabric.devices_per_node);
}

}  // namespace plait::sim

// SystemC's library refers to it for programs that let it have main(); ours have their own, and start the
// simulation with sc_start().
int sc_main(int, char**) { return 1; }
