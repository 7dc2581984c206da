#pragma once
// Creation of EP groups: the limits, and the tables carved from the group's table memory.

#include <algorithm>
#include <plait/firmware/arena.hpp>
#include <plait/firmware/ep_rows.hpp>
#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// FNV-1a over the words that all ranks must agree on.
inline std::uint32_t parameter_hash(const regmap::GroupParameters& p) {
    std::uint32_t hash = 2166136261U;
    for (const std::uint32_t word :
         {p.ranks, p.ranks_per_node, p.experts, p.topk, p.hidden, p.max_tokens, p.handles, p.first_device,
          p.mtu_bytes, static_cast<std::uint32_t>(p.dispatch_format),
          static_cast<std::uint32_t>(p.combine_format), static_cast<std::uint32_t>(p.partial_format),
          static_cast<std::uint32_t>(p.entry_policy), static_cast<std::uint32_t>(p.mode), p.flags}) {
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

/// A format that BF16 can be encoded as.
constexpr bool is_encoded(regmap::RowFormat format) {
    return format != regmap::RowFormat::bf16 && format != regmap::RowFormat::f32;
}

/// Known formats, each where it makes sense: f32 is one of sums and their contributions, and what is to be
/// encoded is not BF16 afterwards.
constexpr bool check_formats(const regmap::GroupParameters& p) {
    const bool known = is_known(p.dispatch_format) && is_known(p.combine_format) &&
                       is_known(p.partial_format) && p.dispatch_format != regmap::RowFormat::f32;
    const bool encodes_dispatch = (p.flags & regmap::group_encode_dispatch) != 0;
    const bool encodes_combine = (p.flags & regmap::group_encode_combine) != 0;
    return known && (!encodes_dispatch || is_encoded(p.dispatch_format)) &&
           (!encodes_combine || is_encoded(p.combine_format)) &&
           (p.flags & ~(regmap::group_encode_dispatch | regmap::group_encode_combine)) == 0;
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
    if (p.hidden < regmap::min_hidden || p.hidden % 64 != 0 || !check_formats(p) ||
        !is_known(p.entry_policy) || !is_known(p.mode))
        return Status::invalid_parameter;
    if (p.first_device + p.rank != config.device_number) return Status::invalid_parameter;
    EpGroup group;
    group.parameters = p;
    // A row takes a quarter of the accumulators and of their room at most.
    if (!cut_parts(group, config) || group.parts > regmap::max_row_parts ||
        group.parts > config.accumulators / 4 || row_room(group) > config.accumulators)
        return Status::limit_exceeded;
    for (const std::uint32_t word : p.reserved) {
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
    handle.rows_to = arena.make<NodeRows>(group.nodes);
    handle.expert_rows = arena.make<std::uint32_t>(p.experts);
    handle.peer = arena.make<PeerState>(p.ranks);
    handle.peer_expert_rows = arena.make<std::uint32_t>(p.experts);
    handle.incoming_expert_rows = arena.make<std::uint32_t>(p.experts);
    handle.parts_placed =
        arena.reserve<std::uint8_t>(std::size_t{group.is_low_latency() ? p.experts : p.ranks} * tokens);
    handle.entry_rows = arena.reserve<EntryRow>(entry_row_limit(p));
    handle.token_sums = arena.reserve<std::uint32_t>(tokens * group.parts);
    handle.early_rows =
        arena.make<BufferId>(std::size_t{early_tokens} * std::min(p.topk, group.nodes) * group.parts);
    handle.gather_ring = arena.make<std::uint16_t>(p.ranks + 1);
    return arena.complete();
}

/// Contributions that wait for their turn, and parts that wait for their acknowledgement, hold packet memory.
/// If they could fill it, what they wait for would find no room: tokens get three eighths, rows one eighth,
/// parts owed a quarter. The parts have been cut. False: not even one of each fits.
inline bool limit_packet_memory(EpGroup& group, std::uint64_t packet_memory_bytes) {
    const regmap::GroupParameters& p = group.parameters;
    const auto in_an_eighth = [&](regmap::RowFormat format) {
        const std::uint64_t rows = packet_memory_bytes / 8 / encoded_bytes(format, group.part_elements);
        return static_cast<std::uint32_t>(std::min<std::uint64_t>(rows, no_index / 8));
    };
    group.token_limit = 3 * in_an_eighth(p.partial_format);
    group.entry_limit = in_an_eighth(p.combine_format);
    group.partial_limit = 2 * in_an_eighth(p.partial_format);
    return group.token_limit >= group.parts * std::min(p.topk, group.nodes) &&
           group.entry_limit >= group.row_contributions();
}

/// How the rows of the group's calls lie, from its parameters.
constexpr void set_rows(EpGroup& group) {
    const regmap::GroupParameters& p = group.parameters;
    const RowLayout bf16 = row_layout(regmap::RowFormat::bf16, p.hidden);
    const RowLayout row = row_layout(p.dispatch_format, p.hidden);
    group.data_bytes = row.data_bytes;
    group.scale_bytes = row.scale_bytes;
    group.row_bytes = row.data_bytes + row.scale_bytes;
    group.row_parts = (group.row_bytes + p.mtu_bytes - 1) / p.mtu_bytes;
    group.x = (p.flags & regmap::group_encode_dispatch) != 0 ? bf16 : row;
    group.outputs =
        (p.flags & regmap::group_encode_combine) != 0 ? bf16 : row_layout(p.combine_format, p.hidden);
    group.output_bytes = bf16.data_bytes;
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
    set_rows(group);
    if (!cut_parts(group, config)) return regmap::Status::limit_exceeded;
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
