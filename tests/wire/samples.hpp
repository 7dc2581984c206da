#pragma once
// Packets of every mp kind and frames of every RC and UD kind, shared by the wire tests.

#include <array>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <plait/engines/icrc.hpp>
#include <plait/firmware/wire_address.hpp>
#include <plait/firmware/wire_mp.hpp>
#include <string>
#include <vector>

namespace plait::firmware::wire_test {

using namespace regmap;
using Bytes = std::vector<std::uint8_t>;

inline Bytes counting(std::size_t size) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + 1);
    return bytes;
}

struct Sample {
    std::string name;
    Packet packet;
    Bytes payload;
};

inline Sample make_sample(std::string name, Opcode opcode, std::size_t payload_bytes) {
    Sample sample{std::move(name), Packet{}, counting(payload_bytes)};
    Packet& packet = sample.packet;
    packet.opcode = opcode;
    packet.entropy = 0xc123;
    packet.ack_request = true;
    packet.payload_bytes = static_cast<std::uint16_t>(payload_bytes);
    packet.qpn = 0xabcdef;
    packet.psn = 0xfffffe;
    if (is_data(opcode)) {
        packet.message_number = 0x01020304;
        packet.message_bytes = static_cast<std::uint32_t>(payload_bytes);
    }
    return sample;
}

inline Sample row_sample(std::string name, std::uint8_t targets, std::uint8_t choices,
                         std::size_t payload_bytes) {
    Sample sample = make_sample(std::move(name), Opcode::mp_ep_row, payload_bytes);
    RowHeader& row = sample.packet.row;
    row.group = 3;
    row.handle = 5;
    row.operation = 0x1122;
    row.token = 0x33445566;
    row.row = 0x778899aa;
    row.targets = targets;
    for (int i = 0; i < std::popcount(targets); ++i)
        row.index[static_cast<std::size_t>(i)] = 0xfffffff0U + static_cast<std::uint32_t>(i);
    row.index_count = static_cast<std::uint8_t>(std::popcount(targets));
    row.choice_count = choices;
    for (std::uint8_t i = 0; i < choices; ++i)
        row.choices[i] = {static_cast<std::uint16_t>(1000 + i), i, 0.125F + static_cast<float>(i)};
    return sample;
}

/// One packet of every kind, with the extremes of what a kind may carry.
inline std::vector<Sample> mp_samples() {
    std::vector<Sample> samples;
    samples.push_back(make_sample("write", Opcode::mp_write, 5));
    samples.back().packet.address = 0x1122334455667788;
    samples.back().packet.remote_key = 0x99aabbcc;
    samples.push_back(make_sample("write of a late segment", Opcode::mp_write, 4));
    samples.back().packet.message_bytes = 0x7fffffff;
    samples.back().packet.message_offset = 0x7fffffff - 4;
    samples.push_back(make_sample("empty write", Opcode::mp_write, 0));
    samples.push_back(make_sample("write with immediate", Opcode::mp_write_immediate, 6));
    samples.back().packet.address = 0xffffffffffffffff;
    samples.back().packet.receive_number = 0x55667788;
    samples.back().packet.immediate = 0xdeadbeef;
    samples.push_back(make_sample("send", Opcode::mp_send, 7));
    samples.back().packet.receive_number = 0xfffffffe;
    samples.push_back(make_sample("send with immediate", Opcode::mp_send_immediate, 8));
    samples.back().packet.receive_number = 1;
    samples.back().packet.immediate = 0x01000002;
    samples.push_back(row_sample("row for one target", 0x10, 1, 9));
    samples.push_back(row_sample("row for eight targets, sixteen choices", 0xff, 16, 12));
    samples.push_back(row_sample("row of a low-latency dispatch, a later packet", 0x81, 3, 12));
    samples.back().packet.row.index_count = 0;
    samples.back().packet.message_bytes = 0x8000;
    samples.back().packet.message_offset = 0x1000;
    samples.push_back(make_sample("partial row", Opcode::mp_ep_partial, 16));
    samples.back().packet.partial = {
        .group = 1, .handle = 2, .operation = 3, .token = 4, .node = 0x506, .missing = 0x81};
    samples.push_back(make_sample("control", Opcode::mp_ep_control, 20));
    samples.back().packet.control = {.group = 1,
                                     .handle = 2,
                                     .operation = 3,
                                     .kind = EpControlKind::abort,
                                     .status = Status::rank_failed,
                                     .call = 0x5a,
                                     .value = 0xcafef00d};
    samples.push_back(make_sample("ack", Opcode::mp_ack, 0));
    samples.back().packet.ack = {.cumulative_psn = 0xffffff,
                                 .reason = NackReason::no_buffer,
                                 .bitmap_words = 2,
                                 .causing_marked = true,
                                 .marked = 200,
                                 .bitmap_base = 0x123456,
                                 .entropy = 0xc0de,
                                 .plane = 3,
                                 .acknowledged = 0x4567,
                                 .receives_posted = 0x89abcdef,
                                 .bitmap = {0x8000000000000001, 0x0123456789abcdef}};
    samples.push_back(make_sample("probe", Opcode::mp_probe, 0));
    samples.back().packet.probe = {
        .source_qp = 0xfedcba, .plane = 7, .entropy_index = 0x1234, .sequence = 0x5678};
    samples.push_back(make_sample("probe reply", Opcode::mp_probe_reply, 0));
    samples.back().packet.probe = {.source_qp = 1, .plane = 2, .entropy_index = 3, .sequence = 4};
    samples.push_back(make_sample("port status", Opcode::mp_port_status, 0));
    samples.back().packet.port_status = {.source_device = 0x01020304, .planes_up = 0xf0, .sequence = 0xffff};
    return samples;
}

