// Cost of the transport and its engines per data packet, without a device model: HAL commands do next to
// nothing.

#include <benchmark/benchmark.h>

#include <array>
#include <memory>
#include <plait/firmware/transport.hpp>
#include <vector>

namespace {

using namespace plait;
using namespace plait::firmware;

class BenchDevice {
  public:
    BenchDevice()
        : storage_(4U << 20), arena_(storage_), memory_table_(*this, arena_), transport_(*this, arena_) {
        regmap::AdminRequest request;
        request.mtu_bytes = 4096;
        request.window_packets = 512;
        request.entropy_values = 128;
        qpn = transport_.create_qp(request).qpn;
        request = {};
        request.object = qpn;
        request.peer_device = 1;
        request.peer_qpn = 1;
        transport_.connect_qp(request);
        key = memory_table_.register_region(0x10000, 1U << 30, access_all).key;
    }

    BenchDevice& hal() { return *this; }
    const BenchDevice& hal() const { return *this; }
    BenchDevice& ep() { return *this; }
    BenchDevice& queues() { return *this; }
    BenchDevice& registers() { return *this; }
    const DeviceConfig& config() const { return config_; }
    const MemoryTable<BenchDevice>& memory_table() const { return memory_table_; }
    Transport<BenchDevice>& transport() { return transport_; }
    std::uint32_t qp_time_limit_us() const { return 1'000'000; }

    void complete(std::uint32_t, const regmap::Completion&) {}
    void resume(std::uint32_t) {}
    void build(std::uint64_t, std::uint32_t, Packet&, Payload&) {}
    void message_done(std::uint32_t, std::uint64_t, Status) {}
    void refill(std::uint32_t) {}
    NackReason on_row(const PacketEvent&) { return NackReason::none; }
    NackReason on_partial(const PacketEvent&) { return NackReason::none; }
    NackReason on_control(const PacketEvent&) { return NackReason::none; }
    void qp_failed(std::uint32_t, Status) {}

    std::uint64_t now_ns() const { return now; }
    void set_timer(TimerId, std::uint64_t) {}
    void cancel_timer(TimerId) {}
    void begin_send() {}
    Draft& draft() { return *std::construct_at(&made); }
    void send_draft() { send(made.packet, made.payload); }
    void send(const Packet& packet, const Payload& payload) {
        benchmark::DoNotOptimize(packet.psn + payload.segment_count);
        last_plane = packet.plane;
        last_bytes = packet.payload_bytes;
        last_psn = packet.psn;
        last_entropy = packet.entropy;
    }
    bool port_up(std::uint8_t) const { return true; }
    void place(BufferId buffer, std::uint32_t, Segment segment, bool) {
        benchmark::DoNotOptimize(buffer + segment.address);
    }
    void release(BufferId) {}
    void window_open(std::uint32_t, std::uint32_t, std::uint32_t psn, std::uint16_t packets, std::uint16_t) {
        window_.reset(psn, packets);
    }
    void window_close(std::uint32_t) {}
    void window_refuse(std::uint32_t, std::uint32_t) {}
    const engines::RxWindow& window(std::uint32_t) { return window_; }
    engines::RxWindow& receive_window() { return window_; }
    engines::SpraySelector& spray(std::uint32_t) { return spray_; }
    void count_drop(regmap::DropReason) {}

    Draft made;
    std::uint32_t qpn = 0;
    std::uint32_t key = 0;
    std::uint64_t now = 0;
    std::uint8_t last_plane = 0;
    std::uint32_t last_bytes = 0;
    std::uint32_t last_psn = 0;
    std::uint16_t last_entropy = 0;

  private:
    DeviceConfig config_{.max_qps = 2, .max_memory_regions = 16, .base_rtt_ns = 3000};
    std::vector<std::byte> storage_;
    Arena arena_;
    MemoryTable<BenchDevice> memory_table_;
    Transport<BenchDevice> transport_;
    engines::RxWindow window_;
    engines::SpraySelector spray_;
};

/// Window, memory check, placement, and one acknowledgement every four packets. `stride` shuffles within 64
/// packets.
void receive_packets(benchmark::State& state, Opcode opcode) {
    const auto device = std::make_unique<BenchDevice>();
    const auto stride = static_cast<std::uint32_t>(state.range(0));
    Packet packet;
    packet.opcode = opcode;
    packet.qpn = device->qpn;
    packet.payload_bytes = 4096;
    packet.message_bytes = 1U << 20;
    packet.address = 0x10000;
    packet.remote_key = device->key;
    packet.entropy = 0xc001;
    std::uint32_t count = 0;
    for (auto _ : state) {
        packet.psn = ((count & ~63U) + (count * stride) % 64) & engines::psn_mask;
        ++count;
        device->now += 83;
        packet.message_offset = (count & 127) << 12;
        const engines::RxVerdict verdict = device->receive_window().receive(packet.psn);
        device->transport().on_packet({.packet = packet, .buffer = 1, .window = verdict});
    }
    state.counters["received"] = static_cast<double>(device->transport().statistics().received);
}
BENCHMARK_CAPTURE(receive_packets, write, Opcode::mp_write)->Arg(1)->Arg(13);
BENCHMARK_CAPTURE(receive_packets, ep_row, Opcode::mp_ep_row)->Arg(1)->Arg(13);

/// EP rows of two packets: enqueue, schedule, choose the path, build, credit; and the acknowledgement of
/// every four packets.
void send_packets(benchmark::State& state) {
    const auto device = std::make_unique<BenchDevice>();
    Transport<BenchDevice>& transport = device->transport();
    Packet ack;
    ack.opcode = Opcode::mp_ack;
    ack.qpn = device->qpn;
    ack.ack = AckHeader{};
    std::uint64_t tag = 0;
    std::uint64_t packets = 0;
    for (auto _ : state) {
        if (packets++ % 2 == 0)
            transport.enqueue(device->qpn, {.opcode = Opcode::mp_ep_row, .tag = ++tag, .length_bytes = 7392});
        device->now += 83;
        transport.on_transmit_credit(device->last_plane, device->last_bytes);
        if (packets % 4 == 0) {
            ack.psn = device->last_psn;
            ack.ack.cumulative_psn = engines::psn_add(device->last_psn, 1);
            ack.ack.entropy = device->last_entropy;
            ack.ack.plane = device->last_plane;
            transport.on_packet({.packet = ack});
        }
    }
    state.counters["sent_per_iteration"] = static_cast<double>(transport.statistics().data_packets_sent) /
                                           static_cast<double>(state.iterations());
}
BENCHMARK(send_packets);

}  // namespace
