// Cost of a received EP row in the whole firmware and its engines, natively: the packet of a row at its entry
// device (receive pipe, transport, EP, the order to multicast, acknowledgements) and the frame at its target
// (checks, placement of elements and scales, top-k list). HAL commands do next to nothing.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <memory>
#include <plait/firmware/firmware.hpp>
#include <plait/firmware/receive_pipe.hpp>
#include <plait/hal/hal.hpp>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace {

using namespace plait;
using namespace plait::firmware;

constexpr std::uint32_t nodes = 4;
constexpr std::uint32_t ranks_per_node = 4;
constexpr std::uint32_t ranks = nodes * ranks_per_node;
constexpr std::uint32_t experts = ranks * 4;
constexpr std::uint32_t topk = 8;
constexpr std::uint32_t hidden = 7168;
constexpr std::uint32_t tokens = 256;
constexpr std::uint16_t mtu_bytes = 4096;
constexpr std::uint32_t queue_pairs = 16;
constexpr std::uint64_t round_ns = 1000;

class BenchDevice;

struct Arrival {
    Packet packet;
    std::vector<std::uint8_t> control;
};
struct Frame {
    ScaleUpHeader header;
    std::vector<std::uint8_t> control;
};
/// A scale_up command as it was given: copies for its targets are made later, outside of what is measured.
struct Multicast {
    Multicast(const ScaleUpHeader& frame, std::uint8_t mask) : header(frame), targets(mask) {}
    ScaleUpHeader header;
    std::uint8_t targets;
    std::array<std::uint32_t, ranks_per_node> index;
    std::vector<std::uint8_t> control;
};

/// All devices and the time.
struct Cluster {
    std::uint64_t now_ns = 0;
    std::vector<std::unique_ptr<BenchDevice>> devices;
};

/// The real firmware; host memory holds what the device reads and the results, rows have no bytes.
class BenchDevice {
  public:
    static constexpr std::uint64_t base = 0x1000'0000;
    static constexpr std::uint64_t rows_address = 0x1'0000'0000;

    BenchDevice(Cluster& cluster, std::uint32_t number)
        : cluster_(cluster),
          number_(number),
          storage_(Firmware<BenchDevice>::memory_bytes(configuration(number))),
          firmware_(*this, configuration(number), storage_) {
        key_ = firmware_.memory_table().register_region(base, 1ULL << 36, access_all).key;
    }

    Firmware<BenchDevice>& firmware() { return firmware_; }
    [[nodiscard]] std::uint64_t drops() const { return drops_; }
    [[nodiscard]] bool is_done() {
        return firmware_.ep().groups()[0].handles[0].state == HandleState::dispatched;
    }

    template <class T>
    std::uint64_t store(std::span<const T> values) {
        const std::size_t begin = (memory_.size() + 63) / 64 * 64;
        memory_.resize(begin + values.size_bytes());
        std::memcpy(memory_.data() + begin, values.data(), values.size_bytes());
        return base + begin;
    }
    [[nodiscard]] regmap::MemoryRange range(std::uint64_t address) const {
        return {.address = address, .key = key_};
    }

    void dispatch(std::uint64_t topk_idx, std::uint64_t topk_weights, std::uint64_t result) {
        regmap::EpRequest request;
        request.opcode = regmap::EpOpcode::dispatch;
        request.tokens = tokens;
        request.timeout_us = 1'000'000;
        request.receive_capacity = tokens * ranks;
        request.x = range(rows_address);
        request.x_scales = range(rows_address + (1ULL << 32));
        request.topk_idx = range(topk_idx);
        request.topk_weights = range(topk_weights);
        request.recv_x = range(rows_address + (2ULL << 32));
        request.recv_x_scales = range(rows_address + (3ULL << 32));
        request.recv_topk_idx = range(rows_address + (4ULL << 32));
        request.recv_topk_weights = range(rows_address + (5ULL << 32));
        request.recv_source = range(rows_address + (6ULL << 32));
        request.result = range(result);
        firmware_.ep().submit(0, request, 0);
    }

