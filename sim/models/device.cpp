#include <plait/sim/models/device.hpp>

#include <algorithm>
#include <bit>

#include <plait/engines/psn.hpp>
#include <plait/firmware/wire_address.hpp>
#include <plait/firmware/wire_mp.hpp>
#include <plait/sim/fabric/random.hpp>

namespace plait::sim {

namespace {

uint32_t rate_gbps(double rate_gbytes_per_s) { return static_cast<uint32_t>(rate_gbytes_per_s * 8 + 0.5); }

firmware::DeviceConfig firmware_config(const DeviceSurroundings& surroundings,
                                       const DeviceParameters& parameters) {
    firmware::DeviceConfig config = parameters.firmware;
    const FabricConfig& fabric = surroundings.fabric.config();
    config.device_number = surroundings.device;
    config.planes = static_cast<uint8_t>(fabric.planes);
    config.plane_rate_gbps = static_cast<uint32_t>(fabric.rate_gbps + 0.5);
    config.scale_up_rate_gbps = rate_gbps(surroundings.scale_up.config().rate_gbytes_per_s);
    config.host_rate_gbps = rate_gbps(parameters.host.rate_gbytes_per_s);
    config.seed = hash_combine(surroundings.seed, surroundings.device);
    return config;
}

}  // namespace

DeviceModel::DeviceModel(sc_core::sc_module_name module_name, const DeviceSurroundings& surroundings,
                         const DeviceParameters& parameters, const FirmwareFactory& make_firmware)
    : sc_module(module_name),
      config_(firmware_config(surroundings, parameters)),
      queue_(surroundings.queue),
      fabric_(surroundings.fabric),
      network_(surroundings.scale_up),
      pools_(surroundings.pools),
      device_(surroundings.device),
      local_(surroundings.local),
      virtual_payload_(surroundings.virtual_payload),
      blocks_(surroundings.make_blocks != nullptr && *surroundings.make_blocks
                  ? (*surroundings.make_blocks)(device_)
                  : nullptr),
      engine_clock_(parameters.engines.clock_ghz, parameters.engines.bytes_per_cycle),
      windows_(engine_clock_.cycle_ps()),
      sprays_(engine_clock_.cycle_ps()),
      host_("host_interface", queue_, memory_, parameters.host, blocks(EngineBlock::order),
            engine_clock_.cycle_ps()),
      cores_("firmware_cores", surroundings.queue, parameters.cores),
      packet_memory_("packet_memory", queue_, pools_.payload, parameters.engines),
      planes_("plane_ports", queue_, fabric_, pools_, packet_memory_, device_, parameters.engines,
              surroundings.seed, *this, blocks(EngineBlock::icrc)),
      scale_up_("scale_up_port", queue_, network_, pools_, packet_memory_, local_, parameters.engines, *this,
                blocks(EngineBlock::forward)),
      non_finite_(pools_.payload, config_.max_groups * regmap::max_handles),
      encoder_("encode_engine", queue_, host_, parameters.engines, non_finite_,
               blocks(EngineBlock::quantise)),
      reduce_("reduce_engine", queue_, pools_.payload, packet_memory_, parameters.engines, config_,
              non_finite_, *this, blocks(EngineBlock::reduce)),
      timers_(queue_, *this, tie_break(surroundings.seed, device_, hash_name("timers"))),
      engine_memory_(std::bit_ceil(config_.max_qps)),
      receive_pipe_(engine_memory_.windows()),
      bit_errors_(hash_combine(surroundings.seed, device_), "bit errors"),
      firmware_(make_firmware(*this, config_)) {
    for (uint8_t plane = 0; plane < config_.planes; ++plane)
        credit_plane(plane, config_.transmit_ahead_bytes);
    const uint32_t* const messages = firmware_->message_counter();
    if (messages != nullptr) cores_.count_messages(*messages);
}

DeviceModel::~DeviceModel() = default;

// ---- the host's side

void DeviceModel::write_register(uint32_t offset, uint32_t value) {
    if (dead_) {
        return;
    }
    cores_.begin(Work::doorbell, offset / 4, queue_.now_ps());
    firmware_->on_register_write(offset, value);
}

uint32_t DeviceModel::read_register(uint32_t offset) {
    return dead_ ? UINT32_MAX : firmware_->read_register(offset);
}

void DeviceModel::kill() {
    if (dead_) {
        return;
    }
    dead_ = true;
    planes_.cut();
    scale_up_.cut();
    reduce_.close_all(queue_.now_ps());
    receive_pipe_.close_all();
    for (uint8_t plane = 0; plane < config_.planes; ++plane) {
        fabric_.set_link(Link::device_port(device_, plane), false);
    }
    network_.set_port(local_, false);
    host_.cut();
}

DeviceStatistics DeviceModel::statistics() const {
    DeviceStatistics statistics = counters_;
    planes_.report(statistics);
    scale_up_.report(statistics);
    cores_.report(statistics);
    host_.report(statistics);
    packet_memory_.report(statistics);
    reduce_.report(statistics);
    return statistics;
}
// ---- events

void DeviceModel::plane_started(uint8_t plane, uint32_t payload_bytes) {
    if (!dead_) {
        credit_plane(plane, payload_bytes + firmware::packet_overhead_bytes);
        cores_.begin(Work::credit, plane, queue_.now_ps());
        firmware_->on_transmit_credit(plane, payload_bytes);
    }
}

void DeviceModel::plane_arrived(PlanePacket& packet) {
    if (dead_ || (packet.corrupt && !survives_corruption(packet))) {
        return;
    }
    firmware::Packet& header = packet.header;
    header.plane = packet.plane;
    header.congestion = packet.ecn;
    header.trimmed = packet.trimmed;
    const firmware::ReceivePipe::Judgement judgement = receive_pipe_.judge(header);
    if (judgement.reason != regmap::DropReason::none) {
        count_drop(judgement.reason);
    } else if (firmware::is_data(header.opcode)) {
        deliver_data(packet, judgement.window);
    } else {
        counters_.scale_out_control_delivered.add(packet.size_bytes);
        // It passes the receive window's place as well.
        const uint64_t judged_ps =
            planes_.received_ps(packet) + window_cycles.latency * engine_clock_.cycle_ps();
        cores_.begin(Work::acknowledgement, cores_.home(header.qpn), judged_ps,
                     header.opcode == firmware::Opcode::mp_ack ? header.ack.acknowledged : 0);
        firmware_->on_packet({header, 0, judgement.window, {}});
    }
}

void DeviceModel::deliver_data(PlanePacket& packet, const engines::RxVerdict& verdict) {
    const firmware::Packet& header = packet.header;
    firmware::PacketEvent event{header, 0, verdict, {}};
    accepted_ = verdict.verdict == engines::Verdict::accept;
    if (accepted_) {
        const auto spread = static_cast<uint32_t>(
            engines::psn_diff(receive_pipe_.window(header.qpn).highest(), verdict.cumulative_psn));
        counters_.window_high_water = std::max(counters_.window_high_water, spread);
        if (packet.payload.length != 0 && !packet.trimmed) {
            event.buffer = packet_memory_.allocate(packet.payload, PacketMemory::Use::refusable);
        }
        if (header.opcode == firmware::Opcode::mp_ep_control && !packet.trimmed &&
            !packet.payload.is_virtual()) {
            event.control = {pools_.payload.bytes(packet.payload), packet.payload.length};
        }
    }
    const BlockCycles taken =
        window_takes({regmap::WindowOpcode::receive, header.qpn, header.psn, 0}, verdict);
    const uint64_t judged_ps = windows_.answered_ps(queue_.now_ps(), planes_.received_ps(packet), taken);
    cores_.begin(Work::data_received, cores_.home(header.qpn), judged_ps,
                 size_of_work(event.control.size()) + row_entries(header));
    firmware_->on_packet(event);
    if (accepted_) {
        counters_.scale_out_data_delivered.add(packet.size_bytes);
        counters_.payload_bytes_delivered += header.payload_bytes;
    }
}

void DeviceModel::plane_expected(const PlanePacket& packet) {
    receive_pipe_.expect(packet.header.qpn);
    firmware_->expect_packet(packet.header);
    if (packet.payload.block != nullptr) {
        __builtin_prefetch(packet.payload.block);
        packet_memory_.expect_allocation();
    }
}

void DeviceModel::frame_expected(const ScaleUpFrame& frame) {
    if (frame.payload.block != nullptr) {
        __builtin_prefetch(frame.payload.block);
        packet_memory_.expect_allocation();
    }
    if (frame.header.kind == regmap::ScaleUpKind::contribution) {
        reduce_.expect(firmware::SumName::sum_of_tag(frame.header.tag));
    } else {
        firmware_->expect_frame(frame.header);
    }
}

// Only here do frame bytes exist: the packet is written out, bits are flipped, a switch cuts it if one did,
// and the receiver's decoder judges. The flips spare the Ethernet header, whose check is the link's FCS.
bool DeviceModel::survives_corruption(PlanePacket& packet) {
    counters_.scale_out_corrupt.add(packet.size_bytes);
    firmware::Packet& header = packet.header;
    const auto addresses =
        firmware::fabric_addresses(header.source_device, header.destination_device, packet.plane);
    if (!addresses || (packet.payload.length != 0 && packet.payload.is_virtual())) {
        count_drop(regmap::DropReason::icrc);
        return false;
    }
    std::array<uint8_t, firmware::max_frame_bytes> frame;
    const size_t length = firmware::encode_frame(
        header, *addresses, {pools_.payload.bytes(packet.payload), packet.payload.length}, frame);
    if (length == 0) {
        count_drop(regmap::DropReason::malformed);
        return false;
    }
    const uint64_t flips = 1 + bit_errors_.uniform(4);
    const uint64_t first_bit = regmap::Ethernet::size_bytes * 8;
    for (uint64_t i = 0; i < flips; ++i) {
        const uint64_t bit = first_bit + bit_errors_.uniform(length * 8 - first_bit);
        frame[bit / 8] = static_cast<uint8_t>(frame[bit / 8] ^ 1U << bit % 8);
    }
    if (EngineBlocks* const icrc = blocks(EngineBlock::icrc))
        (void)icrc_tail(*icrc, std::span(frame).first(length));
    const size_t left = packet.trimmed ? firmware::trim_frame(std::span(frame).first(length)) : length;
    const firmware::DecodedFrame decoded = firmware::decode_frame(std::span(frame).first(left));
    if (decoded.reason != regmap::DropReason::none) {
        count_drop(decoded.reason);
        return false;
    }
    // A whole frame that passes was changed only where the ICRC does not look and nothing is read. Of a
    // trimmed one the queue pair gets what is there.
    if (packet.trimmed) {
        const auto source = firmware::fabric_port(decoded.addresses.source);
        header = decoded.packet;
        header.source_device = source ? source->device : UINT32_MAX;
        header.destination_device = device_;
    }
    return true;
}

void DeviceModel::plane_changed(uint8_t plane, bool up) {
    if (!dead_) {
        cores_.begin(Work::port_change, plane, queue_.now_ps());
        firmware_->on_port_change(plane, up);
    }
}

void DeviceModel::frame_arrived(ScaleUpFrame& frame, BufferId buffer) {
    const firmware::ScaleUpHeader& header = frame.header;
    const uint64_t received_ps = scale_up_.received_ps(frame);
    if (dead_) {
        packet_memory_.release(buffer, received_ps);
        return;
    }
    (buffer != 0 ? counters_.scale_up_data_delivered : counters_.scale_up_control_delivered)
        .add(frame.size_bytes);
    if (header.kind == regmap::ScaleUpKind::contribution && header.status == regmap::Status::ok) {
        reduce_.add(firmware::SumName::sum_of_tag(header.tag), firmware::SumName::position_of_tag(header.tag),
                    buffer, received_ps);
        return;
    }
    firmware::ScaleUpEvent event{header, buffer, {}};
    if (header.kind == regmap::ScaleUpKind::control && !frame.payload.is_virtual()) {
        event.control = {pools_.payload.bytes(frame.payload), frame.payload.length};
    }
    cores_.begin(Work::scale_up_received, header.token, received_ps,
                 size_of_work(event.control.size()) + header.choice_count);
    firmware_->on_scale_up(event);
}

void DeviceModel::frames_sent(uint32_t tag) {
    if (!dead_) {
        cores_.begin(Work::scale_up_sent, cores_.home(tag), queue_.now_ps());
        firmware_->on_scale_up_sent(tag);
    }
}

void DeviceModel::scale_up_changed(uint8_t local, bool up) {
    if (!dead_) {
        cores_.begin(Work::port_change, local, queue_.now_ps());
        firmware_->on_scale_up_port(local, up);
    }
}

void DeviceModel::reduced(uint32_t sum, BufferId result) {
    if (dead_) {
        packet_memory_.release(result, queue_.now_ps());
        return;
    }
    cores_.begin(Work::reduced, firmware::SumName::accumulator(sum), queue_.now_ps());
    firmware_->on_reduced(sum, result);
}

void DeviceModel::reduction_expected(uint32_t sum) { firmware_->expect_reduced(sum); }

void DeviceModel::timer_fired(firmware::TimerId timer) {
    if (!dead_) {
        const bool is_qp = timer.kind == firmware::TimerKind::qp;
        cores_.begin(Work::timer, is_qp ? cores_.home(timer.number) : timer.number, queue_.now_ps());
        firmware_->on_timer(timer);
    }
}

}  // namespace plait::sim
