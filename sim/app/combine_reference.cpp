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

// The first term is taken, not added to zero. A weight of 1 changes nothing.
PLAIT_ROW_LOOP void add(Sums& sums, const Row& row, float weight, uint32_t count, bool is_first) {
    if (is_first) {
        for (uint32_t i = 0; i < count; ++i) sums[i] = weight * bf16_to_float(row[i]);
    } else {
        for (uint32_t i = 0; i < count; ++i) sums[i] += weight * bf16_to_float(row[i]);
    }
}

PLAIT_ROW_LOOP void round(const Sums& sums, uint16_t* row, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) row[i] = round_to_bf16(sums[i]);
}

}  // namespace

std::vector<CombineReference::Term> CombineReference::terms_of(uint32_t rank, uint32_t token) const {
    const auto experts = routing_.experts_of(rank, token);
    const auto weights = routing_.weights_of(rank, token);
    std::vector<Term> terms;
    if (mode_ == regmap::EpMode::normal) {
        for (const uint32_t target : target_ranks(shape_, experts))
            terms.push_back({shape_.node_of(target), target, 1.0F});
        return terms;
    }
    for (const uint32_t expert : distinct_experts(experts)) {
        float weight = 0;
        for (size_t k = 0; k < experts.size(); ++k)
            if (experts[k] == static_cast<int16_t>(expert)) weight += weights[k];
        terms.push_back({shape_.node_of(shape_.rank_of(expert)), expert, weight});
    }
    std::stable_sort(terms.begin(), terms.end(),
                     [](const Term& a, const Term& b) { return a.node < b.node; });
    return terms;
}

void CombineReference::fill_row(uint32_t rank, uint32_t token, std::span<uint16_t> part,
                                uint32_t offset) const {
    fill_sum(rank, token, terms_of(rank, token), part, offset);
}

void CombineReference::fill_sum(uint32_t rank, uint32_t token, std::span<const Term> terms,
                                std::span<uint16_t> part, uint32_t offset) const {
    if (terms.empty()) std::fill(part.begin(), part.end(), uint16_t{0});
    Sums node_sum, sum;
    Row row;
    for (uint32_t done = 0; done < part.size() && !terms.empty(); done += tile) {
        const uint32_t count = std::min(tile, static_cast<uint32_t>(part.size()) - done);
        for (size_t i = 0; i < terms.size(); ++i) {
            const uint32_t node = terms[i].node;
            const bool opens_node = i == 0 || terms[i - 1].node != node;
            const bool closes_node = i + 1 == terms.size() || terms[i + 1].node != node;
            activations_.fill_expert_output(rank, token, terms[i].serving, std::span(row).first(count),
                                            offset + done);
            add(node_sum, row, terms[i].weight, count, opens_node);
            if (!closes_node) continue;
            round(node_sum, row.data(), count);
            add(sum, row, 1.0F, count, node == terms.front().node);
        }
        round(sum, part.data() + done, count);
    }
}

}  // namespace plait::sim
