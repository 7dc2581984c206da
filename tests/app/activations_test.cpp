#include <plait/sim/app/activations.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <span>

#include <plait/engines/quantise.hpp>
#include <plait/sim/app/ep_reference.hpp>

#include "app_test.hpp"

namespace plait::sim {
namespace {

using Row = std::vector<uint16_t>;

Row activation(const Activations& activations, uint32_t rank, uint32_t token) {
    Row row(activations.hidden());
    activations.fill_activation_row(rank, token, row);
    return row;
}

TEST(Activations, AreNormalWithAFewHeavyChannels) {
    const Activations activations(1, 7168);
    ASSERT_EQ(activations.heavy_channels().size(), 7U);
    std::vector<bool> heavy(7168);
    for (const uint32_t channel : activations.heavy_channels()) heavy[channel] = true;
    double sum = 0, squares = 0, fourths = 0, heavy_squares = 0, count = 0, heavy_count = 0;
    for (uint32_t token = 0; token < 200; ++token) {
        const Row row = activation(activations, 3, token);
        for (uint32_t i = 0; i < row.size(); ++i) {
            const double value = bf16_to_float(row[i]);
            ASSERT_TRUE(std::isfinite(value));
            ASSERT_NE(value, 0);
            if (heavy[i]) {
                heavy_squares += value * value;
                heavy_count += 1;
                continue;
            }
            sum += value;
            squares += value * value;
            fourths += value * value * value * value;
            count += 1;
        }
    }
    EXPECT_NEAR(sum / count, 0, 0.02);
    EXPECT_NEAR(squares / count, 1, 0.03);
    EXPECT_NEAR(fourths / count, 3, 0.3);  // of a normal distribution; the sum of twelve uniforms has 2.9
    EXPECT_NEAR(std::sqrt(heavy_squares / heavy_count), 16, 2);
}

TEST(Activations, DifferByRowAndRankAndSeedAndRepeat) {
    const Activations activations(1, 256), again(1, 256), other(2, 256);
    std::set<Row> rows;
    for (uint32_t rank = 0; rank < 16; ++rank) {
        for (uint32_t token = 0; token < 500; ++token) {
            Row row = activation(activations, rank, token);
            ASSERT_EQ(row, activation(again, rank, token));
            ASSERT_NE(row, activation(other, rank, token));
            rows.insert(row);
            Row output(256);
            activations.fill_expert_output(rank, token, 5, output);
            rows.insert(output);
        }
    }
    EXPECT_EQ(rows.size(), 16U * 500U * 2U);
}

TEST(Activations, AnyPartIsAPartOfTheRow) {
    const uint64_t seed = test::seed_of_run();
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (const uint32_t hidden : {128U, 2880U, 7168U, 16384U}) {
        const Activations activations(seed, hidden);
        Row whole(hidden);
        activations.fill_expert_output(7, 100, 9, whole);
        std::vector<uint8_t> codes(hidden);
        if (hidden % 128 == 0) activations.fill_codes(7, 100, codes);
        for (int round = 0; round < 300; ++round) {
            const auto offset = static_cast<uint32_t>(random() % hidden);
            const auto length = static_cast<uint32_t>(random() % (hidden - offset + 1));
            Row part(length);
            activations.fill_expert_output(7, 100, 9, part, offset);
            ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + offset))
                << offset << " + " << length;
            if (hidden % 128 != 0) continue;
            std::vector<uint8_t> some(length);
            activations.fill_codes(7, 100, some, offset);
            ASSERT_TRUE(std::equal(some.begin(), some.end(), codes.begin() + offset))
                << offset << " + " << length;
        }
    }
}

// The two implementations share no code.
TEST(Activations, CodesAndScalesAreThoseOfTheEngine) {
    const Activations activations(11, 7168);
    for (uint32_t token = 0; token < 300; ++token) {
        const Row row = activation(activations, 1, token);
        std::vector<uint8_t> codes(7168), expected_codes(7168);
        std::vector<float> scales(56), expected_scales(56);
        activations.fill_codes(1, token, codes);
        activations.fill_scales(1, token, scales);
        ASSERT_EQ(engines::encode_row(regmap::RowFormat::e4m3_f32, std::span<const uint16_t>(row),
                                      std::as_writable_bytes(std::span(expected_codes)),
                                      std::as_writable_bytes(std::span(expected_scales))),
                  0U);
        ASSERT_EQ(codes, expected_codes);
        ASSERT_EQ(std::memcmp(scales.data(), expected_scales.data(), 56 * sizeof(float)), 0);
        std::vector<float> last(16);
        activations.fill_scales(1, token, last, 40);
        ASSERT_TRUE(std::equal(last.begin(), last.end(), scales.begin() + 40));
    }
}

