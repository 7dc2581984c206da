// A firmware image that goes wrong at its first event, in the way that `base_rtt_ns` of its configuration
// names (100 at least): first faults of the core, then commands that make no sense, and for
// other values commands that are drawn with it.
#include <cstddef>
#include <plait/port/image.hpp>
#include <plait/port/wait.hpp>

using namespace plait;

extern "C" {

extern const regmap::FirmwareImage plait_image;
[[gnu::section(".image"), gnu::used]] const regmap::FirmwareImage plait_image = port::image_header;

[[gnu::noinline]] std::uint64_t plait_wild_read() { return *reinterpret_cast<volatile std::uint64_t*>(0x18); }
[[gnu::noinline]] std::uint64_t plait_wild_write() {
    *reinterpret_cast<volatile std::uint32_t*>(0x7000'0000'0000) = 1;
    return 0;
}
[[gnu::noinline]] std::uint64_t plait_write_to_code() {
    *reinterpret_cast<volatile std::uint32_t*>(0x8000'0000) = 1;
    return 0;
}
[[gnu::noinline]] std::uint64_t plait_wild_jump() { return reinterpret_cast<std::uint64_t (*)()>(0x4000)(); }
[[gnu::noinline]] std::uint64_t plait_illegal() {
    asm volatile(".word 0xffffffff");
    return 0;
}
[[gnu::noinline]] std::uint64_t plait_recurse(std::uint64_t depth) {
    volatile std::uint64_t kept[16] = {depth};
    return kept[0] == ~std::uint64_t{0} ? 0 : plait_recurse(depth + 1) + kept[0];
}
[[gnu::noinline]] std::uint64_t plait_overflow() { return plait_recurse(0); }
[[gnu::noinline]] std::uint64_t plait_hang() {
    for (;;) asm volatile("");
}
}

namespace {

using regmap::CommandKind;
using regmap::FirmwareCommand;

void give(regmap::ProcessorPort& port, const FirmwareCommand& command) {
    *reinterpret_cast<FirmwareCommand*>(port.command_next) = command;
    port.command_next += sizeof command;
}

FirmwareCommand command_of(CommandKind kind, std::uint32_t number) {
    FirmwareCommand command{};
    command.kind = kind;
    command.bytes = sizeof command;
    command.number = number;
    return command;
}

void send_by_no_plane(port::RingHal& hal) {
    firmware::Draft& draft = hal.draft();
    draft.packet.plane = 200;
    hal.send_draft();
}

void send_too_little(port::RingHal& hal) {
    firmware::Draft& draft = hal.draft();
    draft.packet.payload_bytes = 100;
    hal.send_draft();
}

void write_beyond_the_command(regmap::ProcessorPort& port) {
    FirmwareCommand command = command_of(CommandKind::write, 0);
    command.length = 1U << 20;
    give(port, command);
}

// Commands whose every field may be anything, small values more often than not; at the end one that is wrong
// for certain.
void give_what_is_drawn(regmap::ProcessorPort& port, std::uint64_t seed) {
    const auto draw = [&seed] {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        const std::uint64_t drawn = seed ^ seed >> 33;
        return drawn >> (drawn % 64);
    };
    for (int i = 0; i < 40; ++i) {
        const auto bytes = static_cast<std::uint16_t>(32 * (1 + draw() % 20));
        if (port.command_next + bytes + 32 > port.commands + regmap::command_ring_bytes) break;
        auto& command = *reinterpret_cast<FirmwareCommand*>(port.command_next);
        auto* const words = reinterpret_cast<std::uint64_t*>(&command);
        for (std::uint32_t word = 0; word < bytes / 8; ++word) words[word] = draw();
        command.kind = static_cast<CommandKind>(1 + draw() % 19);
        if (draw() % 8 != 0) command.bytes = bytes;
        port.command_next += bytes;
    }
    give(port, command_of(static_cast<CommandKind>(0xee), 0));
}

void give_nonsense(regmap::ProcessorPort& port, std::uint32_t which) {
    port::RingHal hal(port);
    switch (which) {
        case 120: return give(port, {});
        case 121: return give(port, command_of(static_cast<CommandKind>(99), 0));
        case 122: return send_by_no_plane(hal);
        case 123: return send_too_little(hal);
        case 124: return hal.release(77);
        case 125: return hal.scale_up(0, {}, {}, {}, false);
        case 126: return hal.reduce_open(9999, {.contributions = 1, .elements = 64});
        case 127: return hal.count_drop(static_cast<regmap::DropReason>(99));
        case 128: return hal.set_timer({static_cast<firmware::TimerKind>(9), 0}, 0);
        case 129: return write_beyond_the_command(port);
        case 130: return static_cast<void>(hal.take_non_finite(regmap::reg::non_finite_count_count - 1));
        case 131: port.command_next = 8; return;
        default: return give_what_is_drawn(port, which);
    }
}

}  // namespace

extern "C" {

/// Local memory of devices lies at the same place of 4 GiB each, one after the other.
[[gnu::noinline]] std::uint64_t plait_write_to_neighbour(regmap::ProcessorPort& port) {
    constexpr std::uint64_t place_bytes = std::uint64_t{1} << 32;
    *reinterpret_cast<volatile std::uint64_t*>(reinterpret_cast<std::uint64_t>(&port) ^ place_bytes) = 1;
    return 0;
}

std::uint64_t plait_fault(regmap::ProcessorPort& port) {
    const std::uint32_t which =
        reinterpret_cast<const firmware::DeviceConfig*>(port.configuration)->base_rtt_ns;
    switch (which) {
        case 101: return plait_wild_read();
        case 102: return plait_wild_write();
        case 103: return plait_write_to_code();
        case 104: return plait_wild_jump();
        case 105: return plait_illegal();
        case 106: return plait_overflow();
        case 107: return plait_hang();
        case 108: port::panic(port, regmap::PanicReason::window_taken, 7, 0x55);
        case 109: return plait_write_to_neighbour(port);
        default: give_nonsense(port, which); return 0;
    }
}

void plait_start(regmap::ProcessorPort*) {}

[[noreturn, gnu::noinline, gnu::noclone]] void plait_serve(regmap::ProcessorPort* port) {
    for (;;) {
        port = port::wait_for_event(port);
        plait_fault(*port);
        port->event_consumed = port->event_produced;
    }
}
}
