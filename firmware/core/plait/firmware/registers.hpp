#pragma once
// The register file as the driver sees it: life cycle, interrupts, counters, doorbells.

#include <algorithm>
#include <array>
#include <cstdint>
#include <plait/firmware/arena.hpp>
#include <plait/regmap.hpp>

namespace plait::firmware {

using regmap::DropReason;
using regmap::Status;

/// Version of this firmware, as in the firmware_version register.
inline constexpr std::uint32_t firmware_version = 0 << regmap::reg::firmware_version_major_shift |
                                                  1 << regmap::reg::firmware_version_minor_shift |
                                                  0 << regmap::reg::firmware_version_patch_shift;

/// Bits of interrupt_status.
inline constexpr std::uint32_t interrupt_completion = regmap::reg::interrupt_status_completion_mask;
inline constexpr std::uint32_t interrupt_port_change = regmap::reg::interrupt_status_port_change_mask;
inline constexpr std::uint32_t interrupt_fatal = regmap::reg::interrupt_status_fatal_mask;
inline constexpr std::uint32_t interrupt_all = interrupt_completion | interrupt_port_change | interrupt_fatal;

/// Needs of its Context: config(), hal().port_up(plane), hal().interrupt(bits), queues().on_doorbell(queue,
/// value), queues().open_admin(...), and reset(): every module forgets its objects (this one has done so
/// before).
template <class Context>
class Registers {
  public:
    Registers(Context& context, Arena&) : context_(context) {}

    /// Undefined and write-only offsets read 0.
    [[nodiscard]] std::uint32_t read(std::uint32_t offset) const {
        using namespace regmap;
        switch (offset) {
            case reg::magic_offset: return reg::magic_reset_value;
            case reg::regmap_version_offset: return regmap_version;
            case reg::firmware_version_offset: return firmware_version;
            case reg::control_offset: return enabled_ ? reg::control_enable_mask : 0;
            case reg::state_offset: return state();
            case reg::planes_offset: return context_.config().planes;
            case reg::port_state_offset: return port_state();
            case reg::device_number_offset: return context_.config().device_number;
            case reg::admin_queue_low_offset: return static_cast<std::uint32_t>(admin_queue_);
            case reg::admin_queue_high_offset: return static_cast<std::uint32_t>(admin_queue_ >> 32);
            case reg::admin_completion_low_offset: return static_cast<std::uint32_t>(admin_completion_);
            case reg::admin_completion_high_offset:
                return static_cast<std::uint32_t>(admin_completion_ >> 32);
            case reg::admin_log2_entries_offset: return admin_log2_entries_;
            case reg::interrupt_status_offset: return interrupt_status_;
            case reg::interrupt_enable_offset: return interrupt_enable_;
            case reg::qp_time_limit_us_offset: return qp_time_limit_us_;
            case reg::limit_qps_offset: return context_.config().max_qps;
            case reg::limit_memory_regions_offset: return context_.config().max_memory_regions;
            case reg::limit_groups_offset: return context_.config().max_groups;
            case reg::removed_check_offset: return 0;
            default: return read_drop_count(offset);
        }
    }

    /// Writes to read-only and undefined offsets change nothing; nor do writes to the administration queue's
    /// description once the device is enabled, or anything but a reset on a device that stopped itself.
    void write(std::uint32_t offset, std::uint32_t value) {
        using namespace regmap;
        if (offset == reg::control_offset) return write_control(value);
        if (is_fatal()) return;
        switch (offset) {
            case reg::admin_queue_low_offset: return describe_low(admin_queue_, value);
            case reg::admin_queue_high_offset: return describe_high(admin_queue_, value);
            case reg::admin_completion_low_offset: return describe_low(admin_completion_, value);
            case reg::admin_completion_high_offset: return describe_high(admin_completion_, value);
            case reg::admin_log2_entries_offset:
                if (!enabled_) admin_log2_entries_ = value;
                return;
            case reg::interrupt_status_offset: return acknowledge(value);
            case reg::interrupt_enable_offset: return enable_interrupts(value);
            case reg::qp_time_limit_us_offset:
                if (value != 0) qp_time_limit_us_ = value;  // no limit at all would wait for ever
                return;
            default: break;
        }
        const std::uint32_t from_doorbells = offset - reg::doorbell_offset;  // wraps below the first
        if (enabled_ && from_doorbells < reg::doorbell_count * reg::doorbell_stride &&
            from_doorbells % reg::doorbell_stride == 0)
            context_.queues().on_doorbell(from_doorbells / reg::doorbell_stride, value);
    }

