#include <gtest/gtest.h>

#include <plait/registered_memory.hpp>

#include "job.hpp"

namespace plait::testing {
namespace {

TEST(RegisteredMemory, IsTakenBackOnceWhereverItMoves) {
    Job job(1);
    {
        auto made = RegisteredMemory::allocate(job.driver(0), 5000, access_local_write);
        ASSERT_TRUE(made.ok()) << made.error().message;
        RegisteredMemory first = std::move(made.value());
        RegisteredMemory second(std::move(first));
        EXPECT_TRUE(first.view().empty());
        EXPECT_EQ(second.bytes().size(), 5000u);
        EXPECT_EQ(second.view().length_bytes, 5000u);
        second.bytes()[4999] = std::byte{7};
        EXPECT_EQ(job.device(0).read<std::uint8_t>(second.view().device_address + 4999), 7);
        RegisteredMemory third;
        third = std::move(second);
        EXPECT_NE(third.view().key, 0u);
        EXPECT_EQ(job.device(0).objects(), 1u);
    }
    job.expect_nothing_left();
}

TEST(RegisteredMemory, ARefusalLeavesNothing) {
    Job job(1);
    job.device(0).memory_limit_bytes = 4096;
    EXPECT_EQ(RegisteredMemory::allocate(job.driver(0), 4097, 0).status(), Status::no_memory);
    job.device(0).refuse = [](const regmap::AdminRequest&) { return Status::limit_exceeded; };
    EXPECT_EQ(RegisteredMemory::allocate(job.driver(0), 4096, 0).status(), Status::limit_exceeded);
    job.expect_nothing_left();
}

// What the device may still write is not given to anybody else.
TEST(RegisteredMemory, StaysAllocatedWhenTheDeviceDoesNotLetGo) {
    Job job(1);
    const std::size_t before = job.device(0).allocations();
    {
        auto made = RegisteredMemory::allocate(job.driver(0), 64, access_local_write);
        ASSERT_TRUE(made.ok());
        job.device(0).refuse = [](const regmap::AdminRequest&) { return Status::invalid_state; };
    }
    EXPECT_EQ(job.device(0).allocations(), before + 1);
}

}  // namespace
}  // namespace plait::testing
