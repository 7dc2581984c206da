#include <gtest/gtest.h>

#include <cstdlib>
#include <plait/firmware/commands.hpp>
#include <plait/firmware/memory_table.hpp>
#include <random>
#include <set>
#include <vector>

namespace plait::firmware {
namespace {

struct TableContext {
    DeviceConfig device;
    const DeviceConfig& config() const { return device; }
};

struct MemoryTableTest : testing::Test {
    explicit MemoryTableTest(std::uint32_t regions = 4)
        : context{.device = {.max_memory_regions = regions}} {}
    TableContext context;
    std::vector<std::byte> storage = std::vector<std::byte>(1U << 16);
    Arena arena{storage};
    MemoryTable<TableContext> table{context, arena};
};

TEST_F(MemoryTableTest, allows_what_was_registered_and_nothing_beyond) {
    const Registration made =
        table.register_region(0x1000, 0x100, regmap::access_local_write | regmap::access_remote_write);
    ASSERT_EQ(made.status, Status::ok);
    EXPECT_NE(made.key, 0U);
    EXPECT_EQ(table.check(made.key, 0x1000, 0x100, 0), Status::ok);
    EXPECT_EQ(table.check(made.key, 0x10ff, 1, regmap::access_remote_write), Status::ok);
    EXPECT_EQ(table.check(made.key, 0x10ff, 2, 0), Status::out_of_range);
    EXPECT_EQ(table.check(made.key, 0x1100, 1, 0), Status::out_of_range);
    EXPECT_EQ(table.check(made.key, 0xfff, 1, 0), Status::out_of_range);
    EXPECT_EQ(table.check(made.key, 0x1000, 1, regmap::access_remote_read), Status::access_denied);
    EXPECT_EQ(table.check(made.key, 0x1000, 1, regmap::access_remote_write | regmap::access_remote_atomic),
              Status::access_denied);
    EXPECT_EQ(table.check(made.key + 1, 0x1000, 1, 0), Status::invalid_key);
    EXPECT_EQ(table.check(0, 0x1000, 1, 0), Status::invalid_key);
    EXPECT_EQ(table.check(~0U, 0x1000, 1, 0), Status::invalid_key);
    EXPECT_EQ(table.check(0, 0, 0, access_all), Status::ok);
}

TEST_F(MemoryTableTest, ends_beyond_the_address_space_are_refused) {
    const std::uint64_t top = ~std::uint64_t{0};
    EXPECT_EQ(table.register_region(top, 2, 0).status, Status::out_of_range);
    EXPECT_EQ(table.register_region(2, top, 0).status, Status::out_of_range);
    const Registration last = table.register_region(top - 15, 16, 0);
    ASSERT_EQ(last.status, Status::ok);
    EXPECT_EQ(table.check(last.key, top, 1, 0), Status::ok);
    EXPECT_EQ(table.check(last.key, top - 15, 16, 0), Status::ok);
    EXPECT_EQ(table.check(last.key, top, 2, 0), Status::out_of_range);
    EXPECT_EQ(table.check(last.key, top - 15, top, 0), Status::out_of_range);
    const Registration low = table.register_region(0x1000, 0x1000, 0);
    EXPECT_EQ(table.check(low.key, 0x1800, top - 0x1000, 0), Status::out_of_range);
}

TEST_F(MemoryTableTest, refusals_change_nothing) {
    EXPECT_EQ(table.register_region(0x1000, 0, 0).status, Status::invalid_length);
    EXPECT_EQ(table.register_region(0x1000, 1, 16).status, Status::invalid_parameter);
    for (int i = 0; i < 4; ++i) ASSERT_EQ(table.register_region(0x1000, 1, 0).status, Status::ok);
    EXPECT_EQ(table.register_region(0x1000, 1, 0).status, Status::limit_exceeded);
}

TEST_F(MemoryTableTest, stale_keys_are_refused) {
    std::set<std::uint32_t> stale;
    for (int i = 0; i < 1000; ++i) {
        const Registration made = table.register_region(0x1000, 1, 0);
        ASSERT_EQ(made.status, Status::ok);
        EXPECT_TRUE(stale.insert(made.key).second) << "key " << made.key << " was given twice";
        EXPECT_EQ(table.deregister(made.key), Status::ok);
        EXPECT_EQ(table.deregister(made.key), Status::invalid_key);
        EXPECT_EQ(table.check(made.key, 0x1000, 1, 0), Status::invalid_key);
    }
    table.reset();
    for (const std::uint32_t key : stale) EXPECT_EQ(table.check(key, 0x1000, 1, 0), Status::invalid_key);
    const Registration after = table.register_region(0x1000, 1, 0);
    EXPECT_FALSE(stale.contains(after.key));
}

struct OneRegionTest : MemoryTableTest {
    OneRegionTest() : MemoryTableTest(1) {}
};

TEST_F(OneRegionTest, one_slot_is_enough) {
    const Registration made = table.register_region(0, 1, 0);
    EXPECT_EQ(made.status, Status::ok);
    EXPECT_EQ(table.register_region(0, 1, 0).status, Status::limit_exceeded);
    EXPECT_EQ(table.deregister(made.key ^ 1), Status::invalid_key);  // a slot that is not there
    EXPECT_EQ(table.deregister(made.key), Status::ok);
    EXPECT_EQ(table.register_region(0, 1, 0).status, Status::ok);
}

/// Against 128-bit arithmetic, which needs no care about overflow.
TEST_F(MemoryTableTest, random_ranges_agree_with_wide_arithmetic) {
    const char* text = std::getenv("PLAIT_SEED");
    const std::uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 0) : 42;
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto anything = [&] { return random() >> (random() % 64); };
    int inside = 0;
    for (int i = 0; i < 20000; ++i) {
        const std::uint64_t address = random() % 2 == 0 ? anything() : ~anything();
        const std::uint64_t length = anything();
        __extension__ using Wide = unsigned __int128;
        const bool lies = length != 0 && Wide{address} + length <= Wide{1} << 64;
        const Registration made = table.register_region(address, length, 0);
        ASSERT_EQ(made.status == Status::ok, lies) << address << " + " << length;
        if (!lies) continue;
        const std::uint64_t start = random() % 2 == 0 ? address + random() % length : anything();
        const std::uint64_t bytes = anything();
        const bool allowed =
            bytes == 0 || (start >= address && Wide{start} + bytes <= Wide{address} + length);
        ASSERT_EQ(table.check(made.key, start, bytes, 0), allowed ? Status::ok : Status::out_of_range)
            << start << " + " << bytes << " in " << address << " + " << length;
        inside += allowed ? 1 : 0;
        table.deregister(made.key);
    }
    EXPECT_GT(inside, 1000);
}

}  // namespace
}  // namespace plait::firmware
