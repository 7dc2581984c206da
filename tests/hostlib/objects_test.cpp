#include <gtest/gtest.h>

#include <plait/driver.hpp>

#include "fake_device.hpp"

namespace plait::contract_test {
namespace {

using namespace regmap;

struct ObjectsTest : testing::Test {
    void SetUp() override { open({}); }
    void open(const DriverOptions& options) {
        driver.reset();
        auto opened = Driver::open(fake, options);
        ASSERT_TRUE(opened) << opened.error().message;
        driver = std::move(opened.value());
    }
    void TearDown() override {
        driver.reset();
        EXPECT_TRUE(fake.live.empty());
        EXPECT_EQ(fake.bad_frees, 0U);
    }
    FakeDevice fake;
    std::unique_ptr<Driver> driver;
};

TEST_F(ObjectsTest, a_queue_pair_from_its_queues_to_its_end) {
    const std::uint32_t completions = driver->create_completion_queue().value();
    const std::uint32_t sends = driver->create_send_queue(completions).value();
    const std::uint32_t receives = driver->create_receive_queue(completions).value();
    const Qp qp = driver
                      ->create_qp({.mtu_bytes = 1024,
                                   .window_packets = 64,
                                   .entropy_values = 32,
                                   .spray_policy = SprayPolicy::round_robin,
                                   .send_queue = sends,
                                   .receive_queue = receives})
                      .value();
    EXPECT_EQ(qp.first_psn, 1000 + qp.qpn);
    const AdminRequest& seen = fake.device.transport().qps.at(qp.qpn);
    EXPECT_EQ(seen.mtu_bytes, 1024);
    EXPECT_EQ(seen.window_packets, 64);
    EXPECT_EQ(seen.entropy_values, 32);
    EXPECT_EQ(seen.spray_policy, SprayPolicy::round_robin);
    EXPECT_EQ(seen.send_queue, sends);
    EXPECT_EQ(seen.receive_queue, receives);

    ASSERT_TRUE(driver->connect_qp(qp.qpn, {.device = 3, .qpn = 44, .first_psn = 555}));
    const AdminRequest& connected = fake.device.transport().connected.at(0);
    EXPECT_EQ(connected.object, qp.qpn);
    EXPECT_EQ(connected.peer_device, 3U);
    EXPECT_EQ(connected.peer_qpn, 44U);
    EXPECT_EQ(connected.peer_psn, 555U);

    EXPECT_EQ(driver->destroy_queue(sends).status(), Status::invalid_state);
    EXPECT_EQ(driver->destroy_queue(completions).status(), Status::invalid_state);
    EXPECT_TRUE(driver->destroy_qp(qp.qpn));
    EXPECT_EQ(driver->destroy_qp(qp.qpn).status(), Status::invalid_qp);
    EXPECT_TRUE(driver->destroy_queue(sends));
    EXPECT_TRUE(driver->destroy_queue(receives));
    EXPECT_TRUE(driver->destroy_queue(completions));
    EXPECT_EQ(driver->destroy_queue(sends).status(), Status::invalid_queue);
    EXPECT_EQ(fake.live.size(), 2U) << "the administration's rings";
}

TEST_F(ObjectsTest, refusals_name_the_command_and_the_reason) {
    const auto refused = driver->create_send_queue(77);
    EXPECT_EQ(refused.status(), Status::invalid_queue);
    EXPECT_EQ(refused.error().message, "create_queue: the device answered invalid_queue");
    EXPECT_EQ(fake.live.size(), 2U) << "its ring is free again";
    EXPECT_EQ(driver->create_qp({.mtu_bytes = 1000}).status(), Status::invalid_parameter);
    EXPECT_EQ(driver->create_qp({.send_queue = 5}).status(), Status::invalid_queue);
    fake.device.transport().refuse = Status::limit_exceeded;
    EXPECT_EQ(driver->create_qp({}).status(), Status::limit_exceeded);
    EXPECT_EQ(driver->connect_qp(1, {.device = 0, .qpn = 1, .first_psn = 0}).status(), Status::invalid_qp);
    EXPECT_EQ(driver->register_memory(0x1000, 0, 0).status(), Status::invalid_length);
    EXPECT_EQ(driver->register_memory(0x1000, 1, 99).status(), Status::invalid_parameter);
    EXPECT_EQ(driver->deregister_memory(0).status(), Status::invalid_key);
    EXPECT_EQ(driver->destroy_group(1).status(), Status::invalid_group);
}

TEST_F(ObjectsTest, limits_of_queues) {
    EXPECT_EQ(driver->create_completion_queue(3).status(), Status::invalid_parameter);
    EXPECT_EQ(driver->create_completion_queue(16).status(), Status::invalid_parameter);
    EXPECT_EQ(driver->create_completion_queue(4 + 256).status(), Status::invalid_parameter);
    EXPECT_EQ(driver->destroy_queue(0).status(), Status::invalid_queue);
    EXPECT_EQ(driver->destroy_queue(~0U).status(), Status::invalid_queue);
    for (std::uint32_t i = 1; i < max_queues; ++i) ASSERT_EQ(driver->create_completion_queue(4).value(), i);
    const auto refused = driver->create_completion_queue(4);
    EXPECT_EQ(refused.status(), Status::limit_exceeded);
    EXPECT_NE(refused.error().message.find("1023"), std::string::npos) << refused.error().message;
    ASSERT_TRUE(driver->destroy_queue(500));
    EXPECT_EQ(driver->create_completion_queue(4).value(), 500U);
}

TEST_F(ObjectsTest, no_shared_memory_left) {
    fake.allocated = FakeDevice::memory_bytes;
    EXPECT_EQ(driver->create_completion_queue().status(), Status::no_memory);
    EXPECT_EQ(driver->create_group({.ranks = 1}, std::array{0U}, 1).status(), Status::no_memory);
    fake.allocated = 1U << 20;
    EXPECT_TRUE(driver->create_completion_queue());
}

TEST_F(ObjectsTest, memory_gets_keys_that_the_device_checks) {
    const std::uint32_t key =
        driver->register_memory(0x10000, 0x1000, plait::access_local_write | plait::access_remote_write)
            .value();
    EXPECT_EQ(fake.device.memory_table().check(key, 0x10fff, 1, plait::access_remote_write), Status::ok);
    EXPECT_EQ(fake.device.memory_table().check(key, 0x10fff, 1, plait::access_remote_read),
              Status::access_denied);
    EXPECT_TRUE(driver->deregister_memory(key));
    EXPECT_EQ(fake.device.memory_table().check(key, 0x10fff, 1, 0), Status::invalid_key);
    EXPECT_EQ(driver->deregister_memory(key).status(), Status::invalid_key);
}

TEST_F(ObjectsTest, a_group_is_described_in_memory) {
    const std::uint32_t completions = driver->create_completion_queue().value();
    const std::uint32_t calls = driver->create_collective_queue(completions).value();
    const GroupParameters parameters{.rank = 1, .ranks = 3, .ranks_per_node = 1, .experts = 6};
    const std::array<std::uint32_t, 3> qpns{7, 0, 9};
    const auto group = driver->create_group(parameters, qpns, calls);
    ASSERT_TRUE(group) << group.error().message;
    EXPECT_EQ(group.value(), FakeEp<ContractDevice>::group_number);
    const AdminRequest& seen = fake.device.ep().created.at(0);
    EXPECT_EQ(seen.length, sizeof parameters + sizeof qpns);
    EXPECT_EQ(fake.device.hal().load<GroupParameters>(seen.address), parameters);
    EXPECT_EQ((fake.device.hal().load<std::array<std::uint32_t, 3>>(seen.address + sizeof parameters)), qpns);
    EXPECT_EQ(fake.live.size(), 4U) << "the description is free again";

    EXPECT_EQ(driver->create_group(parameters, std::span(qpns).first(2), calls).status(),
              Status::invalid_parameter);
    EXPECT_EQ(driver->create_group(parameters, {}, calls).status(), Status::invalid_parameter);
    const std::vector<std::uint32_t> many(257);
    EXPECT_EQ(driver->create_group({.ranks = 257}, many, calls).status(), Status::invalid_parameter);
    EXPECT_EQ(driver->create_group(parameters, qpns, completions).status(), Status::invalid_queue);
    EXPECT_EQ(fake.device.ep().created.size(), 1U);
    fake.device.ep().answer = Status::limit_exceeded;
    const std::uint32_t more = driver->create_collective_queue(completions).value();
    EXPECT_EQ(driver->create_group(parameters, qpns, more).status(), Status::limit_exceeded);
    EXPECT_EQ(driver->destroy_queue(calls).status(), Status::invalid_state);
    EXPECT_TRUE(driver->destroy_group(group.value()));
    EXPECT_TRUE(driver->destroy_queue(calls));
}

TEST_F(ObjectsTest, a_late_answer_to_a_command_given_up_is_not_taken_for_another) {
    open({.timeout_ns = 50'000});
    const std::uint32_t completions = driver->create_completion_queue().value();
    const std::uint32_t calls = driver->create_collective_queue(completions).value();
    fake.device.ep().hold = true;
    const std::uint64_t start = fake.now;
    const auto given_up = driver->create_group({.ranks = 1}, std::array{0U}, calls);
    EXPECT_EQ(given_up.status(), Status::timeout);
    EXPECT_NE(given_up.error().message.find("create_group"), std::string::npos);
    EXPECT_GE(fake.now - start, 50'000U);
    EXPECT_LE(fake.now - start, 60'000U);
    EXPECT_EQ(fake.live.size(), 5U) << "the device may still read the description";
    EXPECT_EQ(driver->register_memory(0x1000, 1, 0).status(), Status::timeout)
        << "commands are carried out in order";
    fake.at(fake.now + 5'000, [&] { fake.device.admin().complete(2, 3, Status::ok); });
    const auto key = driver->register_memory(0x2000, 1, 0);
    ASSERT_TRUE(key) << key.error().message;
    EXPECT_EQ(fake.device.memory_table().check(key.value(), 0x2000, 1, 0), Status::ok);
    EXPECT_EQ(driver->statistics().late_completions, 2U);
}

TEST_F(ObjectsTest, a_queue_in_doubt_keeps_its_number_and_memory) {
    open({.timeout_ns = 50'000, .admin_log2_entries = 2});
    fake.deaf = true;
    EXPECT_EQ(driver->create_completion_queue().status(), Status::timeout);
    EXPECT_EQ(fake.live.size(), 3U);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(driver->deregister_memory(1).status(), Status::timeout);
    const auto full = driver->deregister_memory(1);
    EXPECT_EQ(full.status(), Status::queue_full) << "four commands are in doubt";
    fake.deaf = false;
    fake.device.registers().write(reg::doorbell_offset, 4);
    fake.device.run();
    EXPECT_EQ(driver->create_completion_queue().value(), 2U) << "queue 1 exists on the device";
    EXPECT_EQ(driver->statistics().late_completions, 4U);
}

TEST_F(ObjectsTest, destroying_again_what_was_destroyed_late) {
    open({.timeout_ns = 50'000});
    const std::uint32_t queue = driver->create_completion_queue().value();
    fake.deaf = true;
    EXPECT_EQ(driver->destroy_queue(queue).status(), Status::timeout);
    fake.deaf = false;
    EXPECT_TRUE(driver->destroy_queue(queue)) << "the second doorbell covers both commands";
    EXPECT_EQ(driver->create_completion_queue().value(), queue);
}

TEST_F(ObjectsTest, registers_tell) {
    fake.device.hal().ports_up = 0b0101;
    EXPECT_EQ(driver->port_state().value(), 0b0101U);
    fake.device.registers().count_drop(DropReason::icrc);
    EXPECT_EQ(driver->drop_count(DropReason::icrc).value(), 1U);
    EXPECT_EQ(driver->drop_count(DropReason::length).value(), 0U);
    EXPECT_EQ(driver->drop_count(static_cast<DropReason>(32)).status(), Status::invalid_parameter);
    EXPECT_TRUE(driver->set_qp_time_limit_us(250));
    EXPECT_EQ(driver->set_qp_time_limit_us(0).status(), Status::invalid_parameter);
    fake.settle();
    EXPECT_EQ(fake.device.registers().qp_time_limit_us(), 250U);
    EXPECT_EQ(driver->statistics().commands, 0U);
}

}  // namespace
}  // namespace plait::contract_test
