#pragma once
// Two devices with a transport each, and a small network between them that loses, repeats, delays and
// reorders: the scripted HAL and Context of the transport's tests.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <plait/firmware/transport.hpp>
#include <queue>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace plait::firmware::testing {

/// Seed of randomised tests: PLAIT_SEED, else `fallback`.
inline std::uint64_t test_seed(std::uint64_t fallback) {
    const char* text = std::getenv("PLAIT_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 0) : fallback;
}

struct NetworkConfig {
    double loss = 0;
    double duplicate = 0;
    double reorder = 0;  ///< Of packets that are delayed by up to reorder_ns.
    std::uint64_t reorder_ns = 20'000;
    double ack_loss = 0;  ///< Of packets without a PSN.
    std::uint64_t latency_ns = 1'500;
    std::uint8_t planes = 4;
    std::uint32_t time_limit_us = 4000;
    std::uint64_t seed = 1;
};

/// Payload bytes that every test sends: they depend on where they lie.
inline std::uint8_t pattern(std::uint64_t address) {
    return static_cast<std::uint8_t>((address * 0x9e37'79b9'7f4a'7c15ULL) >> 56);
}

class Network;

/// One device: the Context and the HAL of its transport.
class TestDevice {
  public:
    TestDevice(Network& network, std::uint32_t number, const NetworkConfig& config);

    // Context.
    TestDevice& hal() { return *this; }
    const TestDevice& hal() const { return *this; }
    const DeviceConfig& config() const { return config_; }
    MemoryTable<TestDevice>& memory_table() { return *memory_table_; }
    const MemoryTable<TestDevice>& memory_table() const { return *memory_table_; }
    TestDevice& queues() { return *this; }
    TestDevice& ep() { return *this; }
    TestDevice& registers() { return *this; }
    Transport<TestDevice>& transport() { return *transport_; }
    std::uint32_t qp_time_limit_us() const { return time_limit_us_; }

    // Queues.
    void complete(std::uint32_t queue, const regmap::Completion& completion) {
        completions[queue].push_back(completion);
        if (on_completion) on_completion(queue, completion);
    }
    void resume(std::uint32_t queue) {
        ++resumed[queue];
        if (on_resume) on_resume(queue);
    }

    // EP.
    void build(std::uint64_t tag, std::uint32_t offset, Packet& packet, Payload& payload) {
        packet.row.token = static_cast<std::uint32_t>(tag);
        payload.segments[0] = {ep_source + offset, packet.payload_bytes};
        payload.segment_count = packet.payload_bytes != 0 ? 1 : 0;
    }
    void message_done(std::uint32_t, std::uint64_t tag, Status status) { done.emplace_back(tag, status); }
    void refill(std::uint32_t qpn) {
        ++refills;
        if (on_refill) on_refill(qpn);
    }
    NackReason on_row(const PacketEvent& event);
    NackReason on_partial(const PacketEvent& event) { return on_row(event); }
    NackReason on_control(const PacketEvent&) { return NackReason::none; }
    void qp_failed(std::uint32_t qpn, Status status) { failed.emplace_back(qpn, status); }

    // HAL.
    std::uint64_t now_ns() const;
    void set_timer(TimerId timer, std::uint64_t time_ns);
    void cancel_timer(TimerId timer) { ++timer_generation[timer.number]; }
    void begin_send() {}
    Draft& draft() { return *std::construct_at(&draft_); }
    void send_draft() { send(draft_.packet, draft_.payload); }
    void send(const Packet& packet, const Payload& payload);
    bool port_up(std::uint8_t plane) const { return (ports >> plane & 1) != 0; }
    void place(BufferId buffer, std::uint32_t offset, Segment segment, bool release);
    void release(BufferId buffer) {
        ASSERT_EQ(buffers.count(buffer), 1U) << "released twice";
        buffers.erase(buffer);
    }
    void window_open(std::uint32_t qpn, std::uint32_t, std::uint32_t psn, std::uint16_t packets,
                     std::uint16_t) {
        ASSERT_TRUE(windows[qpn].reset(psn, packets));
        is_open[qpn] = true;
    }
    void window_close(std::uint32_t qpn) { is_open[qpn] = false; }
    void window_refuse(std::uint32_t qpn, std::uint32_t psn) { windows[qpn].refuse(psn); }
    const engines::RxWindow& window(std::uint32_t qpn) { return windows[qpn]; }
    engines::SpraySelector& spray(std::uint32_t qpn) { return sprays[qpn]; }
    void count_drop(DropReason reason) { ++drops[static_cast<std::size_t>(reason)]; }

    // The device's receive side.
    void receive(const Packet& packet, const std::vector<std::uint8_t>& bytes);

    std::uint64_t dropped(DropReason reason) const { return drops[static_cast<std::size_t>(reason)]; }

    /// Registers `bytes` of host memory at `address`, filled with the pattern or zero. Returns the key.
    std::uint32_t add_memory(std::uint64_t address, std::uint64_t bytes, bool filled,
                             std::uint32_t access = 3) {
        std::vector<std::uint8_t>& memory = host[address];
        memory.resize(bytes);
        if (filled)
            for (std::uint64_t i = 0; i < bytes; ++i) memory[i] = pattern(i);
        return memory_table().register_region(address, bytes, access).key;
    }
    std::uint8_t* at(std::uint64_t address) {
        auto region = host.upper_bound(address);
        --region;
        return region->second.data() + (address - region->first);
    }

    static constexpr std::uint64_t ep_source = 0x7000'0000;
    static constexpr std::size_t max_qps = 8;

    std::map<std::uint32_t, std::vector<regmap::Completion>> completions;
    std::map<std::uint32_t, unsigned> resumed;
    std::vector<std::pair<std::uint64_t, Status>> done;
    std::vector<std::pair<std::uint32_t, Status>> failed;
    std::function<void(std::uint32_t, const regmap::Completion&)> on_completion;
    std::function<void(std::uint32_t)> on_resume;
    std::function<void(std::uint32_t)> on_refill;
    std::function<NackReason(const Packet&)> judge_row;
    unsigned refills = 0;
    std::map<std::uint32_t, std::uint64_t> row_bytes;  ///< Of EP messages, by tag.
    bool rows_intact = true;
    std::map<BufferId, std::vector<std::uint8_t>> buffers;
    bool packet_memory_full = false;
    std::map<std::uint64_t, std::vector<std::uint8_t>> host;
    std::array<engines::RxWindow, max_qps> windows;
    std::array<engines::SpraySelector, max_qps> sprays;
    std::array<bool, max_qps> is_open{};
    std::array<std::uint64_t, 32> drops{};
    std::array<std::uint64_t, max_qps> timer_generation{};
    std::array<std::uint64_t, 8> packets_by_plane{};
    std::uint32_t ports = 0;
    bool hold_credits = false;
    std::vector<std::pair<std::uint8_t, std::uint32_t>> held_credits;  ///< Plane, payload bytes.

  private:
    Network& network_;
    Draft draft_;
    DeviceConfig config_;
    std::uint32_t time_limit_us_;
    std::vector<std::byte> storage_;
    std::optional<Arena> arena_;
    std::unique_ptr<MemoryTable<TestDevice>> memory_table_;
    std::unique_ptr<Transport<TestDevice>> transport_;
    BufferId next_buffer_ = 1;
    std::array<std::uint64_t, 8> plane_free_ns_{};
};

/// Devices 0 and 1, the wires between them, and the clock.
class Network {
  public:
    explicit Network(const NetworkConfig& configuration)
        : config(configuration),
          random(configuration.seed),
          a(*this, 0, configuration),
          b(*this, 1, configuration) {}

    TestDevice& device(std::uint32_t number) { return number == 0 ? a : b; }

    void at(std::uint64_t time_ns, std::function<void()> action) {
        events_.push({time_ns, sequence_++, std::move(action)});
    }

    /// Runs until `limit_ns`, or nothing happens any more.
    void run_until(std::uint64_t limit_ns) {
        while (!events_.empty() && events_.top().time_ns <= limit_ns) {
            const Event event = events_.top();
            events_.pop();
            now_ns = event.time_ns;
            event.action();
        }
        now_ns = std::max(now_ns, limit_ns);
    }
    /// Runs until `condition` holds; false when it does not within `limit_ns` more.
    bool run_while_not(const std::function<bool()>& condition, std::uint64_t limit_ns = 1'000'000'000) {
        const std::uint64_t end = now_ns + limit_ns;
        while (!condition()) {
            if (events_.empty() || events_.top().time_ns > end) return false;
            const Event event = events_.top();
            events_.pop();
            now_ns = event.time_ns;
            event.action();
        }
        return true;
    }

    /// A packet has left `from` wholly at `time_ns`.
    void carry(std::uint32_t from, std::uint64_t time_ns, const Packet& packet,
               std::vector<std::uint8_t> bytes) {
        const bool data = is_data(packet.opcode);
        if (filter && !filter(from, packet)) return;
        if ((dead_planes >> packet.plane & 1) != 0 || chance(data ? config.loss : config.ack_loss)) return;
        const std::uint32_t to = packet.destination_device;
        const unsigned copies = chance(config.duplicate) ? 2 : 1;
        for (unsigned i = 0; i < copies; ++i) {
            std::uint64_t arrival = time_ns + config.latency_ns;
            if (extra_delay_ns) arrival += extra_delay_ns(from, packet);
            if (chance(config.reorder)) arrival += random() % (config.reorder_ns + 1);
            at(arrival, [this, to, packet, bytes] {
                if ((dead_planes >> packet.plane & 1) == 0 && device(to).port_up(packet.plane))
                    device(to).receive(packet, bytes);
            });
        }
    }

    /// Link of one device goes down or up, with an event there.
    void set_port(std::uint32_t number, std::uint8_t plane, bool up) {
        TestDevice& changed = device(number);
        changed.ports = up ? changed.ports | 1U << plane : changed.ports & ~(1U << plane);
        changed.transport().on_port_change(plane, up);
    }

    NetworkConfig config;
    std::mt19937_64 random;
    std::uint64_t now_ns = 0;
    std::uint32_t dead_planes = 0;                             ///< Silent: packets vanish.
    std::function<bool(std::uint32_t, const Packet&)> filter;  ///< False: this packet is lost.
    std::function<std::uint64_t(std::uint32_t, const Packet&)> extra_delay_ns;
    TestDevice a;
    TestDevice b;

  private:
    struct Event {
        std::uint64_t time_ns;
        std::uint64_t sequence;
        std::function<void()> action;
        bool operator<(const Event& other) const {
            return std::tie(other.time_ns, other.sequence) < std::tie(time_ns, sequence);
        }
    };
    bool chance(double probability) {
        return probability > 0 && static_cast<double>(random() >> 11) * 0x1p-53 < probability;
    }

    std::priority_queue<Event> events_;
    std::uint64_t sequence_ = 0;
};

inline TestDevice::TestDevice(Network& network, std::uint32_t number, const NetworkConfig& config)
    : ports((1U << config.planes) - 1),
      network_(network),
      time_limit_us_(config.time_limit_us),
      storage_(2U << 20) {
    config_.device_number = number;
    config_.planes = config.planes;
    config_.max_qps = max_qps;
    config_.max_memory_regions = 16;
    config_.seed = config.seed;
    arena_.emplace(storage_);
    memory_table_ = std::make_unique<MemoryTable<TestDevice>>(*this, *arena_);
    transport_ = std::make_unique<Transport<TestDevice>>(*this, *arena_);
}

inline std::uint64_t TestDevice::now_ns() const { return network_.now_ns; }

inline void TestDevice::set_timer(TimerId timer, std::uint64_t time_ns) {
    EXPECT_GE(time_ns, now_ns());
    const std::uint64_t generation = ++timer_generation[timer.number];
    network_.at(time_ns, [this, timer, generation] {
        if (timer_generation[timer.number] == generation) transport().on_timer(timer);
    });
}

inline void TestDevice::send(const Packet& packet, const Payload& payload) {
    std::vector<std::uint8_t> bytes(payload.inline_bytes.begin(), payload.inline_bytes.end());
    for (unsigned i = 0; i < payload.segment_count; ++i) {
        const std::uint8_t* from = at(payload.segments[i].address);
        bytes.insert(bytes.end(), from, from + payload.segments[i].length);
    }
    EXPECT_EQ(bytes.size(), packet.payload_bytes);
    EXPECT_TRUE(port_up(packet.plane)) << "sent on a plane that is down";
    ++packets_by_plane[packet.plane];
    // 100 Gb/s; packets without a PSN go ahead of data.
    const std::uint64_t wire_ns = (frame_bytes(packet) + 24U) * 8U / 100U;
    std::uint64_t start = now_ns();
    if (is_data(packet.opcode)) {
        start = std::max(start, plane_free_ns_[packet.plane]);
        plane_free_ns_[packet.plane] = start + wire_ns;
        network_.at(start, [this, plane = packet.plane, bytes = packet.payload_bytes] {
            if (hold_credits) held_credits.emplace_back(plane, bytes);
            else transport().on_transmit_credit(plane, bytes);
        });
    }
    const std::uint32_t number = config_.device_number;
    network_.at(start + wire_ns,
                [this, number, packet, bytes] { network_.carry(number, network_.now_ns, packet, bytes); });
}

inline void TestDevice::receive(const Packet& packet, const std::vector<std::uint8_t>& bytes) {
    if (packet.qpn >= max_qps || !is_open[packet.qpn]) return;
    BufferId buffer = 0;
    engines::RxVerdict verdict{};
    if (is_data(packet.opcode)) {
        verdict = windows[packet.qpn].receive(packet.psn);
        if (!bytes.empty() && !packet_memory_full) {
            buffer = next_buffer_++;
            buffers[buffer] = bytes;
        }
    }
    transport().on_packet({.packet = packet, .buffer = buffer, .window = verdict});
}

inline void TestDevice::place(BufferId buffer, std::uint32_t offset, Segment segment, bool release) {
    const std::vector<std::uint8_t>& bytes = buffers.at(buffer);
    ASSERT_LE(offset + segment.length, bytes.size());
    std::memcpy(at(segment.address), bytes.data() + offset, segment.length);
    if (release) this->release(buffer);
}

inline NackReason TestDevice::on_row(const PacketEvent& event) {
    const Packet& packet = event.packet;
    if (judge_row)
        if (const NackReason reason = judge_row(packet); reason != NackReason::none) return reason;
    row_bytes[packet.row.token] += packet.payload_bytes;
    if (event.buffer == 0) return NackReason::none;
    const std::vector<std::uint8_t>& bytes = buffers.at(event.buffer);
    for (std::size_t i = 0; i < bytes.size(); ++i)
        rows_intact = rows_intact && bytes[i] == pattern(packet.message_offset + i);
    release(event.buffer);
    return NackReason::none;
}

}  // namespace plait::firmware::testing
