// The firmware as an image on an instruction-set simulator: events go into its ring, commands come out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <plait/sim/models/device.hpp>
#include <plait/sim/models/device_firmware.hpp>
#include <plait/sim/riscv/local_memory.hpp>
#include <plait/sim/riscv/path_counts.hpp>
#include <plait/sim/riscv/processor.hpp>

namespace plait::sim {

/// One of these a device. An event is handled when it is given; the commands are carried out after that, in
/// their order, each when the instructions before it would have been executed.
class RiscvFirmware final : public DeviceFirmware, private FirmwareRegisters {
  public:
    /// `processor` may be that of other devices too. Throws std::bad_alloc. A fault of firmware is the
    /// processor's.
    RiscvFirmware(DeviceModel& hal, const firmware::DeviceConfig& config,
                  std::shared_ptr<Processor> processor);
    ~RiscvFirmware() override;

    void on_register_write(uint32_t offset, uint32_t value) override;
    uint32_t read_register(uint32_t offset) override;
    void on_drop(regmap::DropReason reason) override;
    void on_packet(const firmware::PacketEvent& event) override;
    void on_scale_up(const firmware::ScaleUpEvent& event) override;
    void on_scale_up_sent(uint32_t tag) override;
    void on_fetched(firmware::FetchTag tag, regmap::Status status, std::span<const uint8_t> bytes) override;
    void on_reduced(uint32_t sum, firmware::BufferId result) override;
    void on_transmit_credit(uint8_t plane, uint32_t payload_bytes) override;
    void on_timer(firmware::TimerId timer) override;
    void on_port_change(uint8_t plane, bool up) override;
    void on_scale_up_port(uint8_t local, bool up) override;

    const uint32_t* message_counter() const override { return &memory_.state().firmware.ep().messages(); }

    /// To be looked at between events: what the image keeps has one layout here and there.
    port::Firmware& firmware() { return memory_.state().firmware; }
    const LocalMemory& memory() const { return memory_; }
    const Processor& processor() const { return *processor_; }
    const PathCounts& paths() const { return paths_; }

  private:
    uint32_t read_register_of_firmware(uint32_t offset) override;
    void write_register_of_firmware(uint32_t offset, uint32_t value) override;

    std::byte* slot() const;
    regmap::FirmwareEvent& event(regmap::EventKind kind);
    template <class Header>
    void put_header(const Header& header);
    void put_data(regmap::FirmwareEvent& event, std::span<const uint8_t> bytes);
    void handle();
    void serve();
    uint64_t confirmed(uint32_t qpn);
    std::string kind_of_event() const;
    void update_port();
    void deliver_drops();

    void carry_out_commands();
    const regmap::FirmwareCommand& next_command();
    void charge_until(uint64_t instructions);
    void carry_out(const regmap::FirmwareCommand& command);
    void carry_out_send(const regmap::FirmwareCommand& command);
    void carry_out_scale_up(const regmap::FirmwareCommand& command);
    void carry_out_reduction(const regmap::FirmwareCommand& command);
    void count_drop(uint32_t reason);

    DeviceModel& hal_;
    const uint8_t planes_;
    std::shared_ptr<Processor> processor_;
    LocalMemory memory_;
    FirmwareContext context_;
    uint64_t charged_ = 0;           // instructions of the event being handled
    uint64_t charged_to_sends_ = 0;  // of these
    PathCounts paths_;
    bool handling_ = false;
    std::vector<regmap::DropReason> drops_;  // counted while an event is handled
};

}  // namespace plait::sim
