// Payload that is made when somebody looks at it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "scripted_firmware.hpp"

namespace plait::sim::testing {
namespace {

// Host memory of one value, which says how often it was read.
struct Source {
    int reads = 0;
    std::byte value{7};

    static void produce(void* object, uint64_t, std::span<std::byte> out) {
        auto& self = *static_cast<Source*>(object);
        ++self.reads;
        std::ranges::fill(out, self.value);
    }
};

void add_one(PayloadPool& pool, PayloadBlock& block) {
    std::memset(block.bytes, 1 + pool.bytes(block.addends->rows[0])[0], block.length);
}

PayloadBlock* take_sum(PayloadPool& pool, PayloadBlock* row) {
    PayloadBlock* const sum = pool.take_unmade(32, &add_one);
    sum->addends = pool.take_addends();
    sum->addends->rows[sum->addends->row_count++] = {row, 0, row->length};
    return sum;
}

TEST(PayloadPool, MakesBytesOnceAndGivesBackWhatTheyAreMadeFrom) {
    PayloadPool pool;
    PayloadBlock* const row = pool.take(64);
    std::memset(row->bytes, 4, 64);
    PayloadBlock* const made = take_sum(pool, row);
    EXPECT_FALSE((PayloadSlice{made, 0, 32}.is_virtual()));
    EXPECT_EQ(pool.bytes({made, 8, 24})[23], 5);
    std::memset(row->bytes, 9, 64);
    EXPECT_EQ(pool.bytes({made, 0, 32})[0], 5) << "made a second time";
    EXPECT_EQ(pool.live(), 2U);
    pool.release(made);
    EXPECT_EQ(pool.live(), 0U);

    pool.release(take_sum(pool, pool.take(64)));
    EXPECT_EQ(pool.live(), 0U);
}

TEST(PayloadPool, KnowsLengthsWithoutBytes) {
    PayloadPool pool;
    PayloadBlock* const block = pool.take_unmade(32, &add_one);
    pool.release(block);
    PayloadBlock* const again = pool.take_virtual(48);
    ASSERT_EQ(again, block) << "the pool uses it again";
    EXPECT_TRUE((PayloadSlice{again, 0, 48}.is_virtual()));
    EXPECT_EQ(pool.bytes({again, 0, 48}), nullptr);
    pool.release(again);
}

class PayloadOfHost : public ::testing::Test {
  protected:
    PayloadOfHost() {
        cluster.connect(0, 1);
        cluster.firmware(1).packet = [this](const firmware::PacketEvent& event) {
            if (places) cluster.device(1).place(event.buffer, 0, {target->device_address, 4096});
            cluster.device(1).release(event.buffer);
        };
    }

    void send(uint64_t address) {
        cluster.device(0).send(write_packet(0, 1, 4096), from_host(address, 4096));
    }

    ScriptedCluster cluster{small_cluster()};
    std::optional<SharedMemory> target = cluster.device(1).host_memory().allocate(4096);
    Source source;
    bool places = true;
};

TEST_F(PayloadOfHost, IsMadeWhenItIsPlaced) {
    send(cluster.device(0).host_memory().map(4096, {&Source::produce, &source}, {}));
    EXPECT_EQ(source.reads, 0);
    cluster.run();
    EXPECT_EQ(source.reads, 1);
    EXPECT_EQ(target->host[4095], std::byte{7});
    EXPECT_EQ(cluster->live_objects(), 0U);
}

TEST_F(PayloadOfHost, IsNotMadeWhenNobodyLooks) {
    places = false;
    send(cluster.device(0).host_memory().map(4096, {&Source::produce, &source}, {}));
    cluster.run();
    EXPECT_EQ(cluster.firmware(1).arrivals.size(), 1U);
    EXPECT_EQ(source.reads, 0);
    EXPECT_EQ(cluster->live_objects(), 0U);
}

TEST_F(PayloadOfHost, OfRealMemoryIsWhatItWasWhenItWasSent) {
    const auto real = cluster.device(0).host_memory().allocate(4096);
    real->host[100] = std::byte{1};
    send(real->device_address);
    real->host[100] = std::byte{2};
    cluster.run();
    EXPECT_EQ(target->host[100], std::byte{1});
}

}  // namespace
}  // namespace plait::sim::testing
