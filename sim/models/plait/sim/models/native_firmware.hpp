// The firmware as native code: the template over its HAL, instantiated over the device model.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <plait/sim/models/device.hpp>
#include <plait/sim/models/page_memory.hpp>

namespace plait::sim {

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
    void on_transmit_credit(uint8_t plane, uint32_t payload_bytes) override {
        firmware_.on_transmit_credit(plane, payload_bytes);
    }
    void on_timer(firmware::TimerId timer) override { firmware_.on_timer(timer); }
    void on_port_change(uint8_t plane, bool up) override { firmware_.on_port_change(plane, up); }
    void on_scale_up_port(uint8_t local, bool up) override { firmware_.on_scale_up_port(local, up); }
    void expect_packet(const firmware::Packet& packet) override {
        if (const auto* const qp = firmware_.transport().queue_pair(packet.qpn)) {
            prefetch(qp, sizeof *qp);
            if (packet.opcode == firmware::Opcode::mp_ack)
                prefetch(qp->small_tables, sizeof *qp->small_tables);
        }
    }
    void expect_frame(const firmware::ScaleUpHeader& header) override {
        const auto* const group = firmware_.ep().find(header.group, header.handle);
        if (group == nullptr) return;
        const auto& peers = group->handles[header.handle].peer;
        if (header.source_rank < peers.size()) prefetch(&peers[header.source_rank], sizeof peers[0]);
    }
    void expect_reduced(uint32_t sum) override {
        firmware_.ep().token_pool().expect(sum);
        firmware_.ep().entry_pool().expect(sum);
    }

    const uint32_t* message_counter() const override {
        if constexpr (requires { firmware_.ep().messages(); }) return &firmware_.ep().messages();
        return nullptr;
    }

    Firmware<DeviceModel>& firmware() { return firmware_; }

  private:
    PageMemory memory_;
    Firmware<DeviceModel> firmware_;
};

/// A FirmwareFactory for the native firmware: `make_native_firmware<firmware::Firmware>`.
template <template <class> class Firmware>
std::unique_ptr<DeviceFirmware> make_native_firmware(DeviceModel& hal, const firmware::DeviceConfig& config) {
    return std::make_unique<NativeFirmware<Firmware>>(hal, config);
}

}  // namespace plait::sim
