#pragma once
// The C++ engine and the block agree under random commands and random stalls.

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "../../engines/seed.hpp"
#include "verilated_block.hpp"

namespace plait::contract {

/// None, or in one or two of three cycles.
inline Stalls random_stalls(std::mt19937_64& random) {
    return {static_cast<uint32_t>(random() % 3 * 90), static_cast<uint32_t>(random() % 3 * 90)};
}

/// `Random` makes commands that suit the reference's state, `Seen` counts what came of them: its fewest() is
/// the count of the rarest outcome.
template <typename Reference, typename Rtl, typename Random, typename Seen>
void agree_at_random(uint64_t own_seed, uint64_t transactions) {
    const uint64_t seed = engines::test::seed_or(own_seed);
    SCOPED_TRACE(engines::test::seed_message(seed));
    Reference reference;
    Rtl rtl(seed);
    Random random(seed);
    std::mt19937_64 stalls(seed + 1);
    Seen seen;
    constexpr size_t batch = 200;
    for (uint64_t done = 0; done < transactions; done += batch) {
        std::vector<decltype(random.next(reference))> commands;
        std::vector<decltype(reference.run(commands.front()))> expected;
        while (commands.size() < batch) {
            commands.push_back(random.next(reference));
            expected.push_back(reference.run(commands.back()));
            seen.count(commands.back(), expected.back());
        }
        const auto answers = rtl.run(commands, random_stalls(stalls));
        for (size_t i = 0; i < batch; ++i)
            ASSERT_EQ(answers[i], expected[i]) << "transaction " << done + i << ", " << commands[i];
    }
    EXPECT_GT(seen.fewest(), transactions / 200) << "every outcome is to be met often";
}

}  // namespace plait::contract
