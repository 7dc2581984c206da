#include "ep_config.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "ep_limits.hpp"

namespace plait {
namespace {

Error invalid(std::string message) { return {Status::invalid_parameter, std::move(message)}; }

constexpr const char* encoded_formats = "e4m3_f32, e4m3_ue8m0, e5m2_f32, e5m2_ue8m0, logfmt8 or logfmt10";

Result<void> check_known(const char* field, RowFormat format) {
    if (is_known(format)) return {};
    return invalid(std::string(field) + " is " + std::to_string(static_cast<unsigned>(format)) +
                   ", expected bf16, f32, " + encoded_formats);
}

/// What is to be encoded must not be BF16 afterwards.
Result<void> check_encoded(const char* flag, bool is_set, const char* field, RowFormat format) {
    if (!is_set || (format != RowFormat::bf16 && format != RowFormat::f32)) return {};
    return invalid(std::string(flag) + " is set, but " + field + " is " + name(format) + ", expected " +
                   encoded_formats);
}

Result<void> check_formats(const EpConfig& config) {
    if (auto checked = check_known("dispatch_format", config.dispatch_format); !checked) return checked;
    if (auto checked = check_known("combine_format", config.combine_format); !checked) return checked;
    if (auto checked = check_known("partial_format", config.partial_format); !checked) return checked;
    if (config.dispatch_format == RowFormat::f32)
        return invalid(std::string("dispatch_format is f32, expected bf16, ") + encoded_formats);
    if (auto checked = check_encoded("encode_dispatch", config.encode_dispatch, "dispatch_format",
                                     config.dispatch_format);
        !checked)
        return checked;
    return check_encoded("encode_combine", config.encode_combine, "combine_format", config.combine_format);
}

Result<void> check_rows(const EpConfig& config) {
    if (auto checked = check_formats(config); !checked) return checked;
    if (!is_known(config.entry_policy))
        return invalid("entry_policy is " + std::to_string(static_cast<unsigned>(config.entry_policy)) +
                       ", expected same_index, spread, target or balanced");
    if (!is_known(config.mode))
        return invalid("mode is " + std::to_string(static_cast<unsigned>(config.mode)) +
                       ", expected normal or low_latency");
    if (auto checked = check_range("hidden", config.hidden, regmap::min_hidden, regmap::max_hidden); !checked)
        return checked;
    return check_multiple("hidden", config.hidden, "64 elements", 64);
}

/// The most elements that fit into so many bytes: whole blocks, where the format has any.
std::uint64_t elements_that_fit(RowFormat format, std::uint64_t bytes) {
    if (block_scale_bytes(format) == 0) return bytes * 8 / code_bits(format);
    constexpr std::uint32_t block = regmap::scale_block_elements;
    return bytes / (code_bytes(format, block) + block_scale_bytes(format)) * block;
}

/// A row of a combine goes in parts that fit a packet in both formats and begin on blocks where there are
/// any.
Result<void> check_parts(const EpConfig& config) {
    std::uint64_t part = std::min(elements_that_fit(config.combine_format, config.mtu_bytes),
                                  elements_that_fit(config.partial_format, config.mtu_bytes));
    if (block_scale_bytes(config.combine_format) + block_scale_bytes(config.partial_format) != 0)
        part -= part % regmap::scale_block_elements;
    if (part != 0 && (config.hidden + part - 1) / part <= regmap::max_row_parts) return {};
    return invalid("mtu_bytes is " + std::to_string(config.mtu_bytes) + ": a row of " +
                   std::to_string(config.hidden) + " elements, contributions " + name(config.combine_format) +
                   " and partial rows " + name(config.partial_format) + ", takes parts of " +
                   std::to_string(part) + " elements, expected at most " +
                   std::to_string(regmap::max_row_parts) + " parts");
}

RowFormat x_format(const EpConfig& config) {
    return config.encode_dispatch ? RowFormat::bf16 : config.dispatch_format;
}

RowFormat outputs_format(const EpConfig& config) {
    return config.encode_combine ? RowFormat::bf16 : config.combine_format;
}

Result<void> check_pairs(const EpConfig& config) {
    if (auto checked =
            check_range("mtu_bytes", config.mtu_bytes, regmap::min_mtu_bytes, regmap::max_mtu_bytes);
        !checked)
        return checked;
    if (!std::has_single_bit(config.mtu_bytes))
        return invalid("mtu_bytes is " + std::to_string(config.mtu_bytes) + ", expected a power of two");
    if (auto checked = check_range("window_packets", config.window_packets, regmap::min_window_packets,
                                   regmap::max_window_packets);
        !checked)
        return checked;
    if (!std::has_single_bit(config.window_packets))
        return invalid("window_packets is " + std::to_string(config.window_packets) +
                       ", expected 64, 128, 256 or 512");
    if (!is_known(config.spray_policy))
        return invalid("spray_policy is " + std::to_string(static_cast<unsigned>(config.spray_policy)) +
                       ", expected spray, round_robin or single_path");
    return check_range("entropy_values", config.entropy_values, 1, regmap::max_entropy_values);
}

/// One buffer of a call: what it is called, what was given, where it goes, what it must hold.
struct BufferRule {
    const char* name;
    const BufferView& view;
    regmap::MemoryRange& range;
    std::uint64_t rows;
    std::uint64_t bytes_a_row;
    bool optional;
};

/// Fills in the request's ranges. Buffers of no rows may be absent; so may optional ones.
Result<void> place_buffers(std::span<const BufferRule> rules) {
    for (const BufferRule& rule : rules) {
        if (rule.bytes_a_row == 0 && !rule.view.empty())
            return invalid(std::string(rule.name) + " is given, but its rows have no scales");
        const std::uint64_t needed = rule.rows * rule.bytes_a_row;  // at most 2^32 rows of 2^15 bytes
        if (rule.view.empty() && (rule.optional || needed == 0)) continue;
        if (rule.view.length_bytes < needed)
            return Error{Status::invalid_length, std::string(rule.name) + " has " +
                                                     std::to_string(rule.view.length_bytes) +
                                                     " bytes, expected " + std::to_string(needed) + " for " +
                                                     std::to_string(rule.rows) + " rows"};
        if (rule.view.key == 0) return Error{Status::invalid_key, std::string(rule.name) + " has no key"};
        if (rule.view.length_bytes - 1 > std::numeric_limits<std::uint64_t>::max() - rule.view.device_address)
            return Error{Status::out_of_range, std::string(rule.name) + " leaves the address space"};
        rule.range = {.address = rule.view.device_address, .key = rule.view.key, .reserved = 0};
    }
    return {};
}

/// What a low-latency dispatch does not have.
Result<void> check_expert_major(const DispatchArguments& arguments, bool cached) {
    if (cached) return invalid("cached is given, low latency has no cached dispatch");
    if (!arguments.recv_topk_idx.empty() || !arguments.recv_topk_weights.empty() || arguments.mark_empty_rows)
        return invalid(
            "recv_topk_idx, recv_topk_weights or mark_empty_rows is given, low latency has no such "
            "output");
    return {};
}

Result<void> check_timeout(std::uint32_t timeout_us) {
    if (timeout_us != 0) return {};
    return invalid("timeout_us is 0, expected a limit above 0");
}

}  // namespace

Result<void> check_config(const EpConfig& config, std::uint32_t ranks) {
    if (auto checked = check_topology(ranks, config.ranks_per_node, config.experts, config.topk); !checked)
        return checked;
    if (config.topk > config.experts)
        return invalid("topk is " + std::to_string(config.topk) + ", expected at most the experts (" +
                       std::to_string(config.experts) + ")");
    if (auto checked = check_rows(config); !checked) return checked;
    if (auto checked = check_range("max_tokens", config.max_tokens, 1, regmap::max_tokens_per_rank); !checked)
        return checked;
    if (auto checked = check_range("handles", config.handles, 1, regmap::max_handles); !checked)
        return checked;
    if (auto checked = check_pairs(config); !checked) return checked;
    if (auto checked = check_parts(config); !checked) return checked;
    const std::uint32_t counts_bytes = std::min<std::uint32_t>(config.mtu_bytes, regmap::max_control_bytes);
    return check_range("experts of a rank", config.experts / ranks, 1,
                       (counts_bytes - regmap::counts_fixed_bytes) / regmap::counts_expert_bytes);
}

Result<void> check_device(const EpConfig& config, std::uint32_t ranks, const DeviceInfo& device) {
    const std::uint32_t pairs = ranks - config.ranks_per_node;
    if (pairs > device.max_qps)
        return Error{Status::limit_exceeded, "the group needs " + std::to_string(pairs) +
                                                 " queue pairs, the device has room for " +
                                                 std::to_string(device.max_qps)};
    return check_multiple("entropy_values", config.entropy_values, "the planes", std::max(device.planes, 1U));
}

regmap::GroupParameters group_parameters(const EpConfig& config, std::uint32_t rank, std::uint32_t ranks,
                                         std::uint32_t first_device) {
    regmap::GroupParameters parameters;
    parameters.rank = rank;
    parameters.ranks = ranks;
    parameters.ranks_per_node = config.ranks_per_node;
    parameters.experts = config.experts;
    parameters.topk = config.topk;
    parameters.hidden = config.hidden;
    parameters.max_tokens = config.max_tokens;
    parameters.dispatch_format = config.dispatch_format;
    parameters.combine_format = config.combine_format;
    parameters.entry_policy = config.entry_policy;
    parameters.mode = config.mode;
    parameters.partial_format = config.partial_format;
    parameters.flags = (config.encode_dispatch ? regmap::group_encode_dispatch : 0) |
                       (config.encode_combine ? regmap::group_encode_combine : 0);
    parameters.handles = config.handles;
    parameters.first_device = first_device;
    parameters.mtu_bytes = config.mtu_bytes;
    return parameters;
}

std::uint64_t expert_slots(const EpConfig& config) {
    return std::uint64_t{config.experts} * config.max_tokens;
}

Result<regmap::EpRequest> dispatch_request(const EpConfig& config, const DispatchArguments& arguments,
                                           std::optional<std::uint32_t> cached_tokens) {
    if (auto checked = check_timeout(arguments.timeout_us); !checked) return checked.error();
    if (auto checked = check_range("tokens", arguments.tokens, 0, config.max_tokens); !checked)
        return checked.error();
    if (cached_tokens && *cached_tokens != arguments.tokens)
        return invalid("tokens is " + std::to_string(arguments.tokens) + ", the cached handle has " +
                       std::to_string(*cached_tokens));
    if (arguments.tokens != 0 && arguments.topk_weights.empty() && !arguments.recv_topk_weights.empty())
        return invalid("recv_topk_weights is given, but topk_weights is not");
    if (auto checked = check_range("expert_alignment", arguments.expert_alignment, 1, max_expert_alignment);
        !checked)
        return checked.error();
    const bool expert_major = config.mode == EpMode::low_latency;
    if (expert_major) {
        if (auto checked = check_expert_major(arguments, cached_tokens.has_value()); !checked)
            return checked.error();
    }
    if (arguments.mark_empty_rows && arguments.receive_capacity != 0 &&
        (arguments.recv_topk_idx.empty() || arguments.recv_topk_idx.host == nullptr))
        return invalid("mark_empty_rows is set, but the host does not reach recv_topk_idx");

    regmap::EpRequest request;
    request.opcode = regmap::EpOpcode::dispatch;
    request.flags = cached_tokens ? regmap::ep_request_cached : 0;
    request.tokens = arguments.tokens;
    request.timeout_us = arguments.timeout_us;
    const std::uint64_t capacity = expert_major ? expert_slots(config) : arguments.receive_capacity;
    request.receive_capacity = static_cast<std::uint32_t>(capacity);  // at most 2^10 experts, 2^14 tokens
    const DispatchArguments& a = arguments;
    const BufferView none;
    const BufferView& topk_idx = cached_tokens ? none : a.topk_idx;
    const std::uint64_t tokens = a.tokens;
    const std::uint32_t hidden = config.hidden;
    const std::uint64_t ids = config.topk * sizeof(std::int64_t);
    const std::uint64_t weights = config.topk * sizeof(float);
    const std::array rules = {
        BufferRule{"x", a.x, request.x, tokens, code_bytes(x_format(config), hidden), false},
        BufferRule{"x_scales", a.x_scales, request.x_scales, tokens, scale_bytes(x_format(config), hidden),
                   false},
        BufferRule{"topk_idx", topk_idx, request.topk_idx, tokens, ids, cached_tokens.has_value()},
        BufferRule{"topk_weights", a.topk_weights, request.topk_weights, tokens, weights, true},
        BufferRule{"recv_x", a.recv_x, request.recv_x, capacity, code_bytes(config.dispatch_format, hidden),
                   false},
        BufferRule{"recv_x_scales", a.recv_x_scales, request.recv_x_scales, capacity,
                   scale_bytes(config.dispatch_format, hidden), false},
        BufferRule{"recv_topk_idx", a.recv_topk_idx, request.recv_topk_idx, capacity, ids, true},
        BufferRule{"recv_topk_weights", a.recv_topk_weights, request.recv_topk_weights, capacity, weights,
                   true},
        BufferRule{"recv_source", a.recv_source, request.recv_source, capacity, sizeof(std::uint64_t), true},
    };
    if (auto placed = place_buffers(rules); !placed) return placed.error();
    return request;
}

Result<regmap::EpRequest> combine_request(const EpConfig& config, const CombineArguments& arguments,
                                          std::uint32_t tokens, std::uint32_t received_rows) {
    if (auto checked = check_timeout(arguments.timeout_us); !checked) return checked.error();
    regmap::EpRequest request;
    request.opcode = regmap::EpOpcode::combine;
    request.timeout_us = arguments.timeout_us;
    const RowFormat x = outputs_format(config);
    const bool expert_major = config.mode == EpMode::low_latency;
    const std::uint64_t rows = expert_major ? expert_slots(config) : received_rows;
    if (!expert_major && !arguments.topk_weights.empty())
        return invalid("topk_weights is given, only a low-latency combine is weighted");
    const std::uint64_t combined = code_bytes(RowFormat::bf16, config.hidden);
    const std::array rules = {
        BufferRule{"x", arguments.x, request.x, rows, code_bytes(x, config.hidden), false},
        BufferRule{"x_scales", arguments.x_scales, request.x_scales, rows, scale_bytes(x, config.hidden),
                   false},
        BufferRule{"topk_weights", arguments.topk_weights, request.topk_weights, tokens,
                   config.topk * sizeof(float), true},
        BufferRule{"combined_x", arguments.combined_x, request.recv_x, tokens, combined, false},
        BufferRule{"bias[0]", arguments.bias[0], request.bias[0], tokens, combined, true},
        BufferRule{"bias[1]", arguments.bias[1], request.bias[1], tokens, combined, true},
    };
    if (auto placed = place_buffers(rules); !placed) return placed.error();
    return request;
}

}  // namespace plait
