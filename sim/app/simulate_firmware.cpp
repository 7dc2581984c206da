#include <algorithm>

#include <plait/sim/app/catalogue.hpp>
#include <plait/sim/app/firmware_place.hpp>
#include <plait/sim/app/simulate.hpp>
#include <plait/sim/fabric/random.hpp>

namespace plait::sim {
namespace {

// What make() makes; InputError instead of ImageError.
template <class Make>
auto or_refuse(Make make) {
    try {
        return make();
    } catch (const ImageError& error) {
        throw InputError(error.what());
    }
}

FirmwareImage load_image(const Scenario& scenario) {
    return FirmwareImage::load(find_firmware_image(scenario.firmware_image));
}

}  // namespace

void check_firmware(const Scenario& scenario) {
    if (scenario.firmware != FirmwarePlace::riscv) return;
    if (scenario.engines == EnginePlace::rtl) {
        throw InputError(
            scenario.file.string() +
            ": engines = \"rtl\" with an image, which does what windows and sprays do by itself; "
            "expected firmware = \"native\"");
    }
    (void)or_refuse([&] { return load_image(scenario); });
}

EngineBlocksFactory engine_blocks_factory(const Scenario& scenario, EnginesDiffer differs) {
    if (scenario.engines == EnginePlace::cpp) return {};
    return [&scenario, differs = std::move(differs)](uint32_t device) -> std::unique_ptr<EngineBlocks> {
        if (!std::ranges::binary_search(scenario.rtl_devices, device)) return nullptr;
        return make_verilated_engines(device, hash_combine(scenario.seed, device), differs,
                                      scenario.rtl_blocks);
    };
}

std::shared_ptr<Processor> make_processor(const Scenario& scenario, bool profile) {
    if (scenario.firmware != FirmwarePlace::riscv) return nullptr;
    auto processor = or_refuse([&] {
        return std::make_shared<Processor>(load_image(scenario), scenario.device.watchdog_instructions,
                                           scenario.device.engines);
    });
    if (profile) processor->start_profile();
    return processor;
}

FirmwareFactory firmware_factory(std::shared_ptr<Processor> processor) {
    if (processor == nullptr) return make_native_firmware<firmware::Firmware>;
    return [processor = std::move(processor)](
               DeviceModel& hal, const firmware::DeviceConfig& config) -> std::unique_ptr<DeviceFirmware> {
        return std::make_unique<RiscvFirmware>(hal, config, processor);
    };
}

}  // namespace plait::sim
