// The firmware as native code: the template over its HAL, instantiated over the device model.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>
#include <span>

#include <plait/sim/models/device.hpp>

namespace plait::sim {

/// Firmware's memory: pages that it does not touch cost nothing.
class FirmwareMemory {
  public:
    /// Throws std::bad_alloc when the system has no address space left.
    explicit FirmwareMemory(size_t length_bytes)
        : length_bytes_(length_bytes),
          bytes_(mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
        if (bytes_ == MAP_FAILED) {
            throw std::bad_alloc();
        }
    }
    ~FirmwareMemory() { munmap(bytes_, length_bytes_); }
    FirmwareMemory(const FirmwareMemory&) = delete;
    FirmwareMemory& operator=(const FirmwareMemory&) = delete;

    std::span<std::byte> span() { return {static_cast<std::byte*>(bytes_), length_bytes_}; }

  private:
    size_t length_bytes_;
    void* bytes_;
};

/// `Firmware` is the class template firmware::Firmware, or one with the same members.
template <template <class> class Firmware>
class NativeFirmware final : public DeviceFirmware {
  public:
    NativeFirmware(DeviceModel& hal, const firmware::DeviceConfig& config)
        : memory_(Firmware<DeviceModel>::memory_bytes(config)), firmware_(hal, config, memory_.span()) {}

    void on_register_write(uint32_t offset, uint32_t value) override {
        firmware_.on_register_write(offset, value);
    }
    uint32_t read_register(uint32_t offset) override { return firmware_.read_register(offset); }
    void on_drop(regmap::DropReason reason) override { firmware_.registers().count_drop(reason); }
    void on_packet(const firmware::PacketEvent& event) override { firmware_.on_packet(event); }
    void on_scale_up(const firmware::ScaleUpEvent& event) override { firmware_.on_scale_up(event); }
    void on_scale_up_sent(uint32_t tag) override { firmware_.on_scale_up_sent(tag); }
    void on_fetched(firmware::FetchTag tag, regmap::Status status, std::span<const uint8_t> bytes) override {
        firmware_.on_fetched(tag, status, bytes);
    }
    void on_reduced(uint32_t sum, firmware::BufferId result) override { firmware_.on_reduced(sum, result); }
    void on_transmit_credit(uint8_t plane) override { firmware_.on_transmit_credit(plane); }
    void on_timer(firmware::TimerId timer) override { firmware_.on_timer(timer); }
    void on_port_change(uint8_t plane, bool up) override { firmware_.on_port_change(plane, up); }
    void on_scale_up_port(uint8_t local, bool up) override { firmware_.on_scale_up_port(local, up); }

    Firmware<DeviceModel>& firmware() { return firmware_; }

  private:
    FirmwareMemory memory_;
    Firmware<DeviceModel> firmware_;
};

/// A FirmwareFactory for the native firmware: `make_native_firmware<firmware::Firmware>`.
template <template <class> class Firmware>
std::unique_ptr<DeviceFirmware> make_native_firmware(DeviceModel& hal, const firmware::DeviceConfig& config) {
    return std::make_unique<NativeFirmware<Firmware>>(hal, config);
}

}  // namespace plait::sim
