#include <plait/sim/app/combine_reference.hpp>

#include <algorithm>
#include <array>

#include <plait/engines/instruction_sets.hpp>
#include <plait/sim/app/ep_reference.hpp>
#include <plait/sim/app/row_reference.hpp>

namespace plait::sim {
namespace {

constexpr uint32_t tile = 512;  // elements that are added up at a time, so that they stay in the first cache
using Sums = std::array<float, tile>;
using Row = std::array<uint16_t, tile>;

float value_of(uint16_t element) { return bf16_to_float(element); }
float value_of(float element) { return element; }

// The first term is taken, not added to zero. A weight of 1 changes nothing.
template <class Element>
PLAIT_ROW_LOOP void add(Sums& sums, const std::array<Element, tile>& row, float weight, uint32_t count,
                        bool is_first) {
    if (is_first) {
        for (uint32_t i = 0; i < count; ++i) sums[i] = weight * value_of(row[i]);
    } else {
        for (uint32_t i = 0; i < count; ++i) sums[i] += weight * value_of(row[i]);
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
    terms.reserve(experts.size());
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
    const bool is_empty = terms.empty() && biases_ == 0;
    if (is_empty) std::fill(part.begin(), part.end(), uint16_t{0});
    Sums node_sum, sum, values;
    Row row;
    // BF16 is not taken to FP32 and back, since nearly every run has it.
    const auto add_contribution = [&](const Term& term, uint32_t at, uint32_t count, bool is_first) {
        const RowName name = activations_.expert_output(rank, token, term.serving);
        if (contributions_.format() == regmap::RowFormat::bf16) {
            activations_.fill(name, std::span(row).first(count), at);
            add(node_sum, row, term.weight, count, is_first);
        } else {
            contributions_.fill_values(name, std::span(values).first(count), at);
            add(node_sum, values, term.weight, count, is_first);
        }
    };
    const auto add_partial = [&](uint32_t count, bool is_first) {
        if (partial_format_ == regmap::RowFormat::bf16) {
            round(node_sum, row.data(), count);
            add(sum, row, 1.0F, count, is_first);
        } else {
            for (uint32_t at = 0; at < count; at += Activations::block)
                send_block(partial_format_,
                           std::span(node_sum).subspan(at, std::min(Activations::block, count - at)));
            add(sum, node_sum, 1.0F, count, is_first);
        }
    };
    for (uint32_t done = 0; done < part.size() && !is_empty; done += tile) {
        const uint32_t count = std::min(tile, static_cast<uint32_t>(part.size()) - done);
        for (uint32_t bias = 0; bias < biases_; ++bias) {
            activations_.fill(activations_.bias(rank, token, bias), std::span(row).first(count),
                              offset + done);
            add(sum, row, 1.0F, count, bias == 0);
        }
        for (size_t i = 0; i < terms.size(); ++i) {
            const uint32_t node = terms[i].node;
            const bool opens_node = i == 0 || terms[i - 1].node != node;
            const bool closes_node = i + 1 == terms.size() || terms[i + 1].node != node;
            add_contribution(terms[i], offset + done, count, opens_node);
            if (closes_node) add_partial(count, biases_ == 0 && node == terms.front().node);
        }
        round(sum, part.data() + done, count);
    }
}

void CombineReference::fill_exact(uint32_t rank, uint32_t token, std::span<double> part,
                                  uint32_t offset) const {
    std::fill(part.begin(), part.end(), 0.0);
    std::vector<uint16_t> row(part.size());
    for (uint32_t bias = 0; bias < biases_; ++bias) {
        activations_.fill(activations_.bias(rank, token, bias), row, offset);
        for (size_t i = 0; i < row.size(); ++i) part[i] += static_cast<double>(bf16_to_float(row[i]));
    }
    for (const Term& term : terms_of(rank, token)) {
        activations_.fill(activations_.expert_output(rank, token, term.serving), row, offset);
        for (size_t i = 0; i < row.size(); ++i)
            part[i] += static_cast<double>(term.weight) * static_cast<double>(bf16_to_float(row[i]));
    }
}

}  // namespace plait::sim
