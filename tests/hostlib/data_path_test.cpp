#include <gtest/gtest.h>

#include <cstdlib>
#include <plait/driver.hpp>
#include <random>
#include <string>

#include "fake_device.hpp"

namespace plait::contract_test {
namespace {

using namespace regmap;

/// One queue pair; its queues have 16 entries and share a completion queue of 32.
struct DataPathTest : testing::Test {
    void SetUp() override {
        auto opened = Driver::open(fake);
        ASSERT_TRUE(opened);
        driver = std::move(opened.value());
        completions = driver->create_completion_queue(5).value();
        sends = driver->create_send_queue(completions, 4).value();
        receives = driver->create_receive_queue(completions, 4).value();
        qpn = driver->create_qp({.send_queue = sends, .receive_queue = receives}).value().qpn;
    }
    void TearDown() override {
        driver.reset();
        EXPECT_TRUE(fake.live.empty());
        EXPECT_EQ(fake.device.queues().statistics().refused_doorbells, 0U);
    }
    std::size_t poll() {
        const auto count = driver->poll(completions, found);
        EXPECT_TRUE(count) << count.error().message;
        return count.ok() ? count.value() : 0;
    }
    FakeTransport<ContractDevice>& transport() { return fake.device.transport(); }

    FakeDevice fake;
    std::unique_ptr<Driver> driver;
    std::uint32_t completions = 0, sends = 0, receives = 0, qpn = 0;
    std::array<Completion, 64> found;
};

TEST_F(DataPathTest, requests_arrive_as_posted_and_complete) {
    const std::array<std::byte, 5> payload{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4},
                                           std::byte{5}};
    const WorkRequest write = make_write({0x1000, 77, 3}, {0x2000, 4}, 9);
    const WorkRequest small = with_inline(with_immediate(make_send({}, 10), 0xabcd), payload).value();
    ASSERT_TRUE(driver->post_send(sends, write));
    ASSERT_TRUE(driver->post_send(sends, small));
    EXPECT_EQ(poll(), 0U) << "the doorbell is still on its way";
    fake.settle();
    ASSERT_EQ(transport().sent.size(), 2U);
    EXPECT_EQ(transport().sent[0].request, write);
    EXPECT_EQ(transport().sent[1].request, small);
    EXPECT_EQ(transport().sent[0].owner, qpn);
    ASSERT_EQ(poll(), 2U);
    EXPECT_EQ(found[0].user_data, 9U);
    EXPECT_EQ(found[0].object, qpn);
    EXPECT_EQ(found[0].length, 77U);
    EXPECT_EQ(found[0].queue, sends);
    EXPECT_EQ(found[1].user_data, 10U);
    EXPECT_EQ(poll(), 0U);
    EXPECT_EQ(driver->statistics().posted, 2U);
    EXPECT_EQ(driver->statistics().completions, 2U);

    const ReceiveRequest receive = make_receive({0x5000, 64, 8}, 11);
    ASSERT_TRUE(driver->post_receive(receives, receive));
    fake.settle();
    ASSERT_EQ(transport().received.size(), 1U);
    EXPECT_EQ(transport().received[0].request, receive);
}

TEST_F(DataPathTest, rings_wrap_under_random_traffic) {
    const char* text = std::getenv("PLAIT_SEED");
    const std::uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 0) : 3;
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::uint64_t posted = 0;
    std::uint64_t completed = 0;
    while (posted < 150'000) {  // beyond 2^16, twice
        std::vector<WorkRequest> batch(random() % 17);
        for (std::size_t i = 0; i < batch.size(); ++i) batch[i] = make_send({}, posted + i);
        const auto status = driver->post_send(sends, batch).status();
        ASSERT_EQ(status, posted - completed + batch.size() > 16 ? Status::queue_full : Status::ok);
        if (status == Status::ok) posted += batch.size();
        ASSERT_EQ(driver->free_entries(sends).value(), 16 - (posted - completed));
        fake.advance(fake.now + random() % 1000);
        const auto count = driver->poll(completions, std::span(found).first(random() % 8));
        ASSERT_TRUE(count);
        for (std::size_t i = 0; i < count.value(); ++i) ASSERT_EQ(found[i].user_data, completed++);
    }
    fake.settle();
    EXPECT_EQ(completed + poll(), posted);
    EXPECT_EQ(fake.device.queues().statistics().lost_completions, 0U);
}

