#pragma once
// Structs of plait_ep.h and what the C++ interface calls the same.

#include <plait/plait.h>

#include <algorithm>
#include <limits>
#include <plait/ep.hpp>

#include "device.hpp"

namespace plait::capi {

/// What does not fit becomes the largest value, which the group's creation refuses: on every rank, as it
/// must.
template <class Narrow>
Narrow narrow(std::uint32_t value) {
    return static_cast<Narrow>(std::min<std::uint32_t>(value, std::numeric_limits<Narrow>::max()));
}

inline EpConfig config_of(const plait_ep_config& given) {
    EpConfig config;
    config.ranks_per_node = given.ranks_per_node;
    config.experts = given.experts;
    config.topk = given.topk;
    config.hidden = given.hidden;
    config.max_tokens = given.max_tokens;
    config.dispatch_format = static_cast<RowFormat>(narrow<std::uint8_t>(given.dispatch_format));
    config.entry_policy = static_cast<EntryPolicy>(narrow<std::uint8_t>(given.entry_policy));
    config.handles = given.handles;
    config.mtu_bytes = narrow<std::uint16_t>(given.mtu_bytes);
    config.window_packets = narrow<std::uint16_t>(given.window_packets);
    config.entropy_values = narrow<std::uint16_t>(given.entropy_values);
    config.spray_policy = static_cast<SprayPolicy>(narrow<std::uint8_t>(given.spray_policy));
    config.bootstrap_timeout_ns = given.bootstrap_timeout_ns;
    config.mode = static_cast<EpMode>(narrow<std::uint8_t>(given.mode));
    config.combine_format = static_cast<RowFormat>(narrow<std::uint8_t>(given.combine_format));
    config.partial_format = static_cast<RowFormat>(narrow<std::uint8_t>(given.partial_format));
    config.encode_dispatch = given.encode_dispatch != 0;
    config.encode_combine = given.encode_combine != 0;
    return config;
}

inline DispatchArguments arguments_of(const plait_ep_dispatch_args& given, const plait_ep_routing& routing) {
    DispatchArguments arguments;
    arguments.tokens = routing.tokens;
    arguments.receive_capacity = given.receive_capacity;
    arguments.timeout_us = given.timeout_us;
    arguments.x = view_of(given.x);
    arguments.x_scales = view_of(given.x_scales);
    arguments.topk_idx = view_of(routing.topk_idx);
    arguments.topk_weights = view_of(routing.topk_weights);
    arguments.recv_x = view_of(given.recv_x);
    arguments.recv_x_scales = view_of(given.recv_x_scales);
    arguments.recv_topk_idx = view_of(given.recv_topk_idx);
    arguments.recv_topk_weights = view_of(given.recv_topk_weights);
    arguments.recv_source = view_of(given.recv_source);
    arguments.expert_alignment = given.expert_alignment;
    arguments.mark_empty_rows = given.mark_empty_rows != 0;
    return arguments;
}

inline plait_rank_mask mask_of(const RankMask& ranks) {
    plait_rank_mask mask{};
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
        if (ranks[rank]) mask.bits[rank / 64] |= std::uint64_t{1} << (rank % 64);
    return mask;
}

/// The arrays stay those of `completion`.
inline plait_ep_completion completion_of(const EpCompletion& completion) {
    const auto array = [](const std::vector<std::uint32_t>& counts) {
        return counts.empty() ? nullptr : counts.data();
    };
    plait_ep_completion given = PLAIT_EP_COMPLETION_INIT;
    given.status = static_cast<plait_status>(completion.status);
    given.received_rows = completion.received_rows;
    given.missing_rows = completion.missing_rows;
    given.local_experts = static_cast<std::uint32_t>(completion.rows_per_local_expert.size());
    given.rows_per_local_expert = array(completion.rows_per_local_expert);
    given.aligned_rows_per_local_expert = array(completion.aligned_rows_per_local_expert);
    given.rows_per_source = array(completion.rows_per_source);
    given.ranks = static_cast<std::uint32_t>(completion.rows_per_source.size());
    given.non_finite = completion.non_finite;
    given.failed_ranks = mask_of(completion.failed_ranks);
    given.rows_per_source_and_expert = array(completion.rows_per_source_and_expert);
    return given;
}

}  // namespace plait::capi
