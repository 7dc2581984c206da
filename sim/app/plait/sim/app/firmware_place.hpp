// Where the firmware of a run executes (natively, or as an image on a processor), and what its engines are.
#pragma once

#include <memory>

#include <plait/firmware/firmware.hpp>
#include <plait/sim/app/scenario.hpp>
#include <plait/sim/models/native_firmware.hpp>
#include <plait/sim/riscv/riscv_firmware.hpp>
#include <plait/sim/verilated/verilated_engines.hpp>

namespace plait::sim {

/// The processor that runs the scenario's image for all devices; null for native firmware. Throws InputError
/// for an image that cannot be run. With `profile` it notes from the start where instructions go.
std::shared_ptr<Processor> make_processor(const Scenario& scenario, bool profile);

/// Firmware on this processor; natively where it is null.
FirmwareFactory firmware_factory(std::shared_ptr<Processor> processor);

/// Blocks for the scenario's devices that are to have them; empty when none is. `scenario` outlives it.
EngineBlocksFactory engine_blocks_factory(const Scenario& scenario, EnginesDiffer differs);

/// Calls look(firmware) with the firmware's own objects, wherever it executes.
template <class Look>
auto look_at(DeviceFirmware& firmware, Look look) {
    if (auto* image = dynamic_cast<RiscvFirmware*>(&firmware)) return look(image->firmware());
    return look(dynamic_cast<NativeFirmware<firmware::Firmware>&>(firmware).firmware());
}

}  // namespace plait::sim
