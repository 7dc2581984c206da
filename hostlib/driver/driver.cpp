// Bringing up, closing, and what the registers tell.

#include <plait/driver.hpp>

#include "implementation.hpp"

namespace plait {

using namespace regmap;

namespace {

std::string hex(std::uint32_t value) {
    constexpr char digits[] = "0123456789abcdef";
    std::string text = "0x";
    for (int shift = 28; shift >= 0; shift -= 4) text += digits[value >> shift & 0xf];
    return text;
}

/// Is this a Plait device of this register map?
Result<void> identify(Device& device) {
    const auto magic = device.read(reg::magic_offset);
    if (!magic) return magic.error();
    if (magic.value() != reg::magic_reset_value)
        return Error{Status::version_mismatch, "not a Plait device: magic is " + hex(magic.value()) +
                                                   ", expected " + hex(reg::magic_reset_value)};
    const auto version = device.read(reg::regmap_version_offset);
    if (!version) return version.error();
    if (version.value() != regmap_version)
        return Error{Status::version_mismatch, "the device was built from register map " +
                                                   hex(version.value()) + ", this driver from " +
                                                   hex(regmap_version)};
    return {};
}

Result<void> check(const DriverOptions& options) {
    if (options.admin_log2_entries < 2 || options.admin_log2_entries > 10)
        return Error{
            Status::invalid_parameter,
            "admin_log2_entries is " + std::to_string(options.admin_log2_entries) + ", expected 2 .. 10"};
    if (options.timeout_ns == 0 || options.removal_check_ns == 0)
        return Error{Status::invalid_parameter, "timeout_ns and removal_check_ns must be above 0"};
    return {};
}

}  // namespace

Driver::Implementation::~Implementation() {
    if (!is_up || device.is_removed() || has_let_go()) return;
    // It is there and does not confirm: it may still read and write the rings.
    admin->leave_memory();
    for (const auto& queue : queues)
        if (queue) memory_of(*queue).leave();
    for (Memory& memory : doubtful_memory) memory.leave();
}

bool Driver::Implementation::has_let_go() noexcept {
    try {
        return device.reset().ok() || device.is_removed();
    } catch (const std::bad_alloc&) {  // of the words that say what went wrong
        return false;
    }
}

Result<void> Driver::Implementation::bring_up() {
    if (auto right = identify(device); !right) return right;
    if (auto reset = device.reset(); !reset) return reset;
    if (auto read = read_info(); !read) return read;
    auto channel = AdminChannel::create(device);
    if (!channel) return channel.error();
    admin = std::move(channel.value());
    is_up = true;  // from here on the device knows memory of ours
    return admin->enable();
}

Result<void> Driver::Implementation::read_info() {
    const std::pair<std::uint32_t, std::uint32_t DeviceInfo::*> fields[] = {
        {reg::device_number_offset, &DeviceInfo::device_number},
        {reg::planes_offset, &DeviceInfo::planes},
        {reg::firmware_version_offset, &DeviceInfo::firmware_version},
        {reg::limit_qps_offset, &DeviceInfo::max_qps},
        {reg::limit_memory_regions_offset, &DeviceInfo::max_memory_regions},
        {reg::limit_groups_offset, &DeviceInfo::max_groups}};
    for (const auto& [offset, field] : fields) {
        const auto value = device.read(offset);
        if (!value) return value.error();
        info.*field = value.value();
    }
    return {};
}

Result<std::unique_ptr<Driver>> Driver::open(DeviceLink& link, const DriverOptions& options) {
    return guarded([&]() -> Result<std::unique_ptr<Driver>> {
        if (auto checked = check(options); !checked) return checked.error();
        auto implementation = std::make_unique<Implementation>(link, options);
        if (auto up = implementation->bring_up(); !up) return up.error();
        return std::unique_ptr<Driver>(new Driver(std::move(implementation)));
    });
}

Driver::Driver(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
Driver::~Driver() = default;

DeviceLink& Driver::link() { return implementation_->device.link(); }
std::uint64_t Driver::now_ns() const { return implementation_->device.link().now_ns(); }
const DeviceInfo& Driver::info() const { return implementation_->info; }
const DriverStatistics& Driver::statistics() const { return implementation_->device.statistics(); }

Result<std::uint32_t> Driver::device_number() const {
    return guarded([&]() -> Result<std::uint32_t> {
        if (auto there = implementation_->device.known(); !there) return there.error();
        return implementation_->info.device_number;
    });
}

Result<std::uint32_t> Driver::port_state() {
    return guarded(
        [&]() -> Result<std::uint32_t> { return implementation_->device.read(reg::port_state_offset); });
}

Result<std::uint32_t> Driver::drop_count(DropReason reason) {
    return guarded([&]() -> Result<std::uint32_t> {
        const auto index = static_cast<std::uint32_t>(reason);
        if (index >= reg::drop_count_count)
            return Error{Status::invalid_parameter,
                         "drop reason " + std::to_string(index) + " has no counter"};
        return implementation_->device.read(reg::drop_count_offset + index * reg::drop_count_stride);
    });
}

Result<void> Driver::set_qp_time_limit_us(std::uint32_t time_limit_us) {
    return guarded([&]() -> Result<void> {
        if (auto there = implementation_->device.known(); !there) return there;
        if (time_limit_us == 0)
            return Error{Status::invalid_parameter, "the time limit of queue pairs must be above 0"};
        implementation_->device.write(reg::qp_time_limit_us_offset, time_limit_us);
        return {};
    });
}

}  // namespace plait
