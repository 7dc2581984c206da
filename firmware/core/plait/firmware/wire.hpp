#pragma once
// RoCEv2 framing, whatever the transport: Ethernet, IPv4 or IPv6, UDP, BTH, the bytes behind it, pad and
// ICRC.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <plait/regmap.hpp>
#include <span>

namespace plait::firmware {

using regmap::DropReason;

/// An IPv4 address is in the low 32 bits of `low`.
struct IpAddress {
    bool is_ipv6 = false;
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    friend constexpr bool operator==(const IpAddress&, const IpAddress&) = default;
};

struct FrameAddresses {
    std::uint64_t source_mac = 0;  ///< 48 bits.
    std::uint64_t destination_mac = 0;
    IpAddress source;
    IpAddress destination;
    friend constexpr bool operator==(const FrameAddresses&, const FrameAddresses&) = default;
};

/// What a frame says outside its BTH.
struct Envelope {
    FrameAddresses addresses;
    std::uint16_t source_port = 0;     ///< UDP source port: the entropy value.
    std::uint16_t identification = 0;  ///< IPv4 only.
    std::uint8_t dscp = 0;             ///< 6 bits.
    std::uint8_t ecn = 2;              ///< RFC 3168: 2 = ECT(0), 3 = congestion experienced.
    friend constexpr bool operator==(const Envelope&, const Envelope&) = default;
};

/// A frame that was taken apart. With a `reason` other than none the rest means nothing.
struct RoceFrame {
    DropReason reason = DropReason::none;
    bool trimmed = false;  ///< A switch cut it: there is no body, and no ICRC that would prove the rest.
    Envelope envelope;
    regmap::Bth bth;
    std::span<const std::uint8_t>
        body;  ///< Extension headers and payload, without pad; lies in the frame that was given.
};

/// Writes a whole frame: `extensions` (a multiple of 4 bytes) and `payload` follow the BTH, whose pad count
/// is set here. The UDP checksum is 0, as RoCEv2 allows for both IP versions because of the ICRC. Returns the
/// bytes written, or 0 when nothing was written: `out` is too small, the two IP addresses are of different
/// versions, a value does not fit its field, or the payload is longer than regmap::max_mtu_bytes.
std::size_t encode_roce(const Envelope& envelope, regmap::Bth bth, std::span<const std::uint8_t> extensions,
                        std::span<const std::uint8_t> payload, std::span<std::uint8_t> out);

/// Takes apart a frame of which nothing is believed. Ethernet padding up to the 60 bytes of the shortest
/// frame is accepted behind the IP packet, nothing else is. The ICRC is checked before the opcode is looked
/// at. A frame that is shorter than its IP header says is trimmed if its code point says so, else truncated.
RoceFrame decode_roce(std::span<const std::uint8_t> frame);

/// What a switch that trims makes of the frame of an IP packet: marks it and returns the bytes that are left,
/// from its beginning. 0, and nothing changed: it is not longer than that, so the switch lets it be. Here for
/// those who model a switch.
std::size_t trim_frame(std::span<std::uint8_t> frame);

/// Bytes of the extension headers of an RC or UD opcode (InfiniBand Architecture Specification, section 9.2,
/// table 38); nullopt for opcodes of other transports.
constexpr std::optional<std::size_t> rc_extension_bytes(regmap::Opcode opcode) {
    using namespace regmap;
    switch (opcode) {
        case Opcode::rc_send_first:
        case Opcode::rc_send_middle:
        case Opcode::rc_send_last:
        case Opcode::rc_send_only:
        case Opcode::rc_write_middle:
        case Opcode::rc_write_last:
        case Opcode::rc_read_response_middle: return 0;
        case Opcode::rc_send_last_immediate:
        case Opcode::rc_send_only_immediate:
        case Opcode::rc_write_last_immediate: return ImmDt::size_bytes;
        case Opcode::rc_write_first:
        case Opcode::rc_write_only:
        case Opcode::rc_read_request: return Reth::size_bytes;
        case Opcode::rc_write_only_immediate: return Reth::size_bytes + ImmDt::size_bytes;
        case Opcode::rc_read_response_first:
        case Opcode::rc_read_response_last:
        case Opcode::rc_read_response_only:
        case Opcode::rc_acknowledge: return Aeth::size_bytes;
        case Opcode::rc_atomic_acknowledge: return Aeth::size_bytes + AtomicAckEth::size_bytes;
        case Opcode::rc_compare_swap:
        case Opcode::rc_fetch_add: return AtomicEth::size_bytes;
        case Opcode::ud_send_only: return Deth::size_bytes;
        case Opcode::ud_send_only_immediate: return Deth::size_bytes + ImmDt::size_bytes;
        default: return std::nullopt;
    }
}

}  // namespace plait::firmware
