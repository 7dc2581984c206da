#include "contract_device.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>

namespace plait::contract_test {
namespace {

using regmap::Completion;

struct AdminTest : testing::Test {
    void SetUp() override { host.enable(); }

    void make_queues() {
        ASSERT_EQ(host.command(ContractHost::queue(1, QueueKind::completion, 4, ContractHost::rings)).status,
                  Status::ok);
        ASSERT_EQ(
            host.command(ContractHost::queue(2, QueueKind::send, 4, ContractHost::rings + 0x1000, 1)).status,
            Status::ok);
        ASSERT_EQ(host.command(ContractHost::queue(3, QueueKind::receive, 4, ContractHost::rings + 0x2000, 1))
                      .status,
                  Status::ok);
        ASSERT_EQ(
            host.command(ContractHost::queue(4, QueueKind::collective, 4, ContractHost::rings + 0x3000, 1))
                .status,
            Status::ok);
    }
    static AdminRequest group(std::uint64_t ranks = 8) {
        AdminRequest request;
        request.opcode = AdminOpcode::create_group;
        request.address = ContractHost::rings + 0x8000;
        request.length = sizeof(regmap::GroupParameters) + 4 * ranks;
        request.send_queue = 4;
        return request;
    }

    ContractDevice device;
    ContractHost host{device};
};

TEST_F(AdminTest, every_command_completes_once_with_its_id) {
    AdminRequest request = ContractHost::queue(1, QueueKind::completion, 4, ContractHost::rings);
    request.command_id = 0xdeadbeef;
    const Completion made = host.command(request);
    EXPECT_TRUE(host.is_new());
    EXPECT_EQ(made.user_data, 0xdeadbeefU);
    EXPECT_EQ(made.object, 1U);
    EXPECT_EQ(made.queue, 0U);
    EXPECT_EQ(made.opcode, 1);
    EXPECT_EQ(made.status, Status::ok);
    (void)host.completion();
    EXPECT_FALSE(host.is_new());
}

TEST_F(AdminTest, the_ring_wraps) {
    for (unsigned i = 0; i < 99; i += 3) {  // three commands a turn
        AdminRequest request;
        request.opcode = AdminOpcode::register_memory;
        request.command_id = i;
        request.address = 0x1000;
        request.length = 1 + i;
        const Completion made = host.command(request);
        ASSERT_TRUE(host.is_new()) << i;
        ASSERT_EQ(made.user_data, i);
        ASSERT_EQ(made.request_index, i);
        ASSERT_EQ(device.memory_table().check(made.object, 0x1000, 1 + i, 0), Status::ok);
        ASSERT_EQ(host.command(ContractHost::on(AdminOpcode::deregister_memory, made.object)).status,
                  Status::ok);
        ASSERT_EQ(host.command(ContractHost::on(AdminOpcode::deregister_memory, made.object)).status,
                  Status::invalid_key);
    }
}

TEST_F(AdminTest, memory_refusals) {
    AdminRequest request;
    request.opcode = AdminOpcode::register_memory;
    request.address = 0x1000;
    EXPECT_EQ(host.command(request).status, Status::invalid_length);
    request.length = ~std::uint64_t{0};
    EXPECT_EQ(host.command(request).status, Status::out_of_range);
    request.length = 1;
    request.access = 0x80000000;
    EXPECT_EQ(host.command(request).status, Status::invalid_parameter);
}

TEST_F(AdminTest, a_queue_pair_gets_its_queues) {
    make_queues();
    const Completion made = host.command(ContractHost::qp(2, 3));
    EXPECT_EQ(made.status, Status::ok);
    EXPECT_EQ(made.object, 1U);
    EXPECT_EQ(made.flags, 1);
    EXPECT_EQ(made.immediate, 1001U) << "its first PSN";
    host.doorbell(2, 1);
    device.run();
    EXPECT_EQ(device.transport().sent.size(), 1U);

    EXPECT_EQ(host.command(ContractHost::qp(2)).status, Status::invalid_state) << "the queue has an owner";
    EXPECT_EQ(host.command(ContractHost::on(AdminOpcode::destroy_queue, 2)).status, Status::invalid_state);
    EXPECT_EQ(host.command(ContractHost::on(AdminOpcode::destroy_qp, 99)).status, Status::invalid_qp);
    EXPECT_EQ(host.command(ContractHost::on(AdminOpcode::destroy_qp, 1)).status, Status::ok);
    EXPECT_EQ(host.command(ContractHost::on(AdminOpcode::destroy_queue, 2)).status, Status::ok);
    EXPECT_EQ(host.command(ContractHost::on(AdminOpcode::destroy_queue, 3)).status, Status::ok);
}

TEST_F(AdminTest, queue_pair_parameters_are_checked) {
    make_queues();
    const auto status = [&](const std::function<void(AdminRequest&)>& change) {
        AdminRequest request = ContractHost::qp(2, 3);
        change(request);
        return host.command(request).status;
    };
    for (const std::uint16_t mtu : std::initializer_list<std::uint16_t>{0, 128, 4095, 3000, 8192})
        EXPECT_EQ(status([&](auto& r) { r.mtu_bytes = mtu; }), Status::invalid_parameter) << mtu;
    for (const std::uint16_t window : std::initializer_list<std::uint16_t>{0, 32, 65, 1024, 511})
        EXPECT_EQ(status([&](auto& r) { r.window_packets = window; }), Status::invalid_parameter) << window;
    for (const std::uint16_t values : std::initializer_list<std::uint16_t>{0, 126, 260, 257})
        EXPECT_EQ(status([&](auto& r) { r.entropy_values = values; }), Status::invalid_parameter) << values;
    EXPECT_EQ(status([](auto& r) { r.transport = static_cast<regmap::Transport>(9); }),
              Status::invalid_parameter);
    EXPECT_EQ(status([](auto& r) { r.spray_policy = static_cast<regmap::SprayPolicy>(9); }),
              Status::invalid_parameter);
    EXPECT_EQ(status([](auto& r) { r.send_queue = 3; }), Status::invalid_queue);
    EXPECT_EQ(status([](auto& r) { r.send_queue = 77; }), Status::invalid_queue);
    EXPECT_EQ(status([](auto& r) { r.receive_queue = 2; }), Status::invalid_queue);
    EXPECT_EQ(status([](auto& r) { r.receive_queue = 1024; }), Status::invalid_queue);
    EXPECT_TRUE(device.transport().qps.empty());
    device.transport().refuse = Status::limit_exceeded;
    EXPECT_EQ(status([](auto&) {}), Status::limit_exceeded);
    device.transport().refuse = Status::ok;
    EXPECT_EQ(status([](auto&) {}), Status::ok) << "the refusals attached nothing";
}

TEST_F(AdminTest, connecting_is_checked) {
    make_queues();
    const std::uint32_t qpn = host.command(ContractHost::qp(2)).object;
    AdminRequest request = ContractHost::on(AdminOpcode::connect_qp, qpn);
    EXPECT_EQ(host.command(request).status, Status::invalid_parameter) << "peer QPN 0";
    request.peer_qpn = 0x1000000;
    EXPECT_EQ(host.command(request).status, Status::invalid_parameter);
    request.peer_qpn = 5;
    request.peer_psn = 0x1000000;
    EXPECT_EQ(host.command(request).status, Status::invalid_parameter);
    EXPECT_TRUE(device.transport().connected.empty());
    request.peer_psn = 0xffffff;
    request.peer_device = 3;
    EXPECT_EQ(host.command(request).status, Status::ok);
    EXPECT_EQ(device.transport().connected.at(0).peer_device, 3U);
    request.object = 99;
    EXPECT_EQ(host.command(request).status, Status::invalid_qp);
}

TEST_F(AdminTest, a_group_may_be_made_later_and_what_follows_waits) {
    make_queues();
    device.ep().hold = true;
    AdminRequest request = group();
    request.command_id = 41;
    host.post(request);
    host.post(ContractHost::on(AdminOpcode::destroy_group, 3));
    device.run();
    (void)host.completion();
    EXPECT_FALSE(host.is_new());
    EXPECT_TRUE(device.ep().destroyed.empty());
    device.admin().complete(40, 3, Status::ok);
    (void)host.completion();
    EXPECT_FALSE(host.is_new()) << "not this command";
    device.admin().complete(41, 3, Status::ok);
    const Completion made = host.completion();
    EXPECT_TRUE(host.is_new());
    EXPECT_EQ(made.user_data, 41U);
    EXPECT_EQ(made.object, 3U);
    EXPECT_EQ(device.queues().attach(4, {OwnerKind::group, 2}), Status::invalid_state)
        << "attached to group 3";
    device.run();
    EXPECT_EQ(host.completion().status, Status::ok);
    EXPECT_EQ(device.ep().destroyed, std::vector<std::uint32_t>{3});
    EXPECT_EQ(device.queues().attach(4, {OwnerKind::group, 2}), Status::ok) << "detached again";
}

TEST_F(AdminTest, group_refusals) {
    make_queues();
    for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{63}, std::uint64_t{64},
                                       std::uint64_t{66}, std::uint64_t{64 + 4 * 257}, ~std::uint64_t{0}}) {
        AdminRequest request = group();
        request.length = length;
        EXPECT_EQ(host.command(request).status, Status::invalid_length) << length;
    }
    AdminRequest request = group();
    request.send_queue = 2;
    EXPECT_EQ(host.command(request).status, Status::invalid_queue);
    EXPECT_TRUE(device.ep().created.empty());
    device.ep().answer = Status::invalid_parameter;
    const Completion refused = host.command(group());
    EXPECT_EQ(refused.status, Status::invalid_parameter);
    EXPECT_EQ(refused.object, 0U);
    EXPECT_EQ(host.command(ContractHost::on(AdminOpcode::destroy_queue, 4)).status, Status::ok)
        << "not attached";
    EXPECT_EQ(host.command(ContractHost::on(AdminOpcode::destroy_group, 1)).status, Status::invalid_group);
}

