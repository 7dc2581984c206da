// The firmware as the device model sees it: events in. The way out is the HAL that DeviceModel offers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include <plait/firmware/commands.hpp>

namespace plait::sim {

/// One implementation runs the native firmware (native_firmware.hpp); tests have scripted ones.
class DeviceFirmware {
  public:
    virtual ~DeviceFirmware() = default;
    virtual void on_register_write(uint32_t offset, uint32_t value) = 0;
    virtual uint32_t read_register(uint32_t offset) = 0;
    /// A received packet was dropped, by an engine or on firmware's order: for the drop_count registers.
    virtual void on_drop(regmap::DropReason reason) = 0;
    virtual void on_packet(const firmware::PacketEvent& event) = 0;
    virtual void on_scale_up(const firmware::ScaleUpEvent& event) = 0;
    virtual void on_scale_up_sent(uint32_t tag) = 0;
    virtual void on_fetched(firmware::FetchTag tag, regmap::Status status,
                            std::span<const uint8_t> bytes) = 0;
    virtual void on_reduced(uint32_t sum, firmware::BufferId result) = 0;
    virtual void on_transmit_credit(uint8_t plane, uint32_t payload_bytes) = 0;
    virtual void on_timer(firmware::TimerId timer) = 0;
    virtual void on_port_change(uint8_t plane, bool up) = 0;
    virtual void on_scale_up_port(uint8_t local, bool up) = 0;
    /// The event will come in a moment: what firmware will look at may be brought into the cache. Changes
    /// nothing.
    virtual void expect_packet(const firmware::Packet&) {}
    virtual void expect_frame(const firmware::ScaleUpHeader&) {}
    virtual void expect_reduced(uint32_t) {}

    /// Where it counts messages of EP calls (firmware::Ep::messages()); null when it does not.
    virtual const uint32_t* message_counter() const { return nullptr; }
};

class DeviceModel;

/// Makes the firmware of a device; `hal` outlives it.
using FirmwareFactory =
    std::function<std::unique_ptr<DeviceFirmware>(DeviceModel& hal, const firmware::DeviceConfig& config)>;

}  // namespace plait::sim