    /// Everything that has come since the last round, rows last and by themselves, so that the clock is read
    /// once for all of them.
    void run_round() {
        for (std::size_t i = 0; i < timers_.size(); ++i) {
            if (timers_[i] > cluster_.now_ns) continue;
            timers_[i] = never;
            firmware_.on_timer(
                {static_cast<TimerKind>(i / timers_of_kind), static_cast<std::uint32_t>(i % timers_of_kind)});
        }
        for (const auto& [tag, segment] : std::exchange(fetches_, {})) {
            firmware_.on_fetched(tag, Status::ok,
                                 std::span(memory_).subspan(segment.address - base, segment.length));
        }
        for (const std::uint32_t tag : std::exchange(sent_, {})) firmware_.on_scale_up_sent(tag);
        for (std::uint8_t plane = 0; plane < sent_bytes_.size(); ++plane) {
            for (const std::uint32_t bytes : std::exchange(sent_bytes_[plane], {}))
                firmware_.on_transmit_credit(plane, bytes);
        }
        take_arrivals();
        take_frames();
        deliver_multicasts();
    }

    std::uint64_t row_packets = 0;
    std::uint64_t row_frames = 0;
    std::chrono::nanoseconds entry_time{};
    std::chrono::nanoseconds target_time{};

    // HAL.

    [[nodiscard]] std::uint64_t now_ns() const { return cluster_.now_ns; }
    void set_timer(TimerId timer, std::uint64_t time_ns) { timers_[place_of(timer)] = time_ns; }
    void cancel_timer(TimerId timer) { timers_[place_of(timer)] = never; }
    void begin_send() {}
    Draft& draft() { return *std::construct_at(&draft_); }
    void send_draft() { send(draft_.packet, draft_.payload); }
    void send(const Packet& packet, const Payload& payload) {
        if (is_data(packet.opcode)) sent_bytes_[packet.plane].push_back(packet.payload_bytes);
        std::vector<std::uint8_t> control;
        if (packet.opcode == Opcode::mp_ep_control) control = gather(payload);
        cluster_.devices[packet.destination_device]->arrivals_.push_back({packet, std::move(control)});
    }
    [[nodiscard]] bool port_up(std::uint8_t) const { return true; }
    void fetch(FetchTag tag, Segment segment) { fetches_.emplace_back(tag, segment); }
    void place(BufferId buffer, std::uint32_t offset, Segment segment, bool) {
        benchmark::DoNotOptimize(buffer + offset + segment.address);
    }
    void write(std::uint64_t address, std::span<const std::uint8_t> bytes) {
        benchmark::DoNotOptimize(address + bytes.size());
    }
    void interrupt(std::uint32_t) {}
    void retain(BufferId) {}
    void release(BufferId) {}
    void scale_up(std::uint8_t targets, const ScaleUpHeader& header, std::span<const std::uint32_t> index,
                  const Payload& payload, bool notify) {
        Multicast& multicast = multicasts_.emplace_back(header, targets);
        if (index.empty()) multicast.index.fill(header.index);
        else std::copy(index.begin(), index.end(), multicast.index.begin());
        if (header.kind == regmap::ScaleUpKind::control) multicast.control = gather(payload);
        if (notify) sent_.push_back(header.tag);
    }
    void reduce_open(std::uint32_t, const Reduction&) {}
    void reduce_weigh(std::uint32_t, std::span<const float>) {}
    std::uint32_t take_non_finite(std::uint32_t) { return 0; }
    void reduce_add(std::uint32_t, std::uint8_t, BufferId) {}
    void reduce_read(std::uint32_t, std::uint8_t, Segment) {}
    void reduce_skip(std::uint32_t, std::uint8_t) {}
    void reduce_close(std::uint32_t) {}
    void window_open(std::uint32_t qpn, std::uint32_t peer, std::uint32_t psn, std::uint16_t packets,
                     std::uint16_t mtu) {
        pipe_.open(qpn, peer, psn, packets, mtu);
    }
    void window_close(std::uint32_t qpn) { pipe_.close(qpn); }
    void window_refuse(std::uint32_t qpn, std::uint32_t psn) { pipe_.refuse(qpn, psn); }
    const engines::RxWindow& window(std::uint32_t qpn) { return pipe_.window(qpn); }
    engines::SpraySelector& spray(std::uint32_t qpn) { return sprays_[qpn % queue_pairs]; }
    void count_drop(regmap::DropReason) { ++drops_; }

  private:
    Draft draft_;
    static constexpr std::uint64_t never = ~std::uint64_t{0};
    static constexpr std::size_t timers_of_kind = 64;

    static DeviceConfig configuration(std::uint32_t number) {
        DeviceConfig config;
        config.device_number = number;
        config.max_qps = queue_pairs;
        config.max_groups = 1;
        config.group_memory_bytes = 4U << 20;
        return config;
    }
    static std::size_t place_of(TimerId timer) {
        return static_cast<std::size_t>(timer.kind) * timers_of_kind + timer.number % timers_of_kind;
    }
    template <class Work>
    static std::chrono::nanoseconds timed(Work&& work) {
        const auto begin = std::chrono::steady_clock::now();
        work();
        return std::chrono::steady_clock::now() - begin;
    }

