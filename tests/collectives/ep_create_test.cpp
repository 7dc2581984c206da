#include <gtest/gtest.h>

#include <string>

#include "job.hpp"

namespace plait::testing {
namespace {

void expect_error_everywhere(Job::Groups& groups, Status status, const std::string& message) {
    for (auto& group : groups) {
        ASSERT_FALSE(group.ok());
        EXPECT_EQ(group.status(), status) << group.error().message;
        EXPECT_EQ(group.error().message, message);
    }
}

TEST(EpCreate, ConnectsAPairToEachRankOfOtherNodes) {
    Job job(4, 20);
    auto groups = job.create();
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
        SCOPED_TRACE("rank " + std::to_string(rank));
        ASSERT_TRUE(groups[rank].ok()) << groups[rank].error().message;
        EXPECT_EQ(groups[rank].value()->rank(), rank);
        ScriptedDevice& device = job.device(rank);
        ASSERT_EQ(device.pairs.size(), 2u);
        ASSERT_EQ(device.group_qpns.size(), 4u);
        for (std::uint32_t peer = 0; peer < 4; ++peer) {
            const std::uint32_t qpn = device.group_qpns[peer];
            if (peer / 2 == rank / 2) {
                EXPECT_EQ(qpn, 0u);
                continue;
            }
            const ScriptedDevice::Pair& pair = device.pairs.at(qpn);
            const std::uint32_t peer_qpn = job.device(peer).group_qpns[rank];
            EXPECT_EQ(pair.peer_device, 20 + peer);
            EXPECT_EQ(pair.peer_qpn, peer_qpn);
            EXPECT_EQ(pair.peer_psn, job.device(peer).pairs.at(peer_qpn).first_psn);
            EXPECT_EQ(pair.created.transport, regmap::Transport::mp);
            EXPECT_EQ(pair.created.send_queue, 0u);
        }
    }
}

TEST(EpCreate, TheDeviceLearnsTheParameters) {
    Job job(2, 6);
    auto groups = job.create([](std::uint32_t) {
        EpConfig config = small_config();
        config.ranks_per_node = 1;
        config.mtu_bytes = 1024;
        config.window_packets = 64;
        config.entropy_values = 32;
        config.spray_policy = SprayPolicy::round_robin;
        config.entry_policy = EntryPolicy::spread;
        config.handles = 5;
        config.combine_format = RowFormat::logfmt10;
        config.partial_format = RowFormat::e5m2_ue8m0;
        config.encode_combine = true;
        return config;
    });
    ASSERT_TRUE(groups[1].ok()) << groups[1].error().message;
    regmap::GroupParameters expected;
    expected.rank = 1;
    expected.ranks = 2;
    expected.ranks_per_node = 1;
    expected.experts = 8;
    expected.topk = 2;
    expected.hidden = 128;
    expected.max_tokens = 16;
    expected.dispatch_format = RowFormat::e4m3_f32;
    expected.combine_format = RowFormat::logfmt10;
    expected.partial_format = RowFormat::e5m2_ue8m0;
    expected.flags = regmap::group_encode_combine;
    expected.entry_policy = EntryPolicy::spread;
    expected.handles = 5;
    expected.first_device = 6;
    expected.mtu_bytes = 1024;
    EXPECT_EQ(job.device(1).group, expected);
    const regmap::AdminRequest& pair = job.device(1).pairs.begin()->second.created;
    EXPECT_EQ(pair.mtu_bytes, 1024);
    EXPECT_EQ(pair.window_packets, 64);
    EXPECT_EQ(pair.entropy_values, 32);
    EXPECT_EQ(pair.spray_policy, SprayPolicy::round_robin);
}

TEST(EpCreate, LeavesNothingBehindAfterwards) {
    Job job(4);
    job.create().clear();
    job.expect_nothing_left();
}

TEST(EpCreate, LimitsAreNamed) {
    const struct {
        void (*change)(EpConfig&);
        const char* message;
    } cases[] = {
        {[](EpConfig& c) { c.ranks_per_node = 9; }, "ranks_per_node is 9, expected 1 .. 8"},
        {[](EpConfig& c) { c.ranks_per_node = 3; }, "ranks is 4, expected a multiple of ranks_per_node (3)"},
        {[](EpConfig& c) { c.experts = 0; }, "experts is 0, expected 1 .. 1024"},
        {[](EpConfig& c) { c.experts = 1028; }, "experts is 1028, expected 1 .. 1024"},
        {[](EpConfig& c) { c.experts = 10; }, "experts is 10, expected a multiple of ranks (4)"},
        {[](EpConfig& c) { c.experts = 1024; }, "experts of a rank is 256, expected 1 .. 253"},
        {[](EpConfig& c) { c.experts = 256, c.mtu_bytes = 256; },
         "experts of a rank is 64, expected 1 .. 61"},
        {[](EpConfig& c) { c.topk = 0; }, "topk is 0, expected 1 .. 16"},
        {[](EpConfig& c) { c.topk = 17; }, "topk is 17, expected 1 .. 16"},
        {[](EpConfig& c) { c.topk = 9; }, "topk is 9, expected at most the experts (8)"},
        {[](EpConfig& c) { c.hidden = 64; }, "hidden is 64, expected 128 .. 16384"},
        {[](EpConfig& c) { c.hidden = 16512; }, "hidden is 16512, expected 128 .. 16384"},
        {[](EpConfig& c) { c.hidden = 2890; }, "hidden is 2890, expected a multiple of 64 elements (64)"},
        {[](EpConfig& c) { c.max_tokens = 0; }, "max_tokens is 0, expected 1 .. 16384"},
        {[](EpConfig& c) { c.max_tokens = 16385; }, "max_tokens is 16385, expected 1 .. 16384"},
        {[](EpConfig& c) { c.handles = 0; }, "handles is 0, expected 1 .. 8"},
        {[](EpConfig& c) { c.handles = 9; }, "handles is 9, expected 1 .. 8"},
        {[](EpConfig& c) { c.combine_format = static_cast<RowFormat>(8); },
         "combine_format is 8, expected bf16, f32, e4m3_f32, e4m3_ue8m0, e5m2_f32, e5m2_ue8m0, logfmt8 or "
         "logfmt10"},
        {[](EpConfig& c) { c.partial_format = static_cast<RowFormat>(255); },
         "partial_format is 255, expected bf16, f32, e4m3_f32, e4m3_ue8m0, e5m2_f32, e5m2_ue8m0, logfmt8 or "
         "logfmt10"},
        {[](EpConfig& c) { c.dispatch_format = RowFormat::f32; },
         "dispatch_format is f32, expected bf16, e4m3_f32, e4m3_ue8m0, e5m2_f32, e5m2_ue8m0, logfmt8 or "
         "logfmt10"},
        {[](EpConfig& c) { c.dispatch_format = RowFormat::bf16, c.encode_dispatch = true; },
         "encode_dispatch is set, but dispatch_format is bf16, expected e4m3_f32, e4m3_ue8m0, e5m2_f32, "
         "e5m2_ue8m0, logfmt8 or logfmt10"},
        {[](EpConfig& c) { c.combine_format = RowFormat::f32, c.encode_combine = true; },
         "encode_combine is set, but combine_format is f32, expected e4m3_f32, e4m3_ue8m0, e5m2_f32, "
         "e5m2_ue8m0, logfmt8 or logfmt10"},
        {[](EpConfig& c) { c.hidden = 16384, c.partial_format = RowFormat::f32, c.mtu_bytes = 1024; },
         "mtu_bytes is 1024: a row of 16384 elements, contributions bf16 and partial rows f32, takes parts "
         "of "
         "256 elements, expected at most 32 parts"},
        {[](EpConfig& c) {
             c.combine_format = RowFormat::f32, c.partial_format = RowFormat::logfmt8, c.mtu_bytes = 256;
         },
         "mtu_bytes is 256: a row of 128 elements, contributions f32 and partial rows logfmt8, takes parts "
         "of "
         "0 elements, expected at most 32 parts"},
        {[](EpConfig& c) { c.entry_policy = static_cast<EntryPolicy>(4); },
         "entry_policy is 4, expected same_index, spread, target or balanced"},
        {[](EpConfig& c) { c.spray_policy = static_cast<SprayPolicy>(3); },
         "spray_policy is 3, expected spray, round_robin or single_path"},
        {[](EpConfig& c) { c.mtu_bytes = 8192; }, "mtu_bytes is 8192, expected 256 .. 4096"},
        {[](EpConfig& c) { c.mtu_bytes = 1500; }, "mtu_bytes is 1500, expected a power of two"},
        {[](EpConfig& c) { c.window_packets = 32; }, "window_packets is 32, expected 64 .. 512"},
        {[](EpConfig& c) { c.window_packets = 500; }, "window_packets is 500, expected 64, 128, 256 or 512"},
        {[](EpConfig& c) { c.entropy_values = 0; }, "entropy_values is 0, expected 1 .. 256"},
        {[](EpConfig& c) { c.entropy_values = 257; }, "entropy_values is 257, expected 1 .. 256"},
        {[](EpConfig& c) { c.entropy_values = 6; },
         "entropy_values is 6, expected a multiple of the planes (4)"},
    };
    Job job(4);
    for (const auto& one : cases) {
        auto groups = job.create([&](std::uint32_t) {
            EpConfig config = small_config();
            one.change(config);
            return config;
        });
        expect_error_everywhere(groups, Status::invalid_parameter, one.message);
    }
    job.expect_nothing_left();
}

TEST(EpCreate, AHiddenSizeThatNoScaleBlockDividesWorks) {
    Job job(2);
    auto groups = job.create([](std::uint32_t) {
        EpConfig config = small_config();
        config.hidden = 2880;
        return config;
    });
    EXPECT_TRUE(groups[0].ok() && groups[1].ok());
}

TEST(EpCreate, RanksThatDisagreeAllLearnWhoAndWhere) {
    const struct {
        void (*change)(EpConfig&);
        const char* message;
    } cases[] = {
        {[](EpConfig& c) { c.ranks_per_node = 4; }, "rank 2: ranks_per_node is 4, rank 0 has 2"},
        {[](EpConfig& c) { c.experts = 16; }, "rank 2: experts is 16, rank 0 has 8"},
        {[](EpConfig& c) { c.topk = 3; }, "rank 2: topk is 3, rank 0 has 2"},
        {[](EpConfig& c) { c.hidden = 256; }, "rank 2: hidden is 256, rank 0 has 128"},
        {[](EpConfig& c) { c.max_tokens = 17; }, "rank 2: max_tokens is 17, rank 0 has 16"},
        {[](EpConfig& c) { c.dispatch_format = RowFormat::bf16; },
         "rank 2: dispatch_format is 0, rank 0 has 1"},
        {[](EpConfig& c) { c.combine_format = RowFormat::f32; }, "rank 2: combine_format is 7, rank 0 has 0"},
        {[](EpConfig& c) { c.partial_format = RowFormat::logfmt8; },
         "rank 2: partial_format is 5, rank 0 has 0"},
        {[](EpConfig& c) { c.encode_dispatch = true; }, "rank 2: encode_dispatch is 1, rank 0 has 0"},
        {[](EpConfig& c) { c.combine_format = RowFormat::logfmt8, c.encode_combine = true; },
         "rank 2: combine_format is 5, rank 0 has 0"},
        {[](EpConfig& c) { c.entry_policy = EntryPolicy::spread; },
         "rank 2: entry_policy is 1, rank 0 has 3"},
        {[](EpConfig& c) { c.handles = 3; }, "rank 2: handles is 3, rank 0 has 2"},
        {[](EpConfig& c) { c.mtu_bytes = 2048; }, "rank 2: mtu_bytes is 2048, rank 0 has 4096"},
        {[](EpConfig& c) { c.window_packets = 256; }, "rank 2: window_packets is 256, rank 0 has 512"},
    };
    Job job(4);
    for (const auto& one : cases) {
        auto groups = job.create([&](std::uint32_t rank) {
            EpConfig config = small_config();
            if (rank == 2) one.change(config);
            return config;
        });
        expect_error_everywhere(groups, Status::parameter_mismatch, one.message);
    }
    job.expect_nothing_left();
}

TEST(EpCreate, SprayingIsEachRanksOwnAffair) {
    Job job(4);
    auto groups = job.create([](std::uint32_t rank) {
        EpConfig config = small_config();
        config.spray_policy = rank == 0 ? SprayPolicy::single_path : SprayPolicy::spray;
        config.entropy_values = static_cast<std::uint16_t>(4 + 4 * rank);
        return config;
    });
    for (auto& group : groups) EXPECT_TRUE(group.ok()) << group.error().message;
}

TEST(EpCreate, OneRanksMistakeEndsTheWaitOfTheOthers) {
    Job job(4);
    auto groups = job.create([](std::uint32_t rank) {
        EpConfig config = small_config();
        if (rank == 1) config.topk = 99;
        return config;
    });
    EXPECT_EQ(groups[1].error().message, "topk is 99, expected 1 .. 16");
    groups.erase(groups.begin() + 1);
    expect_error_everywhere(groups, Status::invalid_parameter,
                            "rank 1 could not create the group: invalid_parameter");
}

TEST(EpCreate, ADeviceThatRefusesEndsItForAll) {
    for (const auto opcode : {regmap::AdminOpcode::create_queue, regmap::AdminOpcode::register_memory,
                              regmap::AdminOpcode::create_qp, regmap::AdminOpcode::connect_qp,
                              regmap::AdminOpcode::create_group}) {
        SCOPED_TRACE(name(opcode));
        Job job(4);
        job.device(3).refuse = [opcode](const regmap::AdminRequest& request) {
            return request.opcode == opcode ? Status::limit_exceeded : Status::ok;
        };
        auto groups = job.create();
        EXPECT_EQ(groups[3].status(), Status::limit_exceeded);
        groups.pop_back();
        expect_error_everywhere(groups, Status::limit_exceeded,
                                "rank 3 could not create the group: limit_exceeded");
        job.expect_nothing_left();
    }
}

TEST(EpCreate, ARemovedDeviceEndsItForAll) {
    Job job(4);
    job.device(0).removed = true;
    auto groups = job.create();
    for (auto& group : groups) EXPECT_EQ(group.status(), Status::device_removed);
}

TEST(EpCreate, AnAbsentRankIsATimeout) {
    Job job(4);
    auto groups = job.create([](std::uint32_t) { return small_config(); }, {2});
    ASSERT_EQ(groups.size(), 3u);
    for (auto& group : groups) EXPECT_EQ(group.status(), Status::timeout);
    job.expect_nothing_left();
}

/// Says of itself what it is told to.
class LyingBootstrap : public Bootstrap {
  public:
    LyingBootstrap(std::uint32_t rank, std::uint32_t ranks, std::size_t length_bytes)
        : rank_(rank), ranks_(ranks), length_bytes_(length_bytes) {}
    [[nodiscard]] std::uint32_t rank() const override { return rank_; }
    [[nodiscard]] std::uint32_t ranks() const override { return ranks_; }
    Result<std::vector<std::byte>> all_gather(std::span<const std::byte>, std::uint64_t) override {
        return std::vector<std::byte>(length_bytes_);
    }

