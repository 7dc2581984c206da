// The whole: nodes of devices, their scale-up switches, and the planes between them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <plait/sim/models/device.hpp>
#include <systemc>

namespace plait::sim {

/// The scale-out network as a module.
class FabricModule : public sc_core::sc_module {
  public:
    FabricModule(sc_core::sc_module_name module_name, EventQueue& queue, const FabricConfig& config)
        : sc_module(module_name), planes(queue, config) {}
    LeafSpine planes;
};

/// One node's scale-up switch as a module.
class ScaleUpSwitchModule : public sc_core::sc_module {
  public:
    ScaleUpSwitchModule(sc_core::sc_module_name module_name, EventQueue& queue, const ScaleUpConfig& config)
        : sc_module(module_name), network(queue, config) {}
    ScaleUpSwitch network;
};

class Node : public sc_core::sc_module {
  public:
    Node(sc_core::sc_module_name module_name, EventQueue& queue, LeafSpine& fabric, PacketPools& pools,
         uint32_t number, const ClusterParameters& parameters, const FirmwareFactory& make_firmware,
         const EngineBlocksFactory& make_blocks);

    ScaleUpSwitch& scale_up() { return switch_.network; }
    DeviceModel& device(uint32_t local) { return *devices_.at(local); }

  private:
    ScaleUpSwitchModule switch_;
    std::vector<std::unique_ptr<DeviceModel>> devices_;
};

/// Everything that is simulated but the host programs. Its hot path runs on `queue()`, which a Kernel
/// (sim/bridge) advances together with SystemC's time, or which a test runs alone. Modules can only be made
/// before the simulation has started, so a process has one cluster, as a rule.
class Cluster : public sc_core::sc_module {
  public:
    /// Throws std::invalid_argument with the message of validate(). Without `make_blocks` all engines are
    /// C++.
    Cluster(sc_core::sc_module_name module_name, const ClusterParameters& parameters,
            const FirmwareFactory& make_firmware, const EngineBlocksFactory& make_blocks = {});

    EventQueue& queue() { return queue_; }
    LeafSpine& fabric() { return fabric_.planes; }
    Node& node(uint32_t number) { return *nodes_.at(number); }
    uint32_t devices() const { return parameters_.fabric.devices; }
    /// Devices are numbered through: node * devices_per_node + local. Throws std::out_of_range.
    DeviceModel& device(uint32_t number);
    PacketPools& pools() { return pools_; }
    const ClusterParameters& parameters() const { return parameters_; }

    /// Payload blocks, packets and frames that somebody still holds: 0 when all traffic has ended and
    /// firmware has released its buffers.
    size_t live_objects() const {
        return pools_.payload.live() + pools_.packets.live() + pools_.frames.live();
    }

  private:
    const ClusterParameters parameters_;
    EventQueue queue_;
    PacketPools pools_;
    FabricModule fabric_;
    std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace plait::sim
