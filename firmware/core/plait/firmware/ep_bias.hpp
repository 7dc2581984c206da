#pragma once
// Bias of a combine: rows of the source's own memory that are the first terms of its tokens' sums.

#include <cstddef>
#include <plait/firmware/ep_rows.hpp>
#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// How many biases a request has. Their rows take the first positions of a token's sum.
constexpr std::uint32_t bias_count(const regmap::EpRequest& request) {
    std::uint32_t count = 0;
    for (const regmap::MemoryRange& range : request.bias) count += range.key != 0 ? 1 : 0;
    return count;
}

/// As many partial rows take the room in packet memory that the biases of a part take.
constexpr std::uint32_t bias_room(const EpGroup& group, std::uint32_t biases) {
    const std::uint32_t partial = encoded_bytes(group.parameters.partial_format, group.part_elements);
    return biases * ((2 * group.part_elements + partial - 1) / partial);
}

/// Reads a token's share of every bias into the sum of one of its parts.
template <class Hal>
void read_biases(Hal& hal, const EpGroup& group, const regmap::EpRequest& request, std::uint32_t sum,
                 std::uint32_t token, std::uint32_t part) {
    std::uint8_t position = 0;
    for (const regmap::MemoryRange& range : request.bias) {
        if (range.key == 0) continue;
        hal.reduce_read(sum, position++, combined_part(group, range, token, part));
    }
}

}  // namespace plait::firmware