TEST(Bf16, RoundsToTheNearestTiesToEven) {
    const struct {
        uint32_t bits;
        uint16_t rounded;
    } cases[] = {{0x3f800000, 0x3f80}, {0x3f807fff, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f808001, 0x3f81},
                 {0x3f818000, 0x3f82}, {0xbf818000, 0xbf82}, {0x3fffffff, 0x4000}, {0x00000000, 0x0000}};
    for (const auto& [bits, rounded] : cases)
        EXPECT_EQ(round_to_bf16(std::bit_cast<float>(bits)), rounded) << std::hex << bits;
}

// One element at a time in double, rounded to FP32 after each addition.
uint16_t combine_element(const EpShape& shape, const Activations& activations, const Routing& routing,
                         uint32_t rank, uint32_t token, uint32_t element) {
    const auto to_float = [](double value) { return static_cast<float>(value); };
    bool any_node = false;
    float sum = 0;
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
            activations.fill_expert_output(rank, token, serving, std::span(&output, 1), element);
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
    const EpShape shape{8, 4, 32};
    Routing routing;
    routing.topk = 6;
    routing.first = {0, 5, 10, 15, 20, 25, 30, 35, 40};
    for (int i = 0; i < 40 * 6; ++i)
        routing.experts.push_back(static_cast<int16_t>(static_cast<int>(random() % 33) - 1));
    std::fill_n(routing.experts.begin(), 6, int16_t{-1});  // a token without experts
    const Activations activations(seed, 1152);
    const CombineReference reference(shape, regmap::EpMode::normal, activations, routing);
    for (uint32_t rank = 0; rank < 8; ++rank) {
        for (uint32_t token = 0; token < 5; ++token) {
            Row row(1152);
            reference.fill_row(rank, token, row);
            for (uint32_t element = 0; element < 1152; ++element) {
                ASSERT_EQ(row[element], combine_element(shape, activations, routing, rank, token, element))
                    << "rank " << rank << " token " << token << " element " << element;
            }
            Row part(600);
            reference.fill_row(rank, token, part, 500);
            ASSERT_TRUE(std::equal(part.begin(), part.end(), row.begin() + 500));
        }
    }
    // Of some of the ranks: as if the others' experts had not been chosen.
    Routing fewer = routing;
    for (int16_t& expert : fewer.experts)
        if (expert >= 0 && shape.rank_of(static_cast<uint32_t>(expert)) == 3) expert = -1;
    const CombineReference of_fewer(shape, regmap::EpMode::normal, activations, fewer);
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

// Low latency by the rule: experts of a node in order of the list, each times its weight.
TEST(CombineReference, WeighsExpertsInOrderOfTheList) {
    const EpShape shape{4, 2, 8};
    Routing routing;
    routing.topk = 4;
    routing.first = {0, 1, 1, 1, 1};
    routing.experts = {5, 0, 4, 5};  // node 1, node 0, node 1, node 1 again
    routing.weights = {0.3F, -1.7F, 2.1F, 0.9F};
    const Activations activations(3, 256);
    const CombineReference reference(shape, regmap::EpMode::low_latency, activations, routing);
    const auto output = [&](uint32_t expert, uint32_t element) {
        Row row(256);
        activations.fill_expert_output(0, 0, expert, row);
        return bf16_to_float(row[element]);
    };
    Row sum(256);
    reference.fill_row(0, 0, sum);
    for (uint32_t i = 0; i < 256; ++i) {
        const float node0 = bf16_to_float(round_to_bf16(-1.7F * output(0, i)));
        const float of_both = 0.3F + 0.9F;
        const float first = of_both * output(5, i);
        const float node1 = bf16_to_float(round_to_bf16(first + 2.1F * output(4, i)));
        ASSERT_EQ(sum[i], round_to_bf16(node0 + node1)) << "element " << i;
    }
}

}  // namespace
}  // namespace plait::sim
