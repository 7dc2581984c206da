#include <gtest/gtest.h>

#include <array>
#include <plait/engines/rx_window.hpp>
#include <random>
#include <set>
#include <type_traits>

#include "seed.hpp"

namespace plait::engines {
namespace {

static_assert(std::is_trivially_destructible_v<RxWindow>);
static_assert(std::is_trivially_copyable_v<RxWindow>);

TEST(Psn, SerialArithmetic) {
    EXPECT_EQ(psn_add(0xFFFFFF, 1), 0u);
    EXPECT_EQ(psn_add(0, static_cast<uint32_t>(-1)), 0xFFFFFFu);
    EXPECT_EQ(psn_diff(0, 0xFFFFFF), 1);
    EXPECT_EQ(psn_diff(0xFFFFFF, 0), -1);
    EXPECT_EQ(psn_diff(0x7FFFFF, 0), 0x7FFFFF);
    EXPECT_EQ(psn_diff(0x800000, 0), -0x800000);  // exactly 2^23 ahead is behind
    EXPECT_EQ(psn_diff(0x800001, 0), -0x7FFFFF);
}

TEST(RxWindow, RefusesOtherSizes) {
    RxWindow window;
    ASSERT_TRUE(window.reset(7, 128));
    for (uint32_t size : {0u, 1u, 63u, 65u, 96u, 1024u, 0x80000000u})
        EXPECT_FALSE(window.reset(1, size)) << size;
    EXPECT_EQ(window.next_expected(), 7u);
    EXPECT_EQ(window.window_packets(), 128u);
}

TEST(RxWindow, InOrder) {
    RxWindow window;
    window.reset(0xFFFFFE, 64);
    for (uint32_t expected : {0xFFFFFFu, 0u, 1u}) {
        const RxVerdict verdict = window.receive(psn_add(expected, static_cast<uint32_t>(-1)));
        EXPECT_EQ(verdict.verdict, Verdict::accept);
        EXPECT_EQ(verdict.cumulative_psn, expected);
        EXPECT_TRUE(verdict.advanced);
        EXPECT_FALSE(verdict.hole);
    }
    EXPECT_EQ(window.receive(0xFFFFFE).verdict, Verdict::duplicate);
}

TEST(RxWindow, NeverSkipsAGap) {
    for (uint32_t size : {64u, 128u, 256u, 512u}) {
        RxWindow window;
        window.reset(100, size);
        for (uint32_t i = 1; i < size; ++i) {
            const RxVerdict verdict = window.receive(100 + i);
            EXPECT_EQ(verdict.verdict, Verdict::accept);
            EXPECT_FALSE(verdict.advanced);
            EXPECT_TRUE(verdict.hole);
        }
        EXPECT_FALSE(window.would_accept(100 + size));
        EXPECT_EQ(window.receive(100 + size).verdict, Verdict::out_of_window);
        EXPECT_EQ(window.next_expected(), 100u);
        EXPECT_EQ(window.highest(), 100 + size);

        const RxVerdict filled = window.receive(100);
        EXPECT_TRUE(filled.advanced);
        EXPECT_FALSE(filled.hole);
        EXPECT_EQ(filled.cumulative_psn, 100 + size);
        EXPECT_TRUE(window.would_accept(100 + size));
    }
}

TEST(RxWindow, HalfTheSpaceAheadIsADuplicate) {
    RxWindow window;
    window.reset(0x123456, 512);
    EXPECT_EQ(window.receive(psn_add(0x123456, 0x7FFFFF)).verdict, Verdict::out_of_window);
    EXPECT_EQ(window.receive(psn_add(0x123456, 0x800000)).verdict, Verdict::duplicate);
}

// The obvious window: a set of unbounded packet numbers.
struct Model {
    uint64_t next;
    uint64_t highest;
    uint64_t window;
    std::set<uint64_t> received;