  private:
    const std::uint32_t rank_;
    const std::uint32_t ranks_;
    const std::size_t length_bytes_;
};

TEST(EpCreate, ABrokenBootstrapIsNotBelieved) {
    Job job(1);
    LyingBootstrap out_of_range(4, 4, 0);
    EXPECT_EQ(EpGroup::create(job.driver(0), small_config(), out_of_range).error().message,
              "bootstrap: rank is 4 of 4 ranks");
    LyingBootstrap too_short(0, 4, 3);
    const auto group = EpGroup::create(job.driver(0), small_config(), too_short);
    EXPECT_EQ(group.status(), Status::invalid_length);
    LyingBootstrap too_many(0, 257, 0);
    EXPECT_EQ(EpGroup::create(job.driver(0), small_config(), too_many).error().message,
              "ranks is 257, expected 1 .. 256");
    job.expect_nothing_left();
}

TEST(EpCreate, ADeviceWithTooFewPairsIsNamed) {
    ScriptedDevice device;
    device.limit_qps = 1;
    auto driver = Driver::open(device);
    ASSERT_TRUE(driver.ok()) << driver.error().message;
    LyingBootstrap bootstrap(0, 4, 0);
    const auto group = EpGroup::create(*driver.value(), small_config(), bootstrap);
    EXPECT_EQ(group.status(), Status::limit_exceeded);
    EXPECT_EQ(group.error().message, "the group needs 2 queue pairs, the device has room for 1");
}

/// Devices of the ranks are not in a row.
TEST(EpCreate, DevicesMustBeConsecutive) {
    Job first(2, 0);
    Job second(2, 7);
    Meeting meeting(2);
    std::optional<Result<std::unique_ptr<EpGroup>>> results[2];
    std::thread other([&] {
        ThreadBootstrap bootstrap(meeting, 1);
        results[1] = EpGroup::create(second.driver(1), small_config(), bootstrap);
    });
    ThreadBootstrap bootstrap(meeting, 0);
    results[0] = EpGroup::create(first.driver(0), small_config(), bootstrap);
    other.join();
    for (auto& result : results) {
        EXPECT_EQ(result->status(), Status::parameter_mismatch);
        EXPECT_EQ(result->error().message, "rank 1: device number is 8, expected that of rank 0 (0) + 1");
    }
}

}  // namespace
}  // namespace plait::testing
