#include <plait/sim/app/combine_reference.hpp>

#include <algorithm>
#include <random>
#include <span>

#include <plait/engines/quantise.hpp>
#include <plait/sim/app/ep_reference.hpp>
#include <plait/sim/app/row_reference.hpp>

#include "app_test.hpp"

namespace plait::sim {
namespace {

using regmap::RowFormat;
using Row = std::vector<uint16_t>;

EpShape small_shape() { return {8, 4, 32}; }

Routing small_routing(std::mt19937_64& random) {
    Routing routing;
    routing.topk = 6;
    routing.first = {0, 5, 10, 15, 20, 25, 30, 35, 40};
    for (int i = 0; i < 40 * 6; ++i)
        routing.experts.push_back(static_cast<int16_t>(static_cast<int>(random() % 33) - 1));
    std::fill_n(routing.experts.begin(), 6, int16_t{-1});  // a token without experts
    return routing;
}

// One element at a time in double, rounded to FP32 after each addition.
uint16_t combine_element(const EpShape& shape, const Activations& activations, const Routing& routing,
                         uint32_t rank, uint32_t token, uint32_t element, uint32_t biases = 0) {
    const auto to_float = [](double value) { return static_cast<float>(value); };
    bool any_node = false;
    float sum = 0;
    for (uint32_t bias = 0; bias < biases; ++bias) {
        uint16_t value = 0;
        activations.fill(activations.bias(rank, token, bias), std::span(&value, 1), element);
        sum = any_node ? to_float(double{sum} + double{bf16_to_float(value)}) : bf16_to_float(value);
        any_node = true;
    }
    for (uint32_t node = 0; node < shape.nodes(); ++node) {
        bool any_rank = false;
        float node_sum = 0;
        for (uint32_t serving = node * shape.ranks_per_node; serving < (node + 1) * shape.ranks_per_node;
             ++serving) {
            const auto experts = routing.experts_of(rank, token);
            const bool serves = std::any_of(experts.begin(), experts.end(), [&](int16_t expert) {
                return expert >= 0 && shape.rank_of(static_cast<uint32_t>(expert)) == serving;
            });
            if (!serves) continue;
            uint16_t output = 0;
            activations.fill(activations.expert_output(rank, token, serving), std::span(&output, 1), element);
            node_sum =
                any_rank ? to_float(double{node_sum} + double{bf16_to_float(output)}) : bf16_to_float(output);
            any_rank = true;
        }
        if (!any_rank) continue;
        const float rounded = bf16_to_float(round_to_bf16(node_sum));
        sum = any_node ? to_float(double{sum} + double{rounded}) : rounded;
        any_node = true;
    }
    return any_node ? round_to_bf16(sum) : uint16_t{0};
}

TEST(CombineReference, AgreesWithTheRuleElementByElement) {
    const uint64_t seed = test::seed_of_run();
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    const EpShape shape = small_shape();
    const Routing routing = small_routing(random);
    const Activations activations(seed, 1152);
    const EncodedRows contributions(activations, RowFormat::bf16);
    for (uint32_t biases = 0; biases <= 2; ++biases) {
        const CombineReference reference(shape, regmap::EpMode::normal, activations, contributions,
                                         RowFormat::bf16, routing, biases);
        for (uint32_t rank = 0; rank < 8; ++rank) {
            for (uint32_t token = 0; token < 5; ++token) {
                Row row(1152);
                reference.fill_row(rank, token, row);
                for (uint32_t element = 0; element < 1152; ++element) {
                    ASSERT_EQ(row[element],
                              combine_element(shape, activations, routing, rank, token, element, biases))
                        << "biases " << biases << " rank " << rank << " token " << token << " element "
                        << element;
                }
                Row part(600);
                reference.fill_row(rank, token, part, 500);
                ASSERT_TRUE(std::equal(part.begin(), part.end(), row.begin() + 500));
            }
        }
    }
    const CombineReference reference(shape, regmap::EpMode::normal, activations, contributions,
                                     RowFormat::bf16, routing);
    // Of some of the ranks: as if the others' experts had not been chosen.
    Routing fewer = routing;
    for (int16_t& expert : fewer.experts)
        if (expert >= 0 && shape.rank_of(static_cast<uint32_t>(expert)) == 3) expert = -1;
    const CombineReference of_fewer(shape, regmap::EpMode::normal, activations, contributions,
                                    RowFormat::bf16, fewer);
    auto contributors = reference.terms_of(1, 2);
    std::erase_if(contributors, [](const CombineReference::Term& term) { return term.serving == 3; });
    Row expected(1152), sum(1152);
    of_fewer.fill_row(1, 2, expected);
    reference.fill_sum(1, 2, contributors, sum, 0);
    EXPECT_EQ(sum, expected);
    Row nothing(1152, 1);
    reference.fill_row(0, 0, nothing);
    EXPECT_EQ(nothing, Row(1152, 0));
}

using Values = std::vector<float>;

// A whole row in `format` and back, by the engine.
Values sent(RowFormat format, const Values& row) {
    std::vector<std::byte> codes(engines::code_bytes(format, row.size()));
    std::vector<std::byte> scales(engines::scale_bytes(format, row.size()));
    EXPECT_TRUE(engines::encode_row(format, std::span<const float>(row), codes, scales));
    Values result(row.size());
    EXPECT_TRUE(engines::decode_row({format, codes, scales}, std::span(result)));
    return result;
}

void add(Values& sum, const Values& row, float weight = 1.0F) {
    const bool is_first = sum.empty();
    sum.resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) {
        const float term = weight * row[i];
        sum[i] = is_first ? term : sum[i] + term;
    }
}

Values values_of(const Activations& activations, const RowName& name) {
    Row row(activations.hidden());
    activations.fill(name, row);
    Values values(row.size());
    std::transform(row.begin(), row.end(), values.begin(), bf16_to_float);
    return values;
}

TEST(CombineReference, AgreesWithTheEnginesInEveryFormat) {
    const uint64_t seed = test::seed_of_run();
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    constexpr uint32_t hidden = 704;  // five blocks and a half
    const EpShape shape = small_shape();
    const Routing routing = small_routing(random);
    const Activations activations(seed, hidden);
    for (uint32_t number = 0; number < regmap::row_format_count; ++number) {
        for (const RowFormat partial :
             {RowFormat::bf16, RowFormat::f32, RowFormat::e5m2_ue8m0, RowFormat::logfmt10}) {
            const auto format = static_cast<RowFormat>(number);
            SCOPED_TRACE(std::string(regmap::name(format)) + " " + regmap::name(partial));
            const EncodedRows contributions(activations, format);
            const CombineReference reference(shape, regmap::EpMode::normal, activations, contributions,
                                             partial, routing);
            for (uint32_t rank = 0; rank < 8; ++rank) {
                const std::vector<uint32_t> targets = target_ranks(shape, routing.experts_of(rank, 1));
                Values sum;
                std::vector<double> exact(hidden);
                for (uint32_t node = 0; node < shape.nodes(); ++node) {
                    Values node_sum;
                    for (const uint32_t target : targets) {
                        if (shape.node_of(target) != node) continue;
                        const Values values =
                            values_of(activations, activations.expert_output(rank, 1, target));
                        for (uint32_t i = 0; i < hidden; ++i) exact[i] += double{values[i]};
                        add(node_sum, sent(format, values));
                    }
                    if (!node_sum.empty()) add(sum, sent(partial, node_sum));
                }
                Row expected(hidden), row(hidden), part(320);
                std::transform(sum.begin(), sum.end(), expected.begin(), round_to_bf16);
                reference.fill_row(rank, 1, row);
                ASSERT_EQ(row, expected) << "rank " << rank;
                reference.fill_row(rank, 1, part, 384);
                ASSERT_TRUE(std::equal(part.begin(), part.end(), row.begin() + 384));
                std::vector<double> found(320);
                reference.fill_exact(rank, 1, found, 384);
                ASSERT_TRUE(std::equal(found.begin(), found.end(), exact.begin() + 384));
            }
        }
    }
}

// Low latency by the rule: experts of a node in order of the list, each times its weight.
TEST(CombineReference, WeighsExpertsInOrderOfTheListInEveryFormat) {
    const EpShape shape{4, 2, 8};
    Routing routing;
    routing.topk = 4;
    routing.first = {0, 1, 1, 1, 1};
    routing.experts = {5, 0, 4, 5};  // node 1, node 0, node 1, node 1 again
    routing.weights = {0.3F, -1.7F, 2.1F, 0.9F};
    const Activations activations(3, 320);
    for (uint32_t number = 0; number < regmap::row_format_count; ++number) {
        const auto format = static_cast<RowFormat>(number);
        SCOPED_TRACE(regmap::name(format));
        const EncodedRows contributions(activations, format);
        const auto output = [&](uint32_t expert) {
            return sent(format, values_of(activations, activations.expert_output(0, 0, expert)));
        };
        for (const RowFormat partial : {RowFormat::bf16, RowFormat::e4m3_f32, RowFormat::logfmt10}) {
            const CombineReference reference(shape, regmap::EpMode::low_latency, activations, contributions,
                                             partial, routing);
            Values node0, node1, sum;
            add(node0, output(0), -1.7F);
            add(node1, output(5), 0.3F + 0.9F);
            add(node1, output(4), 2.1F);
            add(sum, sent(partial, node0));
            add(sum, sent(partial, node1));
            Row expected(320), row(320);
            std::transform(sum.begin(), sum.end(), expected.begin(), round_to_bf16);
            reference.fill_row(0, 0, row);
            ASSERT_EQ(row, expected) << regmap::name(partial);
        }
    }
}

}  // namespace
}  // namespace plait::sim
