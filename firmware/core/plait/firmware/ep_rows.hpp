#pragma once
// How rows lie in host memory, and how the rows of a combine are cut into parts, in every format.

#include <algorithm>
#include <plait/engines/quantise.hpp>
#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// Bytes of a row, or of a part that begins with a block, of so many elements: codes and scales.
constexpr std::uint32_t encoded_bytes(regmap::RowFormat format, std::uint32_t elements) {
    return static_cast<std::uint32_t>(engines::code_bytes(format, elements) +
                                      engines::scale_bytes(format, elements));
}

constexpr RowLayout row_layout(regmap::RowFormat format, std::uint32_t elements) {
    return {format, static_cast<std::uint32_t>(engines::code_bytes(format, elements)),
            static_cast<std::uint32_t>(engines::scale_bytes(format, elements))};
}

/// The most elements that fit into so many bytes: whole blocks, where the format has any.
constexpr std::uint32_t elements_that_fit(regmap::RowFormat format, std::uint32_t bytes) {
    if (regmap::block_scale_bytes(format) == 0) return bytes * 8 / regmap::code_bits(format);
    constexpr std::uint32_t block = regmap::scale_block_elements;
    return bytes / encoded_bytes(format, block) * block;
}

/// Cuts the rows of a combine into as few parts as can be, and even ones: a part fits a packet as a
/// contribution and as a partial row, and the room of a sum, whose quarters it fills where it can. Parts
/// begin on blocks where one of the formats has them. False: not even a block fits.
constexpr bool cut_parts(EpGroup& group, const DeviceConfig& config) {
    const regmap::GroupParameters& p = group.parameters;
    const std::uint32_t fitting =
        std::min({elements_that_fit(p.combine_format, p.mtu_bytes),
                  elements_that_fit(p.partial_format, p.mtu_bytes), config.sum_elements()});
    const bool has_blocks =
        regmap::block_scale_bytes(p.combine_format) + regmap::block_scale_bytes(p.partial_format) != 0;
    const std::uint32_t block = has_blocks ? regmap::scale_block_elements : 1;
    const std::uint32_t most = fitting / block * block;
    if (most == 0) return false;
    group.parts = (p.hidden + most - 1) / most;
    group.quarter_elements = config.quarter_elements();
    const std::uint32_t even = (p.hidden + group.parts - 1) / group.parts;
    const auto in_whole = [even](std::uint32_t unit) { return (even + unit - 1) / unit * unit; };
    const std::uint32_t in_quarters = in_whole(group.quarter_elements);
    const bool fills_quarters = in_quarters <= most && in_quarters % block == 0;
    group.part_elements = std::min(fills_quarters ? in_quarters : in_whole(block), p.hidden);
    return true;
}

/// Elements of a part of a combined row.
constexpr std::uint32_t part_length(const EpGroup& group, std::uint32_t part) {
    return std::min(group.part_elements, group.parameters.hidden - part * group.part_elements);
}

/// A part of a token's row of BF16 at its source: of the combined rows, or of a bias.
constexpr Segment combined_part(const EpGroup& group, const regmap::MemoryRange& rows, std::uint32_t token,
                                std::uint32_t part) {
    constexpr std::uint32_t element_bytes = 2;
    return {rows.address + std::uint64_t{token} * group.output_bytes +
                std::uint64_t{part} * group.part_elements * element_bytes,
            part_length(group, part) * element_bytes};
}

/// Room that the sum of a part takes, in quarters of an accumulator.
constexpr std::uint16_t part_room(const EpGroup& group, std::uint32_t part) {
    const std::uint32_t quarter = group.quarter_elements;
    return static_cast<std::uint16_t>((part_length(group, part) + quarter - 1) / quarter);
}

/// Of all parts of a row.
constexpr std::uint32_t row_room(const EpGroup& group) {
    return (group.parts - 1) * part_room(group, 0) + part_room(group, group.parts - 1);
}

/// Bytes of a part on its way back to the source.
constexpr std::uint32_t partial_bytes(const EpGroup& group, std::uint32_t part) {
    return encoded_bytes(group.parameters.partial_format, part_length(group, part));
}

/// Bytes of all parts of a row on its way back.
constexpr std::uint32_t partial_row_bytes(const EpGroup& group) {
    return (group.parts - 1) * partial_bytes(group, 0) + partial_bytes(group, group.parts - 1);
}

/// Bytes of all parts of a contribution.
constexpr std::uint32_t contribution_row_bytes(const EpGroup& group) {
    const regmap::RowFormat format = group.parameters.combine_format;
    return (group.parts - 1) * encoded_bytes(format, part_length(group, 0)) +
           encoded_bytes(format, part_length(group, group.parts - 1));
}

/// A part of row `number` of a combine's x, as combine_format has it. Its length in bytes.
constexpr std::uint32_t fill_contribution(const EpGroup& group, const regmap::EpRequest& request,
                                          std::uint64_t number, std::uint32_t part, std::uint32_t counter,
                                          Payload& payload) {
    const RowLayout& x = group.outputs;
    const RowLayout before = row_layout(x.format, part * group.part_elements);
    const RowLayout piece = row_layout(x.format, part_length(group, part));
    payload.segments[0] =
        Segment{request.x.address + number * x.data_bytes + before.data_bytes, piece.data_bytes};
    payload.segments[1] =
        Segment{request.x_scales.address + number * x.scale_bytes + before.scale_bytes, piece.scale_bytes};
    payload.segment_count = piece.scale_bytes != 0 ? 2 : 1;
    if (x.format != group.parameters.combine_format)
        payload.encoding = {group.parameters.combine_format, 0, counter};
    return encoded_bytes(group.parameters.combine_format, part_length(group, part));
}

}  // namespace plait::firmware
