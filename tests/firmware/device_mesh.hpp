#pragma once
// Devices with the real firmware on a small test HAL: planes that lose, delay and reorder, scale-up that does
// neither, a reduce engine that adds.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <plait/engines/reduce.hpp>
#include <plait/firmware/firmware.hpp>
#include <plait/firmware/receive_pipe.hpp>
#include <plait/hal/hal.hpp>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mesh_buffers.hpp"
#include "mesh_driver.hpp"
#include "mesh_rows.hpp"

namespace plait::mesh_test {

/// One device and its HAL.
class MeshDevice final : public MeshDriver {
  public:
    static constexpr std::uint32_t queue_pairs = 64;

    MeshDevice(Mesh& mesh, std::uint32_t number)
        : MeshDriver(mesh, number), pipe_(receive_qps_), sprays_(queue_pairs) {
        DeviceConfig config;
        config.device_number = number;
        config.planes = mesh.options().planes;
        config.max_qps = queue_pairs;
        config.max_groups = 2;
        config.accumulators = mesh.options().accumulators;
        config.group_memory_bytes = 16U << 20;
        config.packet_memory_bytes = mesh.options().packet_memory_bytes;
        config.seed = mesh.options().seed;
        const std::size_t length = Firmware<MeshDevice>::memory_bytes(config);
        memory_of_firmware_ = std::make_unique_for_overwrite<std::byte[]>(length);
        firmware_ = std::make_unique<Firmware<MeshDevice>>(*this, config,
                                                           std::span(memory_of_firmware_.get(), length));
    }

    Firmware<MeshDevice>& firmware() { return *firmware_; }
    Ep<Firmware<MeshDevice>>& ep() { return firmware_->ep(); }
    [[nodiscard]] std::uint32_t local() const { return number() % mesh_.options().ranks_per_node; }
    [[nodiscard]] std::uint32_t node() const { return number() / mesh_.options().ranks_per_node; }

    /// The device goes silent; its node sees its link go down.
    void kill() {
        dead_ = true;
        for (std::uint32_t i = 0; i < mesh_.options().ranks_per_node; ++i) {
            MeshDevice& neighbour = mesh_.device(node() * mesh_.options().ranks_per_node + i);
            if (&neighbour == this) continue;
            mesh_.at(mesh_.now_ns() + mesh_.options().link_down_ns,
                     [&neighbour, gone = static_cast<std::uint8_t>(local())] {
                         if (!neighbour.dead_) neighbour.firmware_->on_scale_up_port(gone, false);
                     });
        }
    }
    [[nodiscard]] bool is_dead() const { return dead_; }
    /// Packets neither leave nor arrive; everything else works.
    void unplug() { unplugged_ = true; }

    // What is left behind.

    void expect_nothing_left() {
        SCOPED_TRACE("device " + std::to_string(number()));
        EXPECT_EQ(buffers_.live(), 0U);
        EXPECT_EQ(ep().accumulators_in_use(), 0U);
        EXPECT_EQ(ep().partials_in_use(), 0U);
        for (const auto& [accumulator, sum] : sums_) EXPECT_FALSE(sum.open) << "accumulator " << accumulator;
        for (const EpGroup& group : ep().groups()) {
            for (const EpHandle& handle : group.handles) {
                EXPECT_EQ(handle.messages_in_flight, 0U);
                EXPECT_EQ(handle.table_messages, 0U);
                EXPECT_EQ(handle.fetches_left, 0U);
                EXPECT_EQ(handle.local_in_flight, 0U);
            }
        }
    }
    [[nodiscard]] std::uint64_t drops(regmap::DropReason reason) const {
        return drops_[static_cast<std::size_t>(reason)];
    }
    /// That came when their sum was over.
    [[nodiscard]] std::uint64_t late_contributions() const { return late_contributions_; }
    [[nodiscard]] std::uint64_t packets_sent() const { return packets_sent_; }
    [[nodiscard]] std::uint64_t packet_memory_high_water() const { return buffers_.high_water(); }

    // HAL.

    [[nodiscard]] std::uint64_t now_ns() const { return mesh_.now_ns(); }

    void set_timer(TimerId timer, std::uint64_t time_ns) {
        const auto key = std::pair(static_cast<int>(timer.kind), timer.number);
        const std::uint64_t generation = ++timers_[key];
        mesh_.at(time_ns, [this, key, generation, timer] {
            if (!dead_ && timers_[key] == generation) firmware_->on_timer(timer);
        });
    }
    void cancel_timer(TimerId timer) { ++timers_[std::pair(static_cast<int>(timer.kind), timer.number)]; }

