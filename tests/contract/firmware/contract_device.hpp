// Firmware under test in device 0 of a cluster of two nodes of two devices, the least host that it needs, and
// peers that do what a test tells them.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <plait/firmware/firmware.hpp>
#include <plait/sim/models/native_firmware.hpp>
#include <plait/sim/riscv/riscv_firmware.hpp>

#include "scripted_firmware.hpp"

namespace plait::sim::testing {

/// Where the firmware under test runs: "native", or the name of an image.
using Place = std::string;

inline FirmwareFactory factory_of(const Place& place) {
    FirmwareFactory under_test = make_native_firmware<firmware::Firmware>;
    if (place != "native") {
        constexpr uint64_t limit = 10'000'000;
        const auto file = std::filesystem::path(PLAIT_IMAGES) / (place + ".elf");
        auto processor = std::make_shared<Processor>(FirmwareImage::load(file), limit);
        under_test = [processor](DeviceModel& hal, const firmware::DeviceConfig& config) {
            return std::make_unique<RiscvFirmware>(hal, config, processor);
        };
    }
    return [under_test](DeviceModel& hal,
                        const firmware::DeviceConfig& config) -> std::unique_ptr<DeviceFirmware> {
        if (config.device_number == 0) return under_test(hal, config);
        return std::make_unique<ScriptedFirmware>(hal, hal.queue());
    };
}

/// A ring in host memory and how far the host is in it.
struct HostRing {
    static constexpr uint32_t log2_entries = 5;
    static constexpr uint32_t entries = 1U << log2_entries;
    SharedMemory memory;
    uint32_t count = 0;
};

class Contract : public ::testing::TestWithParam<Place> {
  protected:
    static constexpr uint32_t mtu = 256;
    static constexpr uint32_t peer_psn = 0xffffff;  ///< The first one that peers send: the next is 0.
    static constexpr uint64_t us = 1'000'000;       // ps

    /// A queue pair of device 0 and what its peer calls it.
    struct Connection {
        uint32_t peer = 0;
        uint32_t qpn = 0;        ///< At device 0.
        uint32_t first_psn = 0;  ///< That device 0 sends.
        uint32_t peer_qpn = 0;
        uint32_t next_psn = peer_psn;  ///< Of the peer.
    };

    Contract() : cluster_("cluster", parameters(), factory_of(GetParam())) { open(); }

    DeviceModel& device() { return cluster_.device(0); }
    DeviceModel& peer(uint32_t number) { return cluster_.device(number); }
    ScriptedFirmware& script(uint32_t number) {
        return static_cast<ScriptedFirmware&>(cluster_.device(number).firmware());
    }
    void run_for_us(uint64_t time_us) { queue().run_until(queue().now_ps() + time_us * us); }
    EventQueue& queue() { return cluster_.queue(); }
    LeafSpine& fabric() { return cluster_.fabric(); }

    // The host.

    SharedMemory allocate(size_t bytes) { return device().host_memory().allocate(bytes).value(); }

    template <class Record>
    static Record load(const SharedMemory& memory, size_t offset = 0) {
        Record record;
        std::memcpy(&record, memory.host + offset, sizeof record);
        return record;
    }
    template <class Record>
    static void store(const SharedMemory& memory, const Record& record, size_t offset = 0) {
        std::memcpy(memory.host + offset, &record, sizeof record);
    }

    regmap::Completion admin(const regmap::AdminRequest& request) {
        post(admin_ring_, 0, request);
        run_for_us(20);
        const auto answers = take(admin_completions_);
        EXPECT_EQ(answers.size(), 1U);
        return answers.empty() ? regmap::Completion{} : answers.front();
    }

    template <class Request>
    void post(HostRing& ring, uint32_t number, const Request& request) {
        store(ring.memory, request, ring.count++ % HostRing::entries * sizeof request);
        device().write_register(regmap::reg::doorbell_offset + number * regmap::reg::doorbell_stride,
                                ring.count & 0xffff);
    }

    /// Completions that are new in a ring.
    static std::vector<regmap::Completion> take(HostRing& ring) {
        std::vector<regmap::Completion> found;
        for (;; ++ring.count) {
            const auto next = load<regmap::Completion>(
                ring.memory, ring.count % HostRing::entries * sizeof(regmap::Completion));
            if (next.phase != (ring.count / HostRing::entries % 2 == 0 ? 1 : 0)) return found;
            found.push_back(next);
        }
    }
    std::vector<regmap::Completion> completions() { return take(completions_); }

    uint32_t register_memory(const SharedMemory& memory, uint32_t access) {
        regmap::AdminRequest request;
        request.opcode = regmap::AdminOpcode::register_memory;
        request.address = memory.device_address;
        request.length = memory.length_bytes;
        request.access = access;
        return admin(request).object;
    }

    /// Without queues the queue pair is for an EP group.
    Connection connect(uint32_t peer_number, bool has_queues) {
        regmap::AdminRequest request;
        request.opcode = regmap::AdminOpcode::create_qp;
        request.mtu_bytes = mtu;
        request.window_packets = 64;
        request.entropy_values = 16;
        request.send_queue = has_queues ? send_queue : 0;
        request.receive_queue = has_queues ? receive_queue : 0;
        const regmap::Completion created = admin(request);
        EXPECT_EQ(created.status, regmap::Status::ok);
        Connection made{peer_number, created.object, created.immediate, 40 + peer_number};
        request = {};
        request.opcode = regmap::AdminOpcode::connect_qp;
        request.object = made.qpn;
        request.peer_device = peer_number;
        request.peer_qpn = made.peer_qpn;
        request.peer_psn = peer_psn;
        EXPECT_EQ(admin(request).status, regmap::Status::ok);
        peer(peer_number).window_open(made.peer_qpn, 0, made.first_psn, 512, mtu);
        return made;
    }

