// What the device's engines tell the device, and the packets they carry.
#pragma once

#include <array>
#include <cstdint>

#include <plait/firmware/commands.hpp>
#include <plait/sim/fabric/packet.hpp>
#include <plait/sim/models/payload.hpp>

namespace plait::sim {

/// A packet of the planes; its owner is the PlanePorts that sent it. Holds one reference of its payload
/// block. What every event looks at comes first: the event queue brings the first cache lines.
struct alignas(64) PlanePacket : FabricPacket {
    PayloadSlice payload;
    firmware::BufferId held = 0;  ///< Sender's buffer that is read until the packet starts onto the wire.
    firmware::Packet header;
};

/// Copies of one scale-up command that have not left yet; firmware wants to know when all have.
struct LeavingCopies {
    uint32_t remaining = 0;
    uint32_t tag = 0;
};

/// A frame of the scale-up network; its owner is the ScaleUpPort that sent it. Holds one reference of its
/// payload block. Ordered as PlanePacket is.
struct alignas(64) ScaleUpFrame : ScaleUpPacket {
    PayloadSlice payload;
    LeavingCopies* leaving = nullptr;  ///< Null: nobody waits for this copy to leave.
    firmware::BufferId held = 0;       ///< Sender's buffer that is read until the frame has left.
    firmware::ScaleUpHeader header;
};
static_assert(sizeof(ScaleUpFrame) - sizeof(ScaleUpFrame::header.choices) <= 128,
              "without choices two lines");

/// Pools that all devices of a cluster share.
struct PacketPools {
    PayloadPool payload;
    ObjectPool<PlanePacket> packets;
    ObjectPool<ScaleUpFrame> frames;
};

/// Called by the engines at the time of the event. References to packets and frames are valid during the
/// call.
class EngineEvents {
  public:
    virtual void plane_started(uint8_t plane,
                               uint32_t payload_bytes) = 0;  ///< A data packet starts onto the wire.
    virtual void plane_arrived(PlanePacket& packet) = 0;
    virtual void plane_changed(uint8_t plane, bool up) = 0;
    virtual void frame_arrived(ScaleUpFrame& frame,
                               firmware::BufferId buffer) = 0;  ///< With a reference of the buffer.
    virtual void frames_sent(uint32_t tag) = 0;  ///< All copies of a command that asked to be told.
    virtual void scale_up_changed(uint8_t local, bool up) = 0;
    virtual void reduced(uint32_t sum,
                         firmware::BufferId result) = 0;  ///< With a reference of the buffer.
    virtual void timer_fired(firmware::TimerId timer) = 0;
    /// They will arrive in a moment: what will be looked at is brought into the cache, nothing is changed.
    virtual void plane_expected(const PlanePacket& packet) = 0;
    virtual void frame_expected(const ScaleUpFrame& frame) = 0;
    virtual void reduction_expected(uint32_t sum) = 0;

  protected:
    ~EngineEvents() = default;
};

}  // namespace plait::sim