    void begin_send() {}
    Draft& draft() { return *std::construct_at(&draft_); }
    void send_draft() { send(draft_.packet, draft_.payload); }
    void send(const Packet& packet, const Payload& payload) {
        ++packets_sent_;
        if (is_data(packet.opcode)) {
            std::uint64_t& free_ns = plane_free_ns_[packet.plane];
            free_ns = std::max(free_ns, now_ns());
            mesh_.at(free_ns, [this, plane = packet.plane, bytes = packet.payload_bytes] {
                if (!dead_) firmware_->on_transmit_credit(plane, bytes);
            });
            free_ns += 1 + frame_bytes(packet) * 8 / 100;
        }
        std::vector<std::uint8_t> data = gather(payload, packet.payload_bytes);
        if (dead_ || unplugged_ || lose()) return;
        const std::uint64_t jitter =
            mesh_.options().jitter_ns == 0 ? 0 : mesh_.random()() % mesh_.options().jitter_ns;
        mesh_.deliver(packet, std::move(data),
                      std::max(now_ns(), plane_free_ns_[packet.plane]) + 1000 + jitter);
    }
    [[nodiscard]] bool port_up(std::uint8_t) const { return true; }

    void fetch(FetchTag tag, Segment segment) {
        EXPECT_LE(segment.length, 4096U);
        mesh_.at(read_ns() + mesh_.read_delay_ns(), [this, tag, segment] {
            if (dead_) return;
            const std::uint8_t* from = bytes(segment.address, segment.length);
            if (from == nullptr) return;
            const std::vector<std::uint8_t> copy(from, from + segment.length);
            firmware_->on_fetched(tag, regmap::Status::ok, copy);
        });
    }
    void place(BufferId buffer, std::uint32_t offset, Segment segment, bool release) {
        const std::vector<std::uint8_t>& data = buffers_.data(buffer);
        ASSERT_LE(std::size_t{offset} + segment.length, data.size());
        ASSERT_TRUE(may_place(segment))
            << "device " << number() << " places a row outside the call's outputs";
        if (std::uint8_t* to = bytes(segment.address, segment.length)) {
            std::memcpy(to, data.data() + offset, segment.length);
        }
        if (release) this->release(buffer);
    }
    void write(std::uint64_t address, std::span<const std::uint8_t> data) {
        if (dead_) return;
        if (std::uint8_t* to = bytes(address, data.size())) std::memcpy(to, data.data(), data.size());
    }
    void interrupt(std::uint32_t) {}

    void retain(BufferId buffer) { buffers_.retain(buffer); }
    void release(BufferId buffer) { buffers_.release(buffer); }

    void scale_up(std::uint8_t targets, const ScaleUpHeader& header, std::span<const std::uint32_t> index,
                  const Payload& payload, bool notify) {
        if (dead_) return;
        ASSERT_NE(targets, 0);
        ASSERT_LT(targets, 1U << mesh_.options().ranks_per_node);
        const bool is_control = header.kind == regmap::ScaleUpKind::control;
        const std::size_t length = is_control                                 ? payload.inline_bytes.size()
                                   : header.kind == regmap::ScaleUpKind::pull ? 0
                                                                              : header.length;
        const std::vector<std::uint8_t> data = gather(payload, length);
        std::uint64_t last_ns = now_ns();
        std::size_t next = 0;
        for (std::uint32_t left = targets; left != 0; left &= left - 1) {
            const auto local_target = static_cast<std::uint32_t>(std::countr_zero(left));
            MeshDevice& target = mesh_.device(node() * mesh_.options().ranks_per_node + local_target);
            std::uint64_t& free_ns = scale_up_free_ns_[local_target];
            free_ns =
                std::max(free_ns, now_ns()) + 1 + data.size() * 1000 / mesh_.options().scale_up_bytes_per_us;
            last_ns = std::max(last_ns, free_ns);
            ScaleUpHeader copy = header;
            copy.source_local = static_cast<std::uint8_t>(local());
            if (next < index.size()) copy.index = index[next++];
            mesh_.at(free_ns + mesh_.options().scale_up_ns,
                     [&target, copy, data] { target.frame_arrived(copy, data); });
        }
        if (payload.buffer != 0) {  // held until the last copy has left
            retain(payload.buffer);
            mesh_.at(last_ns, [this, buffer = payload.buffer] { release(buffer); });
        }
        if (notify)
            mesh_.at(last_ns, [this, tag = header.tag] {
                if (!dead_) firmware_->on_scale_up_sent(tag);
            });
    }

