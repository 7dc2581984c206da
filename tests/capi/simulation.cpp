// C programs on simulated devices. Each test runs one SystemC simulation: ctest gives it a process.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <set>
#include <string>

#include "simulated_job.hpp"

// docs/ep.md
extern "C" plait_status run_rank(const plait_link* link, const plait_bootstrap* bootstrap, uint32_t experts,
                                 uint32_t tokens, const int64_t* ids, const uint16_t* rows,
                                 uint16_t* combined);

namespace plait::sim::testing {
namespace {

constexpr uint32_t experts = 16;
constexpr uint32_t experts_per_rank = experts / ranks;
constexpr uint32_t topk = 2;
constexpr uint32_t hidden = 256;

using Ids = std::vector<int64_t>;

/// Choices of that many tokens, -1 among them.
Ids random_ids(uint32_t tokens, std::mt19937_64& random) {
    Ids ids(size_t{tokens} * topk);
    for (int64_t& id : ids) id = static_cast<int64_t>(random() % (experts + 1)) - 1;
    return ids;
}

uint16_t bf16(float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); }

/// What a rank gives to the example, and what it should get: the experts give rows back as they are, so a
/// token gets its row as often as ranks had it. Small whole numbers, so that every sum is exact.
struct ExampleRank {
    ExampleRank(uint32_t tokens, std::mt19937_64& random) : ids(random_ids(tokens, random)) {
        for (uint32_t token = 0; token < tokens; ++token) {
            std::set<int64_t> homes;
            for (uint32_t choice = 0; choice < topk; ++choice)
                if (const int64_t id = ids[token * topk + choice]; id >= 0)
                    homes.insert(id / experts_per_rank);
            for (uint32_t element = 0; element < hidden; ++element) {
                const auto value = static_cast<float>(random() % 16);
                rows.push_back(bf16(value));
                expected.push_back(bf16(value * static_cast<float>(homes.size())));
            }
        }
        combined.assign(expected.size(), 0xffff);
    }

    Ids ids;
    std::vector<uint16_t> rows;
    std::vector<uint16_t> expected;
    std::vector<uint16_t> combined;
};

TEST(Simulation, TheExampleBringsEveryRowBack) {
    std::mt19937_64 random(1);
    std::vector<ExampleRank> job;
    for (const uint32_t tokens : {13U, 0U, 1U, 14U}) job.emplace_back(tokens, random);
    SimulatedJob simulation;
    EXPECT_TRUE(simulation.run([&](uint32_t number, const plait_link& link, const plait_bootstrap& channel) {
        ExampleRank& rank = job[number];
        const plait_status status =
            run_rank(&link, &channel, experts, static_cast<uint32_t>(rank.ids.size() / topk), rank.ids.data(),
                     rank.rows.data(), rank.combined.data());
        EXPECT_EQ(status, PLAIT_STATUS_OK) << "rank " << number << ": " << plait_last_error();
    }));
    for (const ExampleRank& rank : job)
        EXPECT_EQ(rank.combined, rank.expected) << "rank " << &rank - job.data();
}

/// What a dispatch gives to a rank, from the routing of all: a row for each token with an expert here, by
/// source rank, then token.
struct Received {
    Received(const std::vector<Ids>& routing, uint32_t rank, uint32_t capacity)
        : topk_idx(size_t{capacity} * topk, -1), per_source(ranks), per_expert(experts_per_rank) {
        for (uint32_t from = 0; from < ranks; ++from) {
            for (uint32_t token = 0; token < routing[from].size() / topk; ++token) {
                bool is_here = false;
                for (uint32_t choice = 0; choice < topk; ++choice) {
                    const int64_t local =
                        routing[from][token * topk + choice] - int64_t{rank} * experts_per_rank;
                    if (local < 0 || local >= experts_per_rank) continue;
                    is_here = true;
                    topk_idx[source.size() * topk + choice] = local;
                    ++per_expert[static_cast<size_t>(local)];
                }
                if (!is_here) continue;
                source.push_back(uint64_t{from} << 32 | token);
                ++per_source[from];
            }
        }
    }

    std::vector<int64_t> topk_idx;  ///< [capacity, topk]
    std::vector<uint64_t> source;
    std::vector<uint32_t> per_source;
    std::vector<uint32_t> per_expert;
};

/// Memory of one rank, for a dispatch with room for whatever may come.
class WorstCase {
  public:
    static constexpr uint32_t max_tokens = 32;
    static constexpr uint32_t capacity = ranks * max_tokens;
    static constexpr uint32_t alignment = 8;

    WorstCase(const plait_link& link, const plait_bootstrap& bootstrap) {
        need(plait_device_open(&link, nullptr, &device_));
        plait_ep_config config = PLAIT_EP_CONFIG_INIT;
        config.ranks_per_node = 2;
        config.experts = experts;
        config.topk = topk;
        config.hidden = hidden;
        config.max_tokens = max_tokens;
        need(plait_ep_group_create(device_, &config, &bootstrap, &group_));
        topk_idx_ = allocate(max_tokens * topk * sizeof(int64_t), 0);
        args_.receive_capacity = capacity;
        args_.timeout_us = 20'000;
        args_.expert_alignment = alignment;
        args_.mark_empty_rows = 1;
        args_.x = allocate(max_tokens * hidden, 0);
        args_.x_scales = allocate(max_tokens * 2 * sizeof(float), 0);
        args_.recv_x = allocate(capacity * hidden, PLAIT_ACCESS_LOCAL_WRITE);
        args_.recv_x_scales = allocate(capacity * 2 * sizeof(float), PLAIT_ACCESS_LOCAL_WRITE);
        args_.recv_topk_idx = allocate(capacity * topk * sizeof(int64_t), PLAIT_ACCESS_LOCAL_WRITE);
        args_.recv_source = allocate(capacity * sizeof(uint64_t), PLAIT_ACCESS_LOCAL_WRITE);
    }

