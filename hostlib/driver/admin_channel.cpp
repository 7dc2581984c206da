#include "admin_channel.hpp"

#include <string>

namespace plait {

using namespace regmap;

Result<std::unique_ptr<AdminChannel>> AdminChannel::create(Device& device) {
    const std::uint32_t log2_entries = device.options().admin_log2_entries;
    auto requests = Memory::allocate(device.link(), sizeof(AdminRequest) << log2_entries);
    if (!requests) return requests.error();
    auto completions = Memory::allocate(device.link(), sizeof(Completion) << log2_entries);
    if (!completions) return completions.error();
    return std::unique_ptr<AdminChannel>(new AdminChannel(
        device, RequestRing(std::move(requests.value()), QueueKind::send, sizeof(AdminRequest), log2_entries),
        CompletionRing(std::move(completions.value()), log2_entries)));
}

Result<void> AdminChannel::enable() {
    const auto write_address = [&](std::uint32_t low_offset, std::uint32_t high_offset,
                                   std::uint64_t address) {
        device_.write(low_offset, static_cast<std::uint32_t>(address));
        device_.write(high_offset, static_cast<std::uint32_t>(address >> 32));
    };
    write_address(reg::admin_queue_low_offset, reg::admin_queue_high_offset,
                  requests_.memory().device_address());
    write_address(reg::admin_completion_low_offset, reg::admin_completion_high_offset,
                  completions_.memory().device_address());
    device_.write(reg::admin_log2_entries_offset, device_.options().admin_log2_entries);
    device_.write(reg::interrupt_enable_offset,
                  reg::interrupt_status_completion_mask | reg::interrupt_status_fatal_mask);
    device_.write(reg::control_offset, reg::control_enable_mask);
    if (auto there = device_.look(); !there) return there;
    return device_.wait_state(reg::state_enabled_mask, reg::state_enabled_mask, "start");
}

Result<Completion> AdminChannel::execute(AdminRequest request) {
    if (auto there = device_.known(); !there) return there.error();
    const std::uint32_t command_id = next_command_id_++;
    Completion completion;
    (void)find(command_id, completion);  // frees entries of commands answered late
    const std::string what = name(request.opcode);
    if (requests_.free_entries() == 0)
        return Error{Status::queue_full,
                     what + ": every entry of the administration queue waits for an answer"};
    request.command_id = command_id;
    requests_.push(&request);
    device_.ring_doorbell(0, requests_.produced());
    ++device_.statistics().commands;
    const auto answered =
        device_.wait_until(device_.options().timeout_ns, [&] { return find(command_id, completion); });
    if (!answered) return answered.error();
    if (!answered.value())
        return Error{Status::timeout,
                     what + ": no answer within " + std::to_string(device_.options().timeout_ns) + " ns"};
    if (completion.status != Status::ok)
        return Error{completion.status, what + ": the device answered " + name(completion.status)};
    return completion;
}

bool AdminChannel::find(std::uint32_t command_id, Completion& completion) {
    while (completions_.take(completion)) {
        requests_.free_through(completion.request_index);
        if (completion.user_data == command_id) return true;
        ++device_.statistics().late_completions;
    }
    return false;
}

void AdminChannel::leave_memory() {
    requests_.memory().leave();
    completions_.memory().leave();
}

}  // namespace plait
