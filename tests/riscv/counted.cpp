// An image that executes a known number of instructions: `number` rounds of a loop with long and short
// instructions.
#include <plait/port/image.hpp>
#include <plait/port/wait.hpp>

using namespace plait;

extern "C" {

extern const regmap::FirmwareImage plait_image;
[[gnu::section(".image"), gnu::used]] const regmap::FirmwareImage plait_image = port::image_header;

void plait_start(regmap::ProcessorPort*) {}

[[noreturn, gnu::noinline, gnu::noclone]] void plait_serve(regmap::ProcessorPort* port) {
    for (;;) {
        port = port::wait_for_event(port);
        const auto& event = *reinterpret_cast<const regmap::FirmwareEvent*>(port->events);
        std::uint64_t rounds = event.number;
        // Five instructions a round: two short ones, three long ones.
        asm volatile(
            "1:\n"
            ".option push\n"
            ".option norvc\n"
            "xori t0, t0, 1\n"
            "slli t1, t0, 3\n"
            ".option pop\n"
            "addi t2, t2, 1\n"
            "addi %0, %0, -1\n"
            ".option push\n"
            ".option norvc\n"
            "bnez %0, 1b\n"
            ".option pop\n"
            : "+r"(rounds)
            :
            : "t0", "t1", "t2");
        port->event_consumed = port->event_produced;
    }
}
}
