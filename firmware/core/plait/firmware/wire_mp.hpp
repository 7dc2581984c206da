#pragma once
// The mp packets as frame bytes (docs/wire.md) and back.

#include <plait/firmware/packet.hpp>
#include <plait/firmware/wire.hpp>
#include <span>

namespace plait::firmware {

/// The longest frame encode_frame() writes: IPv6, the longest header chain, a full payload.
inline constexpr std::size_t max_frame_bytes =
    regmap::Ethernet::size_bytes + regmap::Ipv6::size_bytes + regmap::Udp::size_bytes +
    regmap::Bth::size_bytes + regmap::MpData::size_bytes + regmap::MpEpRow::size_bytes +
    regmap::max_ranks_per_node * regmap::MpEpIndex::size_bytes +
    regmap::max_topk * regmap::MpEpChoice::size_bytes + regmap::max_mtu_bytes + 4;

/// A received mp frame. With a `reason` other than none the rest means nothing.
struct DecodedFrame {
    DropReason reason = DropReason::none;
    Packet packet;
    FrameAddresses addresses;
    std::span<const std::uint8_t> payload;  ///< Lies in the frame that was given.
};

/// What is wrong with a packet's fields as such, whoever sent it: a set-aside or foreign opcode (`opcode`), a
/// payload that does not lie in its message or is longer than a packet may carry (`length`), or fields that
/// contradict each other
/// (`malformed`); none when nothing is.
DropReason check(const Packet& packet);

/// Writes the frame of `packet`. `packet.plane`, `source_device` and `destination_device` are not looked at:
/// `addresses` stand for them. `payload` has packet.payload_bytes bytes. With `congestion` the frame is
/// marked (CE), otherwise it is ECT(0). Returns the bytes written, or 0 when nothing was written: check()
/// objects, the payload has another size, a value does not fit its field, or `out` is too small
/// (max_frame_bytes always suffice).
std::size_t encode_frame(const Packet& packet, const FrameAddresses& addresses,
                         std::span<const std::uint8_t> payload, std::span<std::uint8_t> out);

/// Takes apart a frame of which nothing is believed. The packet's `plane` and device numbers stay 0: the
/// caller knows the port it came by and whose addresses these are. Of a trimmed packet only what the BTH and
/// the headers before it say is filled in, and nothing proves it.
DecodedFrame decode_frame(std::span<const std::uint8_t> frame);

}  // namespace plait::firmware
