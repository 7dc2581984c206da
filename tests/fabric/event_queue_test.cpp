#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <plait/sim/fabric/event_queue.hpp>
#include <tuple>
#include <vector>

#include "network.hpp"

namespace plait::sim {
namespace {

// A queue beside its reference. Every event, when it runs, must be the first of the reference; it then
// schedules more.
class Twin {
  public:
    explicit Twin(uint64_t seed) : random_(seed, "events") {}

    void schedule_some(uint64_t most) {
        const uint64_t count = random_.uniform(most + 1);
        for (uint64_t i = 0; i < count; ++i) {
            // Same instant, same bucket, wheel, its edge, and the heap beyond.
            constexpr uint64_t ranges[] = {1, 100, 5'000, 1'000'000, 70'000'000, 2'000'000'000};
            const uint64_t time_ps = queue.now_ps() + random_.uniform(ranges[random_.uniform(6)]);
            const auto tie = static_cast<uint32_t>(random_.uniform(3));  // few values: many equal ties
            reference.emplace(std::tuple{time_ps, tie, sequence_}, sequence_);
            queue.schedule(time_ps, tie, run, this, sequence_++);
        }
    }

    EventQueue queue;
    std::multimap<std::tuple<uint64_t, uint32_t, uint64_t>, uint64_t> reference;
    uint64_t errors = 0;
    uint64_t most_new_events = 2;

  private:
    static void run(void* object, uint64_t argument) {
        Twin& twin = *static_cast<Twin*>(object);
        const auto expected = twin.reference.begin();
        if (expected->second != argument || std::get<0>(expected->first) != twin.queue.now_ps()) {
            ++twin.errors;
        }
        twin.reference.erase(expected);
        twin.schedule_some(twin.most_new_events);
    }

