// Every number of the device model. The defaults are the reference device of the design.
#pragma once

#include <cstdint>
#include <string>

#include <plait/firmware/commands.hpp>
#include <plait/sim/fabric/scale_up.hpp>
#include <plait/sim/fabric/topology.hpp>
#include <plait/sim/models/work.hpp>

namespace plait::sim {

/// Between device and host, both ways alike. An I/O die on a die-to-die link; for PCIe 5 x16 take 55 GB/s.
struct HostInterfaceParameters {
    double rate_gbytes_per_s = 200;
    uint64_t latency_ns = 400;  ///< One way.
};

struct CoreParameters {
    uint32_t cores = 16;
    double clock_ghz = 1;
    double cycles_per_instruction = 1;
    HandlerCosts costs;
    /// Firmware that runs on a processor says what it executed, and `costs` mean nothing.
    bool costs_are_measured = false;
};

struct EngineParameters {
    double clock_ghz = 1;
    uint32_t bytes_per_cycle = 64;  ///< Of a packet pipe and of a reduce unit.
    uint32_t scale_out_pipes = 2;   ///< Each way.
    uint32_t scale_up_pipes = 3;    ///< Each way.
    uint32_t reduce_units = 4;
    uint32_t encode_units = 4;          ///< Each takes bytes_per_cycle of BF16.
    uint64_t transmit_latency_ns = 80;  ///< Fixed latency of a packet pipe, besides its bytes.
    uint64_t receive_latency_ns = 80;
    uint32_t packet_memory_bytes = 8U << 20;
    /// Part of the packet memory that packets from the planes must leave free: they can be refused and come
    /// again, scale-up frames cannot.
    uint32_t scale_up_reserve_bytes = 2U << 20;
};

struct DeviceParameters {
    HostInterfaceParameters host;
    CoreParameters cores;
    EngineParameters engines;
    /// What firmware learns at reset; `device_number` and `planes` are set by the cluster.
    firmware::DeviceConfig firmware;
};

/// A cluster of `fabric.devices` devices in nodes of `fabric.devices_per_node`.
struct ClusterParameters {
    FabricConfig fabric;
    ScaleUpConfig scale_up;  ///< `ports`, `node` and `seed` are set by the cluster.
    DeviceParameters device;
    bool virtual_payload = false;  ///< Payload has a length but no bytes; control messages keep theirs.
    uint64_t seed = 1;
};

/// Empty when a cluster can be built from these, else what is wrong.
std::string validate(const ClusterParameters& parameters);

}  // namespace plait::sim
