// Firmware for tests of the device model: records events, and does what a test tells it to.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <plait/sim/models/cluster.hpp>

namespace plait::sim::testing {

class ScriptedFirmware final : public DeviceFirmware {
  public:
    struct Arrival {
        uint64_t time_ps = 0;
        firmware::Packet packet;
        engines::RxVerdict window{};
        firmware::BufferId buffer = 0;
    };
    struct Frame {
        uint64_t time_ps = 0;
        firmware::ScaleUpHeader header;
        firmware::BufferId buffer = 0;
        std::vector<uint8_t> control;
    };
    struct Timed {
        uint64_t time_ps = 0;
        uint32_t value = 0;
    };

    ScriptedFirmware(DeviceModel& device, EventQueue& clock) : hal(device), queue(clock) {}

    void on_register_write(uint32_t offset, uint32_t value) override {
        register_writes.push_back({queue.now_ps(), value});
        if (doorbell) doorbell(offset, value);
    }
    uint32_t read_register(uint32_t offset) override { return offset + 1; }
    void on_drop(regmap::DropReason) override { ++drops; }
    void on_packet(const firmware::PacketEvent& event) override {
        arrivals.push_back({queue.now_ps(), event.packet, event.window, event.buffer});
        if (packet) packet(event);
    }
    void on_scale_up(const firmware::ScaleUpEvent& event) override {
        frames.push_back(
            {queue.now_ps(), event.header, event.buffer, {event.control.begin(), event.control.end()}});
        if (scale_up) scale_up(event);
    }
    void on_scale_up_sent(uint32_t tag) override { sent.push_back({queue.now_ps(), tag}); }
    void on_fetched(firmware::FetchTag tag, regmap::Status status, std::span<const uint8_t> bytes) override {
        fetched.push_back({queue.now_ps(), tag.label});
        fetched_status = status;
        fetched_bytes.assign(bytes.begin(), bytes.end());
    }
    void on_reduced(uint32_t sum, firmware::BufferId result) override {
        results.push_back({queue.now_ps(), sum});
        if (reduced) reduced(sum, result);
    }
    void on_transmit_credit(uint8_t, uint32_t payload_bytes) override {
        credits.push_back({queue.now_ps(), payload_bytes});
    }
    void on_timer(firmware::TimerId timer) override { timers.push_back({queue.now_ps(), timer.number}); }
    void on_port_change(uint8_t plane, bool up) override {
        port_changes.push_back({queue.now_ps(), plane * 2U + (up ? 1U : 0U)});
    }
    void on_scale_up_port(uint8_t local, bool up) override {
        scale_up_changes.push_back({queue.now_ps(), local * 2U + (up ? 1U : 0U)});
    }

    DeviceModel& hal;
    EventQueue& queue;
    std::function<void(uint32_t, uint32_t)> doorbell;
    std::function<void(const firmware::PacketEvent&)> packet;
    std::function<void(const firmware::ScaleUpEvent&)> scale_up;
    std::function<void(uint32_t, firmware::BufferId)> reduced;
    std::vector<Timed> register_writes, sent, fetched, results, credits, timers, port_changes,
        scale_up_changes;
    std::vector<Arrival> arrivals;
    std::vector<Frame> frames;
    uint64_t drops = 0;
    regmap::Status fetched_status = regmap::Status::ok;
    std::vector<uint8_t> fetched_bytes;
};

/// A cluster whose devices run ScriptedFirmware.
class ScriptedCluster {
  public:
    explicit ScriptedCluster(const ClusterParameters& parameters, const EngineBlocksFactory& make_blocks = {})
        : cluster_("cluster", parameters, &make, make_blocks) {}

    ScriptedFirmware& firmware(uint32_t device) {
        return static_cast<ScriptedFirmware&>(cluster_.device(device).firmware());
    }
    DeviceModel& device(uint32_t number) { return cluster_.device(number); }
    Cluster& operator*() { return cluster_; }
    Cluster* operator->() { return &cluster_; }
    EventQueue& queue() { return cluster_.queue(); }
    void run() { queue().run_until(EventQueue::never); }
    /// Runs everything and lets the last transfers out of packet memory end.
    void run_out() {
        run();
        queue().run_until(queue().now_ps() + 10'000'000);
    }

    /// Opens queue pair `qpn` both ways between two devices.
    void connect(uint32_t a, uint32_t b, uint32_t qpn = 1, uint16_t mtu_bytes = 4096) {
        device(a).window_open(qpn, b, 0, 512, mtu_bytes);
        device(b).window_open(qpn, a, 0, 512, mtu_bytes);
    }

  private:
    static std::unique_ptr<DeviceFirmware> make(DeviceModel& hal, const firmware::DeviceConfig&) {
        return std::make_unique<ScriptedFirmware>(hal, hal.queue());
    }

    Cluster cluster_;
};

/// Two nodes of two devices; leaves of two devices, so that devices 0, 1 and 2, 3 share a leaf.
inline ClusterParameters small_cluster() {
    ClusterParameters parameters;
    parameters.fabric.devices = 4;
    parameters.fabric.devices_per_node = 2;
    parameters.fabric.leaf_down_ports = 2;
    parameters.fabric.leaf_up_ports = 2;
    return parameters;
}

/// A data packet of one message of `bytes` (at most an MTU) into the peer's memory.
inline firmware::Packet write_packet(uint32_t from, uint32_t to, uint16_t bytes, uint32_t psn = 0,
                                     uint8_t plane = 0, uint32_t qpn = 1) {
    firmware::Packet packet;
    packet.opcode = firmware::Opcode::mp_write;
    packet.plane = plane;
    packet.entropy = 0xc000;
    packet.source_device = from;
    packet.destination_device = to;
    packet.qpn = qpn;
    packet.psn = psn;
    packet.payload_bytes = bytes;
    packet.message_bytes = bytes;
    packet.message_number = psn;
    return packet;
}

/// Payload of a command: a range of host memory.
inline firmware::Payload from_host(uint64_t address, uint32_t length) {
    firmware::Payload payload;
    payload.segments[0] = {address, length};
    payload.segment_count = 1;
    return payload;
}

/// Time on the wire at `rate_gbps`, as the fabric rounds it.
inline uint64_t wire_ps(const firmware::Packet& packet, double rate_gbps = 100) {
    return RateClock(rate_gbps).time_ps(wire_bytes(firmware::frame_bytes(packet)));
}

}  // namespace plait::sim::testing