    Random random_;
    uint64_t sequence_ = 0;
};

TEST(EventQueue, AgreesWithAMultimap) {
    const uint64_t seed = testing::test_seed(1);
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    Twin twin(seed);
    Random random(seed, "limits");
    uint64_t rounds = 0;
    for (; rounds < 400 && twin.errors == 0; ++rounds) {
        twin.most_new_events = twin.reference.size() < 2'000 ? 2 : 1;
        twin.schedule_some(200);
        const uint64_t expected_next =
            twin.reference.empty() ? EventQueue::never : std::get<0>(twin.reference.begin()->first);
        ASSERT_EQ(twin.queue.next_time_ps(), expected_next);
        const uint64_t limit_ps =
            twin.queue.now_ps() + random.uniform(random.bernoulli(0.1) ? 200'000'000 : 20'000);
        twin.queue.run_until(limit_ps);
        ASSERT_EQ(twin.queue.now_ps(), limit_ps);
        ASSERT_EQ(twin.queue.pending(), twin.reference.size());
        ASSERT_TRUE(twin.reference.empty() || std::get<0>(twin.reference.begin()->first) > limit_ps);
    }
    twin.most_new_events = 0;
    twin.queue.run_until(EventQueue::never);
    EXPECT_EQ(twin.errors, 0U);
    EXPECT_EQ(twin.queue.pending(), 0U);
    EXPECT_GT(twin.queue.processed(), 10'000U);
    EXPECT_EQ(twin.queue.next_time_ps(), EventQueue::never);
    EXPECT_FALSE(twin.queue.step());
}

struct Log {
    EventQueue queue;
    std::vector<uint64_t> order;
    static void note(void* object, uint64_t argument) {
        static_cast<Log*>(object)->order.push_back(argument);
    }
};

TEST(EventQueue, OrdersByTimeThenTieThenScheduling) {
    Log log;
    log.queue.schedule(100, 2, Log::note, &log, 4);
    log.queue.schedule(100, 1, Log::note, &log, 2);
    log.queue.schedule(100, 1, Log::note, &log, 3);
    log.queue.schedule(99, 9, Log::note, &log, 1);
    log.queue.run_until(EventQueue::never);
    EXPECT_EQ(log.order, (std::vector<uint64_t>{1, 2, 3, 4}));
    EXPECT_EQ(log.queue.now_ps(), 100U);
}

// An event that waited in the heap and one scheduled later into the same instant keep their order.
TEST(EventQueue, FarEventsKeepTheirPlace) {
    Log log;
    constexpr uint64_t far_ps = 1'000'000'000;
    log.queue.schedule(far_ps, 5, Log::note, &log, 1);
    log.queue.schedule(far_ps, 5, Log::note, &log, 2);
    log.queue.schedule(far_ps - 10'000, 0, Log::note, &log, 0);
    log.queue.run_until(far_ps - 10'000);
    log.queue.schedule(far_ps, 5, Log::note, &log, 3);
    log.queue.run_until(EventQueue::never);
    EXPECT_EQ(log.order, (std::vector<uint64_t>{0, 1, 2, 3}));
}

// Looking for work up to a limit must not close the time before the next event.
TEST(EventQueue, TakesEarlierEventsAfterALook) {
    Log log;
    log.queue.schedule(50'000'000'000, 0, Log::note, &log, 3);
    EXPECT_EQ(log.queue.next_time_ps(), 50'000'000'000U);
    log.queue.run_until(1'000'000);
    log.queue.schedule(2'000'000, 0, Log::note, &log, 2);
    log.queue.schedule(1'000'000, 0, Log::note, &log, 1);
    EXPECT_EQ(log.queue.next_time_ps(), 1'000'000U);
    log.queue.run_until(EventQueue::never);
    EXPECT_EQ(log.order, (std::vector<uint64_t>{1, 2, 3}));
}

TEST(EventQueue, StopsAfterTheRunningHandler) {
    Log log;
    log.queue.schedule(
        10, 0, [](void* object, uint64_t) { static_cast<EventQueue*>(object)->stop(); }, &log.queue, 0);
    log.queue.schedule(20, 0, Log::note, &log, 1);
    log.queue.run_until(100);
    EXPECT_TRUE(log.order.empty());
    EXPECT_EQ(log.queue.now_ps(), 10U);
    log.queue.run_until(100);
    EXPECT_EQ(log.order.size(), 1U);
    EXPECT_EQ(log.queue.now_ps(), 100U);
}

// What it notes of an event that is expected is its argument and 1000.
TEST(EventQueue, ExpectsAnEventOnceBeforeItRuns) {
    Log log;
    const EventQueue::Handler handler{
        Log::note, [](void* object, uint64_t argument) { Log::note(object, argument + 1000); }};
    constexpr uint64_t count = 20;
    for (uint64_t i = 0; i < count; ++i) log.queue.schedule(1'000'000 + i, 0, handler, &log, i);
    log.queue.run_until(EventQueue::never);
    ASSERT_EQ(log.order.size(), 2 * count);
    for (uint64_t i = 0; i < count; ++i) {
        const auto expected = std::ranges::find(log.order, i + 1000);
        const auto run = std::ranges::find(log.order, i);
        EXPECT_LT(expected - log.order.begin(), run - log.order.begin()) << i;
    }
}

TEST(EventQueue, ExpectsNothingThatIsToHappenAtOnce) {
    Log log;
    const EventQueue::Handler handler{Log::note, [](void* object, uint64_t) { Log::note(object, 1000); }};
    log.queue.schedule(0, 0, handler, &log, 1);
    log.queue.run_until(0);
    EXPECT_EQ(log.order, (std::vector<uint64_t>{1}));
}

TEST(EventQueueDeathTest, RefusesThePast) {
    Log log;
    log.queue.run_until(100);
    EXPECT_DEATH(log.queue.schedule(99, 0, Log::note, &log, 0), "event for 99 ps scheduled at 100 ps");
    EXPECT_DEATH(log.queue.schedule(EventQueue::never, 0, Log::note, &log, 0), "EventQueue");
}

}  // namespace
}  // namespace plait::sim