TEST_F(DataPathTest, a_full_queue_takes_nothing) {
    transport().hold = true;
    const std::vector<WorkRequest> requests(15, make_send({}, 1));
    ASSERT_TRUE(driver->post_send(sends, requests));
    EXPECT_EQ(driver->post_send(sends, std::span(requests).first(2)).status(), Status::queue_full);
    EXPECT_EQ(driver->free_entries(sends).value(), 1U) << "all or none";
    EXPECT_TRUE(driver->post_send(sends, requests[0]));
    const auto full = driver->post_send(sends, requests[0]);
    EXPECT_EQ(full.status(), Status::queue_full);
    fake.settle();
    EXPECT_EQ(transport().sent.size(), 16U) << "that the device took them does not make the entries free";
    EXPECT_EQ(driver->post_send(sends, requests[0]).status(), Status::queue_full);
    transport().complete_send(transport().sent[3], Status::ok);
    ASSERT_EQ(poll(), 1U);
    EXPECT_EQ(driver->free_entries(sends).value(), 4U) << "this one and those before it";
    transport().complete_send(transport().sent[1], Status::flushed);
    ASSERT_EQ(poll(), 1U);
    EXPECT_EQ(driver->free_entries(sends).value(), 4U) << "freed before";
}

TEST_F(DataPathTest, unsignalled_requests_are_freed_by_a_later_one) {
    for (int i = 0; i < 15; ++i) ASSERT_TRUE(driver->post_send(sends, unsignalled(make_send({}, 1))));
    ASSERT_TRUE(driver->post_send(sends, make_send({}, 2)));
    fake.settle();
    ASSERT_EQ(poll(), 1U);
    EXPECT_EQ(found[0].user_data, 2U);
    EXPECT_EQ(driver->free_entries(sends).value(), 16U);
}

TEST_F(DataPathTest, an_index_never_posted_frees_nothing) {
    transport().hold = true;
    ASSERT_TRUE(driver->post_send(sends, make_send({}, 1)));
    fake.settle();
    Taken<WorkRequest> wrong = transport().sent[0];
    wrong.index = 5;
    transport().complete_send(wrong, Status::ok);
    ASSERT_EQ(poll(), 1U);
    EXPECT_EQ(driver->free_entries(sends).value(), 15U);
}

TEST_F(DataPathTest, queues_of_the_wrong_kind_are_refused) {
    EXPECT_EQ(driver->post_send(receives, make_send({}, 1)).status(), Status::invalid_queue);
    EXPECT_EQ(driver->post_send(completions, make_send({}, 1)).status(), Status::invalid_queue);
    EXPECT_EQ(driver->post_receive(sends, make_receive({}, 1)).status(), Status::invalid_queue);
    EXPECT_EQ(driver->post_collective(sends, EpRequest{}).status(), Status::invalid_queue);
    EXPECT_EQ(driver->post_send(0, make_send({}, 1)).status(), Status::invalid_queue);
    EXPECT_EQ(driver->post_send(1024, make_send({}, 1)).status(), Status::invalid_queue);
    EXPECT_EQ(driver->poll(sends, found).status(), Status::invalid_queue);
    EXPECT_EQ(driver->wait(sends, found, 1).status(), Status::invalid_queue);
    EXPECT_EQ(driver->poll(~0U, found).status(), Status::invalid_queue);
    EXPECT_EQ(driver->free_entries(completions).status(), Status::invalid_queue);
    EXPECT_EQ(driver->wait(completions, {}, 1).status(), Status::invalid_parameter);
    EXPECT_EQ(driver->poll(completions, {}).value(), 0U);
    EXPECT_TRUE(driver->post_send(sends, std::span<const WorkRequest>{}));
}

TEST_F(DataPathTest, collective_requests_reach_their_group) {
    const std::uint32_t calls = driver->create_collective_queue(completions).value();
    const std::uint32_t group = driver->create_group({.ranks = 1}, std::array{0U}, calls).value();
    EpRequest request;
    request.opcode = EpOpcode::combine;
    request.user_data = 12;
    ASSERT_TRUE(driver->post_collective(calls, request));
    fake.settle();
    ASSERT_EQ(fake.device.ep().submitted.size(), 1U);
    EXPECT_EQ(fake.device.ep().submitted[0].request, request);
    EXPECT_EQ(fake.device.ep().submitted[0].owner, group);
}

