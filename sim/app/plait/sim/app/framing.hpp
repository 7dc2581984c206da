// Bytes on the wire of whole messages: data packets with their framing, each sent once.
#pragma once

#include <cstdint>

#include <plait/firmware/packet.hpp>

namespace plait::sim {

/// Preamble, frame check sequence and gap of an Ethernet frame.
inline constexpr uint32_t ethernet_framing_bytes = 24;

struct WireSize {
    uint64_t bytes = 0;
    uint64_t packets = 0;

    WireSize& operator+=(const WireSize& other) {
        bytes += other.bytes;
        packets += other.packets;
        return *this;
    }
};

/// A message of `payload_bytes` in packets like `packet`. The choices of an EP row are in the first one, and
/// in all where it has no indices.
WireSize scale_out_size(firmware::Packet packet, uint64_t payload_bytes, uint32_t mtu_bytes);

/// A dispatched row for `targets` devices of a node, of which `choices` choices live there.
WireSize row_size(regmap::EpMode mode, uint32_t row_bytes, uint32_t mtu_bytes, uint32_t targets,
                  uint32_t choices);

/// A part of a node's sum on its way back: one packet.
WireSize partial_size(uint32_t part_bytes);

/// A row over scale-up, in frames of at most `part_bytes`; the first one carries the choices, in low latency
/// all do.
WireSize scale_up_size(regmap::EpMode mode, uint32_t row_bytes, uint32_t part_bytes, uint32_t choices);

}  // namespace plait::sim
