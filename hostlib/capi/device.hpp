#pragma once
// What is behind the opaque types of plait.h.

#include <plait/plait.h>

#include <cstdint>
#include <memory>
#include <plait/device_link.hpp>
#include <plait/driver.hpp>
#include <plait/registered_memory.hpp>

namespace plait::capi {

/// The caller's functions as a DeviceLink.
class CLink final : public DeviceLink {
  public:
    explicit CLink(const plait_link& link) : link_(link) {}

    std::uint32_t read_register(std::uint32_t offset) override {
        return link_.read_register(link_.context, offset);
    }
    void write_register(std::uint32_t offset, std::uint32_t value) override {
        link_.write_register(link_.context, offset, value);
    }
    std::optional<SharedMemory> allocate(std::size_t length_bytes) override;
    void free(const SharedMemory& memory) override;
    bool wait_interrupt(std::uint64_t timeout_ns) override {
        return link_.wait_interrupt(link_.context, timeout_ns) != 0;
    }
    [[nodiscard]] std::uint64_t now_ns() const override { return link_.now_ns(link_.context); }

  private:
    const plait_link link_;
};

inline BufferView view_of(const plait_buffer& buffer) {
    return {buffer.device_address, buffer.length_bytes, buffer.key, static_cast<std::byte*>(buffer.host)};
}

}  // namespace plait::capi

struct plait_device {
    explicit plait_device(const plait_link& functions) : link(functions) {}

    plait::capi::CLink link;
    std::unique_ptr<plait::Driver> driver;
    std::uint64_t users = 0;  ///< Memory and groups that live on it.
};

struct plait_memory {
    plait_device* device;
    plait::BufferView view;
    plait::RegisteredMemory own;  ///< Holds nothing when the memory is the caller's.
    bool is_callers;
};