    uint32_t read_register(uint32_t offset) { return device().read_register(offset); }
    uint32_t drops(regmap::DropReason reason) {
        return read_register(regmap::reg::drop_count_offset +
                             static_cast<uint32_t>(reason) * regmap::reg::drop_count_stride);
    }

    // Peers.

    /// A packet to device 0 on a connection.
    static firmware::Packet packet_of(const Connection& connection, firmware::Opcode opcode) {
        firmware::Packet packet;
        packet.opcode = opcode;
        packet.plane = 1;
        packet.entropy = 0xc001;
        packet.source_device = connection.peer;
        packet.destination_device = 0;
        packet.qpn = connection.qpn;
        packet.local_qpn = connection.peer_qpn;
        return packet;
    }

    void send(const Connection& connection, firmware::Packet packet, const std::vector<uint8_t>& bytes = {}) {
        packet.payload_bytes = static_cast<uint16_t>(bytes.size());
        firmware::Payload payload;
        payload.inline_bytes = bytes;
        peer(connection.peer).send(packet, payload);
    }

    /// An ACK as docs/wire.md has it: everything before `cumulative` has arrived.
    firmware::Packet ack_of(const Connection& connection, uint32_t cumulative) {
        firmware::Packet packet = packet_of(connection, firmware::Opcode::mp_ack);
        packet.ack = {};
        packet.psn = engines::psn_add(cumulative, engines::psn_mask);
        packet.ack.cumulative_psn = cumulative;
        packet.ack.entropy = 0xc000;
        packet.ack.receives_posted = 100;
        packet.ack.acknowledged = 1;
        return packet;
    }

    /// What the peer got from device 0 with this opcode, in the order of arrival.
    std::vector<firmware::Packet> got(uint32_t number, firmware::Opcode opcode) {
        std::vector<firmware::Packet> found;
        for (const auto& arrival : script(number).arrivals)
            if (arrival.packet.opcode == opcode) found.push_back(arrival.packet);
        return found;
    }
    std::vector<uint8_t> bytes_of(uint32_t number, const ScriptedFirmware::Arrival& arrival) {
        const PayloadSlice& slice = peer(number).packet_memory().slice(arrival.buffer);
        const uint8_t* const bytes = cluster_.pools().payload.bytes(slice);
        return {bytes, bytes + slice.length};
    }

    static constexpr uint32_t completion_queue = 1;
    static constexpr uint32_t send_queue = 2;
    static constexpr uint32_t receive_queue = 3;
    static constexpr uint32_t collective_queue = 4;
    static constexpr uint32_t qp_time_limit_us = 1000;

    HostRing sends_, receives_, collectives_;

  private:
    static ClusterParameters parameters() {
        ClusterParameters parameters = small_cluster();
        parameters.device.firmware.max_qps = 16;
        parameters.device.firmware.max_groups = 1;
        parameters.device.firmware.group_memory_bytes = 1U << 20;
        return parameters;
    }

    void open() {
        namespace reg = regmap::reg;
        for (HostRing* ring :
             {&admin_ring_, &admin_completions_, &completions_, &sends_, &receives_, &collectives_})
            ring->memory = allocate(size_t{256} * HostRing::entries);
        const auto write = [this](uint32_t offset, uint64_t value) {
            device().write_register(offset, static_cast<uint32_t>(value));
        };
        write(reg::admin_queue_low_offset, admin_ring_.memory.device_address);
        write(reg::admin_queue_high_offset, admin_ring_.memory.device_address >> 32);
        write(reg::admin_completion_low_offset, admin_completions_.memory.device_address);
        write(reg::admin_completion_high_offset, admin_completions_.memory.device_address >> 32);
        write(reg::admin_log2_entries_offset, HostRing::log2_entries);
        write(reg::qp_time_limit_us_offset, qp_time_limit_us);
        write(reg::control_offset, reg::control_enable_mask);
        create_queue(completion_queue, regmap::QueueKind::completion, completions_);
        create_queue(send_queue, regmap::QueueKind::send, sends_);
        create_queue(receive_queue, regmap::QueueKind::receive, receives_);
        create_queue(collective_queue, regmap::QueueKind::collective, collectives_);
    }

    void create_queue(uint32_t number, regmap::QueueKind kind, const HostRing& ring) {
        regmap::AdminRequest request;
        request.opcode = regmap::AdminOpcode::create_queue;
        request.object = number;
        request.kind = kind;
        request.log2_entries = HostRing::log2_entries;
        request.address = ring.memory.device_address;
        request.completion_queue = kind == regmap::QueueKind::completion ? 0 : completion_queue;
        EXPECT_EQ(admin(request).status, regmap::Status::ok) << name(kind);
    }

    Cluster cluster_;
    HostRing admin_ring_, admin_completions_, completions_;
};

/// The backends, for INSTANTIATE_TEST_SUITE_P.
inline auto places() { return ::testing::Values("native", "riscv-O2", "riscv-Os"); }
inline std::string name_of_place(const ::testing::TestParamInfo<Place>& place) {
    return place.param == "native" ? place.param : place.param.substr(6);
}

}  // namespace plait::sim::testing
