#include <plait/sim/riscv/riscv_firmware.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include <plait/sim/models/firmware_error.hpp>

namespace plait::sim {

using regmap::EventKind;
using regmap::FirmwareEvent;

RiscvFirmware::RiscvFirmware(DeviceModel& hal, const firmware::DeviceConfig& config,
                             std::shared_ptr<Processor> processor)
    : hal_(hal), planes_(config.planes), processor_(std::move(processor)), memory_(*processor_, config) {
    EngineMemory& engines = hal_.engine_memory();
    regmap::ProcessorPort& port = memory_.port();
    port.queue_pairs = static_cast<uint32_t>(engines.windows().size());
    port.windows = reinterpret_cast<uint64_t>(engines.windows().data());
    port.sprays = reinterpret_cast<uint64_t>(engines.sprays().data());
    processor_->map(engines.pages());
    context_ = {"device " + std::to_string(config.device_number),
                &port,
                memory_.stack(),
                memory_.pages(),
                engines.pages(),
                this};
    update_port();
    if (Profile* const profile = processor_->profile()) profile->begin("start");
    handling_ = true;
    processor_->start(context_);
    carry_out_commands();
    handling_ = false;
}

RiscvFirmware::~RiscvFirmware() { processor_->unmap(hal_.engine_memory().pages()); }

// ---- events

std::byte* RiscvFirmware::slot() const {
    const regmap::ProcessorPort& port = *context_.port;
    return reinterpret_cast<std::byte*>(port.events) +
           uint64_t{port.event_produced % regmap::event_slots} * regmap::event_slot_bytes;
}

FirmwareEvent& RiscvFirmware::event(EventKind kind) {
    auto& event = *reinterpret_cast<FirmwareEvent*>(slot());
    event = FirmwareEvent{};
    event.kind = kind;
    return event;
}

template <class Header>
void RiscvFirmware::put_header(const Header& header) {
    ::new (slot() + regmap::event_packet_offset) Header(header);
}

void RiscvFirmware::put_data(FirmwareEvent& event, std::span<const uint8_t> bytes) {
    event.data_bytes = static_cast<uint32_t>(bytes.size());
    if (!bytes.empty()) std::memcpy(slot() + regmap::event_data_offset, bytes.data(), bytes.size());
}

void RiscvFirmware::update_port() {
    regmap::ProcessorPort& port = *context_.port;
    port.now_ns = hal_.now_ns();
    port.ports_up = 0;
    for (uint8_t plane = 0; plane < planes_; ++plane)
        if (hal_.port_up(plane)) port.ports_up |= 1U << plane;
}

// The event in the slot.
void RiscvFirmware::serve() {
    if (Profile* const profile = processor_->profile()) profile->begin(kind_of_event());
    ++context_.port->event_produced;
    processor_->serve(context_);
}

void RiscvFirmware::handle() {
    update_port();
    handling_ = true;
    charged_ = charged_to_sends_ = 0;
    serve();
    carry_out_commands();
    charge_until(processor_->instructions());
    handling_ = false;
    if (!drops_.empty()) deliver_drops();
}

// For people: what tells one handler's work from another's.
std::string RiscvFirmware::kind_of_event() const {
    const auto& event = *reinterpret_cast<const FirmwareEvent*>(slot());
    const std::byte* const header = slot() + regmap::event_packet_offset;
    std::string kind = name(event.kind);
    if (event.kind == EventKind::packet || event.kind == EventKind::data_packet)
        kind = std::string("packet ") + name(reinterpret_cast<const firmware::Packet*>(header)->opcode);
    if (event.kind == EventKind::scale_up)
        kind += std::string(" ") + name(reinterpret_cast<const firmware::ScaleUpHeader*>(header)->kind);
    return kind;
}

// An engine counts these: no core's time goes into them.
void RiscvFirmware::deliver_drops() {
    for (const regmap::DropReason reason : std::exchange(drops_, {})) {
        event(EventKind::drop).number = static_cast<uint32_t>(reason);
        serve();
    }
}

void RiscvFirmware::on_drop(regmap::DropReason reason) {
    drops_.push_back(reason);
    if (!handling_) deliver_drops();
}

void RiscvFirmware::on_register_write(uint32_t offset, uint32_t value) {
    FirmwareEvent& event = this->event(EventKind::register_write);
    event.number = offset;
    event.value = value;
    handle();
}

uint32_t RiscvFirmware::read_register(uint32_t offset) {
    update_port();
    event(EventKind::register_read).number = offset;
    serve();
    carry_out_commands();
    return processor_->fault() ? UINT32_MAX : context_.port->answer;
}

void RiscvFirmware::on_packet(const firmware::PacketEvent& packet) {
    const bool accepted =
        firmware::is_data(packet.packet.opcode) && packet.window.verdict == engines::Verdict::accept;
    FirmwareEvent& event = this->event(accepted ? EventKind::data_packet : EventKind::packet);
    put_header(packet.packet);
    event.buffer = packet.buffer;
    event.verdict = static_cast<uint8_t>(packet.window.verdict);
    event.cumulative_psn = packet.window.cumulative_psn;
    event.advanced = packet.window.advanced ? 1 : 0;
    event.hole = packet.window.hole ? 1 : 0;
    put_data(event, packet.control);
    paths_.begin(packet.packet, accepted, packet.window.cumulative_psn);
    const uint64_t confirmed_before = confirmed(packet.packet.qpn);
    handle();
    paths_.end(charged_ - charged_to_sends_, confirmed(packet.packet.qpn) - confirmed_before);
}

// Packets of a queue pair, since it was connected.
uint64_t RiscvFirmware::confirmed(uint32_t qpn) {
    const firmware::QueuePair* const qp = firmware().transport().queue_pair(qpn);
    return qp == nullptr ? 0 : qp->base;
}

void RiscvFirmware::on_scale_up(const firmware::ScaleUpEvent& frame) {
    FirmwareEvent& event = this->event(EventKind::scale_up);
    put_header(frame.header);
    event.buffer = frame.buffer;
    put_data(event, frame.control);
    handle();
}

void RiscvFirmware::on_scale_up_sent(uint32_t tag) {
    event(EventKind::scale_up_sent).number = tag;
    handle();
}

void RiscvFirmware::on_fetched(firmware::FetchTag tag, regmap::Status status,
                               std::span<const uint8_t> bytes) {
    FirmwareEvent& event = this->event(EventKind::fetched);
    event.selector = static_cast<uint8_t>(tag.owner);
    event.number = tag.label;
    event.status = status;
    put_data(event, bytes);
    handle();
}

void RiscvFirmware::on_reduced(uint32_t sum, firmware::BufferId result) {
    FirmwareEvent& event = this->event(EventKind::reduced);
    event.number = sum;
    event.buffer = result;
    handle();
}

void RiscvFirmware::on_transmit_credit(uint8_t plane, uint32_t payload_bytes) {
    FirmwareEvent& event = this->event(EventKind::transmit_credit);
    event.selector = plane;
    event.number = payload_bytes;
    handle();
}

void RiscvFirmware::on_timer(firmware::TimerId timer) {
    FirmwareEvent& event = this->event(EventKind::timer);
    event.selector = static_cast<uint8_t>(timer.kind);
    event.number = timer.number;
    handle();
}

void RiscvFirmware::on_port_change(uint8_t plane, bool up) {
    FirmwareEvent& event = this->event(EventKind::port_change);
    event.selector = plane;
    event.is_up = up ? 1 : 0;
    handle();
}

void RiscvFirmware::on_scale_up_port(uint8_t local, bool up) {
    FirmwareEvent& event = this->event(EventKind::scale_up_port);
    event.selector = local;
    event.is_up = up ? 1 : 0;
    handle();
}

// ---- registers of firmware

uint32_t RiscvFirmware::read_register_of_firmware(uint32_t offset) {
    namespace reg = regmap::reg;
    const uint32_t counter = (offset - reg::non_finite_count_offset) / reg::non_finite_count_stride;
    if (offset < reg::non_finite_count_offset || counter >= reg::non_finite_count_count) return 0;
    carry_out_commands();
    try {
        return hal_.take_non_finite(counter);
    } catch (const FirmwareError& error) {
        processor_->fail(context_, error.what());
        return 0;
    }
}

void RiscvFirmware::write_register_of_firmware(uint32_t offset, uint32_t) {
    if (offset == regmap::reg::command_doorbell_offset) carry_out_commands();
}

}  // namespace plait::sim
