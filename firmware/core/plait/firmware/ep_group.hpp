#pragma once
// Creation of EP groups: the limits, and the tables carved from the group's table memory.

#include <algorithm>
#include <plait/firmware/arena.hpp>
#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// FNV-1a over the words that all ranks must agree on.
inline std::uint32_t parameter_hash(const regmap::GroupParameters& p) {
    std::uint32_t hash = 2166136261U;
    for (const std::uint32_t word :
         {p.ranks, p.ranks_per_node, p.experts, p.topk, p.hidden, p.max_tokens, p.handles, p.first_device,
          p.mtu_bytes, static_cast<std::uint32_t>(p.dispatch_format),
          static_cast<std::uint32_t>(p.combine_format), static_cast<std::uint32_t>(p.entry_policy),
          static_cast<std::uint32_t>(p.mode)}) {
        for (std::uint32_t shift = 0; shift < 32; shift += 8)
            hash = (hash ^ ((word >> shift) & 0xffU)) * 16777619U;
    }
    return hash;
}

/// Bytes of a counts message: rows to the receiver, rows by way of it, rows to all other nodes, rows of each
/// of the receiver's experts.
constexpr std::uint32_t counts_bytes(const regmap::GroupParameters& p) {
    return regmap::counts_fixed_bytes + regmap::counts_expert_bytes * (p.experts / p.ranks);
}

/// Limits of GroupParameters (`rtl_models/regmap/records.toml`). invalid_parameter: contradictory;
/// limit_exceeded: too large.
inline regmap::Status check_parameters(const regmap::GroupParameters& p, const DeviceConfig& config) {
    using regmap::Status;
    if (p.ranks == 0 || p.ranks_per_node == 0 || p.experts == 0 || p.topk == 0 || p.hidden == 0 ||
        p.max_tokens == 0 || p.handles == 0)
        return Status::invalid_parameter;
    if (p.ranks > regmap::max_ranks || p.ranks_per_node > regmap::max_ranks_per_node ||
        p.experts > regmap::max_experts || p.topk > regmap::max_topk ||
        p.max_tokens > regmap::max_tokens_per_rank || p.hidden > regmap::max_hidden ||
        p.handles > regmap::max_handles) {
        return Status::limit_exceeded;
    }
    if (p.rank >= p.ranks || p.ranks % p.ranks_per_node != 0 || p.experts % p.ranks != 0 ||
        p.topk > p.experts)
        return Status::invalid_parameter;
    if (p.mtu_bytes < regmap::min_mtu_bytes || p.mtu_bytes > regmap::max_mtu_bytes ||
        !std::has_single_bit(p.mtu_bytes))
        return Status::invalid_parameter;
    // A counts message is one packet.
    if (counts_bytes(p) > std::min(p.mtu_bytes, regmap::max_control_bytes)) return Status::limit_exceeded;
    if (p.hidden < regmap::min_hidden ||
        p.hidden % (p.dispatch_format == regmap::RowFormat::e4m3_f32 ? regmap::scale_block_elements : 64U) !=
            0)
        return Status::invalid_parameter;
    if ((p.dispatch_format != regmap::RowFormat::bf16 && p.dispatch_format != regmap::RowFormat::e4m3_f32) ||
        p.combine_format != regmap::RowFormat::bf16 || !is_known(p.entry_policy) || !is_known(p.mode))
        return Status::invalid_parameter;
    if (p.first_device + p.rank != config.device_number) return Status::invalid_parameter;
    const std::uint32_t part = std::min(p.mtu_bytes, config.accumulator_elements * 2);
    const std::uint32_t parts = (p.hidden * 2 + part - 1) / part;
    if (parts > regmap::max_row_parts || parts > config.accumulators / 4) return Status::limit_exceeded;
    for (const std::uint32_t word : p.reserved2) {
        if (word != 0) return Status::invalid_parameter;
    }
    return Status::ok;
}

/// Rows that may enter by one device: the worst case of its policy, and as many again because it stands in
/// for a device that failed. A call that brings more is refused (limit_exceeded). In low latency every source
/// has a place of its own for all of its rows.
inline std::size_t entry_row_limit(const regmap::GroupParameters& p) {
    const std::size_t all = std::size_t{p.ranks} * p.max_tokens;
    if (p.entry_policy == regmap::EntryPolicy::target || p.mode == regmap::EpMode::low_latency) return all;
    return std::min(all, 2 * std::size_t{p.ranks} * (p.max_tokens / p.ranks_per_node + 1));
}

