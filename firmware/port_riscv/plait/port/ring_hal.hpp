#pragma once
// The HAL of the firmware image: commands go into a ring in local memory, what a command would have to wait
// for is read from memory that the device's engines share with firmware. `ProcessorPort` of regmap says where
// everything is.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <plait/firmware/receive_pipe.hpp>
#include <plait/hal/hal.hpp>
#include <plait/port/panic.hpp>
#include <plait/regmap.hpp>
#include <span>

namespace plait::port {

using firmware::BufferId;
using regmap::CommandKind;
using regmap::FirmwareCommand;

/// Lies in local memory; `port` must say where rings and engines are when it is made.
class RingHal {
  public:
    explicit RingHal(regmap::ProcessorPort& port)
        : port_(port),
          receive_pipe_({reinterpret_cast<firmware::ReceiveQp*>(port.windows), port.queue_pairs}),
          sprays_(reinterpret_cast<engines::SpraySelector*>(port.sprays)) {}
    RingHal(const RingHal&) = delete;
    RingHal& operator=(const RingHal&) = delete;

    // Time and planes.

    [[nodiscard]] std::uint64_t now_ns() const { return port_.now_ns; }
    [[nodiscard]] bool port_up(std::uint8_t plane) const { return (port_.ports_up >> plane & 1U) != 0; }

    void set_timer(firmware::TimerId timer, std::uint64_t time_ns) {
        FirmwareCommand& command = begin(CommandKind::set_timer);
        command.selector = static_cast<std::uint8_t>(timer.kind);
        command.number = timer.number;
        command.address = time_ns;
        commit(command);
    }

    void cancel_timer(firmware::TimerId timer) {
        FirmwareCommand& command = begin(CommandKind::cancel_timer);
        command.selector = static_cast<std::uint8_t>(timer.kind);
        command.number = timer.number;
        commit(command);
    }

    void begin_send() { port_.sends_begun = port_.sends_begun + 1; }

    firmware::Draft& draft() {
        make_sure_of(max_send_bytes);
        auto& draft = *reinterpret_cast<firmware::Draft*>(behind(next()));
        draft.packet.congestion = draft.packet.trimmed = false;
        draft.payload.clear();
        return draft;
    }

    void send_draft() {
        FirmwareCommand& command = next();
        auto& draft = *reinterpret_cast<firmware::Draft*>(behind(command));
        const std::span<const std::uint8_t> inline_bytes = draft.payload.inline_bytes;
        command.kind = CommandKind::send;
        command.flag = 0;
        command.bytes = send_bytes;
        if (!inline_bytes.empty()) [[unlikely]] {
            std::memcpy(&draft + 1, inline_bytes.data(), inline_bytes.size());
            command.bytes = static_cast<std::uint16_t>(
                rounded(send_bytes + static_cast<std::uint32_t>(inline_bytes.size())));
        }
        commit(command);
    }

    void send(const firmware::Packet& packet, const firmware::Payload& payload) {
        firmware::Draft& copy = draft();
        copy.packet = packet;
        copy.payload = payload;
        send_draft();
    }

    // Host memory.

    void fetch(firmware::FetchTag tag, firmware::Segment segment) {
        FirmwareCommand& command = begin(CommandKind::fetch);
        command.selector = static_cast<std::uint8_t>(tag.owner);
        command.number = tag.label;
        command.address = segment.address;
        command.length = segment.length;
        commit(command);
    }

    void place(BufferId buffer, std::uint32_t offset, firmware::Segment segment, bool release) {
        FirmwareCommand& command = begin(CommandKind::place);
        command.flag = release ? 1 : 0;
        command.number = buffer;
        command.value = offset;
        command.address = segment.address;
        command.length = segment.length;
        commit(command);
    }

    void write(std::uint64_t device_address, std::span<const std::uint8_t> bytes) {
        FirmwareCommand& command = begin(
            CommandKind::write, rounded(sizeof(FirmwareCommand) + static_cast<std::uint32_t>(bytes.size())));
        command.address = device_address;
        command.length = static_cast<std::uint32_t>(bytes.size());
        std::memcpy(behind(command), bytes.data(), bytes.size());
        commit(command);
    }

