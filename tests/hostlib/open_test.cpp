#include <gtest/gtest.h>

#include <plait/driver.hpp>

#include "fake_device.hpp"

namespace plait::contract_test {
namespace {

using namespace regmap;

Error open_error(FakeDevice& fake, const DriverOptions& options = {}) {
    auto opened = Driver::open(fake, options);
    EXPECT_FALSE(opened);
    EXPECT_TRUE(fake.live.empty()) << "memory is given back";
    EXPECT_EQ(fake.bad_frees, 0U);
    return opened ? Error{} : opened.error();
}

TEST(Open, brings_the_device_up_and_resets_it_at_the_end) {
    FakeDevice fake(DeviceConfig{
        .device_number = 9, .planes = 4, .max_qps = 12, .max_memory_regions = 34, .max_groups = 5});
    fake.device.registers().write(reg::qp_time_limit_us_offset, 77);
    {
        auto driver = Driver::open(fake);
        ASSERT_TRUE(driver) << driver.error().message;
        EXPECT_EQ(fake.device.resets, 1);
        EXPECT_TRUE(fake.device.registers().enabled());
        EXPECT_EQ(driver.value()->info().device_number, 9U);
        EXPECT_EQ(driver.value()->device_number().value(), 9U);
        EXPECT_EQ(driver.value()->info().planes, 4U);
        EXPECT_EQ(driver.value()->info().max_qps, 12U);
        EXPECT_EQ(driver.value()->info().max_memory_regions, 34U);
        EXPECT_EQ(driver.value()->info().max_groups, 5U);
        EXPECT_EQ(driver.value()->info().firmware_version, firmware_version);
        EXPECT_EQ(driver.value()->now_ns(), fake.now);
        EXPECT_EQ(&driver.value()->link(), &fake);
        EXPECT_EQ(fake.live.size(), 2U);
    }
    EXPECT_EQ(fake.device.resets, 2);
    EXPECT_FALSE(fake.device.registers().enabled());
    EXPECT_TRUE(fake.live.empty());
    EXPECT_EQ(fake.bad_frees, 0U);
}

TEST(Open, refuses_what_is_no_plait_device) {
    FakeDevice fake;
    fake.forced_reads[reg::magic_offset] = 0x12345678;
    const Error error = open_error(fake);
    EXPECT_EQ(error.status, Status::version_mismatch);
    EXPECT_NE(error.message.find("0x12345678"), std::string::npos) << error.message;
    EXPECT_TRUE(fake.writes.empty()) << "it is left alone";
}

TEST(Open, refuses_another_register_map_and_names_both) {
    FakeDevice fake;
    fake.forced_reads[reg::regmap_version_offset] = 0xdeadbeef;
    const Error error = open_error(fake);
    EXPECT_EQ(error.status, Status::version_mismatch);
    EXPECT_NE(error.message.find("0xdeadbeef"), std::string::npos) << error.message;
    char own[16];
    std::snprintf(own, sizeof own, "0x%08x", regmap_version);
    EXPECT_NE(error.message.find(own), std::string::npos) << error.message;
    EXPECT_TRUE(fake.writes.empty());
}

TEST(Open, all_ones_alone_is_not_removal) {
    FakeDevice fake;
    fake.forced_reads[reg::regmap_version_offset] = ~0U;
    EXPECT_EQ(open_error(fake).status, Status::version_mismatch);
    fake.removed = true;
    EXPECT_EQ(open_error(fake).status, Status::device_removed);
}

TEST(Open, gives_up_on_a_device_that_never_becomes_ready) {
    FakeDevice fake;
    fake.forced_reads[reg::state_offset] = 0;
    const std::uint64_t start = fake.now;
    const Error error = open_error(fake, {.timeout_ns = 500'000});
    EXPECT_EQ(error.status, Status::timeout);
    EXPECT_GE(fake.now - start, 500'000U);
    EXPECT_LE(fake.now - start, 600'000U);
}

TEST(Open, tells_why_the_device_refused_its_queue) {
    FakeDevice fake;
    fake.misalign = 8;
    const Error error = open_error(fake);
    EXPECT_EQ(error.status, Status::device_fatal);
    EXPECT_NE(error.message.find("invalid_parameter"), std::string::npos) << error.message;
    fake.misalign = 0;
    EXPECT_TRUE(Driver::open(fake)) << "a reset ends it";
}

TEST(Open, needs_memory) {
    FakeDevice fake;
    fake.allocated = FakeDevice::memory_bytes;
    EXPECT_EQ(open_error(fake).status, Status::no_memory);
    fake.allocated = FakeDevice::memory_bytes - 4096;  // requests fit, completions do not
    EXPECT_EQ(open_error(fake).status, Status::no_memory);
}

TEST(Open, checks_its_options) {
    FakeDevice fake;
    EXPECT_EQ(open_error(fake, {.admin_log2_entries = 1}).status, Status::invalid_parameter);
    EXPECT_EQ(open_error(fake, {.admin_log2_entries = 11}).status, Status::invalid_parameter);
    EXPECT_EQ(open_error(fake, {.timeout_ns = 0}).status, Status::invalid_parameter);
    EXPECT_EQ(open_error(fake, {.removal_check_ns = 0}).status, Status::invalid_parameter);
    EXPECT_EQ(fake.reads, 0U);
}

TEST(Open, removal_while_opening) {
    FakeDevice fake;
    fake.at(fake.now + 2'000, [&] { fake.removed = true; });
    EXPECT_EQ(open_error(fake).status, Status::device_removed);
}

TEST(Close, leaves_memory_to_a_device_that_does_not_confirm) {
    FakeDevice fake;
    {
        auto driver = Driver::open(fake, {.timeout_ns = 100'000});
        ASSERT_TRUE(driver);
        ASSERT_TRUE(driver.value()->create_completion_queue());
        fake.deaf = true;
    }
    EXPECT_EQ(fake.live.size(), 3U);
}

TEST(Close, frees_memory_of_a_device_that_is_gone) {
    FakeDevice fake;
    {
        auto driver = Driver::open(fake);
        ASSERT_TRUE(driver);
        ASSERT_TRUE(driver.value()->create_completion_queue());
        fake.removed = true;
    }
    EXPECT_TRUE(fake.live.empty());
}

}  // namespace
}  // namespace plait::contract_test
