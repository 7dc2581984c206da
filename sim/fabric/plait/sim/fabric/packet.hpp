// What the fabric and the scale-up switch carry: pointers to packets that others own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plait::sim {

// What Ethernet adds to a frame on the wire: preamble and start delimiter 8, FCS 4, gap between frames 12
// (IEEE 802.3).
inline constexpr uint32_t wire_overhead_bytes = 24;
// The shortest frame without its FCS (IEEE 802.3, minFrameSize 64 with it).
inline constexpr uint32_t minimum_frame_bytes = 60;

// Bytes that a frame (Ethernet header to the end of the payload, without FCS) takes on the wire.
constexpr uint32_t wire_bytes(uint32_t frame_bytes) {
    return (frame_bytes < minimum_frame_bytes ? minimum_frame_bytes : frame_bytes) + wire_overhead_bytes;
}

enum class DropReason : uint8_t {
    queue_full,      // the output port's buffer had no room
    link_down,       // sent to, queued for, or in flight on a link that was or went down
    no_route,        // unknown destination, or no spine left that reaches its leaf
    random_loss,     // drawn with a configured probability
    scheduled_loss,  // asked for: the nth packet from one device to another
};
inline constexpr size_t drop_reason_count = 5;

constexpr const char* drop_reason_name(DropReason reason) {
    constexpr const char* names[drop_reason_count] = {"queue_full", "link_down", "no_route", "random_loss",
                                                      "scheduled_loss"};
    return names[static_cast<size_t>(reason)];
}

// A packet on the planes. The sender owns the memory; from transmit() until deliver() or drop() the fabric
// holds the pointer. Inherit from it or embed it. One packet can be in the fabric only once at a time.
struct FabricPacket {
    FabricPacket* next = nullptr;  // for the lists of whoever holds the packet
    void* owner = nullptr;         // the fabric does not look at it
    // Called when the fabric loses the packet; it may free the packet. Required.
    void (*drop)(FabricPacket* packet, DropReason reason) = nullptr;
    // Makes the second packet of a duplication, payload included. May be null: then the packet is never
    // duplicated.
    FabricPacket* (*clone)(const FabricPacket* packet) = nullptr;

    uint32_t size_bytes = 0;  // on the wire: see wire_bytes()
    uint32_t source = 0;      // device, set by transmit()
    uint32_t destination = 0;
    uint16_t entropy = 0;
    uint8_t plane = 0;
    bool ecn = false;      // set by a port whose queue exceeds the threshold
    bool control = false;  // small and without payload (ACK, credit); shares the queues of the data packets
    bool corrupt = false;  // bits were flipped on the way: its ICRC is wrong
    bool trimmed = false;  // a switch cut the payload off; size_bytes is what is left

    // The fabric's own: where the packet is.
    uint32_t fabric_port = 0;
    uint32_t fabric_epoch = 0;
    uint16_t fabric_spine = 0;
};

// Where the fabric delivers to, one for each device. `deliver` hands the packet back for good.
struct FabricReceiver {
    void (*deliver)(void* object, FabricPacket* packet) = nullptr;
    // The device's own port on `plane` has gone down or come up. May be null.
    void (*link_change)(void* object, uint8_t plane, bool up) = nullptr;
    void* object = nullptr;
    // The packet will arrive in a moment: see EventQueue::Handler. May be null.
    void (*expect)(void* object, const FabricPacket* packet) = nullptr;
};

// A packet inside a node, between ports of its scale-up switch. Ownership as for FabricPacket.
struct ScaleUpPacket {
    ScaleUpPacket* next = nullptr;  // used by the switch until it calls deliver or drop
    void* owner = nullptr;
    // Called when a port went down under the packet; it may free the packet. Required.
    void (*drop)(ScaleUpPacket* packet, DropReason reason) = nullptr;
    // Called when the last byte has left the source's port: its staging may be released. May be null.
    // The switch still holds the packet itself.
    void (*sent)(ScaleUpPacket* packet) = nullptr;

    uint32_t size_bytes = 0;  // on the link, headers included
    uint16_t source = 0;      // port of the switch = index of the device in its node
    uint16_t destination = 0;

    // The switch's own.
    uint64_t ready_ps = 0;
    uint32_t source_epoch = 0;
    uint32_t destination_epoch = 0;
};

struct ScaleUpReceiver {
    void (*deliver)(void* object, ScaleUpPacket* packet) = nullptr;
    // The port of another device of the node has gone down or come up. May be null.
    void (*port_change)(void* object, uint16_t port, bool up) = nullptr;
    void* object = nullptr;
    // The packet will leave this port, or arrive at it, in a moment: see EventQueue::Handler. May be null.
    void (*expect)(void* object, const ScaleUpPacket* packet) = nullptr;
};

}  // namespace plait::sim