    void reduce_open(std::uint32_t name, const Reduction& reduction) {
        ASSERT_LT(SumName::accumulator(name), mesh_.options().accumulators);
        MeshSum& sum = sums_[SumName::accumulator(name)];
        sum.start(name, reduction);
        if (reduction.contributions == 0) finish_sum(sum);
    }
    void reduce_weigh(std::uint32_t name, std::span<const float> weights) {
        ASSERT_TRUE(is_open(name));
        MeshSum& sum = sums_[SumName::accumulator(name)];
        ASSERT_EQ(weights.size(), sum.slot.contributions());
        sum.weights.assign(weights.begin(), weights.end());
    }
    void reduce_add(std::uint32_t name, std::uint8_t position, BufferId buffer) {
        ASSERT_TRUE(is_open(name)) << "contribution to a sum that is over";
        MeshSum& sum = sums_[SumName::accumulator(name)];
        ASSERT_EQ(buffers_.data(buffer).size(),
                  encoded_bytes(sum.format_at(position), sum.reduction.elements));
        offer(sum, position, buffer);
    }
    void reduce_read(std::uint32_t name, std::uint8_t position, Segment row) {
        ASSERT_TRUE(is_open(name));
        mesh_.at(read_ns(), [this, name, position, row] {
            if (dead_) return;
            EXPECT_TRUE(may_read(row)) << "device " << number() << " reads memory after its call was over";
            const std::uint8_t* from = bytes(row.address, row.length);
            if (from == nullptr) return;
            if (is_open(name)) sums_[SumName::accumulator(name)].bf16_positions |= 1U << position;
            contribution_arrived(SumName::tag(name, position), buffers_.make({from, from + row.length}));
        });
    }
    void reduce_skip(std::uint32_t name, std::uint8_t position) {
        ASSERT_TRUE(is_open(name));
        MeshSum& sum = sums_[SumName::accumulator(name)];
        if (!sum.slot.has_arrived(position)) offer(sum, position, 0);
    }
    void reduce_close(std::uint32_t name) {
        if (!is_open(name)) return;
        MeshSum& sum = sums_[SumName::accumulator(name)];
        sum.slot.for_each_waiting([&](std::uint32_t buffer) {
            if (buffer != 0) release(buffer);
        });
        if (sum.result != 0) release(std::exchange(sum.result, 0));
        sum.open = false;
    }

    std::uint32_t take_non_finite(std::uint32_t counter) {
        return std::exchange(non_finite_.at(counter), 0U);
    }

    void window_open(std::uint32_t qpn, std::uint32_t peer, std::uint32_t psn, std::uint16_t packets,
                     std::uint16_t mtu) {
        ASSERT_TRUE(pipe_.open(qpn, peer, psn, packets, mtu));
    }
    void window_close(std::uint32_t qpn) { pipe_.close(qpn); }
    void window_refuse(std::uint32_t qpn, std::uint32_t psn) { pipe_.refuse(qpn, psn); }
    const engines::RxWindow& window(std::uint32_t qpn) { return pipe_.window(qpn); }
    engines::SpraySelector& spray(std::uint32_t qpn) { return sprays_[qpn]; }
    void count_drop(regmap::DropReason reason) { ++drops_[static_cast<std::size_t>(reason)]; }

    // From the network.

    void packet_arrived(const Packet& packet, const std::vector<std::uint8_t>& data) {
        if (dead_ || unplugged_) return;
        const ReceivePipe::Judgement judgement = pipe_.judge(packet);
        if (judgement.reason != regmap::DropReason::none) return count_drop(judgement.reason);
        PacketEvent event{packet, 0, judgement.window, {}};
        if (is_data(packet.opcode) && judgement.window.verdict == engines::Verdict::accept) {
            if (!data.empty() && buffers_.bytes() + data.size() <= mesh_.options().packet_memory_bytes)
                event.buffer = buffers_.make(data);
            if (packet.opcode == Opcode::mp_ep_control) event.control = data;
        }
        firmware_->on_packet(event);
    }

    void frame_arrived(const ScaleUpHeader& header, const std::vector<std::uint8_t>& data) {
        if (dead_) return;
        const bool is_control = header.kind == regmap::ScaleUpKind::control;
        const BufferId buffer = data.empty() || is_control ? 0 : buffers_.make(data);
        if (header.kind == regmap::ScaleUpKind::contribution && header.status == regmap::Status::ok) {
            return contribution_arrived(header.tag, buffer);
        }
        ScaleUpEvent event{header, buffer, {}};
        if (is_control) event.control = data;
        firmware_->on_scale_up(event);
    }

    /// When host memory is read: in the order asked for.
    std::uint64_t read_ns() {
        return last_read_ns_ = std::max(last_read_ns_, now_ns() + 400 + mesh_.random()() % 200);
    }

  private:
    Draft draft_;

    void write_register(std::uint32_t offset, std::uint32_t value) override {
        firmware_->on_register_write(offset, value);
    }

    bool lose() {
        return mesh_.options().loss > 0 &&
               std::uniform_real_distribution<double>(0, 1)(mesh_.random()) < mesh_.options().loss;
    }

