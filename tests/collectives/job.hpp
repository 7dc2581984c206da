#pragma once
// Several ranks in one process: a scripted device, a driver and a thread for each while groups are created.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <plait/driver.hpp>
#include <plait/ep.hpp>
#include <set>
#include <thread>
#include <vector>

#include "meeting.hpp"
#include "scripted_device.hpp"

namespace plait::testing {

/// 8 experts, top-2, rows of 128 elements, 16 tokens at most, 2 ranks a node.
inline EpConfig small_config() {
    EpConfig config;
    config.ranks_per_node = 2;
    config.experts = 8;
    config.topk = 2;
    config.hidden = 128;
    config.max_tokens = 16;
    return config;
}

class Job {
  public:
    using Groups = std::vector<Result<std::unique_ptr<EpGroup>>>;

    /// Device r has number first_device + r.
    explicit Job(std::uint32_t ranks, std::uint32_t first_device = 0) {
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            devices_.push_back(std::make_unique<ScriptedDevice>(first_device + rank));
            auto driver = Driver::open(*devices_.back(), DriverOptions{});
            if (!driver) throw std::runtime_error(driver.error().message);
            drivers_.push_back(std::move(driver.value()));
            objects_before_.push_back(devices_.back()->objects());
            allocations_before_.push_back(devices_.back()->allocations());
        }
    }

    [[nodiscard]] std::uint32_t ranks() const { return static_cast<std::uint32_t>(devices_.size()); }
    ScriptedDevice& device(std::uint32_t rank) { return *devices_[rank]; }
    Driver& driver(std::uint32_t rank) { return *drivers_[rank]; }

    /// Every rank but the absent ones creates its group, each in a thread of its own; results in rank order.
    Groups create(const std::function<EpConfig(std::uint32_t)>& config,
                  const std::set<std::uint32_t>& absent = {}) {
        Meeting meeting(ranks());
        std::vector<std::optional<Result<std::unique_ptr<EpGroup>>>> results(ranks());
        std::vector<std::thread> threads;
        for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
            if (absent.contains(rank)) {
                meeting.leave();
                continue;
            }
            threads.emplace_back([&, rank] {
                ThreadBootstrap bootstrap(meeting, rank);
                results[rank] = EpGroup::create(driver(rank), config(rank), bootstrap);
            });
        }
        for (std::thread& thread : threads) thread.join();
        Groups groups;
        for (auto& result : results)
            if (result) groups.push_back(std::move(*result));
        return groups;
    }

    Groups create() {
        return create([](std::uint32_t) { return small_config(); });
    }

    /// Nothing that a group made is left on any device.
    void expect_nothing_left() {
        for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
            EXPECT_EQ(device(rank).objects(), objects_before_[rank]) << "rank " << rank;
            EXPECT_EQ(device(rank).allocations(), allocations_before_[rank]) << "rank " << rank;
        }
    }

  private:
    std::vector<std::unique_ptr<ScriptedDevice>> devices_;
    std::vector<std::unique_ptr<Driver>> drivers_;
    std::vector<std::size_t> objects_before_;
    std::vector<std::size_t> allocations_before_;
};

}  // namespace plait::testing