    Verdict receive(uint64_t number) {
        if (number < next || received.count(number)) return Verdict::duplicate;
        if (number >= next + window) return Verdict::out_of_window;
        received.insert(number);
        highest = std::max(highest, number + 1);
        while (received.count(next)) ++next;
        return Verdict::accept;
    }
    bool has(uint64_t number) const { return number < next || received.count(number); }
};

void compare_bitmaps(const RxWindow& window, const Model& model, uint64_t base) {
    std::array<uint64_t, 9> words{};
    window.bitmap(static_cast<uint32_t>(base & psn_mask), words);
    for (uint64_t i = 0; i < 64 * words.size(); ++i) {
        ASSERT_EQ(words[i / 64] >> (i % 64) & 1, model.has(base + i) ? 1u : 0u) << base << " + " << i;
        ASSERT_EQ(window.received(static_cast<uint32_t>((base + i) & psn_mask)), model.has(base + i));
    }
}

TEST(RxWindow, AgreesWithASetOfNumbersAcrossTheWrap) {
    const uint64_t seed = test::seed_or(20);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937_64 random(seed);
    for (uint32_t size : {64u, 128u, 256u, 512u}) {
        for (uint32_t spread : {2u, 40u, size, 2 * size}) {
            const uint64_t first = (uint64_t{1} << 24) * 3 - 700 - random() % 300;
            Model model{first, first, size, {}};
            RxWindow window;
            window.reset(static_cast<uint32_t>(first & psn_mask), size);
            for (int step = 0; step < 6000; ++step) {
                // Mostly near the expected packet, now and then far behind it; the gap itself must be filled
                // to move on.
                uint64_t number = model.next + random() % spread;
                if (random() % 8 == 0) number = model.next;
                if (random() % 16 == 0) number = model.next - 1 - random() % 600;
                const auto psn = static_cast<uint32_t>(number & psn_mask);
                const uint64_t before = model.next;
                ASSERT_EQ(window.would_accept(psn), !model.has(number) && number < model.next + size);
                const Verdict expected = model.receive(number);
                const RxVerdict verdict = window.receive(psn);
                ASSERT_EQ(verdict.verdict, expected);
                ASSERT_EQ(verdict.cumulative_psn, model.next & psn_mask);
                ASSERT_EQ(verdict.advanced, model.next != before);
                ASSERT_EQ(verdict.hole, model.next != model.highest);
                ASSERT_EQ(window.next_expected(), model.next & psn_mask);
                ASSERT_EQ(window.highest(), model.highest & psn_mask);
                if (step % 100 == 0)
                    compare_bitmaps(window, model, model.next - 100 + random() % (size + 200));
            }
            EXPECT_GT(model.next, first + 1000) << "the stream should have crossed the wrap";
        }
    }
}

TEST(RxWindow, RefusedPacketsNeverCame) {
    const uint64_t seed = test::seed_or(21);
    SCOPED_TRACE(test::seed_message(seed));
    std::mt19937_64 random(seed);
    for (uint32_t size : {64u, 128u, 512u}) {
        const uint64_t first = (uint64_t{1} << 24) * 3 - 500;
        Model model{first, first, size, {}};
        RxWindow window;
        window.reset(static_cast<uint32_t>(first & psn_mask), size);
        uint64_t taken_back = 0;
        for (int step = 0; step < 6000; ++step) {
            const uint64_t number = random() % 3 == 0 ? model.next : model.next + random() % size;
            const auto psn = static_cast<uint32_t>(number & psn_mask);
            const Model before = model;
            const Verdict expected = model.receive(number);
            ASSERT_EQ(window.receive(psn).verdict, expected);
            if (expected == Verdict::accept && random() % 2 == 0) {
                window.refuse(psn);
                model = before;
                ++taken_back;
            }
            ASSERT_EQ(window.next_expected(), model.next & psn_mask);
            ASSERT_EQ(window.highest(), model.highest & psn_mask);
            compare_bitmaps(window, model, model.next - 70);
        }
        EXPECT_GT(taken_back, 500u);
        EXPECT_GT(model.next, first + 600) << "the stream should have crossed the wrap";
    }
}

}  // namespace
}  // namespace plait::engines
