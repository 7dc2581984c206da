#include "device.hpp"

#include <string>

namespace plait {
namespace {

using namespace regmap;

constexpr std::uint32_t all_ones = ~std::uint32_t{0};
constexpr std::uint64_t state_poll_ns = 10'000;

}  // namespace

Result<void> Device::known() const {
    if (failure_) return *failure_;
    return {};
}

Result<void> Device::look() {
    const auto state = read(reg::state_offset);
    if (!state) return state.error();
    if ((state.value() & reg::state_fatal_mask) == 0) return {};
    const auto why =
        static_cast<Status>((state.value() & reg::state_fatal_status_mask) >> reg::state_fatal_status_shift);
    failure_ = Error{Status::device_fatal, std::string("the device stopped itself: ") + name(why)};
    return *failure_;
}

Result<std::uint32_t> Device::read(std::uint32_t offset) {
    if (failure_) return *failure_;
    const std::uint32_t value = link_.read_register(offset);
    // All ones may be a value; no device that is there says so of removed_check.
    if (value != all_ones || link_.read_register(reg::removed_check_offset) == 0) return value;
    failure_ = Error{Status::device_removed, "the device is gone: its registers read all ones"};
    return *failure_;
}

void Device::write(std::uint32_t offset, std::uint32_t value) { link_.write_register(offset, value); }

void Device::ring_doorbell(std::uint32_t queue, std::uint16_t index) {
    publish_before_doorbell();
    write(reg::doorbell_offset + queue * reg::doorbell_stride, index);
    ++statistics_.doorbells;
}

Result<void> Device::reset() {
    if (!is_removed()) failure_.reset();
    write(reg::control_offset, reg::control_reset_mask);
    return wait_state(reg::state_ready_mask | reg::state_enabled_mask | reg::state_fatal_mask,
                      reg::state_ready_mask, "reset");
}

Result<void> Device::wait_state(std::uint32_t bits, std::uint32_t expected, const char* what) {
    const std::uint64_t deadline = deadline_ns(options_.timeout_ns);
    for (;;) {
        const auto state = read(reg::state_offset);
        if (!state) return state.error();
        if ((state.value() & bits) == expected) return {};
        const std::uint64_t now = link_.now_ns();
        if (now >= deadline)
            return Error{Status::timeout, std::string("no ") + what + " within " +
                                              std::to_string(options_.timeout_ns) + " ns, state register " +
                                              std::to_string(state.value())};
        link_.wait_interrupt(std::min(deadline - now, state_poll_ns));
    }
}

std::uint64_t Device::deadline_ns(std::uint64_t timeout_ns) const {
    const std::uint64_t now = link_.now_ns();
    constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();
    return timeout_ns < never - now ? now + timeout_ns : never;
}

bool Device::wait_interrupt(std::uint64_t deadline) {
    const std::uint64_t now = link_.now_ns();
    if (now >= deadline) return false;
    const bool interrupted = link_.wait_interrupt(std::min(deadline - now, options_.removal_check_ns));
    if (interrupted) ++statistics_.interrupts;
    return interrupted;
}

}  // namespace plait
