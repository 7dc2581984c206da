#include <plait/sim/app/activations.hpp>

#include <algorithm>
#include <array>

#include <plait/engines/instruction_sets.hpp>
#include <plait/sim/app/ep_reference.hpp>

namespace plait::sim {
namespace {

constexpr uint32_t tile = 512;  // elements that are added up at a time, so that they stay in the first cache
using Sums = std::array<float, tile>;
using Row = std::array<uint16_t, tile>;

// The first term is taken, not added to zero.
PLAIT_ROW_LOOP void add(Sums& sums, const Row& row, uint32_t count, bool is_first) {
    if (is_first) {
        for (uint32_t i = 0; i < count; ++i) sums[i] = bf16_to_float(row[i]);
    } else {
        for (uint32_t i = 0; i < count; ++i) sums[i] += bf16_to_float(row[i]);
    }
}

PLAIT_ROW_LOOP void round(const Sums& sums, uint16_t* row, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) row[i] = round_to_bf16(sums[i]);
}

}  // namespace

void CombineReference::fill_row(uint32_t rank, uint32_t token, std::span<uint16_t> part,
                                uint32_t offset) const {
    fill_sum(rank, token, target_ranks(shape_, routing_.experts_of(rank, token)), part, offset);
}

void CombineReference::fill_sum(uint32_t rank, uint32_t token, std::span<const uint32_t> targets,
                                std::span<uint16_t> part, uint32_t offset) const {
    if (targets.empty()) std::fill(part.begin(), part.end(), uint16_t{0});
    Sums node_sum, sum;
    Row row;
    for (uint32_t done = 0; done < part.size() && !targets.empty(); done += tile) {
        const uint32_t count = std::min(tile, static_cast<uint32_t>(part.size()) - done);
        for (size_t i = 0; i < targets.size(); ++i) {
            const uint32_t node = shape_.node_of(targets[i]);
            const bool opens_node = i == 0 || shape_.node_of(targets[i - 1]) != node;
            const bool closes_node = i + 1 == targets.size() || shape_.node_of(targets[i + 1]) != node;
            activations_.fill_expert_output(rank, token, targets[i], std::span(row).first(count),
                                            offset + done);
            add(node_sum, row, count, opens_node);
            if (!closes_node) continue;
            round(node_sum, row.data(), count);
            add(sum, row, count, node == shape_.node_of(targets.front()));
        }
        round(sum, part.data() + done, count);
    }
}

}  // namespace plait::sim
