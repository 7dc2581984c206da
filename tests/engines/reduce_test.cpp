#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <plait/engines/bf16.hpp>
#include <plait/engines/reduce.hpp>
#include <random>
#include <type_traits>
#include <vector>

#include "seed.hpp"

namespace plait::engines {
namespace {

static_assert(std::is_trivially_destructible_v<ReduceSlot>);

// The value of a BF16 number by its definition: 8 exponent bits (bias 127), 7 mantissa bits.
double bf16_value(uint32_t bits) {
    const int exponent = static_cast<int>(bits >> 7 & 0xFF);
    const double mantissa = static_cast<double>(bits & 0x7F) / 128;
    const double magnitude =
        exponent == 0 ? std::ldexp(mantissa, -126) : std::ldexp(1 + mantissa, exponent - 127);
    return bits & 0x8000 ? -magnitude : magnitude;
}

TEST(Bf16, EveryFiniteCodeHasItsDefinedValue) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
        if ((bits & 0x7F80) == 0x7F80) continue;
        const float value = bf16_to_float(static_cast<uint16_t>(bits));
        ASSERT_EQ(static_cast<double>(value), bf16_value(bits));
        ASSERT_EQ(std::signbit(value), bits >> 15 == 1);
        ASSERT_EQ(float_to_bf16(value), bits);
    }
}

TEST(Bf16, RoundsToNearestEvenAroundEveryCode) {
    for (uint32_t low = 0; low < 0x7F80; ++low) {
        const double a = bf16_value(low);
        const double b = bf16_value(low + 1);  // 2^128 above the largest: where infinity begins to be nearer
        const float middle = static_cast<float>((a + b) / 2);
        for (const float value : {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, INFINITY)}) {
            const double below = value - a;
            const double above = b - value;
            const uint32_t nearest = below < above ? low : above < below ? low + 1 : low + (low & 1);
            ASSERT_EQ(float_to_bf16(value), nearest) << low;
            ASSERT_EQ(float_to_bf16(-value), nearest | 0x8000) << low;
        }
    }
}

TEST(Bf16, SpecialValues) {
    EXPECT_EQ(float_to_bf16(INFINITY), 0x7F80);
    EXPECT_EQ(float_to_bf16(-INFINITY), 0xFF80);
    EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
    EXPECT_EQ(float_to_bf16(-0.0f), 0x8000);
    for (uint32_t bits : {0x7F800001u, 0x7FFFFFFFu, 0xFF800001u, 0xFFFFFFFFu, 0x7FC00000u})
        EXPECT_EQ(float_to_bf16(std::bit_cast<float>(bits)), bf16_nan);
}

TEST(Reduce, AddsInFp32AndRoundsOnce) {
    // 256 + 1 + 1 is 258 in FP32; rounded to BF16 after each step it would stay 256.
    const std::vector<uint16_t> big(5, 0x4380), one(5, 0x3F80);
    std::vector<float> acc(5);
    std::vector<uint16_t> out(5);
    start_bf16(acc, big.data());
    accumulate_bf16(acc, one.data());
    accumulate_bf16(acc, one.data());
    round_bf16(acc, out.data());
    EXPECT_EQ(out, std::vector<uint16_t>(5, 0x4381));
}

TEST(Reduce, TheFirstContributionIsExact) {
    const std::vector<uint16_t> row{0x8000, 0x0001, 0xFF80};
    std::vector<float> acc(3, 5.0f);
    std::vector<uint16_t> out(3);
    start_bf16(acc, row.data());
    round_bf16(acc, out.data());
    EXPECT_EQ(out, row) << "minus zero, the smallest subnormal and minus infinity survive";
}

TEST(Reduce, EmptyRow) {
    std::span<float> none;
    start_bf16(none, nullptr);
    accumulate_bf16(none, nullptr);
    round_bf16(none, nullptr);
}

// Sums of two floats and products of two floats of BF16 are exact in double or rounded there to 53 bits;
// rounding that to 24 bits gives what one FP32 operation gives (53 >= 2 * 24 + 2).
float add(float a, float b) { return static_cast<float>(static_cast<double>(a) + static_cast<double>(b)); }
float multiply(float a, float b) {
    return static_cast<float>(static_cast<double>(a) * static_cast<double>(b));
}

