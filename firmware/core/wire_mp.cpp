#include <algorithm>
#include <array>
#include <bit>
#include <plait/firmware/wire_mp.hpp>

namespace plait::firmware {
namespace {

using namespace regmap;

constexpr std::size_t max_extension_bytes = MpData::size_bytes + MpEpRow::size_bytes +
                                            max_ranks_per_node * MpEpIndex::size_bytes +
                                            max_topk * MpEpChoice::size_bytes;

/// Puts headers one behind the other; `fits` turns false when a value does not fit its field.
class HeaderWriter {
  public:
    template <class Header>
    void put(const Header& header) {
        fits_ = fits_ && header.fits();
        header.encode(bytes_.data() + used_);
        used_ += Header::size_bytes;
    }
    bool fits() const { return fits_; }
    std::span<const std::uint8_t> bytes() const { return {bytes_.data(), used_}; }

  private:
    std::array<std::uint8_t, max_extension_bytes> bytes_{};
    std::size_t used_ = 0;
    bool fits_ = true;
};

/// Takes headers one behind the other. A header that is not all there reads as zeros and `complete` turns
/// false.
class HeaderReader {
  public:
    explicit HeaderReader(std::span<const std::uint8_t> bytes) : left_(bytes) {}
    template <class Header>
    Header take() {
        if (left_.size() < Header::size_bytes) {
            complete_ = false;
            left_ = {};
            return Header{};
        }
        const Header header = Header::decode(left_.data());
        left_ = left_.subspan(Header::size_bytes);
        return header;
    }
    bool complete() const { return complete_; }
    std::span<const std::uint8_t> left() const { return left_; }