    std::vector<std::uint8_t> gather(const Payload& payload, std::size_t length) {
        std::vector<std::uint8_t> data;
        data.reserve(length);
        if (payload.buffer != 0) {
            const std::vector<std::uint8_t>& from = buffers_.data(payload.buffer);
            EXPECT_LE(payload.buffer_offset + length, from.size());
            data.assign(from.begin() + payload.buffer_offset,
                        from.begin() + payload.buffer_offset + static_cast<std::ptrdiff_t>(length));
        }
        for (std::size_t i = 0; i < payload.segment_count; ++i) {
            const Segment& segment = payload.segments[i];
            EXPECT_TRUE(may_read(segment))
                << "device " << number() << " reads memory after its call was over";
            const std::uint8_t* from = bytes(segment.address, segment.length);
            if (from != nullptr) data.insert(data.end(), from, from + segment.length);
        }
        if (payload.encoding.format != RowFormat::bf16) {
            std::vector<std::uint16_t> row(data.size() / 2);
            std::memcpy(row.data(), data.data(), data.size());
            return encode_payload(payload.encoding, row, length, non_finite_.at(payload.encoding.counter));
        }
        data.insert(data.end(), payload.inline_bytes.begin(), payload.inline_bytes.end());
        EXPECT_EQ(data.size(), length) << "payload of another length than its header says";
        return data;
    }

    [[nodiscard]] bool is_open(std::uint32_t name) const {
        const auto found = sums_.find(SumName::accumulator(name));
        return found != sums_.end() && found->second.open && found->second.name == name;
    }

    /// Of a sum that may be over: its contributor was given up.
    void contribution_arrived(std::uint32_t tag, BufferId buffer) {
        const std::uint32_t name = SumName::sum_of_tag(tag);
        const std::uint8_t position = SumName::position_of_tag(tag);
        if (is_open(name) && !sums_[SumName::accumulator(name)].slot.has_arrived(position))
            return reduce_add(name, position, buffer);
        ++late_contributions_;
        release(buffer);
    }

    void offer(MeshSum& sum, std::uint8_t position, BufferId buffer) {
        const engines::Offer answer = sum.slot.offer(position, buffer);
        ASSERT_EQ(answer.status, engines::OfferStatus::taken);
        for (std::size_t i = 0; i < answer.ready.size(); ++i) {
            const std::uint32_t ready = answer.ready[i];
            if (ready == 0) continue;
            sum.add(answer.first_position + static_cast<std::uint32_t>(i), buffers_.data(ready));
            release(ready);
        }
        if (sum.slot.complete()) finish_sum(sum);
    }

    void finish_sum(MeshSum& sum) {
        sum.result =
            buffers_.make(encode(sum.reduction.to, sum.values, non_finite_.at(sum.reduction.counter)));
        mesh_.at(now_ns() + 50, [this, name = sum.name, generation = sum.generation] {
            MeshSum& done = sums_[SumName::accumulator(name)];
            if (!done.open || done.generation != generation) return;  // closed meanwhile
            done.open = false;
            const BufferId result = std::exchange(done.result, 0);
            if (dead_) release(result);
            else firmware_->on_reduced(name, result);
        });
    }

    std::vector<ReceiveQp> receive_qps_ = std::vector<ReceiveQp>(queue_pairs);
    ReceivePipe pipe_;
    std::vector<engines::SpraySelector> sprays_;
    MeshBuffers buffers_;
    std::map<std::uint32_t, MeshSum> sums_;  ///< By accumulator.
    std::uint64_t late_contributions_ = 0;
    std::uint64_t last_read_ns_ = 0;
    std::vector<std::uint32_t> non_finite_ = std::vector<std::uint32_t>(2 * regmap::max_handles);
    std::map<std::pair<int, std::uint32_t>, std::uint64_t> timers_;
    std::array<std::uint64_t, regmap::max_planes> plane_free_ns_{};
    std::array<std::uint64_t, regmap::max_ranks_per_node> scale_up_free_ns_{};
    std::array<std::uint64_t, 64> drops_{};
    std::uint64_t packets_sent_ = 0;
    bool dead_ = false;
    bool unplugged_ = false;
    std::unique_ptr<std::byte[]> memory_of_firmware_;
    std::unique_ptr<Firmware<MeshDevice>> firmware_;
};
static_assert(hal::Hal<MeshDevice>);

inline Mesh::Mesh(const MeshOptions& options) : options_(options), random_(options.seed) {
    for (std::uint32_t i = 0; i < options.ranks(); ++i)
        devices_.push_back(std::make_unique<MeshDevice>(*this, i));
}

inline void Mesh::deliver(const Packet& packet, std::vector<std::uint8_t> bytes, std::uint64_t time_ns) {
    at(time_ns, [this, packet, bytes = std::move(bytes)] {
        if (packet.destination_device < devices_.size())
            device(packet.destination_device).packet_arrived(packet, bytes);
    });
}

}  // namespace plait::mesh_test
