#pragma once
// The network of a mesh of devices: one event loop, deterministic from its seed.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <plait/firmware/firmware.hpp>
#include <queue>
#include <random>
#include <utility>
#include <vector>

namespace plait::mesh_test {

using namespace firmware;

struct MeshOptions {
    std::uint32_t nodes = 2;
    std::uint32_t ranks_per_node = 2;
    std::uint8_t planes = 4;
    double loss = 0;                   ///< Of every packet on a plane.
    std::uint64_t jitter_ns = 0;       ///< Random extra delay of every packet: reordering.
    std::uint64_t read_jitter_ns = 0;  ///< Random extra delay of every fetch: reads overtake each other.
    std::uint64_t packet_memory_bytes =
        8U << 20;  ///< What arrives from planes may be refused, the rest is forced in.
    std::uint64_t scale_up_bytes_per_us = 160'000;
    std::uint64_t scale_up_ns = 300;      ///< From device to device.
    std::uint64_t link_down_ns = 10'000;  ///< Until the node sees that a device is dead.
    std::uint32_t accumulators = 256;
    std::uint32_t qp_time_limit_us = 4000;
    std::uint32_t mtu_bytes = 1024;
    std::uint64_t seed = 1;
    [[nodiscard]] std::uint32_t ranks() const { return nodes * ranks_per_node; }
};

class MeshDevice;

/// The event loop and what lies between the devices.
class Mesh {
  public:
    explicit Mesh(const MeshOptions& options);

    [[nodiscard]] const MeshOptions& options() const { return options_; }
    [[nodiscard]] std::uint64_t now_ns() const { return now_ns_; }
    MeshDevice& device(std::uint32_t number) { return *devices_[number]; }
    std::mt19937_64& random() { return random_; }
    std::uint64_t read_delay_ns() {
        return options_.read_jitter_ns == 0 ? 0 : random_() % options_.read_jitter_ns;
    }

    void at(std::uint64_t time_ns, std::function<void()> action) {
        events_.push({std::max(time_ns, now_ns_), order_++, std::move(action)});
    }

    /// Runs until `done` or until `limit_ns` from now; true if done.
    template <class Done>
    bool run_until(Done&& done, std::uint64_t limit_ns) {
        const std::uint64_t end = now_ns_ + limit_ns;
        while (!done()) {
            if (events_.empty() || events_.top().time_ns > end) return false;
            step();
        }
        return true;
    }
    void run_for(std::uint64_t time_ns) {
        run_until([] { return false; }, time_ns);
    }

    void deliver(const Packet& packet, std::vector<std::uint8_t> bytes, std::uint64_t time_ns);

  private:
    struct Event {
        std::uint64_t time_ns;
        std::uint64_t order;
        std::function<void()> action;
        bool operator<(const Event& other) const {
            return std::pair(time_ns, order) > std::pair(other.time_ns, other.order);
        }
    };
    void step() {
        Event event = std::move(const_cast<Event&>(events_.top()));
        events_.pop();
        now_ns_ = event.time_ns;
        event.action();
    }

    MeshOptions options_;
    std::mt19937_64 random_;
    std::priority_queue<Event> events_;
    std::uint64_t now_ns_ = 0;
    std::uint64_t order_ = 0;
    std::vector<std::unique_ptr<MeshDevice>> devices_;
};

}  // namespace plait::mesh_test
