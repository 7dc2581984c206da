#pragma once
// Checks that name the limit they enforce.

#include <cstdint>
#include <plait/result.hpp>
#include <string>

namespace plait {

/// `name` must lie in low .. high.
inline Result<void> check_range(const char* name, std::uint64_t value, std::uint64_t low,
                                std::uint64_t high) {
    if (value >= low && value <= high) return {};
    return Error{Status::invalid_parameter, std::string(name) + " is " + std::to_string(value) +
                                                ", expected " + std::to_string(low) + " .. " +
                                                std::to_string(high)};
}

/// `name` must be a multiple of `unit`; `unit_name` says what the unit is.
inline Result<void> check_multiple(const char* name, std::uint64_t value, const char* unit_name,
                                   std::uint64_t unit) {
    if (value % unit == 0) return {};
    return Error{Status::invalid_parameter, std::string(name) + " is " + std::to_string(value) +
                                                ", expected a multiple of " + unit_name + " (" +
                                                std::to_string(unit) + ")"};
}

/// How ranks, nodes and experts fit together; `ranks` and `experts` within the limits of the device contract.
Result<void> check_topology(std::uint32_t ranks, std::uint32_t ranks_per_node, std::uint32_t experts,
                            std::uint32_t topk);

}  // namespace plait
