#pragma once
// Groups that contract tests run on: how they lie on a mesh, and their rows.

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "ep_reference.hpp"

namespace plait::mesh_test {

struct Shape {
    const char* name;
    std::uint32_t nodes;
    std::uint32_t ranks_per_node;
    EntryPolicy policy;
    RowFormat format;
    std::uint32_t mtu_bytes;
    std::uint32_t hidden = 256;
    RowFormat combine_format = RowFormat::bf16;
    RowFormat partial_format = RowFormat::bf16;
    std::uint32_t flags = 0;  ///< Of GroupParameters.
};

inline std::ostream& operator<<(std::ostream& stream, const Shape& shape) { return stream << shape.name; }

inline MeshOptions mesh_of(const Shape& shape, std::uint64_t seed) {
    return {.nodes = shape.nodes,
            .ranks_per_node = shape.ranks_per_node,
            .jitter_ns = 3000,
            .mtu_bytes = shape.mtu_bytes,
            .seed = seed};
}

inline std::string name_of_shape(const ::testing::TestParamInfo<Shape>& shape) { return shape.param.name; }

}  // namespace plait::mesh_test
