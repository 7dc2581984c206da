#pragma once
// Two ranks, one a node, with everything opened through the C interface.

#include <gtest/gtest.h>
#include <plait/plait.h>

#include <array>
#include <cstring>
#include <memory>
#include <plait/c_link.hpp>
#include <stdexcept>
#include <string>
#include <thread>

#include "meeting.hpp"
#include "scripted_device.hpp"

namespace plait::testing {

class CJob : public ::testing::Test {
  protected:
    static constexpr std::uint64_t wait_ns = 1'000'000;

    struct Rank {
        std::unique_ptr<ScriptedDevice> device;
        Meeting* meeting = nullptr;
        std::uint32_t number = 0;
        plait_device* opened = nullptr;
        plait_ep_group* group = nullptr;
        plait_status created = PLAIT_STATUS_ABORTED;
        std::string error;
    };

    CJob() {
        for (Rank& rank : ranks_) {
            rank.number = static_cast<std::uint32_t>(&rank - ranks_.data());
            rank.device = std::make_unique<ScriptedDevice>(rank.number);
            rank.meeting = &meeting_;
            const plait_link link = make_c_link(*rank.device);
            need(plait_device_open(&link, nullptr, &rank.opened));
        }
    }

    ~CJob() override {
        for (Rank& rank : ranks_) {
            if (rank.group != nullptr) {
                EXPECT_EQ(plait_ep_group_destroy(rank.group), PLAIT_STATUS_OK);
            }
            EXPECT_EQ(plait_device_close(rank.opened), PLAIT_STATUS_OK) << plait_last_error();
            EXPECT_EQ(rank.device->allocations(), 0U) << "rank " << rank.number;
        }
    }

    /// 8 experts, top-2, rows of 128 elements, 16 tokens at most.
    static plait_ep_config small_config() {
        plait_ep_config config = PLAIT_EP_CONFIG_INIT;
        config.ranks_per_node = 1;
        config.experts = 8;
        config.topk = 2;
        config.hidden = 128;
        config.max_tokens = 16;
        return config;
    }

    static plait_status gather(void* context, const void* mine, std::uint64_t length_bytes, void* all,
                               std::uint64_t) {
        auto& rank = *static_cast<Rank*>(context);
        const auto gathered =
            rank.meeting->gather(rank.number, {static_cast<const std::byte*>(mine), length_bytes});
        if (!gathered) return static_cast<plait_status>(gathered.status());
        std::memcpy(all, gathered.value().data(), gathered.value().size());
        return PLAIT_STATUS_OK;
    }

    static plait_bootstrap bootstrap_of(Rank& rank) {
        plait_bootstrap bootstrap = PLAIT_BOOTSTRAP_INIT;
        bootstrap.context = &rank;
        bootstrap.rank = rank.number;
        bootstrap.ranks = 2;
        bootstrap.all_gather = &gather;
        return bootstrap;
    }

    /// Both ranks make their group, each in a thread of its own; how it went is in `created` and `error`.
    void create(const std::array<plait_ep_config, 2>& configs) {
        std::array<std::thread, 2> threads;
        for (Rank& rank : ranks_)
            threads[rank.number] = std::thread([&] {
                const plait_bootstrap bootstrap = bootstrap_of(rank);
                rank.created =
                    plait_ep_group_create(rank.opened, &configs[rank.number], &bootstrap, &rank.group);
                rank.error = plait_last_error();
            });
        for (std::thread& thread : threads) thread.join();
    }

    void create() {
        create({small_config(), small_config()});
        for (const Rank& rank : ranks_)
            if (rank.created != PLAIT_STATUS_OK) throw std::runtime_error(rank.error);
    }

    Rank& rank(std::uint32_t number) { return ranks_[number]; }
    ScriptedDevice& device() { return *ranks_[0].device; }
    plait_device* opened() { return ranks_[0].opened; }
    plait_ep_group* group() { return ranks_[0].group; }

    static void need(plait_status status) {
        if (status != PLAIT_STATUS_OK) throw std::runtime_error(plait_last_error());
    }

  private:
    Meeting meeting_{2};
    std::array<Rank, 2> ranks_;
};

}  // namespace plait::testing
