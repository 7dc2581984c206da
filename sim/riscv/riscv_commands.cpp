// Commands of the image, carried out on the device model.
#include <plait/sim/riscv/riscv_firmware.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

#include <plait/sim/models/firmware_error.hpp>

namespace plait::sim {

using regmap::CommandKind;
using regmap::FirmwareCommand;

namespace {

template <class T>
std::span<const T> after(const FirmwareCommand& command, size_t offset, size_t count) {
    const size_t room_bytes = command.bytes - sizeof command;
    if (offset > room_bytes || count > (room_bytes - offset) / sizeof(T))
        throw FirmwareError("shorter than what it says");
    return {reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(&command + 1) + offset), count};
}

template <class T>
const T& after(const FirmwareCommand& command, size_t offset = 0) {
    return after<T>(command, offset, 1).front();
}

// Inline bytes lie in the command.
firmware::Payload payload_of(const FirmwareCommand& command, size_t offset, size_t inline_offset) {
    auto payload = after<firmware::Payload>(command, offset);
    payload.inline_bytes = after<uint8_t>(command, inline_offset, payload.inline_bytes.size());
    return payload;
}

bool sends_data(const FirmwareCommand& command) {
    return command.kind == CommandKind::send &&
           firmware::is_data(after<firmware::Draft>(command).packet.opcode);
}

firmware::TimerId timer_of(const FirmwareCommand& command) {
    if (command.selector > static_cast<uint8_t>(firmware::TimerKind::device))
        throw FirmwareError("a timer of no known kind");
    return {static_cast<firmware::TimerKind>(command.selector), command.number};
}

}  // namespace

// A command that makes no sense ends firmware, and those behind it are not carried out.
void RiscvFirmware::carry_out_commands() {
    if (processor_->fault()) return;
    regmap::ProcessorPort& port = *context_.port;
    try {
        for (uint64_t bytes = 0; port.command_done != port.command_next;) {
            const FirmwareCommand& command = next_command();
            bytes += command.bytes;
            if (bytes > regmap::command_ring_bytes) throw FirmwareError("commands beyond the ring");
            const Processor::Given given = processor_->given(port.command_done);
            if (sends_data(command)) {
                charge_until(std::max(given.send_begun, charged_));
                const uint64_t of_send = given.instructions - std::exchange(charged_, given.instructions);
                charged_to_sends_ += of_send;
                hal_.charge_send(of_send);
                paths_.sent_data(after<firmware::Draft>(command).packet.opcode, of_send);
            } else {
                charge_until(given.instructions);
                if (command.kind == CommandKind::send) paths_.sent_control();
            }
            paths_.given(command.kind);
            carry_out(command);
        }
    } catch (const FirmwareError& error) {
        processor_->fail(context_, std::string("command: ") + error.what());
    }
}

// It is taken out of the ring; firmware does not reuse its place before the others are carried out.
const FirmwareCommand& RiscvFirmware::next_command() {
    regmap::ProcessorPort& port = *context_.port;
    const uint64_t offset = port.command_done - port.commands;
    const auto& command = *reinterpret_cast<const FirmwareCommand*>(port.command_done);
    if (offset >= regmap::command_ring_bytes || offset % sizeof command != 0 ||
        command.bytes < sizeof command || command.bytes % sizeof command != 0 ||
        command.bytes > regmap::command_ring_bytes - offset)
        throw FirmwareError("a place or length that is not possible");
    port.command_done = command.kind == CommandKind::skip ? port.commands : port.command_done + command.bytes;
    return command;
}

// What the handler did before; not the packet that it sends.
void RiscvFirmware::charge_until(uint64_t instructions) {
    hal_.charge(instructions - std::exchange(charged_, instructions));
}

void RiscvFirmware::carry_out(const FirmwareCommand& command) {
    const firmware::Segment segment{command.address, command.length};
    switch (command.kind) {
        case CommandKind::skip: return;
        case CommandKind::send: return carry_out_send(command);
        case CommandKind::scale_up: return carry_out_scale_up(command);
        case CommandKind::set_timer: return hal_.set_timer(timer_of(command), command.address);
        case CommandKind::cancel_timer: return hal_.cancel_timer(timer_of(command));
        case CommandKind::fetch:
            return hal_.fetch({static_cast<firmware::FetchOwner>(command.selector), command.number}, segment);
        case CommandKind::place: return hal_.place(command.number, command.value, segment, command.flag != 0);
        case CommandKind::write:
            return hal_.write(command.address, after<uint8_t>(command, 0, command.length));
        case CommandKind::interrupt: return hal_.interrupt(command.number);
        case CommandKind::retain: return hal_.retain(command.number);
        case CommandKind::release: return hal_.release(command.number);
        case CommandKind::refused: return hal_.acceptance_withdrawn();
        case CommandKind::count_drop: return count_drop(command.number);
        default: return carry_out_reduction(command);
    }
}

void RiscvFirmware::count_drop(uint32_t reason) {
    if (reason >= regmap::drop_reason_count) throw FirmwareError("a drop for no known reason");
    hal_.count_drop(static_cast<regmap::DropReason>(reason));
}

void RiscvFirmware::carry_out_send(const FirmwareCommand& command) {
    hal_.send(after<firmware::Draft>(command).packet,
              payload_of(command, offsetof(firmware::Draft, payload), sizeof(firmware::Draft)));
}

void RiscvFirmware::carry_out_scale_up(const FirmwareCommand& command) {
    constexpr size_t header_offset = sizeof(firmware::Payload);
    constexpr size_t index_offset = header_offset + sizeof(firmware::ScaleUpHeader);
    constexpr size_t inline_offset = index_offset + regmap::max_ranks_per_node * sizeof(uint32_t);
    const auto& header = after<firmware::ScaleUpHeader>(command, header_offset);
    hal_.scale_up(command.selector, header, after<uint32_t>(command, index_offset, command.count),
                  payload_of(command, 0, inline_offset), command.flag != 0);
}

void RiscvFirmware::carry_out_reduction(const FirmwareCommand& command) {
    const auto row_format = [](uint8_t format) { return static_cast<regmap::RowFormat>(format); };
    switch (command.kind) {
        case CommandKind::reduce_open:
            return hal_.reduce_open(command.number,
                                    {command.count, command.length, row_format(command.selector),
                                     row_format(command.flag), command.value});
        case CommandKind::reduce_weigh:
            return hal_.reduce_weigh(command.number, after<float>(command, 0, command.count));
        case CommandKind::reduce_add: return hal_.reduce_add(command.number, command.selector, command.value);
        case CommandKind::reduce_read:
            return hal_.reduce_read(command.number, command.selector, {command.address, command.length});
        case CommandKind::reduce_skip: return hal_.reduce_skip(command.number, command.selector);
        case CommandKind::reduce_close: return hal_.reduce_close(command.number);
        default: throw FirmwareError("a kind that there is not");
    }
}

}  // namespace plait::sim
