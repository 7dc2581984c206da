// The HAL's commands.
#include <algorithm>
#include <array>
#include <utility>

#include <plait/hal/hal.hpp>
#include <plait/sim/models/device.hpp>
#include <plait/sim/models/firmware_error.hpp>

namespace plait::sim {

static_assert(hal::Hal<DeviceModel>);

namespace {

constexpr uint32_t max_fetch_bytes = 4096;

void read(HostMemory& memory, std::span<const firmware::Segment> segments, uint8_t* to) {
    for (const firmware::Segment& segment : segments) {
        memory.read(segment.address, std::as_writable_bytes(std::span(to, segment.length)));
        to += segment.length;
    }
}

void read_block(PayloadPool&, PayloadBlock& block) {
    const uint32_t first_length = block.first_length;
    const std::array<firmware::Segment, 2> segments{
        {{block.addresses[0], first_length}, {block.addresses[1], block.length - first_length}}};
    read(*block.memory, segments, block.bytes);
}

}  // namespace

// ---- time and planes

void DeviceModel::set_timer(firmware::TimerId timer, uint64_t time_ns) {
    cores_.add(WorkPart::timer);
    if (time_ns >= EventQueue::never / 1000) {
        timers_.cancel(timer);
    } else {
        timers_.set(timer, time_ns * 1000);
    }
}

void DeviceModel::send(const firmware::Packet& packet, const firmware::Payload& payload) {
    if (dead_) {
        return;
    }
    if (packet.plane >= config_.planes) {
        throw FirmwareError("send by a plane that does not exist");
    }
    const bool is_data = firmware::is_data(packet.opcode);
    cores_.add(is_data ? WorkPart::data : WorkPart::control);
    const uint64_t issued_ps =
        is_data ? departs_ps(cores_.send(cores_.home(packet.local_qpn), ready_ps(), row_entries(packet)))
                : ready_ps();
    const Gathered gathered = gather(payload, packet.payload_bytes, issued_ps);
    planes_.send(packet, gathered.slice, gathered.held, gathered.ready_ps);
}

// A data packet departs when its path is known; what that takes as a rule is in the latency of the pipe.
uint64_t DeviceModel::departs_ps(uint64_t issued_ps) {
    return sprays_.answered_ps(queue_.now_ps(), issued_ps, std::exchange(choice_cycles_, spray_cycles),
                               spray_cycles);
}

// The spray selectors count what each plane takes, as firmware does.
void DeviceModel::credit_plane(uint8_t plane, uint32_t bytes) {
    EngineBlocks* const spray = blocks(EngineBlock::spray);
    while (spray != nullptr && bytes != 0) {
        const auto most = static_cast<uint16_t>(std::min(bytes, 0xFFFFU));
        (void)spray->spray({.opcode = regmap::SprayOpcode::credit, .bytes = most, .plane = plane}, {});
        bytes -= most;
    }
}

DeviceModel::Gathered DeviceModel::gather(const firmware::Payload& payload, uint32_t length_bytes,
                                          uint64_t issued_ps) {
    if (length_bytes == 0) {
        return {{}, 0, issued_ps};
    }
    if (length_bytes > PayloadBlock::capacity) {
        throw FirmwareError("payload longer than a packet");
    }
    if (payload.buffer != 0) {
        const PayloadSlice& whole = packet_memory_.slice(payload.buffer);
        if (payload.buffer_offset > whole.length || length_bytes > whole.length - payload.buffer_offset) {
            throw FirmwareError("payload outside its buffer");
        }
        pools_.payload.retain(whole.block);
        packet_memory_.retain(payload.buffer);
        return {{whole.block, whole.offset + payload.buffer_offset, length_bytes}, payload.buffer, issued_ps};
    }
    if (payload.encoding.format != regmap::RowFormat::bf16) {
        PayloadBlock& block = *(virtual_payload_ ? pools_.payload.take_virtual(length_bytes)
                                                 : pools_.payload.take(length_bytes));
        block.sent_ps = issued_ps;
        return {{&block, 0, length_bytes},
                0,
                encoder_.fill(block, payload.segments[0], payload.encoding, issued_ps)};
    }
    if (payload.segment_count > payload.segments.size()) {
        throw FirmwareError("payload of more ranges of memory than there are");
    }
    const std::span<const firmware::Segment> segments(payload.segments.data(), payload.segment_count);
    uint64_t from_host = 0;
    for (const firmware::Segment& segment : segments) {
        from_host += segment.length;
    }
    if (from_host + payload.inline_bytes.size() != length_bytes) {
        throw FirmwareError("payload of another length than its header says");
    }
    PayloadBlock& block = *take_block(segments, payload.inline_bytes, length_bytes);
    block.sent_ps = issued_ps;
    return {{&block, 0, length_bytes}, 0, from_host == 0 ? issued_ps : host_.read(issued_ps, from_host)};
}

// What the host makes for its reader is read when somebody looks at it.
PayloadBlock* DeviceModel::take_block(std::span<const firmware::Segment> segments,
                                      std::span<const uint8_t> inline_bytes, uint32_t length_bytes) {
    if (virtual_payload_ && length_bytes != inline_bytes.size()) {
        for (const firmware::Segment& segment : segments) {
            memory_.touch_read(segment.address, segment.length);
        }
        return pools_.payload.take_virtual(length_bytes);
    }
    const auto is_produced = [this](const firmware::Segment& segment) {
        return memory_.is_produced(segment.address, segment.length);
    };
    if (inline_bytes.empty() && std::ranges::all_of(segments, is_produced)) {
        PayloadBlock* const block = pools_.payload.take_unmade(length_bytes, &read_block);
        block->memory = &memory_;
        block->first_length = static_cast<uint16_t>(segments[0].length);
        std::ranges::transform(segments, block->addresses.begin(), &firmware::Segment::address);
        return block;
    }
    PayloadBlock* const block = pools_.payload.take(length_bytes);
    read(memory_, segments, block->bytes);
    std::ranges::copy(inline_bytes, block->bytes + (length_bytes - inline_bytes.size()));
    return block;
}

// ---- host memory

void DeviceModel::fetch(firmware::FetchTag tag, firmware::Segment segment) {
    cores_.add(WorkPart::fetch);
    Fetch* const fetch = fetches_.take();
    *fetch = {tag, segment};
    queue_.schedule(host_.fetch(ready_ps(), std::min(segment.length, max_fetch_bytes)), 0,
                    &DeviceModel::fetched, this, reinterpret_cast<uint64_t>(fetch));
}

void DeviceModel::fetched(void* object, uint64_t argument) {
    auto& self = *static_cast<DeviceModel*>(object);
    auto* const fetch = reinterpret_cast<Fetch*>(argument);
    const auto [tag, segment] = *fetch;
    self.fetches_.give_back(fetch);
    if (self.dead_) {
        return;
    }
    self.cores_.begin(Work::fetched, tag.label, self.queue_.now_ps(),
                      size_of_work(std::min(segment.length, max_fetch_bytes)),
                      tag.owner == firmware::FetchOwner::ep ? WorkPart::size : WorkPart::record);
    if (segment.length > max_fetch_bytes) {
        self.firmware_->on_fetched(tag, regmap::Status::invalid_length, {});
        return;
    }
    alignas(8) std::array<uint8_t, max_fetch_bytes> bytes;
    const std::span<uint8_t> wanted = std::span(bytes).first(segment.length);
    const bool read = self.memory_.read(segment.address, std::as_writable_bytes(wanted));
    self.firmware_->on_fetched(tag, read ? regmap::Status::ok : regmap::Status::out_of_range,
                               read ? wanted : wanted.first(0));
}

void DeviceModel::place(BufferId buffer, uint32_t offset, firmware::Segment segment, bool release) {
    cores_.add(WorkPart::place);
    if (!dead_ && segment.length != 0) {
        place_bytes(buffer, offset, segment);
    }
    if (release) {
        packet_memory_.release(buffer, ready_ps());
    }
}

void DeviceModel::place_bytes(BufferId buffer, uint32_t offset, firmware::Segment segment) {
    const PayloadSlice& slice = packet_memory_.slice(buffer);
    if (offset > slice.length || segment.length > slice.length - offset) {
        throw FirmwareError("place of bytes outside the buffer");
    }
    const Slot slot = host_.place(ready_ps(), segment.length);
    packet_memory_.hold_until(buffer, slot.end_ps);
    if (slice.is_virtual()) {
        memory_.touch_write(segment.address, segment.length);
    } else {
        memory_.write(segment.address,
                      std::as_bytes(std::span(pools_.payload.bytes(slice) + offset, segment.length)));
    }
    if (offset == 0) {  // what follows is the same packet's
        const uint64_t visible_ps = host_.visible_ps(slot);
        counters_.latency.add((visible_ps - slice.block->sent_ps) / 1000);
        counters_.last_placement_ps = visible_ps;
    }
}

void DeviceModel::write(uint64_t device_address, std::span<const uint8_t> bytes) {
    cores_.add(WorkPart::write);
    if (!dead_ && !bytes.empty()) {
        host_.write(ready_ps(), device_address, bytes);
    }
}

void DeviceModel::interrupt(uint32_t bits) {
    if (!dead_) {
        host_.interrupt(ready_ps(), bits);
    }
}

// ---- scale-up, reduction, receive window

void DeviceModel::scale_up(uint8_t targets, const firmware::ScaleUpHeader& header,
                           std::span<const uint32_t> index, const firmware::Payload& payload, bool notify) {
    if (dead_) {
        return;
    }
    cores_.add(WorkPart::scale_up);
    const bool has_payload = header.kind != regmap::ScaleUpKind::pull;
    const auto length =
        static_cast<uint32_t>(header.kind == regmap::ScaleUpKind::control ? payload.inline_bytes.size()
                              : has_payload                               ? header.length
                                                                          : 0);
    const Gathered gathered = gather(payload, length, ready_ps());
    scale_up_.send(targets, header, index, gathered.slice, gathered.held, gathered.ready_ps, notify);
    if (gathered.slice.block != nullptr) {
        pools_.payload.release(gathered.slice.block);
    }
    packet_memory_.release(gathered.held, queue_.now_ps());
}

void DeviceModel::reduce_open(uint32_t sum, const firmware::Reduction& reduction) {
    cores_.add(WorkPart::sum);
    reduce_.open(sum, reduction, ready_ps());
}
void DeviceModel::reduce_weigh(uint32_t sum, std::span<const float> weights) {
    cores_.add(WorkPart::sum);
    reduce_.weigh(sum, weights);
}
void DeviceModel::reduce_add(uint32_t sum, uint8_t position, BufferId buffer) {
    cores_.add(WorkPart::addend);
    reduce_.add(sum, position, buffer, ready_ps());
}
void DeviceModel::reduce_read(uint32_t sum, uint8_t position, firmware::Segment row) {
    if (dead_) {
        return;
    }
    cores_.add(WorkPart::addend);
    if (row.length > PayloadBlock::sum_capacity) {
        throw FirmwareError("row longer than a sum");
    }
    PayloadBlock* const block = take_block(std::span(&row, 1), {}, row.length);
    block->sent_ps = ready_ps();
    const PayloadSlice slice{block, 0, row.length};
    RowRead* const read = row_reads_.take();
    *read = {sum, position, packet_memory_.allocate(slice, PacketMemory::Use::forced)};
    pools_.payload.release(block);
    queue_.schedule(host_.read(ready_ps(), row.length), 0, &DeviceModel::row_read, this,
                    reinterpret_cast<uint64_t>(read));
}

void DeviceModel::row_read(void* object, uint64_t argument) {
    auto& self = *static_cast<DeviceModel*>(object);
    auto* const read = reinterpret_cast<RowRead*>(argument);
    const auto [sum, position, buffer] = *read;
    self.row_reads_.give_back(read);
    self.reduce_.add_bf16(sum, position, buffer, self.queue_.now_ps());
}
void DeviceModel::reduce_skip(uint32_t sum, uint8_t position) {
    cores_.add(WorkPart::addend);
    reduce_.skip(sum, position, ready_ps());
}
void DeviceModel::reduce_close(uint32_t sum) {
    cores_.add(WorkPart::sum);
    reduce_.close(sum, ready_ps());
}

void DeviceModel::window_open(uint32_t qpn, uint32_t peer_device, uint32_t first_psn, uint16_t packets,
                              uint16_t mtu_bytes) {
    if (!receive_pipe_.open(qpn, peer_device, first_psn, packets, mtu_bytes)) {
        throw FirmwareError("receive window of an open queue pair, or of a size that there is not");
    }
    ask_window({regmap::WindowOpcode::open, qpn, first_psn, packets});
}

void DeviceModel::window_close(uint32_t qpn) {
    if (!receive_pipe_.is_open(qpn)) {
        return;
    }
    ask_window({regmap::WindowOpcode::close, qpn, 0, 0});
    receive_pipe_.close(qpn);
}

void DeviceModel::window_refuse(uint32_t qpn, uint32_t psn) {
    receive_pipe_.refuse(qpn, psn);
    ask_window({regmap::WindowOpcode::refuse, qpn, psn, 0});
    acceptance_withdrawn();
}

const engines::RxWindow& DeviceModel::window(uint32_t qpn) {
    ask_window({regmap::WindowOpcode::read, qpn, receive_pipe_.window(qpn).next_expected(), 0});
    return receive_pipe_.window(qpn);
}

// The receive window has carried out a command of firmware's, which does not wait for it. A processor does
// some of them by itself, so that they take no time of the C++ engine anywhere.
void DeviceModel::ask_window(const WindowCommand& command) {
    if (blocks(EngineBlock::rx_window) == nullptr) {
        return;
    }
    (void)windows_.answered_ps(queue_.now_ps(), ready_ps(), window_takes(command, {}));
}

// What a command takes that the C++ window has carried out; `verdict` is that of a packet.
BlockCycles DeviceModel::window_takes(const WindowCommand& command, const engines::RxVerdict& verdict) {
    if (blocks(EngineBlock::rx_window) == nullptr) return window_cycles;
    const engines::RxWindow& window = receive_pipe_.window(command.qp);
    WindowAnswer answer;
    if (command.opcode != regmap::WindowOpcode::close) answer = state_of(window);
    if (command.opcode == regmap::WindowOpcode::receive) answer.verdict = verdict;
    if (command.opcode == regmap::WindowOpcode::read) window.bitmap(command.psn, answer.bitmap);
    return blocks_->window(command, answer);
}

}  // namespace plait::sim
