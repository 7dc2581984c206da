#include <plait/sim/app/catalogue.hpp>
#include <plait/sim/app/firmware_place.hpp>
#include <plait/sim/app/simulate.hpp>

namespace plait::sim {
namespace {

FirmwareImage load_image(const Scenario& scenario) {
    try {
        return FirmwareImage::load(find_firmware_image(scenario.firmware_image));
    } catch (const ImageError& error) {
        throw InputError(error.what());
    }
}

}  // namespace

void check_firmware(const Scenario& scenario) {
    if (scenario.firmware == FirmwarePlace::riscv) (void)load_image(scenario);
}

std::shared_ptr<Processor> make_processor(const Scenario& scenario, bool profile) {
    if (scenario.firmware != FirmwarePlace::riscv) return nullptr;
    try {
        auto processor = std::make_shared<Processor>(
            load_image(scenario), scenario.device.watchdog_instructions, scenario.device.engines);
        if (profile) processor->start_profile();
        return processor;
    } catch (const ImageError& error) {
        throw InputError(error.what());
    }
}

FirmwareFactory firmware_factory(std::shared_ptr<Processor> processor) {
    if (processor == nullptr) return make_native_firmware<firmware::Firmware>;
    return [processor = std::move(processor)](
               DeviceModel& hal, const firmware::DeviceConfig& config) -> std::unique_ptr<DeviceFirmware> {
        return std::make_unique<RiscvFirmware>(hal, config, processor);
    };
}

}  // namespace plait::sim
