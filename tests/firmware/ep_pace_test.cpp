// The pace of a call; expected values worked out by hand.

#include <gtest/gtest.h>

#include <plait/firmware/ep_pace.hpp>

namespace plait::firmware {
namespace {

constexpr std::uint64_t start_ns = 5'000'000'000;
constexpr std::uint32_t ahead = EpPace::rows_ahead;

EpPace paced(std::uint32_t rows, std::uint64_t duration_ns) {
    EpPace pace;
    pace.start(start_ns, rows);
    pace.set_duration(duration_ns);
    return pace;
}

TEST(EpPace, WithoutADurationAllRowsMayGo) {
    EpPace pace;
    pace.start(start_ns, 1000);
    EXPECT_EQ(pace.allowed(start_ns, 0), 1000U);
    EXPECT_EQ(paced(1000, 0).allowed(start_ns, 0), 1000U);
}

TEST(EpPace, RowsGoEvenlyThroughTheDuration) {
    const EpPace pace = paced(1000, 4'000'000);
    EXPECT_EQ(pace.allowed(start_ns, 0), ahead);
    EXPECT_NEAR(pace.allowed(start_ns + 1'000'000, 0), 250 + ahead, 1);  // rounded down
    EXPECT_NEAR(pace.allowed(start_ns + 3'000'000, 0), 750 + ahead, 1);
}

TEST(EpPace, AfterTheDurationAllMayGo) {
    const EpPace pace = paced(1000, 4'000'000);
    EXPECT_EQ(pace.allowed(start_ns + 4'000'000, 0), 1000U);
    EXPECT_EQ(pace.allowed(start_ns + 3'600'000'000'000, 0), 1000U);  // an hour later
}

TEST(EpPace, NeverStopsACall) {
    // However early it is, some rows may be under way beyond those that are done: no timer has to wake
    // anybody.
    const EpPace pace = paced(1000, 4'000'000);
    EXPECT_EQ(pace.allowed(start_ns, 700), 700 + ahead);
    EXPECT_EQ(paced(1, 1'000'000'000).allowed(start_ns, 0), ahead);
}

TEST(EpPace, TheLargestCallsDoNotOverflow) {
    constexpr std::uint32_t rows = 16'384 * 16;  // max_tokens_per_rank * max_topk
    constexpr std::uint64_t duration_ns = 10'000'000'000;
    const EpPace pace = paced(rows, duration_ns);
    EXPECT_NEAR(pace.allowed(start_ns + duration_ns - 1, 0), rows + ahead, 4);
    EXPECT_NEAR(paced(rows, 1000).allowed(start_ns + 500, 0), rows / 2 + ahead, 2);
}

TEST(EpPace, IsTheRuleOfThreeAndNeverGoesBack) {
    for (const std::uint32_t rows : {1U, 2U, 17U, 1000U, 14'923U, 99'991U}) {
        for (const std::uint64_t duration_ns : {1000ULL, 77'777ULL, 2'283'793ULL, 99'999'989ULL}) {
            const EpPace pace = paced(rows, duration_ns);
            std::uint32_t last = 0;
            for (std::uint64_t step = 0; step < 64; ++step) {
                const std::uint64_t elapsed_ns = duration_ns * step / 64;
                const std::uint32_t allowed = pace.allowed(start_ns + elapsed_ns, 0);
                const double due = static_cast<double>(rows) * static_cast<double>(elapsed_ns) /
                                   static_cast<double>(duration_ns);
                EXPECT_NEAR(allowed, due + ahead, 1.5) << rows << " rows in " << duration_ns << " ns";
                EXPECT_GE(allowed, last);
                last = allowed;
            }
        }
    }
}

TEST(EpPace, LinkTimeCountsWhatComesAlong) {
    // 1000 rows of 7168 + 224 bytes in two packets, 192 bytes along with each: 7776 bytes at 50 a ns.
    EXPECT_EQ(link_time_ns(400, 1000, 7392, 2), 155'520U);
    EXPECT_EQ(link_time_ns(400, 0, 7392, 2), 0U);
}

}  // namespace
}  // namespace plait::firmware
