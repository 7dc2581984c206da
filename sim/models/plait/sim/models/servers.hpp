// Servers as arithmetic: when they are free, not what they do.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <plait/sim/fabric/output_port.hpp>

namespace plait::sim {

/// One FIFO server.
class Server {
  public:
    Slot take(uint64_t ready_ps, uint64_t duration_ps) {
        const uint64_t start_ps = std::max(ready_ps, free_ps_);
        free_ps_ = start_ps + duration_ps;
        busy_ps_ += duration_ps;
        return {start_ps, free_ps_};
    }

    uint64_t busy_ps() const { return busy_ps_; }

  private:
    uint64_t free_ps_ = 0;
    uint64_t busy_ps_ = 0;
};

/// Up to eight equal servers; work goes to the one that is free first.
class ServerGroup {
  public:
    static constexpr uint32_t max_servers = 8;

    explicit ServerGroup(uint32_t servers) : servers_(servers) {}

    Slot take(uint64_t ready_ps, uint64_t duration_ps) {
        uint32_t chosen = 0;
        for (uint32_t i = 1; i < servers_; ++i) {
            if (free_ps_[i] < free_ps_[chosen]) {
                chosen = i;
            }
        }
        const uint64_t start_ps = std::max(ready_ps, free_ps_[chosen]);
        free_ps_[chosen] = start_ps + duration_ps;
        busy_ps_ += duration_ps;
        return {start_ps, free_ps_[chosen]};
    }

    uint64_t busy_ps() const { return busy_ps_; }

  private:
    std::array<uint64_t, max_servers> free_ps_{};
    uint32_t servers_;
    uint64_t busy_ps_ = 0;
};

/// Time that an engine of `bytes_per_cycle` needs, in whole cycles.
class CycleClock {
  public:
    CycleClock(double clock_ghz, uint32_t bytes_per_cycle)
        : cycle_ps_(static_cast<uint64_t>(1000.0 / clock_ghz + 0.5)), bytes_per_cycle_(bytes_per_cycle) {}

    uint64_t time_ps(uint64_t bytes) const {
        return (bytes + bytes_per_cycle_ - 1) / bytes_per_cycle_ * cycle_ps_;
    }

  private:
    uint64_t cycle_ps_;
    uint32_t bytes_per_cycle_;
};

}  // namespace plait::sim