    void take_arrivals() {
        arriving_.clear();
        arriving_.swap(arrivals_);
        const auto rows = std::stable_partition(
            arriving_.begin(), arriving_.end(),
            [](const Arrival& arrival) { return arrival.packet.opcode != Opcode::mp_ep_row; });
        for (const Arrival& arrival : std::span(arriving_.begin(), rows)) take(arrival);
        row_packets += static_cast<std::uint64_t>(arriving_.end() - rows);
        entry_time += timed([&] {
            for (const Arrival& arrival : std::span(rows, arriving_.end())) take(arrival);
        });
    }
    void take_frames() {
        frames_arriving_.clear();
        frames_arriving_.swap(frames_);
        const auto rows = std::stable_partition(
            frames_arriving_.begin(), frames_arriving_.end(),
            [](const Frame& frame) { return frame.header.kind != regmap::ScaleUpKind::row; });
        for (const Frame& frame : std::span(frames_arriving_.begin(), rows))
            firmware_.on_scale_up({frame.header, 0, frame.control});
        row_frames += static_cast<std::uint64_t>(frames_arriving_.end() - rows);
        target_time += timed([&] {
            for (const Frame& frame : std::span(rows, frames_arriving_.end()))
                firmware_.on_scale_up({frame.header, 1, {}});
        });
    }
    void deliver_multicasts() {
        const std::uint32_t first = number_ / ranks_per_node * ranks_per_node;
        for (const Multicast& multicast : multicasts_) {
            auto index = multicast.index.begin();
            for (std::uint32_t left = multicast.targets; left != 0; left &= left - 1) {
                const auto local = static_cast<std::uint32_t>(std::countr_zero(left));
                Frame frame{multicast.header, multicast.control};
                frame.header.source_local = static_cast<std::uint8_t>(number_ - first);
                frame.header.index = *index++;
                cluster_.devices[first + local]->frames_.push_back(std::move(frame));
            }
        }
        multicasts_.clear();
    }

    void take(const Arrival& arrival) {
        const ReceivePipe::Judgement judgement = pipe_.judge(arrival.packet);
        if (judgement.reason != regmap::DropReason::none) return count_drop(judgement.reason);
        const BufferId buffer = arrival.packet.payload_bytes != 0 ? 1 : 0;
        firmware_.on_packet({arrival.packet, buffer, judgement.window, arrival.control});
    }
    static std::vector<std::uint8_t> gather(const Payload& payload) {
        return {payload.inline_bytes.begin(), payload.inline_bytes.end()};
    }

    Cluster& cluster_;
    std::uint32_t number_;
    std::uint32_t key_ = 0;
    std::uint64_t drops_ = 0;
    std::vector<std::byte> storage_;
    std::vector<std::uint8_t> memory_;
    std::vector<ReceiveQp> receive_qps_ = std::vector<ReceiveQp>(queue_pairs);
    ReceivePipe pipe_{receive_qps_};
    std::vector<engines::SpraySelector> sprays_ = std::vector<engines::SpraySelector>(queue_pairs);
    std::vector<std::uint64_t> timers_ = std::vector<std::uint64_t>(3 * timers_of_kind, never);
    std::array<std::vector<std::uint32_t>, regmap::max_planes> sent_bytes_;
    std::vector<std::pair<FetchTag, Segment>> fetches_;
    std::vector<std::uint32_t> sent_;
    std::vector<Arrival> arrivals_, arriving_;
    std::vector<Frame> frames_, frames_arriving_;
    std::vector<Multicast> multicasts_;
    Firmware<BenchDevice> firmware_;
};
static_assert(hal::Hal<BenchDevice>);

/// Runs rounds until `done`, which is asked of every device; false when it takes too long.
template <class Done>
bool run_until(Cluster& cluster, Done&& done) {
    for (int round = 0; round < 100'000; ++round) {
        if (std::all_of(cluster.devices.begin(), cluster.devices.end(), done)) return true;
        cluster.now_ns += round_ns;
        for (const auto& device : cluster.devices) device->run_round();
    }
    return false;
}

