#pragma once
// Everything a group owns on its device: queues, queue pairs, result memory, the group itself.

#include <cstdint>
#include <plait/driver.hpp>
#include <plait/ep.hpp>
#include <plait/registered_memory.hpp>
#include <span>
#include <vector>

#include "ep_exchange.hpp"

namespace plait {

/// Made step by step while the group is created; the destructor takes back whatever exists by then.
class EpResources {
  public:
    EpResources(Driver& driver, const EpConfig& config, std::uint32_t rank, std::uint32_t ranks);
    ~EpResources();
    EpResources(const EpResources&) = delete;
    EpResources& operator=(const EpResources&) = delete;

    /// Queues, result memory, and a queue pair towards each rank of another node: [ranks] addresses.
    Result<std::vector<PairAddress>> prepare();

    /// Connects the pairs to their peers, `towards_us[r]` being rank r's pair for this rank, and creates the
    /// group.
    Result<void> connect(std::span<const PairAddress> towards_us, std::uint32_t first_device);

    [[nodiscard]] Driver& driver() { return driver_; }
    [[nodiscard]] const EpConfig& config() const { return config_; }
    [[nodiscard]] std::uint32_t rank() const { return rank_; }
    [[nodiscard]] std::uint32_t ranks() const { return ranks_; }
    [[nodiscard]] std::uint32_t completion_queue() const { return completion_queue_; }
    [[nodiscard]] std::uint32_t collective_queue() const { return collective_queue_; }
    [[nodiscard]] std::uint32_t group() const { return group_; }

    /// Where the device writes the result of a handle's calls.
    [[nodiscard]] regmap::MemoryRange result_range(std::uint32_t handle) const;

    /// The same as the host sees it: an EpResult, then rows per local expert, then rows per source rank,
    /// then in low latency rows per source rank and local expert.
    [[nodiscard]] std::span<const std::byte> result_bytes(std::uint32_t handle) const;

    /// Forgets what an earlier call wrote there. No call of the handle may be in flight.
    void clear_result(std::uint32_t handle);

  private:
    [[nodiscard]] bool is_own_node(std::uint32_t rank) const {
        return rank / config_.ranks_per_node == rank_ / config_.ranks_per_node;
    }
    [[nodiscard]] std::size_t result_stride_bytes() const;
    Result<void> create_queues();
    Result<void> create_pairs();

    Driver& driver_;
    const EpConfig config_;
    const std::uint32_t rank_;
    const std::uint32_t ranks_;
    std::uint32_t completion_queue_ = 0;  // 0: not there yet, as for the other numbers
    std::uint32_t collective_queue_ = 0;
    std::vector<PairAddress> pairs_;  // [ranks]; QPN 0 where there is none
    RegisteredMemory results_;
    std::uint32_t group_ = 0;
    bool has_group_ = false;
};

}  // namespace plait
