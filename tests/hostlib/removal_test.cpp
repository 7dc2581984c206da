#include <gtest/gtest.h>

#include <plait/driver.hpp>

#include "fake_device.hpp"

namespace plait::contract_test {
namespace {

using namespace regmap;

struct RemovalTest : testing::Test {
    void SetUp() override {
        auto opened = Driver::open(fake, {.removal_check_ns = 100'000});
        ASSERT_TRUE(opened);
        driver = std::move(opened.value());
        completions = driver->create_completion_queue(4).value();
        sends = driver->create_send_queue(completions, 4).value();
    }
    void TearDown() override {
        driver.reset();
        EXPECT_TRUE(fake.live.empty());
        EXPECT_EQ(fake.bad_frees, 0U);
    }
    void every_call_says(Status status) {
        EXPECT_EQ(driver->device_number().status(), status);
        EXPECT_EQ(driver->port_state().status(), status);
        EXPECT_EQ(driver->drop_count(DropReason::icrc).status(), status);
        EXPECT_EQ(driver->set_qp_time_limit_us(1).status(), status);
        EXPECT_EQ(driver->create_completion_queue().status(), status);
        EXPECT_EQ(driver->create_send_queue(completions).status(), status);
        EXPECT_EQ(driver->create_receive_queue(completions).status(), status);
        EXPECT_EQ(driver->create_collective_queue(completions).status(), status);
        EXPECT_EQ(driver->destroy_queue(sends).status(), status);
        EXPECT_EQ(driver->create_qp({}).status(), status);
        EXPECT_EQ(driver->connect_qp(1, {}).status(), status);
        EXPECT_EQ(driver->destroy_qp(1).status(), status);
        EXPECT_EQ(driver->register_memory(0, 1, 0).status(), status);
        EXPECT_EQ(driver->deregister_memory(1).status(), status);
        EXPECT_EQ(driver->create_group({.ranks = 1}, std::array{0U}, 1).status(), status);
        EXPECT_EQ(driver->destroy_group(1).status(), status);
        EXPECT_EQ(driver->post_send(sends, WorkRequest{}).status(), status);
        EXPECT_EQ(driver->post_receive(sends, ReceiveRequest{}).status(), status);
        EXPECT_EQ(driver->post_collective(sends, EpRequest{}).status(), status);
        EXPECT_EQ(driver->free_entries(sends).status(), status);
        EXPECT_EQ(driver->poll(completions, found).status(), status);
        EXPECT_EQ(driver->wait(completions, found, ~std::uint64_t{0}).status(), status);
    }
    FakeDevice fake;
    std::unique_ptr<Driver> driver;
    std::uint32_t completions = 0, sends = 0;
    std::array<Completion, 4> found;
};

TEST_F(RemovalTest, ends_a_wait_at_once) {
    const std::uint64_t start = fake.now;
    fake.at(start + 20'000, [&] { fake.removed = true; });
    EXPECT_EQ(driver->wait(completions, found, ~std::uint64_t{0}).status(), Status::device_removed);
    EXPECT_LE(fake.now - start, 25'000U);
    every_call_says(Status::device_removed);
    EXPECT_LE(fake.now - start, 25'000U) << "nothing waited";
}

TEST_F(RemovalTest, is_found_even_when_the_link_does_not_notice) {
    fake.notices_removal = false;
    const std::uint64_t start = fake.now;
    fake.at(start + 250'000, [&] { fake.removed = true; });
    EXPECT_EQ(driver->wait(completions, found, ~std::uint64_t{0}).status(), Status::device_removed);
    EXPECT_GE(fake.now - start, 250'000U);
    EXPECT_LE(fake.now - start, 410'000U);
}

TEST_F(RemovalTest, ends_a_command) {
    fake.at(fake.now + 100, [&] { fake.removed = true; });
    EXPECT_EQ(driver->create_completion_queue().status(), Status::device_removed);
    every_call_says(Status::device_removed);
}

TEST_F(RemovalTest, is_found_by_any_register_read) {
    fake.removed = true;
    EXPECT_TRUE(driver->device_number()) << "nothing was read yet";
    EXPECT_EQ(driver->port_state().status(), Status::device_removed);
    every_call_says(Status::device_removed);
}

TEST_F(RemovalTest, a_value_of_all_ones_is_not_removal) {
    fake.forced_reads[reg::drop_count_offset] = ~0U;
    EXPECT_EQ(driver->drop_count(DropReason::none).value(), ~0U);
    EXPECT_TRUE(driver->port_state());
}

TEST_F(RemovalTest, what_was_completed_before_is_still_given_out) {
    const std::uint32_t qpn = driver->create_qp({.send_queue = sends}).value().qpn;
    ASSERT_TRUE(driver->post_send(sends, make_send({}, qpn)));
    fake.settle();
    fake.removed = true;
    EXPECT_EQ(driver->wait(completions, found, 1000).value(), 1U);
    EXPECT_EQ(driver->wait(completions, found, 1000).status(), Status::device_removed);
}

TEST_F(RemovalTest, a_device_that_stops_itself_ends_a_wait_with_the_reason) {
    const std::uint64_t start = fake.now;
    fake.at(start + 20'000, [&] { fake.device.registers().fail(Status::out_of_range); });
    const auto ended = driver->wait(completions, found, ~std::uint64_t{0});
    EXPECT_EQ(ended.status(), Status::device_fatal);
    EXPECT_NE(ended.error().message.find("out_of_range"), std::string::npos) << ended.error().message;
    EXPECT_LE(fake.now - start, 25'000U);
    every_call_says(Status::device_fatal);
    driver.reset();
    EXPECT_FALSE(fake.device.registers().is_fatal()) << "closing resets it";
    EXPECT_TRUE(fake.live.empty());
}

TEST_F(RemovalTest, a_ring_the_device_cannot_read_stops_it) {
    ASSERT_TRUE(driver->create_qp({.send_queue = sends}));
    ASSERT_TRUE(driver->post_send(sends, make_send({}, 1)));
    fake.device.hal().is_reachable = false;
    EXPECT_EQ(driver->wait(completions, found, 1'000'000).status(), Status::device_fatal);
}

}  // namespace
}  // namespace plait::contract_test
