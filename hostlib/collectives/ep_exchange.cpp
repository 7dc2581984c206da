#include "ep_exchange.hpp"

namespace plait {
namespace {

constexpr std::array<const char*, 15> parameter_names = {
    "ranks_per_node",  "experts",        "topk",           "hidden",          "max_tokens",
    "dispatch_format", "combine_format", "entry_policy",   "handles",         "mtu_bytes",
    "window_packets",  "mode",           "partial_format", "encode_dispatch", "encode_combine"};

std::string rank_text(std::size_t rank) { return "rank " + std::to_string(rank); }

Error cannot_take_part(std::size_t rank, std::uint32_t status) {
    const auto known = static_cast<Status>(status);
    return {status <= 0xff ? known : Status::invalid_parameter,
            rank_text(rank) +
                " could not create the group: " + (status <= 0xff ? name(known) : "unknown status")};
}

Error disagreement(Status status, std::size_t rank, const char* what, std::uint32_t value,
                   std::uint32_t first) {
    return {status, rank_text(rank) + ": " + what + " is " + std::to_string(value) + ", rank 0 has " +
                        std::to_string(first)};
}

}  // namespace

GroupIdentity identity_of(const EpConfig& config, std::uint32_t device_number, Status status) {
    return {
        regmap::regmap_version,
        static_cast<std::uint32_t>(status),
        device_number,
        {config.ranks_per_node, config.experts, config.topk, config.hidden, config.max_tokens,
         static_cast<std::uint32_t>(config.dispatch_format),
         static_cast<std::uint32_t>(config.combine_format), static_cast<std::uint32_t>(config.entry_policy),
         config.handles, config.mtu_bytes, config.window_packets, static_cast<std::uint32_t>(config.mode),
         static_cast<std::uint32_t>(config.partial_format), config.encode_dispatch ? 1U : 0U,
         config.encode_combine ? 1U : 0U}};
}

Result<void> check_statuses(std::span<const std::uint32_t> statuses) {
    for (std::size_t rank = 0; rank < statuses.size(); ++rank)
        if (statuses[rank] != 0) return cannot_take_part(rank, statuses[rank]);
    return {};
}

Result<void> check_identities(std::span<const GroupIdentity> identities) {
    const GroupIdentity& first = identities[0];
    for (std::size_t rank = 0; rank < identities.size(); ++rank)
        if (identities[rank].regmap_version != first.regmap_version)
            return disagreement(Status::version_mismatch, rank, "register map",
                                identities[rank].regmap_version, first.regmap_version);
    for (std::size_t rank = 0; rank < identities.size(); ++rank)
        if (identities[rank].status != 0) return cannot_take_part(rank, identities[rank].status);
    for (std::size_t rank = 0; rank < identities.size(); ++rank) {
        const GroupIdentity& other = identities[rank];
        for (std::size_t i = 0; i < parameter_names.size(); ++i)
            if (other.parameters[i] != first.parameters[i])
                return disagreement(Status::parameter_mismatch, rank, parameter_names[i], other.parameters[i],
                                    first.parameters[i]);
        if (std::uint64_t{other.device_number} != std::uint64_t{first.device_number} + rank)
            return Error{Status::parameter_mismatch,
                         rank_text(rank) + ": device number is " + std::to_string(other.device_number) +
                             ", expected that of rank 0 (" + std::to_string(first.device_number) + ") + " +
                             std::to_string(rank)};
    }
    return {};
}

}  // namespace plait
