// The example for C users on simulated devices with the real firmware. The test runs one SystemC simulation:
// ctest gives it a process.
#include <gtest/gtest.h>
#include <plait/plait.h>

#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <plait/c_link.hpp>
#include <plait/firmware/firmware.hpp>
#include <plait/sim/bridge/kernel.hpp>
#include <plait/sim/bridge/sim_link.hpp>
#include <plait/sim/models/cluster.hpp>
#include <plait/sim/models/native_firmware.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

// docs/ep.md
extern "C" plait_status run_rank(const plait_link* link, const plait_bootstrap* bootstrap, uint32_t experts,
                                 uint32_t tokens, const int64_t* ids, const uint16_t* rows,
                                 uint16_t* combined);

namespace plait::sim::testing {
namespace {

constexpr uint32_t ranks = 4;
constexpr uint32_t experts = 16;
constexpr uint32_t topk = 2;
constexpr uint32_t hidden = 256;

/// Where the ranks of a job meet: what each gave in each round.
class Board {
  public:
    plait_status gather(uint32_t rank, const void* mine, uint64_t length_bytes, void* all) {
        auto& round = rounds_[next_.at(rank)++];
        const auto* bytes = static_cast<const std::byte*>(mine);
        round[rank].assign(bytes, bytes + length_bytes);
        while (round.size() < ranks) Kernel::sleep(1000);
        auto* out = static_cast<std::byte*>(all);
        for (const auto& [of, part] : round) out = std::copy(part.begin(), part.end(), out);
        return PLAIT_STATUS_OK;
    }

  private:
    std::array<uint32_t, ranks> next_{};
    std::map<uint32_t, std::map<uint32_t, std::vector<std::byte>>> rounds_;
};

/// One rank: what it gives, and what it should get.
struct Rank {
    Board* board = nullptr;
    uint32_t number = 0;
    std::vector<int64_t> ids;
    std::vector<uint16_t> rows;
    std::vector<uint16_t> expected;
    std::vector<uint16_t> combined;
    plait_status status = PLAIT_STATUS_ABORTED;
    std::string error;

    [[nodiscard]] uint32_t tokens() const { return static_cast<uint32_t>(ids.size() / topk); }
};

uint16_t bf16(float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); }

/// Small whole numbers, so that every sum is exact. The experts give rows back as they are: a token gets its
/// row as often as ranks had it.
Rank make_rank(uint32_t number, uint32_t tokens, std::mt19937_64& random) {
    Rank rank;
    rank.number = number;
    for (uint32_t token = 0; token < tokens; ++token) {
        std::set<int64_t> homes;
        for (uint32_t choice = 0; choice < topk; ++choice) {
            const auto id = static_cast<int64_t>(random() % (experts + 1)) - 1;
            rank.ids.push_back(id);
            if (id >= 0) homes.insert(id / (experts / ranks));
        }
        for (uint32_t element = 0; element < hidden; ++element) {
            const auto value = static_cast<float>(random() % 16);
            rank.rows.push_back(bf16(value));
            rank.expected.push_back(bf16(value * static_cast<float>(homes.size())));
        }
    }
    rank.combined.assign(rank.expected.size(), 0xffff);
    return rank;
}

plait_status gather(void* context, const void* mine, uint64_t length_bytes, void* all, uint64_t) {
    auto& rank = *static_cast<Rank*>(context);
    return rank.board->gather(rank.number, mine, length_bytes, all);
}

TEST(Example, BringsEveryRowBack) {
    ClusterParameters parameters;
    parameters.fabric.devices = ranks;
    parameters.fabric.devices_per_node = 2;
    parameters.device.firmware.max_groups = 1;
    parameters.device.firmware.max_qps = 16;
    Cluster cluster("cluster", parameters, make_native_firmware<firmware::Firmware>);
    Kernel kernel("kernel", cluster.queue());
    HostPrograms programs("programs", kernel);

    Board board;
    std::mt19937_64 random(1);
    std::vector<Rank> job;
    for (const uint32_t tokens : {13U, 0U, 1U, 14U})  // at most 28 rows a rank
        job.push_back(make_rank(static_cast<uint32_t>(job.size()), tokens, random));
    for (Rank& rank : job) {
        rank.board = &board;
        programs.spawn("rank", [&] {
            SimLink device_link(kernel, cluster.device(rank.number));
            const plait_link link = make_c_link(device_link);
            plait_bootstrap bootstrap = PLAIT_BOOTSTRAP_INIT;
            bootstrap.context = &rank;
            bootstrap.rank = rank.number;
            bootstrap.ranks = ranks;
            bootstrap.all_gather = &gather;
            rank.status = run_rank(&link, &bootstrap, experts, rank.tokens(), rank.ids.data(),
                                   rank.rows.data(), rank.combined.data());
            rank.error = plait_last_error();
        });
    }
    sc_core::sc_start();
    EXPECT_EQ(programs.running(), 0U);
    for (const Rank& rank : job) {
        EXPECT_EQ(rank.status, PLAIT_STATUS_OK)
            << "rank " << rank.number << ": " << plait_status_string(rank.status) << ", " << rank.error;
        EXPECT_EQ(rank.combined, rank.expected) << "rank " << rank.number;
    }
}

}  // namespace
}  // namespace plait::sim::testing
