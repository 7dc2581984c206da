#pragma once
// What the firmware image keeps in local memory. The simulator includes this to know the layout.

#include <cstddef>
#include <plait/firmware/firmware.hpp>
#include <plait/port/ring_hal.hpp>

namespace plait::port {

using Firmware = firmware::Firmware<RingHal>;

/// Made at start-up in the room that ProcessorPort.state names.
struct ImageState {
    explicit ImageState(regmap::ProcessorPort& port)
        : hal(port),
          firmware(hal, *reinterpret_cast<const firmware::DeviceConfig*>(port.configuration),
                   {reinterpret_cast<std::byte*>(port.memory), port.memory_bytes}) {}

    RingHal hal;
    Firmware firmware;
};

static_assert(sizeof(firmware::Packet) <= regmap::event_data_offset - regmap::event_packet_offset);
static_assert(sizeof(firmware::ScaleUpHeader) <= regmap::event_data_offset - regmap::event_packet_offset);

/// What an image built from these sources begins with.
inline constexpr regmap::FirmwareImage image_header{.magic = regmap::firmware_magic,
                                                    .regmap_version = regmap::regmap_version,
                                                    .packet_bytes = sizeof(firmware::Packet),
                                                    .frame_bytes = sizeof(firmware::ScaleUpHeader),
                                                    .window_bytes = sizeof(firmware::ReceiveQp),
                                                    .spray_bytes = sizeof(engines::SpraySelector),
                                                    .payload_bytes = sizeof(firmware::Payload),
                                                    .reserved = 0,
                                                    .state_bytes = sizeof(ImageState)};

}  // namespace plait::port
