#pragma once
// Where a core without events sleeps.

#include <plait/regmap.hpp>

namespace plait::port {

#ifdef __riscv
/// Sleeps until there may be an event. Nothing is in the core's registers meanwhile but the port in s0: the
/// simulator's processor stops at plait_wait, and goes on behind it for whichever device has an event. An
/// image has one call of this.
[[gnu::always_inline]] inline regmap::ProcessorPort* wait_for_event(regmap::ProcessorPort* at) {
    register regmap::ProcessorPort* port asm("s0") = at;
    asm volatile(
        ".globl plait_wait\n"
        "plait_wait:\n"
        ".option push\n"
        ".option norvc\n"
        "wfi\n"
        ".option pop\n"
        : "+r"(port)
        :
        : "memory", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "ra", "a0", "a1",
          "a2", "a3", "a4", "a5", "a6", "a7", "t0", "t1", "t2", "t3", "t4", "t5", "t6");
    return port;
}
#endif

}  // namespace plait::port
