// The firmware image: its objects, and the loop over the event ring.
#include <atomic>
#include <cstddef>
#include <new>
#include <plait/port/image.hpp>
#include <plait/port/wait.hpp>

namespace plait::port {
namespace {

using regmap::EventKind;
using regmap::FirmwareEvent;
using regmap::ProcessorPort;

template <class T>
const T& part_of(const FirmwareEvent& event, std::uint32_t offset) {
    return *reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(&event) + offset);
}

std::span<const std::uint8_t> data_of(const FirmwareEvent& event) {
    return {&part_of<std::uint8_t>(event, regmap::event_data_offset), event.data_bytes};
}

engines::RxVerdict window_of(const FirmwareEvent& event) {
    return {static_cast<engines::Verdict>(event.verdict), event.cumulative_psn, event.advanced != 0,
            event.hole != 0};
}

[[gnu::noinline]] void on_packet(Firmware& firmware, const FirmwareEvent& event) {
    firmware.on_other_packet({part_of<firmware::Packet>(event, regmap::event_packet_offset), event.buffer,
                              window_of(event), data_of(event)});
}

[[gnu::noinline]] void on_ack(Firmware& firmware, const firmware::Packet& packet) {
    firmware.on_ack_packet(packet);
}

[[gnu::always_inline]] inline void on_any_packet(Firmware& firmware, const FirmwareEvent& event) {
    const auto& packet = part_of<firmware::Packet>(event, regmap::event_packet_offset);
    if (packet.opcode == regmap::Opcode::mp_ack) on_ack(firmware, packet);
    else on_packet(firmware, event);
}

/// A plain one needs no event in one piece, no saved registers, and no call.
[[gnu::always_inline]] inline void on_data_packet(Firmware& firmware, const FirmwareEvent& event) {
    const auto& packet = part_of<firmware::Packet>(event, regmap::event_packet_offset);
    if (!firmware.take_plain(packet, event.buffer, event)) on_packet(firmware, event);
}

// Each a function of its own: it then saves no more registers than it needs itself.
[[gnu::noinline]] void on_scale_up(Firmware& firmware, const FirmwareEvent& event) {
    firmware.on_scale_up(
        {part_of<firmware::ScaleUpHeader>(event, regmap::event_packet_offset), event.buffer, data_of(event)});
}

[[gnu::noinline]] void on_timer(Firmware& firmware, const FirmwareEvent& event) {
    firmware.on_timer({static_cast<firmware::TimerKind>(event.selector), event.number});
}

[[gnu::noinline]] void on_transmit_credit(Firmware& firmware, const FirmwareEvent& event) {
    firmware.on_transmit_credit(event.selector, event.number);
}

[[gnu::noinline]] void on_reduced(Firmware& firmware, const FirmwareEvent& event) {
    firmware.on_reduced(event.number, event.buffer);
}

[[gnu::noinline]] void handle_rare(ImageState& state, ProcessorPort& port, const FirmwareEvent& event) {
    Firmware& firmware = state.firmware;
    switch (event.kind) {
        case EventKind::scale_up_sent: firmware.on_scale_up_sent(event.number); return;
        case EventKind::fetched:
            firmware.on_fetched({static_cast<firmware::FetchOwner>(event.selector), event.number},
                                event.status, data_of(event));
            return;
        case EventKind::register_write: firmware.on_register_write(event.number, event.value); return;
        case EventKind::register_read: port.answer = firmware.read_register(event.number); return;
        case EventKind::drop:
            firmware.registers().count_drop(static_cast<regmap::DropReason>(event.number));
            return;
        case EventKind::port_change: firmware.on_port_change(event.selector, event.is_up != 0); return;
        case EventKind::scale_up_port: firmware.on_scale_up_port(event.selector, event.is_up != 0); return;
        default: panic(port, regmap::PanicReason::unknown_event, static_cast<std::uint32_t>(event.kind), 0);
    }
}

[[gnu::always_inline]] inline void handle(ImageState& state, ProcessorPort& port,
                                          const FirmwareEvent& event) {
    if (event.kind == EventKind::data_packet) return on_data_packet(state.firmware, event);
    if (event.kind == EventKind::packet) return on_any_packet(state.firmware, event);
    switch (event.kind) {
        case EventKind::transmit_credit: return on_transmit_credit(state.firmware, event);
        case EventKind::scale_up: return on_scale_up(state.firmware, event);
        case EventKind::timer: return on_timer(state.firmware, event);
        case EventKind::reduced: return on_reduced(state.firmware, event);
        default: return handle_rare(state, port, event);
    }
}

}  // namespace
}  // namespace plait::port

using namespace plait;

extern "C" {

extern const regmap::FirmwareImage plait_image;
[[gnu::section(".image"), gnu::used]] const regmap::FirmwareImage plait_image = port::image_header;

/// Makes the firmware in local memory.
void plait_start(regmap::ProcessorPort* port) {
    if (port->regmap_version != regmap::regmap_version)
        port::panic(*port, regmap::PanicReason::another_regmap, port->regmap_version, 0);
    const auto& config = *reinterpret_cast<const firmware::DeviceConfig*>(port->configuration);
    const std::size_t needed = port::Firmware::memory_bytes(config);
    if (port->memory_bytes < needed)
        port::panic(*port, regmap::PanicReason::memory_too_small, 0, needed - port->memory_bytes);
    ::new (reinterpret_cast<void*>(port->state)) port::ImageState(*port);
}

/// Handles events for ever, one each time: a core does not sleep while there is an event.
[[noreturn, gnu::noinline, gnu::noclone]] void plait_serve(regmap::ProcessorPort* port) {
    for (;;) {
        port = port::wait_for_event(port);
        const std::uint32_t consumed = port->event_consumed;
        if (consumed == std::atomic_ref(port->event_produced).load(std::memory_order_acquire)) continue;
        const std::uint64_t slot =
            port->events + std::uint64_t{consumed % regmap::event_slots} * regmap::event_slot_bytes;
        port::handle(*reinterpret_cast<port::ImageState*>(port->state), *port,
                     *reinterpret_cast<const regmap::FirmwareEvent*>(slot));
        std::atomic_thread_fence(std::memory_order_release);
        *static_cast<volatile std::uint32_t*>(&port->event_consumed) = consumed + 1;
    }
}
}
