// The reset vector and traps.
#include <cstddef>
#include <plait/port/panic.hpp>

using namespace plait;

extern "C" {

[[noreturn]] void plait_trapped(regmap::ProcessorPort* port, std::uint64_t cause, std::uint64_t pc,
                                std::uint64_t address, std::uint64_t stack) {
    port::panic(*port, {.reason = regmap::PanicReason::trap,
                        .cause = static_cast<std::uint32_t>(cause),
                        .pc = pc,
                        .address = address,
                        .stack_pointer = stack});
}

[[gnu::naked, gnu::aligned(4)]] static void trap() {
    asm volatile(
        "mv a4, sp\n"
        "csrr a0, mscratch\n"
        "csrr a1, mcause\n"
        "csrr a2, mepc\n"
        "csrr a3, mtval\n"
        "ld sp, %0(a0)\n"  // where the stack ends may be what is wrong
        "j plait_trapped\n"
        :
        : "i"(offsetof(regmap::ProcessorPort, stack_end)));
}

/// The reset vector: a0 is the address of the port.
[[gnu::naked, gnu::section(".text.start"), noreturn]] void _start() {
    asm volatile(
        "ld sp, %0(a0)\n"
        "la t0, %1\n"
        "csrw mtvec, t0\n"
        "csrw mscratch, a0\n"
        "li t0, 0x2000\n"  // mstatus.FS = initial: floating point
        "csrs mstatus, t0\n"
        "mv s0, a0\n"
        "call plait_start\n"
        "mv a0, s0\n"
        "j plait_serve\n"
        :
        : "i"(offsetof(regmap::ProcessorPort, stack_end)), "i"(trap));
}
}
