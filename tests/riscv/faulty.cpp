// A firmware image that goes wrong in one way, which FAULT names, at its first event.
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
[[gnu::noinline]] std::uint64_t plait_bad_command(regmap::ProcessorPort& port) {
    reinterpret_cast<regmap::FirmwareCommand*>(port.commands)->bytes = 0;
    port.command_next += 32;
    return 0;
}

std::uint64_t plait_fault(regmap::ProcessorPort& port) {
    switch (FAULT) {
        case 1: return plait_wild_read();
        case 2: return plait_wild_write();
        case 3: return plait_write_to_code();
        case 4: return plait_wild_jump();
        case 5: return plait_illegal();
        case 6: return plait_overflow();
        case 7: return plait_hang();
        case 8: return plait_bad_command(port);
        default: port::panic(port, regmap::PanicReason::window_taken, 7, 0x55);
    }
}

void plait_start(regmap::ProcessorPort*) {}

[[noreturn, gnu::noinline, gnu::noclone]] void plait_serve(regmap::ProcessorPort* port) {
    for (;;) {
        port = port::wait_for_event(port);
        plait_fault(*port);
    }
}
}
