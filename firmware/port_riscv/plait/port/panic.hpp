#pragma once
// The end of firmware that cannot go on: a record that somebody outside can read, and then nothing more.

#include <atomic>
#include <cstdint>
#include <plait/regmap.hpp>

namespace plait::port {

/// Stops this core. `record.reason` must say why; it becomes readable after the rest.
[[noreturn, gnu::noinline, gnu::cold]] inline void panic(regmap::ProcessorPort& port,
                                                         const regmap::PanicRecord& record) {
    regmap::PanicRecord& to = port.panic;
    to.cause = record.cause;
    to.pc = record.pc;
    to.address = record.address;
    to.stack_pointer = record.stack_pointer;
    std::atomic_ref(to.reason).store(record.reason, std::memory_order_release);
    *reinterpret_cast<volatile std::uint32_t*>(port.registers + regmap::reg::firmware_panic_offset) =
        static_cast<std::uint32_t>(record.reason);
    for (;;) std::atomic_signal_fence(std::memory_order_seq_cst);
}

/// From firmware's own checks: the place is the call.
[[noreturn, gnu::noinline, gnu::cold]] inline void panic(regmap::ProcessorPort& port,
                                                         regmap::PanicReason reason, std::uint32_t cause,
                                                         std::uint64_t address) {
    panic(port, {.reason = reason,
                 .cause = cause,
                 .pc = reinterpret_cast<std::uint64_t>(__builtin_return_address(0)) - 2,
                 .address = address,
                 .stack_pointer = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0))});
}

}  // namespace plait::port
