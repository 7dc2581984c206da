#include "device.hpp"

#include <plait/c_link.hpp>

#include "boundary.hpp"

namespace plait::capi {
namespace {

constexpr plait_link no_link = PLAIT_LINK_INIT;
constexpr plait_device_options default_options = PLAIT_DEVICE_OPTIONS_INIT;

DeviceLink& link_of(void* context) { return *static_cast<DeviceLink*>(context); }

Result<void> check_link(const plait_link& link) {
    if (link.read_register == nullptr || link.write_register == nullptr || link.allocate == nullptr ||
        link.release == nullptr || link.wait_interrupt == nullptr || link.now_ns == nullptr)
        return Error{Status::invalid_parameter, "link: a function is null, expected all six"};
    return {};
}

/// Gives the caller what it asked for; the device has one user more.
void hand_over(std::unique_ptr<plait_memory> made, plait_memory** memory) {
    ++made->device->users;
    *memory = made.release();
}

}  // namespace

std::optional<SharedMemory> CLink::allocate(std::size_t length_bytes) {
    plait_shared_memory memory{};
    if (link_.allocate(link_.context, length_bytes, &memory) == 0) return std::nullopt;
    return SharedMemory{static_cast<std::byte*>(memory.host), memory.device_address, length_bytes};
}

void CLink::free(const SharedMemory& memory) {
    const plait_shared_memory given{memory.host, memory.device_address, memory.length_bytes};
    link_.release(link_.context, &given);
}

}  // namespace plait::capi

using namespace plait::capi;
using plait::Error;
using plait::Result;
using plait::Status;

plait_link plait::make_c_link(DeviceLink& link) {
    plait_link made = PLAIT_LINK_INIT;
    made.context = &link;
    made.read_register = [](void* context, uint32_t offset) {
        return link_of(context).read_register(offset);
    };
    made.write_register = [](void* context, uint32_t offset, uint32_t value) {
        link_of(context).write_register(offset, value);
    };
    made.allocate = [](void* context, uint64_t length_bytes, plait_shared_memory* memory) {
        const auto allocated = link_of(context).allocate(length_bytes);
        if (!allocated) return 0;
        *memory = {allocated->host, allocated->device_address, allocated->length_bytes};
        return 1;
    };
    made.release = [](void* context, const plait_shared_memory* memory) {
        DeviceLink& owner = link_of(context);
        const SharedMemory given{static_cast<std::byte*>(memory->host), memory->device_address,
                                 memory->length_bytes};
        owner.free(given);  // NOLINT(clang-analyzer-unix.Malloc): not the C library's
    };
    made.wait_interrupt = [](void* context, uint64_t timeout_ns) {
        return link_of(context).wait_interrupt(timeout_ns) ? 1 : 0;
    };
    made.now_ns = [](void* context) { return link_of(context).now_ns(); };
    return made;
}

plait_status plait_device_open(const plait_link* link, const plait_device_options* options,
                               plait_device** device) {
    return guard([&]() -> Result<void> {
        if (auto checked = check_pointer("device", device); !checked) return checked;
        auto functions = read_struct("link", link, no_link);
        if (!functions) return functions.error();
        if (auto checked = check_link(functions.value()); !checked) return checked;
        auto given = options == nullptr ? default_options : read_struct("options", options, default_options);
        if (!given) return given.error();
        auto made = std::make_unique<plait_device>(functions.value());
        plait::DriverOptions driver_options;
        driver_options.timeout_ns = given.value().timeout_ns;
        auto driver = plait::Driver::open(made->link, driver_options);
        if (!driver) return driver.error();
        made->driver = std::move(driver.value());
        *device = made.release();
        return {};
    });
}

plait_status plait_device_query(const plait_device* device, plait_device_info* info) {
    return guard([&]() -> Result<void> {
        if (auto checked = check_pointer("device", device); !checked) return checked;
        if (auto checked = check_head("info", info, sizeof *info); !checked) return checked;
        const plait::DeviceInfo& known = device->driver->info();
        plait_device_info value = PLAIT_DEVICE_INFO_INIT;
        value.device_number = known.device_number;
        value.planes = known.planes;
        value.firmware_version = known.firmware_version;
        value.max_groups = known.max_groups;
        write_struct(info, value);
        return {};
    });
}

plait_status plait_device_close(plait_device* device) {
    return guard([&]() -> Result<void> {
        if (auto checked = check_pointer("device", device); !checked) return checked;
        if (device->users != 0)
            return Error{Status::invalid_state, "the device has " + std::to_string(device->users) +
                                                    " memories and groups left: end them first"};
        delete device;
        return {};
    });
}

plait_status plait_memory_allocate(plait_device* device, uint64_t length_bytes, uint32_t access,
                                   plait_memory** memory) {
    return guard([&]() -> Result<void> {
        if (auto checked = check_pointer("device", device); !checked) return checked;
        if (auto checked = check_pointer("memory", memory); !checked) return checked;
        auto own = plait::RegisteredMemory::allocate(*device->driver, length_bytes, access);
        if (!own) return own.error();
        const plait::BufferView view = own.value().view();
        hand_over(std::make_unique<plait_memory>(plait_memory{device, view, std::move(own.value()), false}),
                  memory);
        return {};
    });
}

plait_status plait_memory_register(plait_device* device, uint64_t device_address, uint64_t length_bytes,
                                   void* host, uint32_t access, plait_memory** memory) {
    return guard([&]() -> Result<void> {
        if (auto checked = check_pointer("device", device); !checked) return checked;
        if (auto checked = check_pointer("memory", memory); !checked) return checked;
        auto made = std::make_unique<plait_memory>(plait_memory{device, {}, {}, true});
        auto key = device->driver->register_memory(device_address, length_bytes, access);
        if (!key) return key.error();
        made->view = {device_address, length_bytes, key.value(), static_cast<std::byte*>(host)};
        hand_over(std::move(made), memory);
        return {};
    });
}

plait_status plait_memory_buffer(const plait_memory* memory, plait_buffer* buffer) {
    return guard([&]() -> Result<void> {
        if (auto checked = check_pointer("memory", memory); !checked) return checked;
        if (auto checked = check_pointer("buffer", buffer); !checked) return checked;
        const plait::BufferView& view = memory->view;
        *buffer = {view.device_address, view.length_bytes, view.host, view.key, 0};
        return {};
    });
}

plait_status plait_memory_free(plait_memory* memory) {
    return guard([&]() -> Result<void> {
        if (auto checked = check_pointer("memory", memory); !checked) return checked;
        const std::unique_ptr<plait_memory> ended(memory);
        --memory->device->users;
        if (!memory->is_callers) return {};
        auto gone = memory->device->driver->deregister_memory(memory->view.key);
        return gone.status() == Status::device_removed ? Result<void>() : gone;
    });
}
