#pragma once
// Checks and sizes that follow from an EpConfig.

#include <cstdint>
#include <plait/driver.hpp>
#include <plait/ep.hpp>

namespace plait {

/// Every limit of the device contract, named in the message of the error.
Result<void> check_config(const EpConfig& config, std::uint32_t ranks);

/// What the device has no room for, or cannot spray over; `config` fits the contract.
Result<void> check_device(const EpConfig& config, std::uint32_t ranks, const DeviceInfo& device);

/// The device's view of `config`.
regmap::GroupParameters group_parameters(const EpConfig& config, std::uint32_t rank, std::uint32_t ranks,
                                         std::uint32_t first_device);

/// Low latency: rows that the outputs of a dispatch hold.
std::uint64_t expert_slots(const EpConfig& config);

/// Checks the arguments of a dispatch and fills in its request, but for handle, user data and result.
/// `cached_tokens`: tokens of the handle whose routing is repeated.
Result<regmap::EpRequest> dispatch_request(const EpConfig& config, const DispatchArguments& arguments,
                                           std::optional<std::uint32_t> cached_tokens);

/// The same for the combine of a handle with so many tokens and received rows.
Result<regmap::EpRequest> combine_request(const EpConfig& config, const CombineArguments& arguments,
                                          std::uint32_t tokens, std::uint32_t received_rows);

}  // namespace plait