/// Queue pairs between all devices of different nodes, and the group; false when something was refused.
bool make_group(Cluster& cluster) {
    std::array<std::array<QpCreated, ranks>, ranks> created{};
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        for (std::uint32_t peer = 0; peer < ranks; ++peer) {
            if (peer / ranks_per_node == rank / ranks_per_node) continue;
            regmap::AdminRequest request;
            request.mtu_bytes = mtu_bytes;
            request.window_packets = 512;
            request.entropy_values = 128;
            created[rank][peer] = cluster.devices[rank]->firmware().transport().create_qp(request);
            if (created[rank][peer].status != Status::ok) return false;
        }
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        BenchDevice& device = *cluster.devices[rank];
        std::vector<std::uint8_t> bytes(sizeof(regmap::GroupParameters) + ranks * sizeof(std::uint32_t));
        for (std::uint32_t peer = 0; peer < ranks; ++peer) {
            if (peer / ranks_per_node == rank / ranks_per_node) continue;
            regmap::AdminRequest request;
            request.object = created[rank][peer].qpn;
            request.peer_device = peer;
            request.peer_qpn = created[peer][rank].qpn;
            request.peer_psn = created[peer][rank].first_psn;
            if (device.firmware().transport().connect_qp(request) != Status::ok) return false;
            std::memcpy(bytes.data() + sizeof(regmap::GroupParameters) + peer * sizeof(std::uint32_t),
                        &created[rank][peer].qpn, sizeof(std::uint32_t));
        }
        regmap::GroupParameters parameters;
        parameters.rank = rank;
        parameters.ranks = ranks;
        parameters.ranks_per_node = ranks_per_node;
        parameters.experts = experts;
        parameters.topk = topk;
        parameters.hidden = hidden;
        parameters.max_tokens = tokens;
        parameters.dispatch_format = regmap::RowFormat::e4m3_f32;
        parameters.combine_format = regmap::RowFormat::bf16;
        parameters.entry_policy = regmap::EntryPolicy::target;
        parameters.handles = 1;
        parameters.mtu_bytes = mtu_bytes;
        std::memcpy(bytes.data(), &parameters, sizeof(parameters));
        regmap::AdminRequest request;
        request.address = device.store(std::span<const std::uint8_t>(bytes));
        request.length = bytes.size();
        device.firmware().ep().create_group(request, 1);
    }
    return run_until(cluster, [](const auto& device) { return device->firmware().ep().groups()[0].active; });
}

void ep_dispatch(benchmark::State& state) {
    Cluster cluster;
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
        cluster.devices.push_back(std::make_unique<BenchDevice>(cluster, rank));
    if (!make_group(cluster)) return state.SkipWithError("the group was refused");

    struct Lists {
        std::uint64_t topk_idx, topk_weights, result;
    };
    std::vector<Lists> lists;
    std::mt19937 random(1);
    std::vector<std::int64_t> all(experts);
    for (std::uint32_t i = 0; i < experts; ++i) all[i] = i;
    for (const auto& device : cluster.devices) {
        std::vector<std::int64_t> chosen;
        for (std::uint32_t token = 0; token < tokens; ++token) {
            std::shuffle(all.begin(), all.end(), random);
            chosen.insert(chosen.end(), all.begin(), all.begin() + topk);
        }
        const std::vector<float> weights(chosen.size(), 0.125F);
        lists.push_back({device->store(std::span<const std::int64_t>(chosen)),
                         device->store(std::span<const float>(weights)), BenchDevice::rows_address});
    }

    for (auto _ : state) {
        std::chrono::nanoseconds before{};
        for (const auto& device : cluster.devices) before -= device->entry_time + device->target_time;
        for (std::uint32_t rank = 0; rank < ranks; ++rank)
            cluster.devices[rank]->dispatch(lists[rank].topk_idx, lists[rank].topk_weights,
                                            lists[rank].result);
        if (!run_until(cluster, [](const auto& device) { return device->is_done(); }))
            return state.SkipWithError("the dispatch does not end");
        for (const auto& device : cluster.devices) before += device->entry_time + device->target_time;
        state.SetIterationTime(std::chrono::duration<double>(before).count());
    }

    double packets = 0;
    double frames = 0;
    double entry_ns = 0;
    double target_ns = 0;
    for (const auto& device : cluster.devices) {
        if (device->drops() != 0) return state.SkipWithError("packets or frames were dropped");
        packets += static_cast<double>(device->row_packets);
        frames += static_cast<double>(device->row_frames);
        entry_ns += static_cast<double>(device->entry_time.count());
        target_ns += static_cast<double>(device->target_time.count());
    }
    state.counters["ns_per_row_packet"] = entry_ns / packets;
    state.counters["ns_per_row_frame"] = target_ns / frames;
    state.counters["ns_per_either"] = (entry_ns + target_ns) / (packets + frames);
}
BENCHMARK(ep_dispatch)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
