#include <plait/sim/models/host_memory.hpp>

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

namespace plait::sim {
namespace {

std::vector<std::byte> pattern(size_t length, int first) {
    std::vector<std::byte> bytes(length);
    for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(first + static_cast<int>(i));
    return bytes;
}

class HostMemoryAllocation : public ::testing::TestWithParam<size_t> {};

TEST_P(HostMemoryAllocation, IsZeroedAlignedAndReachedByTheDeviceToItsLastByte) {
    HostMemory memory;
    const size_t length = GetParam();
    const auto region = memory.allocate(length);
    ASSERT_TRUE(region);
    EXPECT_EQ(region->length_bytes, length);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(region->host) % 4096, 0U);
    EXPECT_EQ(region->device_address % 4096, 0U);
    EXPECT_EQ(region->host[length - 1], std::byte{0});

    const auto in = pattern(1, 7);
    EXPECT_TRUE(memory.write(region->device_address + length - 1, in));
    EXPECT_EQ(region->host[length - 1], std::byte{7});
    std::array<std::byte, 1> out{};
    EXPECT_TRUE(memory.read(region->device_address + length - 1, out));
    EXPECT_EQ(out[0], std::byte{7});

    std::array<std::byte, 2> beyond{std::byte{1}, std::byte{1}};
    EXPECT_FALSE(memory.read(region->device_address + length - 1, beyond));
    EXPECT_EQ(beyond[0], std::byte{0}) << "what could not be read is zeros";
    EXPECT_FALSE(memory.write(region->device_address - 1, in));
    EXPECT_EQ(memory.faults(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Sizes, HostMemoryAllocation,
                         ::testing::Values(1, 4096, 4097, 262144, 1 << 20, 3000000));

TEST(HostMemory, RefusesAnEmptyAllocation) { EXPECT_FALSE(HostMemory().allocate(0)); }

TEST(HostMemory, AddressesNearTheEndOfTheAddressSpaceDoNotOverflow) {
    HostMemory memory;
    (void)memory.allocate(4096);
    std::array<std::byte, 64> out{};
    EXPECT_FALSE(memory.read(UINT64_MAX - 3, out));
    EXPECT_FALSE(memory.touch_write(UINT64_MAX, UINT64_MAX));
    EXPECT_EQ(memory.faults(), 2U);
}

TEST(HostMemory, RegionsAreFoundWhateverTheOrderOfAccess) {
    HostMemory memory;
    std::vector<SharedMemory> regions;
    for (int i = 0; i < 20; ++i) {
        regions.push_back(*memory.allocate(100));
        regions.back().host[0] = static_cast<std::byte>(i);
    }
    EXPECT_TRUE(memory.unmap(regions[7].device_address));
    EXPECT_FALSE(memory.unmap(regions[7].device_address));
    EXPECT_FALSE(memory.unmap(regions[8].device_address + 1));
    for (size_t step : {3U, 7U, 11U}) {
        for (size_t i = 0, at = 0; i < regions.size(); ++i, at = (at + step) % regions.size()) {
            std::array<std::byte, 1> out{std::byte{99}};
            EXPECT_EQ(memory.read(regions[at].device_address, out), at != 7);
            EXPECT_EQ(out[0], at == 7 ? std::byte{0} : static_cast<std::byte>(at));
        }
    }
    EXPECT_EQ(memory.faults(), 3U);
}

struct Recorder {
    uint64_t offset = 0;
    std::vector<std::byte> seen;
    static void produce(void* object, uint64_t offset, std::span<std::byte> out) {
        static_cast<Recorder*>(object)->offset = offset;
        for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(offset + i);
    }
    static void check(void* object, uint64_t offset, std::span<const std::byte> in) {
        static_cast<Recorder*>(object)->offset = offset;
        static_cast<Recorder*>(object)->seen.assign(in.begin(), in.end());
    }
};

TEST(HostMemory, HandlersStandForBytes) {
    HostMemory memory;
    Recorder recorder;
    const uint64_t address =
        memory.map(uint64_t{1} << 40, {&Recorder::produce, &recorder}, {&Recorder::check, &recorder});
    std::array<std::byte, 4> out{};
    EXPECT_TRUE(memory.read(address + 1000, out));
    EXPECT_EQ(recorder.offset, 1000U);
    EXPECT_EQ(out[3], std::byte{1003 % 256});
    const auto in = pattern(3, 5);
    EXPECT_TRUE(memory.write(address + 77, in));
    EXPECT_EQ(recorder.offset, 77U);
    EXPECT_EQ(recorder.seen, in);
    EXPECT_EQ(memory.faults(), 0U);
}

TEST(HostMemory, ADirectionWithoutHandlerIsUnmapped) {
    HostMemory memory;
    Recorder recorder;
    const uint64_t read_only = memory.map(100, {&Recorder::produce, &recorder}, {});
    const uint64_t write_only = memory.map(100, {}, {&Recorder::check, &recorder});
    const auto in = pattern(3, 5);
    std::array<std::byte, 3> out{};
    EXPECT_FALSE(memory.write(read_only, in));
    EXPECT_FALSE(memory.read(write_only, out));
    EXPECT_FALSE(memory.touch_write(read_only, 3));
    EXPECT_FALSE(memory.touch_read(write_only, 3));
    EXPECT_TRUE(memory.touch_read(read_only, 3));
    EXPECT_TRUE(memory.touch_write(write_only, 3));
    EXPECT_EQ(memory.faults(), 4U);
}

}  // namespace
}  // namespace plait::sim
