#pragma once
// Checks of a request on a collective queue, before anything is done.

#include <algorithm>
#include <plait/firmware/ep_bias.hpp>
#include <plait/firmware/ep_state.hpp>
#include <plait/firmware/memory_table.hpp>

namespace plait::firmware {

/// A range that a request names, and what the call will do with it.
struct RangeCheck {
    const regmap::MemoryRange& range;
    std::uint64_t bytes = 0;
    std::uint32_t access = 0;  ///< 0: the device reads it.
    bool optional = false;     ///< Absent with key 0.
};

template <class Table>
regmap::Status check_ranges(const Table& memory_table, std::span<const RangeCheck> checks) {
    for (const RangeCheck& check : checks) {
        if (check.range.reserved != 0) return regmap::Status::invalid_parameter;
        if (check.optional && check.range.key == 0) continue;
        const regmap::Status status =
            memory_table.check(check.range.key, check.range.address, check.bytes, check.access);
        if (status != regmap::Status::ok) return status;
    }
    return regmap::Status::ok;
}

/// Of a dispatch: the record and its counts.
inline std::uint64_t result_bytes(const EpGroup& group) {
    const std::uint64_t counts = group.own_experts() + group.parameters.ranks +
                                 (group.is_low_latency() ? group.parameters.experts : 0);
    return sizeof(regmap::EpResult) + counts * sizeof(std::uint32_t);
}

template <class Table>
regmap::Status check_dispatch(const EpGroup& group, const EpHandle& handle, const regmap::EpRequest& request,
                              const Table& memory_table) {
    const regmap::GroupParameters& p = group.parameters;
    const std::uint64_t tokens = request.tokens;
    const std::uint64_t capacity = request.receive_capacity;
    const bool per_expert = group.is_low_latency();
    const bool cached = (request.flags & regmap::ep_request_cached) != 0;
    if (tokens > p.max_tokens) return regmap::Status::limit_exceeded;
    if (per_expert && (cached || capacity != expert_slots(group) || request.recv_topk_idx.key != 0 ||
                       request.recv_topk_weights.key != 0))
        return regmap::Status::invalid_parameter;
    if (cached && (!handle.routed || tokens != handle.token_count)) return regmap::Status::invalid_handle;
    if (cached && capacity < handle.received_rows) return regmap::Status::capacity_exceeded;
    if (bias_count(request) != 0) return regmap::Status::invalid_parameter;
    const RangeCheck checks[] = {
        {request.x, tokens * group.x.data_bytes},
        {request.x_scales, tokens * group.x.scale_bytes},
        {request.topk_idx, cached ? 0 : tokens * p.topk * sizeof(std::int64_t)},
        {request.topk_weights, cached ? 0 : tokens * p.topk * sizeof(float), 0, true},
        {request.recv_x, capacity * group.data_bytes, regmap::access_local_write},
        {request.recv_x_scales, capacity * group.scale_bytes, regmap::access_local_write},
        {request.recv_topk_idx, capacity * p.topk * sizeof(std::int64_t), regmap::access_local_write, true},
        {request.recv_topk_weights, capacity * p.topk * sizeof(float), regmap::access_local_write, true},
        {request.recv_source, capacity * sizeof(std::uint64_t), regmap::access_local_write, true},
        {request.result, result_bytes(group), regmap::access_local_write}};
    return check_ranges(memory_table, checks);
}

template <class Table>
regmap::Status check_combine(const EpGroup& group, const EpHandle& handle, const regmap::EpRequest& request,
                             const Table& memory_table) {
    if (!handle.routed) return regmap::Status::invalid_handle;
    if (request.flags != 0) return regmap::Status::invalid_parameter;
    if (!group.is_low_latency() && request.topk_weights.key != 0) return regmap::Status::invalid_parameter;
    const std::uint64_t rows = output_slots(group, handle);
    const std::uint64_t choices = std::uint64_t{handle.token_count} * group.parameters.topk;
    const std::uint64_t combined = std::uint64_t{handle.token_count} * group.output_bytes;
    const std::uint32_t token_room =
        std::min(group.parameters.topk, group.nodes) + bias_room(group, bias_count(request));
    if (group.parts * token_room > group.token_limit) return regmap::Status::limit_exceeded;
    const RangeCheck checks[] = {{request.x, rows * group.outputs.data_bytes},
                                 {request.x_scales, rows * group.outputs.scale_bytes},
                                 {request.topk_weights, choices * sizeof(float), 0, true},
                                 {request.bias[0], combined, 0, true},
                                 {request.bias[1], combined, 0, true},
                                 {request.recv_x, combined, regmap::access_local_write},
                                 {request.result, sizeof(regmap::EpResult), regmap::access_local_write}};
    return check_ranges(memory_table, checks);
}

/// Parameters of a dispatch or combine on an idle handle. Ranges are checked for the largest use that the
/// call can make of them.
template <class Table>
regmap::Status check_call(const EpGroup& group, const EpHandle& handle, const regmap::EpRequest& request,
                          const Table& memory_table) {
    for (const std::uint64_t word : request.reserved3) {
        if (word != 0) return regmap::Status::invalid_parameter;
    }
    if (request.timeout_us == 0 || (request.flags & ~regmap::ep_request_cached) != 0 ||
        request.reserved != 0 || request.reserved2 != 0) {
        return regmap::Status::invalid_parameter;
    }
    return request.opcode == regmap::EpOpcode::dispatch ? check_dispatch(group, handle, request, memory_table)
                                                        : check_combine(group, handle, request, memory_table);
}

}  // namespace plait::firmware