    void interrupt(std::uint32_t bits) { order(CommandKind::interrupt, bits); }

    // Packet memory.

    void retain(BufferId buffer) { order(CommandKind::retain, buffer); }
    void release(BufferId buffer) { order(CommandKind::release, buffer); }

    // Scale-up.

    void scale_up(std::uint8_t targets, const firmware::ScaleUpHeader& frame,
                  std::span<const std::uint32_t> index, const firmware::Payload& payload, bool notify) {
        const auto inline_bytes = static_cast<std::uint32_t>(payload.inline_bytes.size());
        FirmwareCommand& command = begin(CommandKind::scale_up, rounded(scale_up_bytes + inline_bytes));
        command.selector = targets;
        command.flag = notify ? 1 : 0;
        command.count = static_cast<std::uint8_t>(index.size());
        std::byte* at = behind(command);
        *reinterpret_cast<firmware::Payload*>(at) = payload;
        at += sizeof payload;
        ::new (at) firmware::ScaleUpHeader(frame);
        at += sizeof frame;
        for (std::size_t i = 0; i < index.size(); ++i) reinterpret_cast<std::uint32_t*>(at)[i] = index[i];
        at += index_bytes;
        if (inline_bytes != 0) std::memcpy(at, payload.inline_bytes.data(), inline_bytes);
        commit(command);
    }

    // Reduce engine.

    void reduce_open(std::uint32_t sum, const firmware::Reduction& reduction) {
        FirmwareCommand& command = begin(CommandKind::reduce_open);
        command.number = sum;
        command.count = reduction.contributions;
        command.selector = static_cast<std::uint8_t>(reduction.from);
        command.flag = static_cast<std::uint8_t>(reduction.to);
        command.length = reduction.elements;
        command.value = reduction.counter;
        commit(command);
    }

    void reduce_weigh(std::uint32_t sum, std::span<const float> weights) {
        FirmwareCommand& command =
            begin(CommandKind::reduce_weigh,
                  rounded(sizeof(FirmwareCommand) + static_cast<std::uint32_t>(weights.size_bytes())));
        command.number = sum;
        command.count = static_cast<std::uint8_t>(weights.size());
        std::memcpy(behind(command), weights.data(), weights.size_bytes());
        commit(command);
    }

    void reduce_add(std::uint32_t sum, std::uint8_t position, BufferId buffer) {
        FirmwareCommand& command = begin(CommandKind::reduce_add);
        command.number = sum;
        command.selector = position;
        command.value = buffer;
        commit(command);
    }

    void reduce_read(std::uint32_t sum, std::uint8_t position, firmware::Segment segment) {
        FirmwareCommand& command = begin(CommandKind::reduce_read);
        command.number = sum;
        command.selector = position;
        command.address = segment.address;
        command.length = segment.length;
        commit(command);
    }

    void reduce_skip(std::uint32_t sum, std::uint8_t position) {
        FirmwareCommand& command = begin(CommandKind::reduce_skip);
        command.number = sum;
        command.selector = position;
        commit(command);
    }

    void reduce_close(std::uint32_t sum) { order(CommandKind::reduce_close, sum); }

    /// Waits for commands given before: the counter is the engine's.
    std::uint32_t take_non_finite(std::uint32_t counter) {
        return *device_register(regmap::reg::non_finite_count_offset +
                                counter * regmap::reg::non_finite_count_stride);
    }

    // Receive window and spray selector.

    void window_open(std::uint32_t qpn, std::uint32_t peer_device, std::uint32_t first_psn,
                     std::uint16_t packets, std::uint16_t mtu_bytes) {
        if (!receive_pipe_.open(qpn, peer_device, first_psn, packets, mtu_bytes))
            panic(port_, regmap::PanicReason::window_taken, qpn, 0);
    }
    void window_close(std::uint32_t qpn) { receive_pipe_.close(qpn); }
    void window_refuse(std::uint32_t qpn, std::uint32_t psn) {
        receive_pipe_.refuse(qpn, psn);
        order(CommandKind::refused, 0);
    }
    const engines::RxWindow& window(std::uint32_t qpn) { return receive_pipe_.window(qpn); }
    engines::SpraySelector& spray(std::uint32_t qpn) { return sprays_[qpn & (port_.queue_pairs - 1)]; }