    /// Sets bits of interrupt_status; a bit that was clear and is enabled raises an interrupt. What is raised
    /// while its bit is set raises one more when the driver clears the bit: whatever the driver did not see
    /// before it cleared the bit is announced again, so that no wake-up is lost.
    void raise(std::uint32_t bits) {
        raise_again_ |= bits & interrupt_status_;
        const std::uint32_t fresh = bits & ~interrupt_status_;
        interrupt_status_ |= fresh;
        if ((fresh & interrupt_enable_) != 0) context_.hal().interrupt(fresh & interrupt_enable_);
    }

    /// A plane's link went down or came up; port_state tells which.
    void on_port_change() { raise(interrupt_port_change); }

    /// The device stops itself: queues are served no more until a reset. The first reason stays.
    void fail(Status why) {
        if (is_fatal()) return;
        fatal_status_ = why;
        enabled_ = false;
        raise(interrupt_fatal);
    }

    /// Counts a received packet that was dropped. The count stops below all ones, which would look like a
    /// removed device.
    void count_drop(DropReason reason) {
        const auto index = static_cast<std::size_t>(reason);
        if (index < drops_.size() && drops_[index] < 0xffff'fffeU) ++drops_[index];
    }

    /// Queues are served.
    [[nodiscard]] bool enabled() const { return enabled_; }
    [[nodiscard]] bool is_fatal() const { return fatal_status_ != Status::ok; }
    [[nodiscard]] std::uint32_t qp_time_limit_us() const { return qp_time_limit_us_; }

  private:
    [[nodiscard]] std::uint32_t state() const {
        using namespace regmap;
        std::uint32_t bits = reg::state_ready_mask;
        if (enabled_) bits |= reg::state_enabled_mask;
        if (is_fatal())
            bits |= reg::state_fatal_mask | static_cast<std::uint32_t>(fatal_status_)
                                                << reg::state_fatal_status_shift;
        return bits;
    }

    [[nodiscard]] std::uint32_t port_state() const {
        std::uint32_t bits = 0;
        for (std::uint8_t plane = 0; plane < context_.config().planes; ++plane)
            if (context_.hal().port_up(plane)) bits |= std::uint32_t{1} << plane;
        return bits;
    }

    [[nodiscard]] std::uint32_t read_drop_count(std::uint32_t offset) const {
        const std::uint32_t from_first = offset - regmap::reg::drop_count_offset;  // wraps below the first
        if (from_first >= drops_.size() * regmap::reg::drop_count_stride ||
            from_first % regmap::reg::drop_count_stride != 0)
            return 0;
        return drops_[from_first / regmap::reg::drop_count_stride];
    }

    void describe_low(std::uint64_t& address, std::uint32_t value) const {
        if (!enabled_) address = (address >> 32 << 32) | value;
    }

    void describe_high(std::uint64_t& address, std::uint32_t value) const {
        if (!enabled_) address = std::uint64_t{value} << 32 | static_cast<std::uint32_t>(address);
    }

    void write_control(std::uint32_t value) {
        if ((value & regmap::reg::control_reset_mask) != 0) {
            forget();
            context_.reset();
        } else if ((value & regmap::reg::control_enable_mask) != 0 && !enabled_ && !is_fatal()) {
            const Status status =
                context_.queues().open_admin(admin_queue_, admin_completion_, admin_log2_entries_);
            if (status == Status::ok) enabled_ = true;
            else fail(status);
        }
    }

    void forget() {
        admin_queue_ = admin_completion_ = 0;
        admin_log2_entries_ = 0;
        interrupt_status_ = interrupt_enable_ = raise_again_ = 0;
        qp_time_limit_us_ = regmap::reg::qp_time_limit_us_reset_value;
        drops_.fill(0);
        enabled_ = false;
        fatal_status_ = Status::ok;
    }

    void acknowledge(std::uint32_t bits) {
        interrupt_status_ &= ~bits;
        const std::uint32_t again = raise_again_ & bits;
        raise_again_ &= ~bits;
        if (again != 0) raise(again);
    }

    void enable_interrupts(std::uint32_t bits) {
        const std::uint32_t due = interrupt_status_ & bits & ~interrupt_enable_ & interrupt_all;
        interrupt_enable_ = bits & interrupt_all;
        if (due != 0) context_.hal().interrupt(due);
    }

    Context& context_;
    std::uint64_t admin_queue_ = 0;
    std::uint64_t admin_completion_ = 0;
    std::uint32_t admin_log2_entries_ = 0;
    std::uint32_t interrupt_status_ = 0;
    std::uint32_t interrupt_enable_ = 0;
    std::uint32_t raise_again_ = 0;  ///< Raised while their bits in interrupt_status were set.
    std::uint32_t qp_time_limit_us_ = regmap::reg::qp_time_limit_us_reset_value;
    std::array<std::uint32_t, regmap::reg::drop_count_count> drops_{};
    bool enabled_ = false;
    Status fatal_status_ = Status::ok;
};

}  // namespace plait::firmware