TEST(Reduce, AgreesWithSeparatelyRoundedOperations) {
    const uint64_t seed = test::seed_or(23);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    std::normal_distribution<float> normal;
    for (size_t count : {1u, 7u, 15u, 16u, 17u, 127u, 2048u}) {
        std::vector<float> acc(count), weighted(count), expected(count), expected_weighted(count);
        std::vector<uint16_t> row(count), out(count);
        for (int contribution = 0; contribution < 8; ++contribution) {
            const float weight = normal(random);
            for (uint16_t& x : row)
                x = float_to_bf16(normal(random) * std::ldexp(1.0f, static_cast<int>(random() % 20)));
            if (contribution == 0) {
                start_bf16(acc, row.data());
                start_bf16_weighted(weighted, row.data(), weight);
            } else {
                accumulate_bf16(acc, row.data());
                accumulate_bf16_weighted(weighted, row.data(), weight);
            }
            for (size_t i = 0; i < count; ++i) {
                const float x = bf16_to_float(row[i]);
                expected[i] = contribution == 0 ? x : add(expected[i], x);
                const float product = multiply(weight, x);
                expected_weighted[i] = contribution == 0 ? product : add(expected_weighted[i], product);
            }
            ASSERT_EQ(acc, expected);
            ASSERT_EQ(weighted, expected_weighted);
        }
        round_bf16(acc, out.data());
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], float_to_bf16(expected[i]));
    }
}

TEST(ReduceSlot, HandsOutInOrderOfPosition) {
    ReduceSlot slot;
    ASSERT_TRUE(slot.reset(4));
    EXPECT_TRUE(slot.offer(2, 102).ready.empty());
    EXPECT_TRUE(slot.offer(1, 101).ready.empty());
    const Offer first = slot.offer(0, 100);
    EXPECT_EQ(first.status, OfferStatus::taken);
    EXPECT_EQ(first.first_position, 0u);
    EXPECT_EQ(std::vector<uint32_t>(first.ready.begin(), first.ready.end()),
              (std::vector<uint32_t>{100, 101, 102}));
    EXPECT_FALSE(slot.complete());
    const Offer last = slot.offer(3, 103);
    ASSERT_EQ(last.ready.size(), 1u);
    EXPECT_EQ(last.ready[0], 103u);
    EXPECT_EQ(last.first_position, 3u);
    EXPECT_TRUE(slot.complete());
}

TEST(ReduceSlot, RefusesDuplicatesAndBadPositions) {
    ReduceSlot slot;
    EXPECT_EQ(slot.offer(0, 1).status, OfferStatus::bad_position) << "nothing is expected before reset";
    EXPECT_FALSE(slot.complete());
    EXPECT_FALSE(slot.reset(0));
    EXPECT_FALSE(slot.reset(33));
    ASSERT_TRUE(slot.reset(3));
    EXPECT_EQ(slot.offer(3, 1).status, OfferStatus::bad_position);
    EXPECT_EQ(slot.offer(1, 11).status, OfferStatus::taken);
    EXPECT_EQ(slot.offer(1, 12).status, OfferStatus::duplicate);
    const Offer both = slot.offer(0, 10);
    ASSERT_EQ(both.ready.size(), 2u);
    EXPECT_EQ(both.ready[1], 11u) << "the first offer of a position counts";
    EXPECT_EQ(slot.offer(0, 13).status, OfferStatus::duplicate) << "also after it was added";
    EXPECT_EQ(slot.offer(0, 13).ready.size(), 0u);
}

TEST(ReduceSlot, NamesWhatStillWaits) {
    ReduceSlot slot;
    slot.reset(32);
    slot.offer(0, 7);
    slot.offer(31, 9);
    slot.offer(2, 8);
    std::vector<uint32_t> waiting;
    slot.for_each_waiting([&](uint32_t handle) { waiting.push_back(handle); });
    EXPECT_EQ(waiting, (std::vector<uint32_t>{8, 9}));
}

TEST(ReduceSlot, EveryOrderOfArrivalGivesTheSameSequence) {
    const uint64_t seed = test::seed_or(24);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937_64 random(seed);
    for (uint32_t count = 1; count <= ReduceSlot::max_contributions; ++count) {
        std::vector<uint32_t> positions(count);
        std::iota(positions.begin(), positions.end(), 0u);
        const std::vector<uint32_t> in_order = positions;
        for (int round = 0; round < 20; ++round) {
            std::shuffle(positions.begin(), positions.end(), random);
            ReduceSlot slot;
            slot.reset(count);
            std::vector<uint32_t> added;
            for (uint32_t position : positions) {
                EXPECT_FALSE(slot.complete());
                const Offer offer = slot.offer(position, position);
                added.insert(added.end(), offer.ready.begin(), offer.ready.end());
            }
            EXPECT_TRUE(slot.complete());
            EXPECT_EQ(added, in_order);
        }
    }
}

}  // namespace
}  // namespace plait::engines