TEST_F(DataPathTest, a_wait_ends_in_time) {
    const std::uint64_t start = fake.now;
    const auto nothing = driver->wait(completions, found, 123'456);
    EXPECT_EQ(nothing.status(), Status::timeout);
    EXPECT_GE(fake.now - start, 123'456U);
    EXPECT_LE(fake.now - start, 125'000U);
    EXPECT_EQ(driver->wait(completions, found, 0).status(), Status::timeout);
}

TEST_F(DataPathTest, a_wait_takes_what_is_there_without_waiting) {
    ASSERT_TRUE(driver->post_send(sends, make_send({}, 1)));
    fake.settle();
    const std::uint64_t start = fake.now;
    EXPECT_EQ(driver->wait(completions, found, 0).value(), 1U);
    EXPECT_EQ(fake.now, start);
}

/// Completions come at random times, between any two steps of a wait: each ends the wait at once, not at its
/// timeout.
TEST_F(DataPathTest, no_wake_up_is_lost) {
    const char* text = std::getenv("PLAIT_SEED");
    const std::uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 0) : 5;
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    const std::uint32_t other = driver->create_completion_queue(15).value();
    const std::uint32_t other_sends = driver->create_send_queue(other, 15).value();
    const std::uint32_t other_qpn = driver->create_qp({.send_queue = other_sends}).value().qpn;
    for (int round = 0; round < 5000; ++round) {
        const unsigned count = 1 + static_cast<unsigned>(random() % 3);
        std::uint64_t last = fake.now;
        for (unsigned i = 0; i < count; ++i) {
            const std::uint64_t time = fake.now + random() % 3000;
            last = std::max(last, time);
            fake.at(time, [this] { transport().complete_send({qpn, make_send({}, 1), 0}, Status::ok); });
        }
        if (random() % 2 == 0)  // somebody else's, which nobody waits for
            fake.at(fake.now + random() % 3000, [&, other_qpn] {
                transport().complete_send({other_qpn, make_send({}, 2), 0}, Status::ok);
            });
        for (unsigned seen = 0; seen < count;) {
            const auto got = driver->wait(completions, std::span(found).first(1 + random() % 2), 1'000'000);
            ASSERT_TRUE(got) << "round " << round << ": " << got.error().message;
            seen += static_cast<unsigned>(got.value());
        }
        ASSERT_LE(fake.now, last + 4 * FakeDevice::one_way_ns) << "round " << round;
        while (driver->poll(other, found).value() != 0) {
        }
    }
    EXPECT_GT(driver->statistics().interrupts, 1000U);
}

TEST_F(DataPathTest, another_queues_completions_do_not_end_a_wait) {
    const std::uint32_t other = driver->create_completion_queue().value();
    ASSERT_TRUE(driver->post_send(sends, make_send({}, 1)));
    EXPECT_EQ(driver->wait(other, found, 50'000).status(), Status::timeout);
    EXPECT_LE(driver->statistics().idle_interrupts, 3U)
        << "what nobody takes does not interrupt again and again";
    EXPECT_EQ(poll(), 1U);
}

TEST_F(DataPathTest, a_hostile_ring_is_harmless) {
    std::mt19937_64 random(11);
    for (int round = 0; round < 200; ++round) {
        std::vector<WorkRequest> garbage(8);
        for (WorkRequest& request : garbage) {
            std::array<std::uint8_t, sizeof request> bytes;
            for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
            std::memcpy(&request, bytes.data(), sizeof request);
            request.flags |= 1;
        }
        ASSERT_TRUE(driver->post_send(sends, garbage));
        fake.settle();
        ASSERT_EQ(transport().sent.size(), 8U);
        for (std::size_t i = 0; i < 8; ++i)
            ASSERT_EQ(transport().sent[i].request, garbage[i]) << "judged by its owner";
        transport().sent.clear();
        ASSERT_EQ(poll(), 8U);
    }
    EXPECT_EQ(fake.device.hal().writes_outside, 0U);
}

}  // namespace
}  // namespace plait::contract_test
