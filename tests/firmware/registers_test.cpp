#include "contract_device.hpp"

#include <gtest/gtest.h>

namespace plait::contract_test {
namespace {

using namespace regmap;

struct RegistersTest : testing::Test {
    ContractDevice device{DeviceConfig{
        .device_number = 7, .planes = 4, .max_qps = 12, .max_memory_regions = 34, .max_groups = 5}};
    ContractHost host{device};
};

TEST_F(RegistersTest, describe_the_device) {
    EXPECT_EQ(host.read(reg::magic_offset), 0x504c4149U);
    EXPECT_EQ(host.read(reg::regmap_version_offset), regmap_version);
    EXPECT_EQ(host.read(reg::planes_offset), 4U);
    EXPECT_EQ(host.read(reg::device_number_offset), 7U);
    EXPECT_EQ(host.read(reg::limit_qps_offset), 12U);
    EXPECT_EQ(host.read(reg::limit_memory_regions_offset), 34U);
    EXPECT_EQ(host.read(reg::limit_groups_offset), 5U);
    EXPECT_EQ(host.read(reg::removed_check_offset), 0U);
    EXPECT_EQ(host.read(reg::qp_time_limit_us_offset), 4000U);
    device.hal().ports_up = 0b1011;
    EXPECT_EQ(host.read(reg::port_state_offset), 0b1011U);
}

TEST_F(RegistersTest, undefined_and_write_only_offsets_read_zero) {
    host.enable();
    for (const std::uint32_t offset :
         {0x050U, 0x0fcU, 0x101U, 0x180U, 0x1000U, 0x1ffcU, 0x2000U, 0x3U, 0x80000000U, 0xfffffffcU})
        EXPECT_EQ(host.read(offset), 0U) << offset;
}

TEST_F(RegistersTest, writes_to_read_only_and_undefined_offsets_are_ignored) {
    host.enable();
    for (const std::uint32_t offset : {reg::magic_offset, reg::regmap_version_offset, reg::state_offset,
                                       reg::planes_offset, reg::limit_qps_offset, reg::removed_check_offset,
                                       reg::drop_count_offset, 0x1001U, 0x2000U, 0x50U, 0xffffffffU}) {
        const std::uint32_t before = host.read(offset);
        host.write(offset, 0xa5a5a5a5U);
        EXPECT_EQ(host.read(offset), before) << offset;
    }
    EXPECT_EQ(device.queues().statistics().refused_doorbells, 0U);
}

TEST_F(RegistersTest, life_cycle) {
    EXPECT_EQ(host.read(reg::state_offset), reg::state_ready_mask);
    host.doorbell(0, 1);
    EXPECT_TRUE(device.hal().fetches.empty()) << "not enabled yet";
    host.enable();
    EXPECT_EQ(host.read(reg::state_offset), reg::state_ready_mask | reg::state_enabled_mask);
    EXPECT_EQ(host.read(reg::control_offset), reg::control_enable_mask);
    EXPECT_EQ(host.read(reg::admin_queue_low_offset), ContractHost::admin_requests);
    host.write(reg::admin_queue_low_offset, 0x1234);
    host.write(reg::admin_log2_entries_offset, 5);
    EXPECT_EQ(host.read(reg::admin_queue_low_offset), ContractHost::admin_requests) << "fixed once enabled";
    EXPECT_EQ(host.read(reg::admin_log2_entries_offset), ContractHost::admin_log2);
    host.doorbell(0, 1);
    EXPECT_EQ(device.hal().fetches.size(), 1U);

    host.write(reg::qp_time_limit_us_offset, 123);
    device.registers().count_drop(DropReason::icrc);
    host.write(reg::control_offset, reg::control_reset_mask);
    EXPECT_EQ(device.resets, 1);
    EXPECT_EQ(host.read(reg::state_offset), reg::state_ready_mask);
    EXPECT_EQ(host.read(reg::control_offset), 0U);
    EXPECT_EQ(host.read(reg::admin_queue_low_offset), 0U);
    EXPECT_EQ(host.read(reg::interrupt_enable_offset), 0U);
    EXPECT_EQ(host.read(reg::qp_time_limit_us_offset), 4000U);
    EXPECT_EQ(host.read(reg::drop_count_offset + 4 * static_cast<std::uint32_t>(DropReason::icrc)), 0U);
}

TEST_F(RegistersTest, a_bad_administration_queue_is_fatal_until_reset) {
    const auto bad = [&](std::uint32_t offset, std::uint32_t value) {
        host.write(reg::control_offset, reg::control_reset_mask);
        host.write(reg::admin_queue_low_offset, 0x1000);
        host.write(reg::admin_completion_low_offset, 0x2000);
        host.write(reg::admin_log2_entries_offset, 4);
        host.write(offset, value);
        host.write(reg::control_offset, reg::control_enable_mask);
        return host.read(reg::state_offset);
    };
    const std::uint32_t fatal = reg::state_ready_mask | reg::state_fatal_mask |
                                static_cast<std::uint32_t>(Status::invalid_parameter)
                                    << reg::state_fatal_status_shift;
    EXPECT_EQ(bad(reg::admin_log2_entries_offset, 1), fatal);
    EXPECT_EQ(bad(reg::admin_log2_entries_offset, 11), fatal);
    EXPECT_EQ(bad(reg::admin_log2_entries_offset, 0x10004), fatal);
    EXPECT_EQ(bad(reg::admin_queue_low_offset, 0x1020), fatal) << "not aligned to its records";
    EXPECT_EQ(bad(reg::admin_completion_low_offset, 0x2010), fatal);
    EXPECT_EQ(bad(reg::admin_queue_high_offset, 0), reg::state_ready_mask | reg::state_enabled_mask);
    bad(reg::admin_log2_entries_offset, 0);
    host.enable();
    EXPECT_EQ(host.read(reg::state_offset), fatal) << "only a reset ends it";
    EXPECT_EQ(host.read(reg::interrupt_status_offset) & interrupt_fatal, interrupt_fatal);
}

TEST_F(RegistersTest, an_interrupt_is_raised_once_until_acknowledged) {
    host.write(reg::interrupt_enable_offset, interrupt_completion);
    device.registers().raise(interrupt_completion);
    EXPECT_EQ(device.hal().interrupts, std::vector<std::uint32_t>{interrupt_completion});
    host.write(reg::interrupt_status_offset, interrupt_completion);
    EXPECT_EQ(host.read(reg::interrupt_status_offset), 0U);
    EXPECT_EQ(device.hal().interrupts.size(), 1U) << "nothing happened in between";
    device.registers().raise(interrupt_completion);
    EXPECT_EQ(device.hal().interrupts.size(), 2U);
}

TEST_F(RegistersTest, what_came_before_the_acknowledgement_is_announced_again) {
    host.write(reg::interrupt_enable_offset, interrupt_completion);
    device.registers().raise(interrupt_completion);
    device.registers().raise(interrupt_completion);
    device.registers().raise(interrupt_completion);
    EXPECT_EQ(device.hal().interrupts.size(), 1U);
    host.write(reg::interrupt_status_offset, interrupt_completion);
    EXPECT_EQ(device.hal().interrupts.size(), 2U);
    EXPECT_EQ(host.read(reg::interrupt_status_offset), interrupt_completion);
    host.write(reg::interrupt_status_offset, interrupt_completion);
    EXPECT_EQ(device.hal().interrupts.size(), 2U) << "announced once, not for ever";
}

TEST_F(RegistersTest, masked_interrupts_wait_until_they_are_enabled) {
    device.registers().on_port_change();
    device.registers().raise(interrupt_completion);
    EXPECT_TRUE(device.hal().interrupts.empty());
    EXPECT_EQ(host.read(reg::interrupt_status_offset), interrupt_port_change | interrupt_completion);
    host.write(reg::interrupt_enable_offset, interrupt_port_change | 0xfffffff0U);
    EXPECT_EQ(device.hal().interrupts, std::vector<std::uint32_t>{interrupt_port_change});
    EXPECT_EQ(host.read(reg::interrupt_enable_offset), interrupt_port_change);
    host.write(reg::interrupt_enable_offset, interrupt_all);
    EXPECT_EQ(device.hal().interrupts,
              (std::vector<std::uint32_t>{interrupt_port_change, interrupt_completion}));
}

TEST_F(RegistersTest, drops_are_counted_by_reason) {
    for (int i = 0; i < 3; ++i) device.registers().count_drop(DropReason::icrc);
    device.registers().count_drop(DropReason::stale_ack);
    device.registers().count_drop(static_cast<DropReason>(200));
    for (std::uint32_t reason = 0; reason < reg::drop_count_count; ++reason) {
        const std::uint32_t expected = reason == 6 ? 3 : reason == 17 ? 1 : 0;
        EXPECT_EQ(host.read(reg::drop_count_offset + 4 * reason), expected) << reason;
    }
}

TEST_F(RegistersTest, the_time_limit_is_never_zero) {
    host.write(reg::qp_time_limit_us_offset, 250);
    host.write(reg::qp_time_limit_us_offset, 0);
    EXPECT_EQ(device.registers().qp_time_limit_us(), 250U);
}

TEST_F(RegistersTest, the_first_fatal_reason_stays) {
    host.enable();
    device.registers().fail(Status::out_of_range);
    device.registers().fail(Status::invalid_length);
    EXPECT_EQ(host.read(reg::state_offset) >> reg::state_fatal_status_shift,
              static_cast<std::uint32_t>(Status::out_of_range));
    EXPECT_EQ(device.hal().interrupts, std::vector<std::uint32_t>{interrupt_fatal});
    host.doorbell(0, 1);
    EXPECT_TRUE(device.hal().fetches.empty());
    host.write(reg::control_offset, reg::control_reset_mask);
    host.enable();
    EXPECT_EQ(host.read(reg::state_offset), reg::state_ready_mask | reg::state_enabled_mask);
}

}  // namespace
}  // namespace plait::contract_test
