#pragma once
// The decoded header of an mp packet: what firmware reads and writes. `wire_mp.hpp` turns it into frame bytes
// and back.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <plait/regmap.hpp>

namespace plait::firmware {

using regmap::Opcode;

/// One top-k choice of a row, as in the MpEpChoice header.
struct Choice {
    std::uint16_t expert;
    std::uint16_t position;  ///< In the top-k list. Low latency: the row's slot at the expert.
    float weight;
    bool operator==(const Choice&) const = default;
};

/// Fields of MpEpRow and the index headers that follow it. `index[i]` belongs to the i-th set bit of
/// `targets`; low latency has none.
struct RowHeader {
    std::uint8_t group = 0;
    std::uint8_t handle = 0;
    std::uint16_t operation = 0;
    std::uint32_t token = 0;
    std::uint32_t row = 0;
    std::uint8_t targets = 0;
    std::uint8_t index_count = 0;
    std::uint8_t choice_count = 0;
    std::array<std::uint32_t, regmap::max_ranks_per_node> index{};
    std::array<Choice, regmap::max_topk> choices{};
};

/// Fields of MpEpPartial.
struct PartialHeader {
    std::uint8_t group = 0;
    std::uint8_t handle = 0;
    std::uint16_t operation = 0;
    std::uint32_t token = 0;
    std::uint16_t node = 0;
    std::uint8_t missing = 0;
    std::uint32_t first_element = 0;
};

/// Fields of MpEpControl.
struct ControlHeader {
    std::uint8_t group = 0;
    std::uint8_t handle = 0;
    std::uint16_t operation = 0;
    regmap::EpControlKind kind = regmap::EpControlKind::counts;
    regmap::Status status = regmap::Status::ok;
    std::uint8_t call = 0;
    std::uint32_t value = 0;
};

/// Fields of MpAck.
struct AckHeader {
    std::uint32_t cumulative_psn = 0;
    regmap::NackReason reason = regmap::NackReason::none;
    std::uint8_t bitmap_words = 0;
    bool causing_marked = false;
    std::uint8_t marked = 0;
    std::uint32_t bitmap_base = 0;
    std::uint16_t entropy = 0;
    std::uint8_t plane = 0;
    std::uint16_t acknowledged = 0;
    std::uint32_t receives_posted = 0;
    std::array<std::uint64_t, 2> bitmap{};
};

/// Fields of MpProbe.
struct ProbeHeader {
    std::uint32_t source_qp = 0;
    std::uint8_t plane = 0;
    std::uint16_t entropy_index = 0;
    std::uint16_t sequence = 0;
};

/// Fields of MpPortStatus.
struct PortStatusHeader {
    std::uint32_t source_device = 0;
    std::uint8_t planes_up = 0;
    std::uint16_t sequence = 0;
};

/// Any mp packet. Which of the trailing groups mean something follows from the opcode
/// (`rtl_models/regmap/wire.toml`).
struct Packet {
    bool congestion = false;  ///< ECN: congestion experienced (received packets).
    bool trimmed = false;     ///< A switch cut it (received packets): what is behind the BTH means nothing.
    Opcode opcode = Opcode::mp_write;
    bool ack_request = false;         ///< The receiver shall acknowledge at once.
    std::uint16_t entropy = 0;        ///< UDP source port.
    std::uint8_t plane = 0;           ///< Plane it leaves or came by.
    std::uint16_t payload_bytes = 0;  ///< Without pad.
    std::uint32_t psn = 0;
    std::uint32_t source_device = 0;  ///< Fabric numbers; IP addresses on the wire.
    std::uint32_t destination_device = 0;
    std::uint32_t qpn = 0;        ///< Destination QPN.
    std::uint32_t local_qpn = 0;  ///< Sender's own QPN, so that its core is known. Not on the wire.

    std::uint32_t message_number = 0;  ///< MpData.
    std::uint32_t message_offset = 0;
    std::uint32_t message_bytes = 0;
    std::uint32_t receive_number = 0;  ///< MpReceive.

    std::uint64_t address = 0;  ///< MpTarget: of the message's first byte.
    std::uint32_t remote_key = 0;
    std::uint32_t immediate = 0;  ///< ImmDt.

    union {
        std::uint8_t nothing;  ///< Until the group of the opcode is written.
        RowHeader row;
        PartialHeader partial;
        ControlHeader control;
        AckHeader ack;
        ProbeHeader probe;
        PortStatusHeader port_status;
    };