TEST_F(AdminTest, a_command_under_way_dies_with_a_reset) {
    make_queues();
    device.ep().hold = true;
    host.post(group());
    device.run();
    host.write(regmap::reg::control_offset, regmap::reg::control_reset_mask);
    device.admin().complete(0, 3, Status::ok);
    host.enable();
    EXPECT_EQ(device.admin().submit_room(), 1U);
    EXPECT_EQ(device.queues().attach(4, {OwnerKind::group, 3}), Status::invalid_queue);
}

TEST_F(AdminTest, unknown_opcodes_and_fields_that_are_not_named_are_refused) {
    for (const int opcode : {0, 10, 255}) {
        AdminRequest request;
        request.opcode = static_cast<AdminOpcode>(opcode);
        EXPECT_EQ(host.command(request).status, Status::invalid_opcode) << opcode;
    }
    AdminRequest request = ContractHost::queue(1, QueueKind::completion, 4, ContractHost::rings);
    request.reserved = 1;
    EXPECT_EQ(host.command(request).status, Status::invalid_parameter);
    request.reserved = 0;
    request.peer_psn = 1;
    EXPECT_EQ(host.command(request).status, Status::invalid_parameter);
    request.peer_psn = 0;
    EXPECT_EQ(host.command(request).status, Status::ok);
}

