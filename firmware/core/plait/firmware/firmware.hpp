#pragma once
// The firmware of a device: its modules, and the events that go to each.

#include <plait/firmware/admin.hpp>
#include <plait/firmware/arena.hpp>
#include <plait/firmware/ep.hpp>
#include <plait/firmware/memory_table.hpp>
#include <plait/firmware/queues.hpp>
#include <plait/firmware/registers.hpp>
#include <plait/firmware/transport.hpp>

namespace plait::firmware {

/// One instance a device. `Hal` carries out its commands (`plait/hal/hal.hpp`); events come one at a time,
/// and each handler runs to completion. Memory is given once and never grows.
template <class Hal>
class Firmware {
  public:
    Firmware(Hal& hal, const DeviceConfig& config, std::span<std::byte> memory)
        : hal_(hal),
          config_(config),
          arena_(memory),
          memory_table_(*this, arena_),
          registers_(*this, arena_),
          queues_(*this, arena_),
          admin_(*this, arena_),
          transport_(*this, arena_),
          ep_(*this, arena_) {}
    Firmware(const Firmware&) = delete;
    Firmware& operator=(const Firmware&) = delete;

    /// Memory that the modules need; table memory of EP groups is only touched as far as groups use it.
    [[nodiscard]] static std::size_t memory_bytes(const DeviceConfig& config) {
        constexpr std::size_t fixed = std::size_t{4} << 20;  // queues, pools, alignment
        return fixed + config.max_qps * qp_memory_bytes + config.max_memory_regions * std::size_t{64} +
               config.max_groups * (config.group_memory_bytes + sizeof(EpGroup)) +
               config.accumulators * sizeof(AccumulatorJob);
    }

    // Events.

    void on_register_write(std::uint32_t offset, std::uint32_t value) { registers_.write(offset, value); }
    [[nodiscard]] std::uint32_t read_register(std::uint32_t offset) const { return registers_.read(offset); }
    void on_packet(const PacketEvent& event) {
        const bool accepted =
            is_data(event.packet.opcode) && event.window.verdict == engines::Verdict::accept;
        if (!accepted || !take_plain(event.packet, event.buffer, event.window)) on_other_packet(event);
    }
    /// The parts of on_packet(), for one who has no event in one piece: see Transport.
    template <class Window>
    [[gnu::always_inline]] bool take_plain(const Packet& packet, BufferId buffer, const Window& window) {
        return transport_.take_plain(packet, buffer, window);
    }
    void on_ack_packet(const Packet& packet) { transport_.on_ack_packet(packet); }
    void on_other_packet(const PacketEvent& event) { transport_.on_packet(event); }
    void on_scale_up(const ScaleUpEvent& event) { ep_.on_scale_up(event); }
    void on_scale_up_sent(std::uint32_t tag) { ep_.on_scale_up_sent(tag); }
    void on_fetched(FetchTag tag, Status status, std::span<const std::uint8_t> bytes) {
        if (tag.owner == FetchOwner::ep) ep_.on_fetched(tag.label, status, bytes);
        else queues_.on_fetched(tag.label, status, bytes);
    }
    void on_reduced(std::uint32_t sum, BufferId buffer) { ep_.on_reduced(sum, buffer); }
    void on_transmit_credit(std::uint8_t plane, std::uint32_t payload_bytes) {
        transport_.on_transmit_credit(plane, payload_bytes);
    }
    void on_timer(TimerId timer) {
        if (timer.kind == TimerKind::ep_call) ep_.on_timer(timer.number);
        else transport_.on_timer(timer);
    }
    void on_port_change(std::uint8_t plane, bool up) {
        transport_.on_port_change(plane, up);
        registers_.on_port_change();
    }
    void on_scale_up_port(std::uint8_t local, bool up) { ep_.on_scale_up_port(local, up); }

    /// Every module forgets its objects. Memory stays where it is.
    void reset() {
        ep_.reset();
        transport_.reset();
        admin_.reset();
        queues_.reset();
        memory_table_.reset();
    }

    // What modules ask of each other.

    Hal& hal() { return hal_; }
    [[nodiscard]] const Hal& hal() const { return hal_; }
    [[nodiscard]] const DeviceConfig& config() const { return config_; }
    auto& memory_table() { return memory_table_; }
    [[nodiscard]] const auto& memory_table() const { return memory_table_; }
    auto& registers() { return registers_; }
    auto& queues() { return queues_; }
    auto& admin() { return admin_; }
    auto& transport() { return transport_; }
    [[nodiscard]] const auto& transport() const { return transport_; }
    auto& ep() { return ep_; }
    [[nodiscard]] const auto& ep() const { return ep_; }

  private:
    Hal& hal_;
    DeviceConfig config_;
    Arena arena_;
    MemoryTable<Firmware> memory_table_;
    Registers<Firmware> registers_;
    Queues<Firmware> queues_;
    Admin<Firmware> admin_;
    Transport<Firmware> transport_;
    Ep<Firmware> ep_;
};

}  // namespace plait::firmware
