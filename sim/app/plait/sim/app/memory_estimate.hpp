// How much memory a scenario takes, before any of it is allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <plait/sim/app/scenario.hpp>

namespace plait::sim {

struct MemoryEstimate {
    uint64_t firmware_bytes = 0;  ///< State of queue pairs, windows and EP tables of all devices.
    uint64_t device_bytes = 0;    ///< Packet memory of all devices, full.
    uint64_t routing_bytes = 0;   ///< Top-k lists, expected rows, and what hosts keep of them.
    uint64_t fixed_bytes = 0;     ///< The program, its tables and the packets in flight.

    uint64_t total_bytes() const { return firmware_bytes + device_bytes + routing_bytes + fixed_bytes; }
};

/// From above: what the run holds at its worst.
MemoryEstimate estimate_memory(const Scenario& scenario);

/// Memory that can be had without swapping.
uint64_t available_memory_bytes();

/// One line that says why the scenario is refused, with the estimate; nothing if it fits `available_bytes`
/// and the scenario's own limit.
std::optional<std::string> refuse_for_memory(const Scenario& scenario, uint64_t available_bytes);

}  // namespace plait::sim