  private:
    std::span<const std::uint8_t> left_;
    bool complete_ = true;
};

// Which headers a data packet has between MpData and the payload.
constexpr bool has_target(Opcode opcode) {
    return opcode == Opcode::mp_write || opcode == Opcode::mp_write_immediate;
}
constexpr bool has_receive(Opcode opcode) {
    return opcode == Opcode::mp_send || opcode == Opcode::mp_send_immediate ||
           opcode == Opcode::mp_write_immediate;
}
constexpr bool has_immediate(Opcode opcode) {
    return opcode == Opcode::mp_send_immediate || opcode == Opcode::mp_write_immediate;
}

void put_row(const RowHeader& row, HeaderWriter& out) {
    out.put(MpEpRow{.group = row.group,
                    .handle = row.handle,
                    .operation = row.operation,
                    .token = row.token,
                    .row = row.row,
                    .targets = row.targets,
                    .choices = row.choice_count,
                    .indices = row.index_count});
    for (std::size_t i = 0; i < row.index_count; ++i) out.put(MpEpIndex{.index = row.index[i]});
    for (std::size_t i = 0; i < row.choice_count; ++i) {
        const Choice& choice = row.choices[i];
        out.put(MpEpChoice{.expert = choice.expert,
                           .position = choice.position,
                           .weight = std::bit_cast<std::uint32_t>(choice.weight)});
    }
}

DropReason take_row(HeaderReader& in, RowHeader& row) {
    const auto header = in.take<MpEpRow>();
    if (header.choices > max_topk || header.indices > max_ranks_per_node) return DropReason::malformed;
    row.group = header.group;
    row.handle = header.handle;
    row.operation = header.operation;
    row.token = header.token;
    row.row = header.row;
    row.targets = header.targets;
    row.choice_count = header.choices;
    row.index_count = header.indices;
    for (std::size_t i = 0; i < row.index_count; ++i) row.index[i] = in.take<MpEpIndex>().index;
    for (std::size_t i = 0; i < row.choice_count; ++i) {
        const auto choice = in.take<MpEpChoice>();
        row.choices[i] = {choice.expert, choice.position, std::bit_cast<float>(choice.weight)};
    }
    return DropReason::none;
}

void put_data(const Packet& packet, HeaderWriter& out) {
    MpData data;
    data.message_number = packet.message_number;
    data.offset = packet.message_offset;
    data.length = packet.message_bytes;
    out.put(data);
    if (has_target(packet.opcode))
        out.put(MpTarget{.address = packet.address, .remote_key = packet.remote_key});
    if (has_receive(packet.opcode)) out.put(MpReceive{.receive_number = packet.receive_number});
    if (has_immediate(packet.opcode)) out.put(ImmDt{.immediate = packet.immediate});
    if (packet.opcode == Opcode::mp_ep_row) {
        put_row(packet.row, out);
    } else if (packet.opcode == Opcode::mp_ep_partial) {
        out.put(MpEpPartial{.group = packet.partial.group,
                            .handle = packet.partial.handle,
                            .operation = packet.partial.operation,
                            .token = packet.partial.token,
                            .node = packet.partial.node,
                            .missing = packet.partial.missing});
    } else if (packet.opcode == Opcode::mp_ep_control) {
        out.put(MpEpControl{.group = packet.control.group,
                            .handle = packet.control.handle,
                            .operation = packet.control.operation,
                            .kind = static_cast<std::uint8_t>(packet.control.kind),
                            .status = static_cast<std::uint8_t>(packet.control.status),
                            .call = packet.control.call,
                            .value = packet.control.value});
    }
}

DropReason take_data(HeaderReader& in, Packet& packet) {
    const auto data = in.take<MpData>();
    packet.message_number = data.message_number;
    packet.message_offset = data.offset;
    packet.message_bytes = data.length;
    if (has_target(packet.opcode)) {
        const auto target = in.take<MpTarget>();
        packet.address = target.address;
        packet.remote_key = target.remote_key;
    }
    if (has_receive(packet.opcode)) packet.receive_number = in.take<MpReceive>().receive_number;
    if (has_immediate(packet.opcode)) packet.immediate = in.take<ImmDt>().immediate;
    if (packet.opcode == Opcode::mp_ep_row) return take_row(in, packet.row);
    if (packet.opcode == Opcode::mp_ep_partial) {
        const auto partial = in.take<MpEpPartial>();
        packet.partial = {.group = partial.group,
                          .handle = partial.handle,
                          .operation = partial.operation,
                          .token = partial.token,
                          .node = partial.node,
                          .missing = partial.missing};
    } else if (packet.opcode == Opcode::mp_ep_control) {
        const auto control = in.take<MpEpControl>();
        packet.control = {.group = control.group,
                          .handle = control.handle,
                          .operation = control.operation,
                          .kind = static_cast<EpControlKind>(control.kind),
                          .status = static_cast<Status>(control.status),
                          .call = control.call,
                          .value = control.value};
    }
    return DropReason::none;
}

void put_ack(const AckHeader& ack, HeaderWriter& out) {
    out.put(MpAck{.cumulative_psn = ack.cumulative_psn,
                  .reason = static_cast<std::uint8_t>(ack.reason),
                  .bitmap_base = ack.bitmap_base,
                  .bitmap_words = ack.bitmap_words,
                  .entropy = ack.entropy,
                  .plane = ack.plane,
                  .marked = ack.marked,
                  .receives_posted = ack.receives_posted,
                  .acknowledged = ack.acknowledged,
                  .causing_marked = ack.causing_marked,
                  .bitmap_low = ack.bitmap[0],
                  .bitmap_high = ack.bitmap[1]});
}

AckHeader take_ack(HeaderReader& in) {
    const auto ack = in.take<MpAck>();
    return {.cumulative_psn = ack.cumulative_psn,
            .reason = static_cast<NackReason>(ack.reason),
            .bitmap_words = ack.bitmap_words,
            .causing_marked = ack.causing_marked,
            .marked = ack.marked,
            .bitmap_base = ack.bitmap_base,
            .entropy = ack.entropy,
            .plane = ack.plane,
            .acknowledged = ack.acknowledged,
            .receives_posted = ack.receives_posted,
            .bitmap = {ack.bitmap_low, ack.bitmap_high}};
}

void put_headers(const Packet& packet, HeaderWriter& out) {
    switch (packet.opcode) {
        case Opcode::mp_ack: return put_ack(packet.ack, out);
        case Opcode::mp_probe:
        case Opcode::mp_probe_reply:
            return out.put(MpProbe{.source_qp = packet.probe.source_qp,
                                   .plane = packet.probe.plane,
                                   .entropy_index = packet.probe.entropy_index,
                                   .sequence = packet.probe.sequence});
        case Opcode::mp_port_status:
            return out.put(MpPortStatus{.source_device = packet.port_status.source_device,
                                        .planes_up = packet.port_status.planes_up,
                                        .sequence = packet.port_status.sequence});
        default: return put_data(packet, out);
    }
}

DropReason take_headers(HeaderReader& in, Packet& packet) {
    switch (packet.opcode) {
        case Opcode::mp_ack: packet.ack = take_ack(in); return DropReason::none;
        case Opcode::mp_probe:
        case Opcode::mp_probe_reply: {
            const auto probe = in.take<MpProbe>();
            packet.probe = {probe.source_qp, probe.plane, probe.entropy_index, probe.sequence};
            return DropReason::none;
        }
        case Opcode::mp_port_status: {
            const auto status = in.take<MpPortStatus>();
            packet.port_status = {status.source_device, status.planes_up, status.sequence};
            return DropReason::none;
        }
        default: return take_data(in, packet);
    }
}

DropReason check_message(const Packet& packet) {
    if (packet.payload_bytes > max_mtu_bytes) return DropReason::length;
    const std::uint64_t end = std::uint64_t{packet.message_offset} + packet.payload_bytes;
    if (packet.message_bytes > max_message_bytes || end > packet.message_bytes) return DropReason::length;
    // Only an empty message has an empty packet: it still takes a PSN.
    if (packet.payload_bytes == 0 && packet.message_bytes != 0) return DropReason::length;
    return DropReason::none;
}

/// The opcodes of which packets are made today; READ and atomics have theirs set aside.
constexpr bool is_supported(Opcode opcode) {
    switch (opcode) {
        case Opcode::mp_write:
        case Opcode::mp_write_immediate:
        case Opcode::mp_send:
        case Opcode::mp_send_immediate:
        case Opcode::mp_ep_row:
        case Opcode::mp_ep_partial:
        case Opcode::mp_ep_control:
        case Opcode::mp_ack:
        case Opcode::mp_probe:
        case Opcode::mp_probe_reply:
        case Opcode::mp_port_status: return true;
        default: return false;
    }
}

DropReason check_row(const Packet& packet) {
    const RowHeader& row = packet.row;
    const bool by_choices = row.index_count == 0 && row.choice_count != 0;
    const bool by_indices = row.index_count == std::popcount(row.targets) &&
                            (row.choice_count == 0 || packet.message_offset == 0);
    const bool sound = row.targets != 0 && row.choice_count <= max_topk && (by_choices || by_indices);
    return sound ? DropReason::none : DropReason::malformed;
}

DropReason check_control(const Packet& packet) {
    if (packet.payload_bytes > max_control_bytes || packet.payload_bytes != packet.message_bytes)
        return DropReason::length;
    const bool sound = is_known(packet.control.kind) && is_known(packet.control.status);
    return sound ? DropReason::none : DropReason::malformed;
}

DropReason check_ack(const AckHeader& ack) {
    const bool sound = is_known(ack.reason) && ack.bitmap_words <= ack.bitmap.size();
    return sound ? DropReason::none : DropReason::malformed;
}

}  // namespace

DropReason check(const Packet& packet) {
    if (!is_supported(packet.opcode)) return DropReason::opcode;
    if (!is_data(packet.opcode)) {
        if (packet.payload_bytes != 0) return DropReason::length;
        return packet.opcode == Opcode::mp_ack ? check_ack(packet.ack) : DropReason::none;
    }
    const DropReason reason = check_message(packet);
    if (reason != DropReason::none) return reason;
    if (packet.opcode == Opcode::mp_ep_row) return check_row(packet);
    if (packet.opcode == Opcode::mp_ep_control) return check_control(packet);
    return DropReason::none;
}

std::size_t encode_frame(const Packet& packet, const FrameAddresses& addresses,
                         std::span<const std::uint8_t> payload, std::span<std::uint8_t> out) {
    if (payload.size() != packet.payload_bytes || check(packet) != DropReason::none) return 0;
    HeaderWriter headers;
    put_headers(packet, headers);
    if (!headers.fits()) return 0;
    Envelope envelope;
    envelope.addresses = addresses;
    envelope.source_port = packet.entropy;
    envelope.ecn = packet.congestion ? 3 : 2;
    Bth bth;
    bth.opcode = static_cast<std::uint8_t>(packet.opcode);
    bth.destination_qp = packet.qpn;
    bth.ack_request = packet.ack_request;
    bth.psn = packet.psn;
    return encode_roce(envelope, bth, headers.bytes(), payload, out);
}

DecodedFrame decode_frame(std::span<const std::uint8_t> frame) {
    DecodedFrame result;
    const RoceFrame roce = decode_roce(frame);
    result.reason = roce.reason;
    if (result.reason != DropReason::none) return result;
    const auto opcode = static_cast<Opcode>(roce.bth.opcode);
    if (!is_supported(opcode)) {
        result.reason = DropReason::opcode;
        return result;
    }
    Packet& packet = result.packet;
    packet.opcode = opcode;
    packet.entropy = roce.envelope.source_port;
    packet.congestion = roce.envelope.ecn == 3;
    packet.ack_request = roce.bth.ack_request;
    packet.qpn = roce.bth.destination_qp;
    packet.psn = roce.bth.psn;
    packet.trimmed = roce.trimmed;
    result.addresses = roce.envelope.addresses;
    if (roce.trimmed) {  // no packet without payload is so long that it would be cut
        if (!is_data(opcode)) result.reason = DropReason::malformed;
        return result;
    }
    HeaderReader headers(roce.body);
    result.reason = take_headers(headers, packet);
    if (!headers.complete()) result.reason = DropReason::truncated;
    if (result.reason != DropReason::none) return result;
    result.payload = headers.left();
    if (result.payload.size() > max_mtu_bytes) {  // before the size is squeezed into 16 bits
        result.reason = DropReason::length;
        return result;
    }
    packet.payload_bytes = static_cast<std::uint16_t>(result.payload.size());
    result.reason = check(packet);
    return result;
}

}  // namespace plait::firmware
