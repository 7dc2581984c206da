#include <gtest/gtest.h>

#include <algorithm>
#include <plait/engines/order.hpp>
#include <random>
#include <type_traits>
#include <vector>

#include "seed.hpp"

namespace plait::engines {
namespace {

static_assert(std::is_trivially_destructible_v<OrderTable>);

class Order : public testing::Test {
  protected:
    void configure(size_t counters, size_t releases) {
        counters_.assign(counters, {77, 5});
        pool_.assign(releases, {});
        table_.configure(counters_, pool_);
    }
    std::vector<uint64_t> place(uint32_t counter, uint64_t amount) {
        std::vector<uint64_t> fired;
        EXPECT_EQ(table_.place(counter, amount, [&](uint64_t tag) { fired.push_back(tag); }),
                  PlaceStatus::placed);
        return fired;
    }
    using Tags = std::vector<uint64_t>;

    std::vector<OrderCounter> counters_;
    std::vector<OrderRelease> pool_;
    OrderTable table_;
};

TEST_F(Order, FiresAtOnceWhenAlreadyPlaced) {
    configure(2, 4);
    EXPECT_EQ(table_.release(0, 0, 1), ReleaseStatus::fired);
    place(0, 3);
    EXPECT_EQ(table_.release(0, 3, 2), ReleaseStatus::fired);
    EXPECT_EQ(table_.release(1, 3, 3), ReleaseStatus::waiting);
    EXPECT_EQ(table_.waiting(), 1u);
}

TEST_F(Order, FiresExactlyAtTheRequirement) {
    configure(1, 4);
    EXPECT_EQ(table_.release(0, 10, 42), ReleaseStatus::waiting);
    EXPECT_EQ(place(0, 9), Tags{});
    EXPECT_EQ(place(0, 1), Tags{42});
    EXPECT_EQ(place(0, 1), Tags{});
    EXPECT_EQ(table_.waiting(), 0u);
}

TEST_F(Order, FiresInOrderOfRequirementThenOfArrival) {
    configure(1, 8);
    table_.release(0, 30, 1);
    table_.release(0, 10, 2);
    table_.release(0, 20, 3);
    table_.release(0, 10, 4);
    table_.release(0, 40, 5);
    EXPECT_EQ(place(0, 30), (Tags{2, 4, 3, 1}));
    EXPECT_EQ(place(0, 30), Tags{5});
}

TEST_F(Order, RefusesWhenFullAndReusesFreedPlaces) {
    configure(2, 2);
    EXPECT_EQ(table_.release(0, 1, 1), ReleaseStatus::waiting);
    EXPECT_EQ(table_.release(1, 1, 2), ReleaseStatus::waiting);
    EXPECT_EQ(table_.release(1, 2, 3), ReleaseStatus::refused_full);
    EXPECT_EQ(table_.release(1, 0, 4), ReleaseStatus::fired) << "needs no place";
    EXPECT_EQ(place(0, 1), Tags{1});
    EXPECT_EQ(table_.release(1, 2, 5), ReleaseStatus::waiting);
    EXPECT_EQ(place(1, 2), (Tags{2, 5})) << "the refused release left nothing behind";
}

TEST_F(Order, RefusesUnknownCountersAndOverflow) {
    configure(1, 1);
    const auto never = [](uint64_t) { ADD_FAILURE(); };
    EXPECT_EQ(table_.release(1, 1, 1), ReleaseStatus::refused_counter);
    EXPECT_EQ(table_.place(1, 1, never), PlaceStatus::refused_counter);
    EXPECT_FALSE(table_.reset(1, never));
    EXPECT_EQ(table_.release(0, UINT64_MAX, 9), ReleaseStatus::waiting);
    place(0, UINT64_MAX - 1);
    EXPECT_EQ(table_.place(0, 2, never), PlaceStatus::refused_overflow);
    EXPECT_EQ(table_.placed(0), UINT64_MAX - 1);
    EXPECT_EQ(place(0, 1), Tags{9});
}

TEST_F(Order, AnEmptyPoolStillCounts) {
    configure(1, 0);
    EXPECT_EQ(table_.release(0, 1, 1), ReleaseStatus::refused_full);
    place(0, 1);
    EXPECT_EQ(table_.release(0, 1, 1), ReleaseStatus::fired);
}

TEST_F(Order, ResetDropsWhatWaits) {
    configure(1, 2);
    table_.release(0, 5, 1);
    table_.release(0, 4, 2);
    place(0, 3);
    Tags dropped;
    EXPECT_TRUE(table_.reset(0, [&](uint64_t tag) { dropped.push_back(tag); }));
    EXPECT_EQ(dropped, (Tags{2, 1}));
    EXPECT_EQ(table_.placed(0), 0u);
    EXPECT_EQ(table_.release(0, 1, 3), ReleaseStatus::waiting);
    EXPECT_EQ(table_.release(0, 1, 4), ReleaseStatus::waiting);
}

TEST_F(Order, AVisitorMayUseTheTable) {
    configure(1, 1);
    table_.release(0, 1, 1);
    Tags fired;
    table_.place(0, 1, [&](uint64_t tag) {
        fired.push_back(tag);
        EXPECT_EQ(table_.release(0, 2, 2), ReleaseStatus::waiting) << "its place is free by now";
    });
    EXPECT_EQ(fired, Tags{1});
    EXPECT_EQ(place(0, 1), Tags{2});
}

TEST_F(Order, AgreesWithASortedList) {
    const uint64_t seed = test::seed_or(21);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937_64 random(seed);
    constexpr uint32_t counters = 5, pool = 24;
    configure(counters, pool);
    struct Waiting {
        uint64_t required, tag;
    };
    std::vector<std::vector<Waiting>> model(counters);
    std::vector<uint64_t> count(counters, 0);
    size_t waiting = 0, fired_later = 0, refused = 0;
    for (uint64_t step = 0; step < 20000; ++step) {
        const auto counter = static_cast<uint32_t>(random() % counters);
        if (random() % 2) {
            const uint64_t required = count[counter] + random() % 30;
            const ReleaseStatus status = table_.release(counter, required, step);
            if (required <= count[counter]) {
                ASSERT_EQ(status, ReleaseStatus::fired);
            } else if (waiting == pool) {
                ASSERT_EQ(status, ReleaseStatus::refused_full);
                ++refused;
            } else {
                ASSERT_EQ(status, ReleaseStatus::waiting);
                model[counter].push_back({required, step});
                ++waiting;
            }
        } else {
            const uint64_t amount = random() % 12;
            count[counter] += amount;
            auto& list = model[counter];
            std::stable_sort(list.begin(), list.end(),
                             [](const Waiting& a, const Waiting& b) { return a.required < b.required; });
            Tags expected;
            while (!list.empty() && list.front().required <= count[counter]) {
                expected.push_back(list.front().tag);
                list.erase(list.begin());
            }
            waiting -= expected.size();
            fired_later += expected.size();
            ASSERT_EQ(place(counter, amount), expected);
        }
        ASSERT_EQ(table_.waiting(), waiting);
    }
    EXPECT_GT(fired_later, 1000u);
    EXPECT_GT(refused, 10u);
}

}  // namespace
}  // namespace plait::engines
