#include <plait/sim/fabric/topology.hpp>

namespace plait::sim {
namespace {

std::string number(uint64_t value) { return std::to_string(value); }

std::string validate_shape(const FabricConfig& config) {
    if (config.devices == 0) {
        return "the fabric has no devices";
    }
    if (config.planes == 0 || config.planes > 64) {
        return "planes is " + number(config.planes) + ", not 1 to 64";
    }
    if (config.leaf_down_ports == 0) {
        return "a leaf has no ports for devices";
    }
    if (config.devices_per_node == 0 || config.leaf_down_ports % config.devices_per_node != 0) {
        return "leaf_down_ports is " + number(config.leaf_down_ports) + ", not a multiple of the " +
               number(config.devices_per_node) + " devices of a node, which must share a leaf";
    }
    if (config.leaf_up_ports > 64) {
        return "leaf_up_ports is " + number(config.leaf_up_ports) + ", more than the 64 spines of a plane";
    }
    const uint64_t leaves = (uint64_t{config.devices} + config.leaf_down_ports - 1) / config.leaf_down_ports;
    if (leaves > 1 && config.leaf_up_ports == 0) {
        return number(config.devices) + " devices need " + number(leaves) +
               " leaves, but leaf_up_ports is 0: nothing connects them";
    }
    if (leaves > 1 && leaves > config.spine_ports) {
        return number(config.devices) + " devices need " + number(leaves) + " leaves, but a spine has " +
               number(config.spine_ports) + " ports";
    }
    const uint64_t links = config.planes * (config.devices + leaves * config.leaf_up_ports);
    if (links > UINT32_MAX / 2) {
        return "the fabric would have " + number(links) + " links, more than " + number(UINT32_MAX / 2);
    }
    return {};
}

}  // namespace

std::string validate(const FabricConfig& config) {
    if (std::string message = validate_shape(config); !message.empty()) {
        return message;
    }
    if (!(config.rate_gbps >= 1 && config.rate_gbps <= 100'000)) {
        return "rate_gbps is " + std::to_string(config.rate_gbps) + ", not 1 to 100000";
    }
    if (config.switch_latency_ns > 1'000'000'000 || config.cable_ns > 1'000'000'000) {
        return "switch_latency_ns or cable_ns is more than a second";
    }
    if (config.buffer_bytes == 0 || config.buffer_bytes > 1U << 30) {
        return "buffer_bytes is " + number(config.buffer_bytes) + ", not 1 to " + number(1U << 30);
    }
    if (config.ecn_threshold_bytes > config.buffer_bytes) {
        return "ecn_threshold_bytes is " + number(config.ecn_threshold_bytes) + ", more than the buffer's " +
               number(config.buffer_bytes);
    }
    if (config.trim_bytes > config.trim_buffer_bytes || config.trim_buffer_bytes > 1U << 30) {
        return "trim_bytes is " + number(config.trim_bytes) +
               ", not 0 to trim_buffer_bytes = " + number(config.trim_buffer_bytes) +
               ", or that is more than " + number(1U << 30);
    }
    return FaultInjector::validate(config.faults);
}

std::string Topology::check(const Link& link) const {
    const auto unknown = [](const char* what, uint64_t value, uint64_t count) {
        return std::string(what) + " " + number(value) + " does not exist: there are " + number(count);
    };
    if (link.plane >= planes) {
        return unknown("plane", link.plane, planes);
    }
    switch (link.kind) {
        case Link::Kind::device: return link.first < devices ? "" : unknown("device", link.first, devices);
        case Link::Kind::leaf_spine:
            if (link.second >= spines) {
                return unknown("spine", link.second, spines);
            }
            [[fallthrough]];
        case Link::Kind::leaf: return link.first < leaves ? "" : unknown("leaf", link.first, leaves);
        case Link::Kind::spine: return link.first < spines ? "" : unknown("spine", link.first, spines);
        case Link::Kind::plane: return {};
    }
    return "this kind of link does not exist";
}

}  // namespace plait::sim