    ~WorstCase() {
        EXPECT_EQ(plait_ep_handle_destroy(handle_), PLAIT_STATUS_OK) << plait_last_error();
        EXPECT_EQ(plait_ep_group_destroy(group_), PLAIT_STATUS_OK) << plait_last_error();
        for (plait_memory* memory : memory_) EXPECT_EQ(plait_memory_free(memory), PLAIT_STATUS_OK);
        EXPECT_EQ(plait_device_close(device_), PLAIT_STATUS_OK) << plait_last_error();
    }

    void route(const Ids& ids) {
        std::copy(ids.begin(), ids.end(), static_cast<int64_t*>(topk_idx_.host));  // of no token too
        plait_ep_routing routing = PLAIT_EP_ROUTING_INIT;
        routing.tokens = static_cast<uint32_t>(ids.size() / topk);
        routing.topk_idx = topk_idx_;
        need(handle_ == nullptr ? plait_ep_handle_init(group_, &routing, &handle_)
                                : plait_ep_handle_update(handle_, &routing));
    }

    void dispatch(const Received& expected, const std::string& what) {
        plait_ep_call* call = nullptr;
        plait_ep_completion completion = PLAIT_EP_COMPLETION_INIT;
        need(plait_ep_dispatch(handle_, &args_, &call));
        need(plait_ep_complete(call, 50'000'000, &completion));
        EXPECT_EQ(completion.status, PLAIT_STATUS_OK) << what;
        EXPECT_EQ(completion.received_rows, expected.source.size()) << what;
        const auto* source = static_cast<const uint64_t*>(args_.recv_source.host);
        EXPECT_EQ(std::vector(source, source + expected.source.size()), expected.source) << what;
        const auto* ids = static_cast<const int64_t*>(args_.recv_topk_idx.host);
        EXPECT_EQ(std::vector(ids, ids + capacity * topk), expected.topk_idx) << what;
        for (uint32_t rank = 0; rank < ranks; ++rank)
            EXPECT_EQ(completion.rows_per_source[rank], expected.per_source[rank]) << what;
        for (uint32_t expert = 0; expert < experts_per_rank; ++expert) {
            uint32_t aligned = expected.per_expert[expert];
            while (aligned % alignment != 0) ++aligned;
            EXPECT_EQ(completion.rows_per_local_expert[expert], expected.per_expert[expert]) << what;
            EXPECT_EQ(completion.aligned_rows_per_local_expert[expert], aligned) << what;
        }
        need(plait_ep_call_destroy(call));
    }

  private:
    static void need(plait_status status) {
        if (status != PLAIT_STATUS_OK) throw std::runtime_error(plait_last_error());
    }

    plait_buffer allocate(uint64_t length_bytes, uint32_t access) {
        plait_buffer buffer = PLAIT_BUFFER_INIT;
        need(plait_memory_allocate(device_, length_bytes, access, &memory_.emplace_back()));
        need(plait_memory_buffer(memory_.back(), &buffer));
        return buffer;
    }

    plait_device* device_ = nullptr;
    plait_ep_group* group_ = nullptr;
    plait_ep_handle* handle_ = nullptr;
    std::vector<plait_memory*> memory_;
    plait_buffer topk_idx_ = PLAIT_BUFFER_INIT;
    plait_ep_dispatch_args args_ = PLAIT_EP_DISPATCH_ARGS_INIT;
};

// The second routing has fewer tokens: what is left of the first in the outputs is marked.
TEST(Simulation, WorstCaseOutputsAreExactAndTheirTailsMarked) {
    std::mt19937_64 random(2);
    std::vector<Ids> first;
    std::vector<Ids> second;
    for (const uint32_t tokens : {32U, 31U, 0U, 5U}) first.push_back(random_ids(tokens, random));
    for (const uint32_t tokens : {3U, 0U, 7U, 1U}) second.push_back(random_ids(tokens, random));
    SimulatedJob simulation;
    EXPECT_TRUE(simulation.run([&](uint32_t rank, const plait_link& link, const plait_bootstrap& channel) {
        WorstCase worst(link, channel);
        worst.route(first[rank]);
        const Received expected(first, rank, WorstCase::capacity);
        worst.dispatch(expected, "first routing");
        worst.dispatch(expected, "first routing again");
        worst.route(second[rank]);
        worst.dispatch(Received(second, rank, WorstCase::capacity), "second routing");
        // Nobody goes while others may need its device.
        uint8_t all_done[ranks];
        channel.all_gather(channel.context, "", 1, all_done, 0);
    }));
}

}  // namespace
}  // namespace plait::sim::testing
