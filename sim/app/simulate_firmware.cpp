#include <plait/sim/app/catalogue.hpp>
#include <plait/sim/app/firmware_place.hpp>
#include <plait/sim/app/simulate.hpp>

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
    if (scenario.firmware == FirmwarePlace::riscv) (void)or_refuse([&] { return load_image(scenario); });
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
