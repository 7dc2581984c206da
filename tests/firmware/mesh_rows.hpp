#pragma once
// What the test HAL does with rows: encodes them as they are read, adds them up, encodes the sum.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <plait/engines/quantise.hpp>
#include <plait/engines/reduce.hpp>
#include <plait/firmware/commands.hpp>
#include <span>
#include <vector>

namespace plait::mesh_test {

using namespace firmware;
using regmap::RowFormat;

/// A row in some format: codes, then scales.
inline engines::EncodedRow as_row(RowFormat format, std::size_t elements, std::span<const std::uint8_t> row) {
    const std::size_t codes = engines::code_bytes(format, elements);
    return {format, std::as_bytes(row.first(codes)), std::as_bytes(row.subspan(codes))};
}

/// Takes or adds weight times the row.
inline bool add_row(const engines::EncodedRow& row, float weight, bool is_first, std::span<float> sum) {
    return is_first ? engines::decode_row_weighted(row, weight, sum)
                    : engines::accumulate_row_weighted(row, weight, sum);
}

/// `Element` is std::uint16_t (BF16) or float.
template <class Element>
std::vector<std::uint8_t> encode(RowFormat format, const std::vector<Element>& values,
                                 std::uint32_t& non_finite) {
    const std::size_t codes = engines::code_bytes(format, values.size());
    std::vector<std::uint8_t> row(codes + engines::scale_bytes(format, values.size()));
    const std::span bytes = std::as_writable_bytes(std::span(row));
    const auto spoilt = engines::encode_row(format, std::span<const Element>(values), bytes.first(codes),
                                            bytes.subspan(codes));
    EXPECT_TRUE(spoilt);
    non_finite += spoilt.value_or(0);
    return row;
}

/// The wanted bytes of a BF16 row that is encoded on its way.
inline std::vector<std::uint8_t> encode_payload(const RowEncoding& encoding,
                                                const std::vector<std::uint16_t>& row, std::size_t length,
                                                std::uint32_t& non_finite) {
    const engines::ElementRange range =
        engines::elements_behind(encoding.format, row.size(), encoding.offset, length);
    std::vector<std::uint8_t> data(length);
    const auto spoilt = engines::encode_bytes(encoding.format, row.size(), encoding.offset,
                                              std::span(row).subspan(range.first, range.last - range.first),
                                              std::as_writable_bytes(std::span(data)));
    EXPECT_TRUE(spoilt) << "bytes outside the encoded row";
    non_finite += spoilt.value_or(0);
    return data;
}

/// A sum in the making.
struct MeshSum {
    engines::ReduceSlot slot;
    Reduction reduction;
    std::vector<float> values;
    std::vector<float> weights;        ///< By position; empty: not weighted.
    std::uint32_t bf16_positions = 0;  ///< A bit each: whose row is BF16 whatever the reduction says.
    bool open = false;
    bool first = true;
    std::uint32_t name = 0;
    std::uint64_t generation = 0;
    BufferId result = 0;

    void start(std::uint32_t new_name, const Reduction& wanted) {
        ASSERT_FALSE(open);
        open = first = true;
        name = new_name;
        ++generation;
        reduction = wanted;
        values.assign(wanted.elements, 0.0F);
        weights.clear();
        bf16_positions = 0;
        ASSERT_TRUE(slot.reset(std::max<std::uint32_t>(wanted.contributions, 1)));
    }

    [[nodiscard]] RowFormat format_at(std::uint32_t position) const {
        return (bf16_positions >> position & 1) != 0 ? RowFormat::bf16 : reduction.from;
    }

    /// Adds a row, whose position has come.
    void add(std::uint32_t position, std::span<const std::uint8_t> row) {
        const float weight = weights.empty() ? 1.0F : weights[position];
        ASSERT_TRUE(add_row(as_row(format_at(position), values.size(), row), weight, first, values));
        first = false;
    }
};

}  // namespace plait::mesh_test
