#pragma once

// What an engine does by itself, where the device has it. In an image for a processor such functions stay
// functions, so that whoever counts instructions can tell what firmware executes from what stands for an
// engine.
#if defined(__riscv)
#define PLAIT_ENGINE_CALL [[gnu::noinline]]
#else
#define PLAIT_ENGINE_CALL
#endif