/// Whatever bytes a host writes: one completion a command, nothing made that was not asked for, nothing
/// written outside the rings.
TEST_F(AdminTest, random_records_each_get_one_completion) {
    const char* text = std::getenv("PLAIT_SEED");
    const std::uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 0) : 7;
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    unsigned refused = 0;
    for (unsigned i = 0; i < 20000; ++i) {
        std::array<std::uint8_t, sizeof(AdminRequest)> bytes{};
        for (std::uint8_t& byte : bytes)
            if (random() % 8 == 0) byte = static_cast<std::uint8_t>(random() >> (random() % 8));
        bytes[0] = static_cast<std::uint8_t>(random() % 11);
        AdminRequest request;
        std::memcpy(&request, bytes.data(), sizeof request);
        const Completion answer = host.command(request);
        ASSERT_TRUE(host.is_new());
        ASSERT_EQ(answer.user_data, request.command_id);
        ASSERT_TRUE(is_known(answer.status));
        refused += answer.status != Status::ok ? 1 : 0;
    }
    EXPECT_GT(refused, 15000U);
    EXPECT_FALSE(device.registers().is_fatal());
    EXPECT_EQ(device.hal().writes_outside, 0U);
    EXPECT_EQ(device.queues().statistics().lost_completions, 0U);
}

}  // namespace
}  // namespace plait::contract_test
