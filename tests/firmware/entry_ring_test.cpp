#include <gtest/gtest.h>

#include <plait/firmware/transport_state.hpp>

namespace plait::firmware {
namespace {

using Ring = EntryRing<std::uint32_t, 4, 16>;

struct EntryRingTest : ::testing::Test {
    /// Adds entries up to number `end`, each with its number as content.
    void add_until(std::uint32_t end) {
        for (; next != end; ++next) {
            ring.prepare(first, next, small, large);
            ring[next] = next;
        }
    }
    [[nodiscard]] bool holds_all() const {
        for (std::uint32_t number = first; number != next; ++number)
            if (ring[number] != number) return false;
        return true;
    }
    [[nodiscard]] bool is_small() const {
        return &ring[next - 1] >= small.data() && &ring[next - 1] < small.data() + small.size();
    }

    Ring ring;
    Ring::Few small{};
    Ring::Most large{};
    std::uint32_t first = 30;
    std::uint32_t next = 30;
};

TEST_F(EntryRingTest, AFewEntriesStayInTheSmallTable) {
    for (std::uint32_t round = 0; round < 10; ++round, first += 3) {
        add_until(first + 4);
        EXPECT_TRUE(holds_all());
        EXPECT_TRUE(is_small());
    }
}

TEST_F(EntryRingTest, MoreMoveToTheLargeTableUntilNoneIsLeft) {
    add_until(32);
    first = 31;
    add_until(36);
    EXPECT_TRUE(holds_all());
    EXPECT_FALSE(is_small());
    first = 35;
    add_until(37);
    EXPECT_FALSE(is_small()) << "some are still there";
    add_until(first + 16);
    EXPECT_TRUE(holds_all());
    first = next;
    add_until(next + 1);
    EXPECT_TRUE(is_small());
    EXPECT_TRUE(holds_all());
}

TEST_F(EntryRingTest, NumbersWrap) {
    first = next = ~std::uint32_t{0} - 1;
    add_until(4);
    EXPECT_TRUE(holds_all());
}

}  // namespace
}  // namespace plait::firmware