/// A packet's meaning as text, one field after the other, so that two packets can be compared and shown.
inline std::string describe(const Packet& packet) {
    std::string text = name(packet.opcode);
    const auto add = [&text](std::initializer_list<std::uint64_t> values) {
        for (const std::uint64_t value : values) text += ' ' + std::to_string(value);
    };
    add({packet.entropy, packet.congestion, packet.ack_request, packet.payload_bytes, packet.qpn, packet.psn,
         packet.message_number, packet.message_offset, packet.message_bytes, packet.address,
         packet.remote_key, packet.receive_number, packet.immediate});
    if (packet.opcode == Opcode::mp_ep_row) {
        const RowHeader& row = packet.row;
        add({row.group, row.handle, row.operation, row.token, row.row, row.targets, row.choice_count,
             row.index_count});
        for (std::size_t i = 0; i < row.index_count; ++i) add({row.index[i]});
        for (std::size_t i = 0; i < row.choice_count; ++i) {
            add({row.choices[i].expert, row.choices[i].position,
                 std::bit_cast<std::uint32_t>(row.choices[i].weight)});
        }
    } else if (packet.opcode == Opcode::mp_ep_partial) {
        const PartialHeader& partial = packet.partial;
        add({partial.group, partial.handle, partial.operation, partial.token, partial.node, partial.missing});
    } else if (packet.opcode == Opcode::mp_ep_control) {
        const ControlHeader& control = packet.control;
        add({control.group, control.handle, control.operation, static_cast<std::uint64_t>(control.kind),
             static_cast<std::uint64_t>(control.status), control.call, control.value});
    } else if (packet.opcode == Opcode::mp_ack) {
        const AckHeader& ack = packet.ack;
        add({ack.cumulative_psn, static_cast<std::uint64_t>(ack.reason), ack.bitmap_base, ack.bitmap_words,
             ack.entropy, ack.plane, ack.marked, ack.causing_marked, ack.acknowledged, ack.receives_posted,
             ack.bitmap[0], ack.bitmap[1]});
    } else if (packet.opcode == Opcode::mp_probe || packet.opcode == Opcode::mp_probe_reply) {
        add({packet.probe.source_qp, packet.probe.plane, packet.probe.entropy_index, packet.probe.sequence});
    } else if (packet.opcode == Opcode::mp_port_status) {
        add({packet.port_status.source_device, packet.port_status.planes_up, packet.port_status.sequence});
    }
    return text;
}

inline FrameAddresses sample_addresses(bool is_ipv6) {
    return fabric_addresses(0x0102, 0x0304, 3, is_ipv6).value();
}

inline Bytes frame_of(const Sample& sample, bool is_ipv6) {
    Bytes frame(max_frame_bytes);
    frame.resize(encode_frame(sample.packet, sample_addresses(is_ipv6), sample.payload, frame));
    return frame;
}

/// The vectors' envelope: 10.0.0.1 -> 10.0.0.2, id 1, source port 0xc001.
inline Envelope vector_envelope() {
    Envelope envelope;
    envelope.addresses.source_mac = 0x020000000001;
    envelope.addresses.destination_mac = 0x020000000002;
    envelope.addresses.source.low = 0x0a000001;
    envelope.addresses.destination.low = 0x0a000002;
    envelope.source_port = 0xc001;
    envelope.identification = 1;
    return envelope;
}

template <class... Headers>
Bytes encoded(const Headers&... headers) {
    Bytes bytes((std::size_t{0} + ... + Headers::size_bytes));
    [[maybe_unused]] std::uint8_t* next = bytes.data();
    ((headers.encode(next), next += Headers::size_bytes), ...);
    return bytes;
}

inline Bytes roce_frame(const Envelope& envelope, const Bth& bth, const Bytes& extensions,
                        const Bytes& payload) {
    Bytes frame(max_frame_bytes + 1024);
    frame.resize(encode_roce(envelope, bth, extensions, payload, frame));
    return frame;
}

}  // namespace plait::firmware::wire_test
