#include <plait/sim/app/activations.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <set>
#include <span>

#include <plait/sim/app/row_reference.hpp>

#include "app_test.hpp"

namespace plait::sim {
namespace {

using Row = std::vector<uint16_t>;

Row activation(const Activations& activations, uint32_t rank, uint32_t token) {
    Row row(activations.hidden());
    activations.fill(activations.activation(rank, token), row);
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
            activations.fill(activations.expert_output(rank, token, 5), output);
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
        const RowName name = activations.expert_output(7, 100, 9);
        Row whole(hidden);
        activations.fill(name, whole);
        for (int round = 0; round < 300; ++round) {
            const auto offset = static_cast<uint32_t>(random() % hidden);
            const auto length = static_cast<uint32_t>(random() % (hidden - offset + 1));
            Row part(length);
            activations.fill(name, part, offset);
            ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + offset))
                << offset << " + " << length;
        }
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

}  // namespace
}  // namespace plait::sim
