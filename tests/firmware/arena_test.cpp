#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <plait/firmware/arena.hpp>

namespace plait::firmware {
namespace {

struct alignas(64) Storage {
    std::array<std::byte, 256> bytes;
    Storage() { std::memset(bytes.data(), 0xa5, bytes.size()); }
};

TEST(Arena, gives_value_initialised_aligned_objects) {
    Storage storage;
    Arena arena(storage.bytes);
    const auto bytes = arena.make<std::uint8_t>(3);
    const auto words = arena.make<std::uint64_t>(4);
    ASSERT_EQ(bytes.size(), 3U);
    ASSERT_EQ(words.size(), 4U);
    for (const std::uint8_t value : bytes) EXPECT_EQ(value, 0);
    for (const std::uint64_t value : words) EXPECT_EQ(value, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(words.data()) % alignof(std::uint64_t), 0U);
    EXPECT_EQ(arena.remaining(), 256U - 8 - 32);
    EXPECT_TRUE(arena.complete());
}

TEST(Arena, what_does_not_fit_takes_nothing_and_is_counted) {
    Storage storage;
    Arena arena(storage.bytes);
    EXPECT_TRUE(arena.make<std::uint64_t>(33).empty());
    EXPECT_EQ(arena.remaining(), 256U);
    EXPECT_EQ(arena.required(), 33U * 8);
    EXPECT_FALSE(arena.complete());
    EXPECT_EQ(arena.make<std::uint64_t>(32).size(), 32U);
    EXPECT_EQ(arena.remaining(), 0U);
}

TEST(Arena, an_empty_one_measures) {
    Arena measure({});
    EXPECT_TRUE(measure.make<std::uint8_t>(1).empty());
    EXPECT_TRUE(measure.make<std::uint32_t>(2).empty());
    EXPECT_EQ(measure.required(), 12U);
    Storage storage;
    Arena arena(std::span(storage.bytes).first(measure.required()));
    EXPECT_EQ(arena.make<std::uint8_t>(1).size(), 1U);
    EXPECT_EQ(arena.make<std::uint32_t>(2).size(), 2U);
    EXPECT_TRUE(arena.complete());
}

TEST(Arena, absurd_counts_do_not_overflow) {
    Storage storage;
    Arena arena(storage.bytes);
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    EXPECT_TRUE(arena.make<std::uint64_t>(most).empty());
    EXPECT_TRUE(arena.make<std::uint64_t>(most / 8 + 2).empty());
    EXPECT_EQ(arena.required(), most);
    EXPECT_EQ(arena.make<std::uint8_t>(1).size(), 1U);
}

TEST(Arena, skips_to_an_aligned_front) {
    Storage storage;
    Arena arena(std::span(storage.bytes).subspan(1));
    EXPECT_EQ(arena.remaining(), 192U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.make<std::uint8_t>(1).data()) % Arena::alignment_bytes,
              0U);
    Arena tiny(std::span(storage.bytes).subspan(1, 5));
    EXPECT_EQ(tiny.remaining(), 0U);
    EXPECT_TRUE(tiny.make<std::uint8_t>(1).empty());
}

}  // namespace
}  // namespace plait::firmware