    void count_drop(regmap::DropReason reason) {
        order(CommandKind::count_drop, static_cast<std::uint32_t>(reason));
    }

  private:
    static constexpr std::uint32_t granule_bytes = sizeof(FirmwareCommand);
    static constexpr std::uint32_t index_bytes = regmap::max_ranks_per_node * sizeof(std::uint32_t);
    static constexpr std::uint32_t send_bytes = sizeof(FirmwareCommand) + sizeof(firmware::Draft);
    static constexpr std::uint32_t max_send_bytes = send_bytes + regmap::max_mtu_bytes;
    static constexpr std::uint32_t scale_up_bytes =
        sizeof(FirmwareCommand) + sizeof(firmware::Payload) + sizeof(firmware::ScaleUpHeader) + index_bytes;
    static_assert(send_bytes % granule_bytes == 0 && max_send_bytes <= regmap::max_command_bytes);

    static constexpr std::uint32_t rounded(std::uint32_t bytes) {
        return (bytes + granule_bytes - 1) & ~(granule_bytes - 1);
    }

    [[nodiscard]] volatile std::uint32_t* device_register(std::uint32_t offset) const {
        return reinterpret_cast<volatile std::uint32_t*>(port_.registers + offset);
    }

    FirmwareCommand& next() { return *reinterpret_cast<FirmwareCommand*>(port_.command_next); }

    void make_sure_of(std::uint32_t bytes) {
        if (port_.command_next + bytes > room_end_) [[unlikely]]
            make_room(bytes);
    }

    /// A command of `bytes`, which is the device's once it is committed.
    FirmwareCommand& begin(CommandKind kind, std::uint32_t bytes = granule_bytes) {
        make_sure_of(bytes);
        FirmwareCommand& command = next();
        command.kind = kind;
        command.flag = 0;
        command.bytes = static_cast<std::uint16_t>(bytes);
        return command;
    }

    void commit(const FirmwareCommand& command) {
        give(reinterpret_cast<std::uint64_t>(&command) + command.bytes);
    }
    void give(std::uint64_t until) {
        regmap::ProcessorPort& port = port_;
        std::atomic_thread_fence(std::memory_order_release);
        *static_cast<volatile std::uint64_t*>(&port.command_next) = until;  // a plain store, and one
    }

    void order(CommandKind kind, std::uint32_t number) {
        FirmwareCommand& command = begin(kind);
        command.number = number;
        commit(command);
    }

    /// Until the ring has room for `bytes` in one piece. A granule stays free before what the device has
    /// still to do, so that a full ring is not an empty one, and one at the end for word that the ring begins
    /// anew.
    [[gnu::noinline]] void make_room(std::uint32_t bytes) {
        if (bytes > regmap::max_command_bytes) panic(port_, regmap::PanicReason::command_too_long, 0, bytes);
        for (;;) {
            const std::uint64_t first = port_.commands;
            const std::uint64_t last = first + regmap::command_ring_bytes - granule_bytes;
            const std::uint64_t now = port_.command_next;
            const std::uint64_t done = std::atomic_ref(port_.command_done).load(std::memory_order_acquire);
            room_end_ = done <= now ? last : done - granule_bytes;
            if (now + bytes <= room_end_) return;
            if (done <= now && done != first) {
                next().kind = CommandKind::skip;
                next().bytes = granule_bytes;
                give(first);
            } else {
                *device_register(regmap::reg::command_doorbell_offset) = 1;
            }
        }
    }

    static std::byte* behind(FirmwareCommand& command) { return reinterpret_cast<std::byte*>(&command + 1); }

    regmap::ProcessorPort& port_;
    std::uint64_t room_end_ = 0;  ///< How far commands may go in one piece.
    firmware::ReceivePipe receive_pipe_;
    engines::SpraySelector* sprays_;
};

static_assert(hal::Hal<RingHal>);

}  // namespace plait::port
