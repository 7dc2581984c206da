// Servers as arithmetic: when they are free, not what they do.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <plait/sim/fabric/output_port.hpp>

namespace plait::sim {

/// When a server that works off what it is given serves a job that is given now and can start at `ready_ps`.
/// A job that is not ready does not keep the server from those given after it: the server is busy with its
/// backlog from now on, and a job ends when the backlog with it is worked off, but not before ready_ps +
/// duration_ps.
class Server {
  public:
    Slot take(uint64_t now_ps, uint64_t ready_ps, uint64_t duration_ps) {
        backlog_end_ps_ = std::max(backlog_end_ps_, now_ps) + duration_ps;
        busy_ps_ += duration_ps;
        const uint64_t end_ps = std::max(backlog_end_ps_, ready_ps + duration_ps);
        return {end_ps - duration_ps, end_ps};
    }

    uint64_t backlog_end_ps() const { return backlog_end_ps_; }
    uint64_t busy_ps() const { return busy_ps_; }

  private:
    uint64_t backlog_end_ps_ = 0;
    uint64_t busy_ps_ = 0;
};

/// Up to eight equal servers; work goes to the one with the least backlog.
class ServerGroup {
  public:
    static constexpr uint32_t max_servers = 8;

    explicit ServerGroup(uint32_t servers) : servers_(servers) {}

    Slot take(uint64_t now_ps, uint64_t ready_ps, uint64_t duration_ps) {
        uint32_t chosen = 0;
        for (uint32_t i = 1; i < servers_; ++i) {
            if (each_[i].backlog_end_ps() < each_[chosen].backlog_end_ps()) {
                chosen = i;
            }
        }
        return each_[chosen].take(now_ps, ready_ps, duration_ps);
    }

    uint64_t busy_ps() const {
        uint64_t sum = 0;
        for (const Server& server : each_) {
            sum += server.busy_ps();
        }
        return sum;
    }

  private:
    std::array<Server, max_servers> each_{};
    uint32_t servers_;
};

/// Time that an engine of `bytes_per_cycle` needs, in whole cycles.
class CycleClock {
  public:
    CycleClock(double clock_ghz, uint32_t bytes_per_cycle)
        : cycle_ps_(static_cast<uint64_t>(1000.0 / clock_ghz + 0.5)), bytes_per_cycle_(bytes_per_cycle) {}

    uint64_t time_ps(uint64_t bytes) const {
        return (bytes + bytes_per_cycle_ - 1) / bytes_per_cycle_ * cycle_ps_;
    }
    uint64_t cycle_ps() const { return cycle_ps_; }

  private:
    uint64_t cycle_ps_;
    uint32_t bytes_per_cycle_;
};

}  // namespace plait::sim
