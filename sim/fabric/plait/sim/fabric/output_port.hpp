// An output port as arithmetic: a FIFO with one server needs no event of its own, only the time at which it
// is free.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <plait/sim/fabric/packet.hpp>

namespace plait::sim {

// Turns bytes into picoseconds at a fixed rate, rounded to the nearest. Valid for rates of 1 to 100,000 Gb/s
// and sizes below 1 GiB.
class RateClock {
  public:
    explicit RateClock(double rate_gbps)
        : ps_per_byte_q20_(static_cast<uint64_t>(8000.0 / rate_gbps * (1 << 20) + 0.5)) {}

    uint64_t time_ps(uint64_t bytes) const { return (bytes * ps_per_byte_q20_ + (1 << 19)) >> 20; }
    uint64_t bytes(uint64_t time_ps) const {
        return static_cast<uint64_t>(
            static_cast<double>(time_ps) * (1 << 20) / static_cast<double>(ps_per_byte_q20_) + 0.5);
    }

  private:
    uint64_t ps_per_byte_q20_;
};

// When a packet occupies a port: its first bit leaves at start_ps, its last at end_ps.
struct Slot {
    uint64_t start_ps;
    uint64_t end_ps;
};

struct PortStatistics {
    uint64_t packets = 0;  // accepted by the port
    uint64_t bytes = 0;
    uint64_t ecn_marks = 0;
    uint64_t max_queue_bytes = 0;  // waiting, the packet being sent included
    uint64_t busy_ps = 0;
    std::array<uint64_t, drop_reason_count> drops{};
    uint64_t trimmed = 0;  // cut here
};

// One direction of a link and the queue in front of it. The state of the link is a count of its changes, odd
// while it is down: a packet remembers the count and is lost when it has changed on the packet's way, which
// takes no search for what is in flight.
struct OutputPort {
    uint64_t free_ps = 0;
    uint64_t packets = 0;
    uint64_t bytes = 0;
    uint64_t busy_ps = 0;
    uint64_t max_backlog_ps = 0;
    uint64_t ecn_marks = 0;
    uint32_t epoch = 0;
    bool impaired = false;  // the link has probabilities of faults of its own

    bool up() const { return (epoch & 1) == 0; }
    bool lost_since(uint32_t epoch_then) const { return (epoch_then & 1) != 0 || epoch_then != epoch; }

    // Time that the queue needs to drain, seen at `now_ps`.
    uint64_t backlog_ps(uint64_t now_ps) const { return free_ps > now_ps ? free_ps - now_ps : 0; }

    Slot enqueue(uint64_t ready_ps, uint64_t duration_ps, uint32_t size_bytes) {
        const uint64_t start_ps = std::max(ready_ps, free_ps);
        free_ps = start_ps + duration_ps;
        max_backlog_ps = std::max(max_backlog_ps, free_ps - ready_ps);
        busy_ps += duration_ps;
        bytes += size_bytes;
        ++packets;
        return {start_ps, free_ps};
    }

    // The queue is lost when the link goes down; the port starts empty when it comes back.
    void set_up(bool now_up, uint64_t now_ps) {
        if (now_up == up()) {
            return;
        }
        ++epoch;
        busy_ps -= std::min(busy_ps, backlog_ps(now_ps));
        free_ps = std::min(free_ps, now_ps);
    }
};
static_assert(sizeof(OutputPort) <= 64, "one cache line a port");

// The queue of a port for what has been trimmed, which goes ahead of the other one. Apart, since few ports
// ever have anything in it.
struct TrimQueue {
    uint64_t free_ps = 0;
    uint64_t trimmed = 0;
    uint32_t epoch = 0;  // of the port at that time: the queue is lost with the other one
};

}  // namespace plait::sim