    constexpr Packet() : nothing{} {}
};

/// The first bytes of a header in the order of memory, the first one in the lowest bits.
template <std::size_t offset, class Header>
std::uint32_t word_of(const Header& header) {
    static_assert(offset % sizeof(std::uint32_t) == 0 && alignof(Header) >= sizeof(std::uint32_t));
    std::uint32_t word = 0;
    const auto* const at = reinterpret_cast<const std::byte*>(&header) + offset;
    __builtin_memcpy(&word, __builtin_assume_aligned(at, sizeof word), sizeof word);
    return std::endian::native == std::endian::little ? word : __builtin_bswap32(word);
}

/// A packet of this kind that no switch has marked or cut: one comparison.
inline bool is_untouched(const Packet& packet, Opcode opcode) {
    static_assert(offsetof(Packet, congestion) == 0 && offsetof(Packet, trimmed) == 1 &&
                  offsetof(Packet, opcode) == 2 && offsetof(Packet, ack_request) == 3);
    return word_of<0>(packet) << 8 == std::uint32_t(opcode) << 24;
}

/// An acknowledgement of packets in order that refuses nothing, by a packet that met no congestion.
inline bool is_plain(const AckHeader& ack) {
    static_assert(offsetof(AckHeader, reason) == 4 && offsetof(AckHeader, bitmap_words) == 5 &&
                  offsetof(AckHeader, causing_marked) == 6 && offsetof(AckHeader, marked) == 7 &&
                  std::uint8_t(regmap::NackReason::none) == 0);
    return word_of<4>(ack) << 8 == 0;
}

/// Data packets take a PSN and are acknowledged; the rest (ACK, probes, port status) do not.
constexpr bool is_data(Opcode opcode) { return opcode >= Opcode::mp_write && opcode < Opcode::mp_ack; }

/// Bytes of a packet of this header on the wire, from the Ethernet header to the ICRC (IPv4), pad included,
/// without preamble, frame check sequence and gap.
constexpr std::uint32_t frame_bytes(const Packet& packet) {
    using namespace regmap;
    std::uint32_t bytes = Ethernet::size_bytes + Ipv4::size_bytes + Udp::size_bytes + Bth::size_bytes + 4;
    switch (packet.opcode) {
        case Opcode::mp_write: bytes += MpData::size_bytes + MpTarget::size_bytes; break;
        case Opcode::mp_write_immediate:
            bytes += MpData::size_bytes + MpTarget::size_bytes + MpReceive::size_bytes + ImmDt::size_bytes;
            break;
        case Opcode::mp_send: bytes += MpData::size_bytes + MpReceive::size_bytes; break;
        case Opcode::mp_send_immediate:
            bytes += MpData::size_bytes + MpReceive::size_bytes + ImmDt::size_bytes;
            break;
        case Opcode::mp_ep_row:
            bytes += MpData::size_bytes + MpEpRow::size_bytes +
                     packet.row.index_count * MpEpIndex::size_bytes +
                     packet.row.choice_count * MpEpChoice::size_bytes;
            break;
        case Opcode::mp_ep_partial: bytes += MpData::size_bytes + MpEpPartial::size_bytes; break;
        case Opcode::mp_ep_control: bytes += MpData::size_bytes + MpEpControl::size_bytes; break;
        case Opcode::mp_ack: bytes += MpAck::size_bytes; break;
        case Opcode::mp_probe:
        case Opcode::mp_probe_reply: bytes += MpProbe::size_bytes; break;
        case Opcode::mp_port_status: bytes += MpPortStatus::size_bytes; break;
        default: break;
    }
    return bytes + ((packet.payload_bytes + 3U) & ~3U);
}

/// Header of a scale-up frame, decoded. Of the choices only the first choice_count mean something, and are
/// copied.
struct ScaleUpHeader {
    ScaleUpHeader() = default;
    ScaleUpHeader(const ScaleUpHeader& other) { *this = other; }
    ScaleUpHeader& operator=(const ScaleUpHeader& other) {
        kind = other.kind;
        group = other.group;
        handle = other.handle;
        source_local = other.source_local;
        operation = other.operation;
        source_rank = other.source_rank;
        token = other.token;
        index = other.index;
        offset = other.offset;
        length = other.length;
        tag = other.tag;
        status = other.status;
        choice_count = other.choice_count;
        control = other.control;
        const std::size_t count = std::min<std::size_t>(choice_count, regmap::max_topk);
        for (std::size_t i = 0; i < count; ++i) choices[i] = other.choices[i];
        return *this;
    }

    regmap::ScaleUpKind kind = regmap::ScaleUpKind::row;
    std::uint8_t group = 0;
    std::uint8_t handle = 0;
    std::uint8_t source_local = 0;
    std::uint16_t operation = 0;
    std::uint16_t source_rank = 0;
    std::uint32_t token = 0;
    std::uint32_t index = 0;
    std::uint32_t offset = 0;
    std::uint32_t length = 0;
    std::uint32_t tag = 0;
    regmap::Status status = regmap::Status::ok;
    std::uint8_t choice_count = 0;
    ControlHeader control{};  ///< kind control.
    std::array<Choice, regmap::max_topk> choices;
};

/// Copies what of a header means something; the rest of `to` stays as it is. Most are much shorter than the
/// longest ones.
inline void copy_used(const Packet& from, Packet& to) {
    constexpr std::size_t short_bytes = offsetof(Packet, ack) + offsetof(AckHeader, bitmap);
    static_assert(short_bytes >=
                  offsetof(Packet, row) + std::max({sizeof(PartialHeader), sizeof(ControlHeader),
                                                    sizeof(ProbeHeader), sizeof(PortStatusHeader)}));
    std::memcpy(static_cast<void*>(&to), &from, short_bytes);
    if (from.opcode == Opcode::mp_ack && from.ack.bitmap_words != 0) to.ack.bitmap = from.ack.bitmap;
    if (from.opcode != Opcode::mp_ep_row) return;
    to.row.index = from.row.index;
    std::copy_n(from.row.choices.begin(), std::min<std::size_t>(from.row.choice_count, regmap::max_topk),
                to.row.choices.begin());
}

}  // namespace plait::firmware