/// Carves the tables of one handle. False when table memory does not suffice.
inline bool make_handle(EpHandle& handle, const EpGroup& group, Arena& arena) {
    const regmap::GroupParameters& p = group.parameters;
    const std::size_t tokens = p.max_tokens;
    handle = EpHandle{};
    handle.tokens = arena.reserve<TokenRows>(tokens);
    handle.rows = arena.reserve<RowInfo>(tokens * std::min(p.topk, group.nodes));
    if (group.is_low_latency()) {
        handle.slots = arena.reserve<std::uint16_t>(tokens * p.topk);
        handle.entry_choices = arena.reserve<Choice>(entry_row_limit(p) * group.row_choices);
    } else {
        handle.indices = arena.reserve<std::uint32_t>(tokens * std::min(p.topk, p.ranks));
    }
    handle.experts = arena.reserve<std::int16_t>(tokens * p.topk);
    handle.weights = arena.reserve<float>(tokens * p.topk);
    handle.destination = arena.make<Destination>(p.ranks);
    handle.expert_rows = arena.make<std::uint32_t>(p.experts);
    handle.peer = arena.make<PeerState>(p.ranks);
    handle.peer_expert_rows = arena.make<std::uint32_t>(p.experts);
    handle.incoming_expert_rows = arena.make<std::uint32_t>(p.experts);
    handle.parts_placed =
        arena.reserve<std::uint8_t>(std::size_t{group.is_low_latency() ? p.experts : p.ranks} * tokens);
    handle.entry_rows = arena.reserve<EntryRow>(entry_row_limit(p));
    handle.token_accumulators = arena.reserve<std::uint16_t>(tokens * group.parts);
    handle.gather_ring = arena.make<std::uint16_t>(p.ranks + 1);
    return arena.complete();
}

/// Contributions that wait for their turn, and parts that wait for their acknowledgement, hold packet memory.
/// If they could fill it, what they wait for would find no room: tokens get three eighths, rows one eighth,
/// parts owed a quarter. False: not even one of each fits.
inline bool limit_packet_memory(EpGroup& group, std::uint64_t packet_memory_bytes) {
    const regmap::GroupParameters& p = group.parameters;
    const auto eighth = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(packet_memory_bytes / 8 / group.part_bytes, no_index / 8));
    group.token_limit = 3 * eighth;
    group.entry_limit = eighth;
    group.partial_limit = 2 * eighth;
    return group.token_limit >= group.parts * std::min(p.topk, group.nodes) &&
           group.entry_limit >= group.row_contributions();
}

/// Fills what follows from the parameters and carves all tables. limit_exceeded: table memory does not
/// suffice.
inline regmap::Status make_group(EpGroup& group, const regmap::GroupParameters& parameters,
                                 const DeviceConfig& config, std::span<std::byte> memory) {
    Arena arena(memory);
    const std::uint8_t number = group.number;
    group = EpGroup{};
    group.number = number;
    group.parameters = parameters;
    group.nodes = parameters.ranks / parameters.ranks_per_node;
    group.node = parameters.rank / parameters.ranks_per_node;
    group.local = parameters.rank % parameters.ranks_per_node;
    group.hash = parameter_hash(parameters);
    group.row_choices = std::min(parameters.topk, parameters.experts / group.nodes);
    const bool fp8 = parameters.dispatch_format == regmap::RowFormat::e4m3_f32;
    group.data_bytes = fp8 ? parameters.hidden : parameters.hidden * 2;
    group.scale_bytes = fp8 ? parameters.hidden / 128 * 4 : 0;
    group.row_bytes = group.data_bytes + group.scale_bytes;
    group.row_parts = (group.row_bytes + parameters.mtu_bytes - 1) / parameters.mtu_bytes;
    group.output_bytes = parameters.hidden * 2;
    group.part_bytes = std::min({parameters.mtu_bytes, config.accumulator_elements * 2, group.output_bytes});
    group.parts = (group.output_bytes + group.part_bytes - 1) / group.part_bytes;
    if (!limit_packet_memory(group, config.packet_memory_bytes)) return regmap::Status::limit_exceeded;
    group.qpn = arena.make<std::uint32_t>(parameters.ranks);
    group.handles = arena.make<EpHandle>(parameters.handles);
    if (group.qpn.empty() || group.handles.empty()) return regmap::Status::limit_exceeded;
    for (EpHandle& handle : group.handles) {
        if (!make_handle(handle, group, arena)) return regmap::Status::limit_exceeded;
    }
    return regmap::Status::ok;
}

}  // namespace plait::firmware
