// A multi-plane leaf-spine network: its configuration, the names of its links, and the numbers of its ports.
#pragma once

#include <cstdint>
#include <plait/sim/fabric/faults.hpp>
#include <string>

namespace plait::sim {

// The defaults are the reference fabric. Each device has one port in each plane, on leaf device /
// leaf_down_ports; every leaf has one link to each spine of its plane.
struct FabricConfig {
    uint32_t devices = 16;
    uint32_t planes = 4;
    uint32_t devices_per_node = 1;  // the devices of a node must share a leaf
    uint32_t leaf_down_ports = 16;
    uint32_t leaf_up_ports = 16;  // also the number of spines of a plane
    uint32_t spine_ports = 128;   // the most leaves a plane can have
    double rate_gbps = 100;       // of every link
    uint64_t switch_latency_ns = 400;
    uint64_t cable_ns = 50;
    uint32_t buffer_bytes = 256 * 1024;        // of every output port of a switch
    uint32_t ecn_threshold_bytes = 64 * 1024;  // a packet that finds more than this is marked
    // Not 0: a packet that finds the buffer full is cut to this many bytes on the wire, if it is longer, and
    // goes on ahead of all that was not cut. 0: it is lost.
    uint32_t trim_bytes = 0;
    uint32_t trim_buffer_bytes = 64 * 1024;  // for what was cut, besides buffer_bytes
    FaultConfig faults;
    uint64_t seed = 1;
};

// Empty when the topology is possible, else what is wrong with it.
std::string validate(const FabricConfig& config);

// A link, or everything that fails together.
struct Link {
    enum class Kind : uint8_t { device, leaf_spine, leaf, spine, plane };
    Kind kind;
    uint8_t plane;
    uint32_t first;   // device, leaf or spine
    uint32_t second;  // spine of a leaf_spine link

    static Link device_port(uint32_t device, uint8_t plane) { return {Kind::device, plane, device, 0}; }
    static Link leaf_spine(uint32_t leaf, uint32_t spine, uint8_t plane) {
        return {Kind::leaf_spine, plane, leaf, spine};
    }
    static Link whole_leaf(uint32_t leaf, uint8_t plane) { return {Kind::leaf, plane, leaf, 0}; }
    static Link whole_spine(uint32_t spine, uint8_t plane) { return {Kind::spine, plane, spine, 0}; }
    static Link whole_plane(uint8_t plane) { return {Kind::plane, plane, 0, 0}; }
};

// Arithmetic on port numbers. Every link has two output ports, one for each direction.
class Topology {
  public:
    explicit Topology(const FabricConfig& config)
        : devices(config.devices),
          planes(config.planes),
          leaf_down_ports(config.leaf_down_ports),
          leaves((config.devices + config.leaf_down_ports - 1) / config.leaf_down_ports),
          spines(config.leaf_up_ports) {}

    uint32_t leaf_of(uint32_t device) const { return device / leaf_down_ports; }
    uint32_t device_links() const { return planes * devices; }
    uint32_t spine_links() const { return planes * leaves * spines; }
    uint32_t ports() const { return 2 * (device_links() + spine_links()); }

    uint32_t device_link(uint32_t device, uint32_t plane) const { return plane * devices + device; }
    uint32_t spine_link(uint32_t leaf, uint32_t spine, uint32_t plane) const {
        return (plane * leaves + leaf) * spines + spine;
    }
    uint32_t device_to_leaf(uint32_t device, uint32_t plane) const { return device_link(device, plane); }
    uint32_t leaf_to_device(uint32_t device, uint32_t plane) const {
        return device_links() + device_link(device, plane);
    }
    uint32_t leaf_to_spine(uint32_t leaf, uint32_t spine, uint32_t plane) const {
        return 2 * device_links() + spine_link(leaf, spine, plane);
    }
    uint32_t spine_to_leaf(uint32_t leaf, uint32_t spine, uint32_t plane) const {
        return 2 * device_links() + spine_links() + spine_link(leaf, spine, plane);
    }

    // Empty when the link exists, else a message that names it.
    std::string check(const Link& link) const;

    const uint32_t devices;
    const uint32_t planes;
    const uint32_t leaf_down_ports;
    const uint32_t leaves;
    const uint32_t spines;
};

}  // namespace plait::sim
