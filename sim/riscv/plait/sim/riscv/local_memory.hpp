// Local memory of a device's processor: stack, port, rings, and firmware's objects and tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <plait/firmware/commands.hpp>
#include <plait/port/image.hpp>
#include <plait/sim/riscv/processor.hpp>

namespace plait::sim {

/// Pages at a place that depends on nothing but the order in which devices are made, so that what firmware
/// does with addresses is the same each time. Pages that nobody touches cost nothing.
class LocalMemory {
  public:
    /// Throws std::bad_alloc when the place is taken or the tables do not fit.
    LocalMemory(Processor& processor, const firmware::DeviceConfig& config);
    ~LocalMemory();
    LocalMemory(const LocalMemory&) = delete;
    LocalMemory& operator=(const LocalMemory&) = delete;

    regmap::ProcessorPort& port() { return *port_; }
    port::ImageState& state() { return *reinterpret_cast<port::ImageState*>(port_->state); }
    const port::ImageState& state() const { return *reinterpret_cast<const port::ImageState*>(port_->state); }
    std::span<std::byte> pages() { return pages_; }
    std::span<std::byte> stack() { return stack_; }
    /// The most of the stack that was ever in use.
    uint64_t stack_used_bytes() const;

  private:
    Processor& processor_;
    std::byte* base_;
    std::span<std::byte> pages_;  // without the guard
    std::span<std::byte> stack_;
    regmap::ProcessorPort* port_;
};

}  // namespace plait::sim
