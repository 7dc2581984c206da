// The processor that runs a firmware image: an instruction-set simulator that counts instructions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <plait/regmap.hpp>
#include <plait/sim/riscv/firmware_image.hpp>
#include <plait/sim/riscv/profile.hpp>

namespace plait::sim {

/// The device's side of the registers that only firmware sees.
class FirmwareRegisters {
  public:
    virtual uint32_t read_register_of_firmware(uint32_t offset) = 0;
    virtual void write_register_of_firmware(uint32_t offset, uint32_t value) = 0;

  protected:
    ~FirmwareRegisters() = default;
};

/// Where firmware sees its device's registers.
inline constexpr uint64_t register_base = 0x1000'0000;
/// Below a stack there is nothing: whoever gets there has overflowed it.
inline constexpr uint64_t stack_guard_bytes = 64 * 1024;

/// A device as the processor knows it: where its memory is, which has the same addresses for firmware as
/// here.
struct FirmwareContext {
    std::string name;
    regmap::ProcessorPort* port = nullptr;
    std::span<std::byte> stack;
    std::span<std::byte> local;    ///< Its local memory, without the guard: what its firmware may write,
    std::span<std::byte> engines;  ///< besides the state of its engines.
    FirmwareRegisters* registers = nullptr;
    uint64_t stack_pointer = 0;  ///< While the core waits.
};

/// What stopped a device's firmware, and where.
struct FirmwareFault {
    std::string summary;     ///< One line.
    std::string core_state;  ///< Registers, a line each group.
};

/// Runs the one image for all devices of a process, one event at a time: the translated code is shared.
/// Firmware that touches what is neither in the image nor in memory that was mapped, writes what is another
/// device's, executes what is no instruction, overflows its stack, or does not come to an end, stops for
/// good, and with it the processor: fault() then says why.
class Processor {
  public:
    /// `limit` is the most instructions that an event may take. Without `has_engines` what engines would do
    /// counts too. Throws ImageError when there is no memory for the simulator.
    Processor(FirmwareImage image, uint64_t limit, bool has_engines = true);
    ~Processor();
    Processor(const Processor&) = delete;
    Processor& operator=(const Processor&) = delete;

    /// Lets firmware read and write these pages, until unmap(). False: they overlap others.
    bool map(std::span<std::byte> pages);
    void unmap(std::span<std::byte> pages);

    /// From the reset vector, and from an event on, until the core waits.
    void start(FirmwareContext& context);
    void serve(const FirmwareContext& context);

    /// From now on it is noted where instructions go.
    void start_profile() { profile_.emplace(image_); }
    /// Null when nothing is noted.
    Profile* profile() { return profile_ ? &*profile_ : nullptr; }

    /// What firmware gave its device makes no sense: it stops.
    void fail(const FirmwareContext& context, std::string why);

    const FirmwareImage& image() const { return image_; }
    const std::optional<FirmwareFault>& fault() const { return fault_; }

    /// Of the run that goes on or went last.
    uint64_t instructions() const { return instructions_; }
    /// When a command was given, in instructions of the run, and when the latest data packet before it had
    /// been begun.
    struct Given {
        uint64_t instructions;
        uint64_t send_begun;
    };
    /// Of the command that ends at `address`: asked for each, in their order. What the last block gave counts
    /// as given at the end.
    Given given(uint64_t address);
    /// Of all runs.
    uint64_t total_instructions() const { return total_instructions_; }

  private:
    struct Emulator;
    struct Mark {
        uint64_t command_next;
        Given given;
    };
    static constexpr uint64_t wait_bytes = 4;  // the wait instruction itself

    void run(const FirmwareContext& context, uint64_t from);
    void block(uint64_t address, uint32_t size);
    void stop(std::string why);
    void describe_fault(const FirmwareContext& context);

    FirmwareImage image_;
    std::optional<Profile> profile_;
    const uint64_t limit_;
    const std::span<const uint32_t> instructions_before_;
    std::unique_ptr<Emulator> emulator_;
    const FirmwareContext* context_ = nullptr;
    uint64_t instructions_ = 0;
    uint64_t total_instructions_ = 0;
    uint64_t block_ = 0;
    uint64_t seen_ = 0;  // of command_next
    uint32_t sends_seen_ = 0;
    uint64_t send_begun_ = 0;
    std::vector<Mark> marks_;
    size_t next_mark_ = 0;
    std::string why_;  // it stops
    uint64_t fault_address_ = 0;
    std::optional<FirmwareFault> fault_;
};

}  // namespace plait::sim
