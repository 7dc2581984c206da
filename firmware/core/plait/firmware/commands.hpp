#pragma once
// What firmware says to the device (commands) and hears from it (events), apart from the packets themselves.

#include <array>
#include <cstdint>
#include <plait/engines/rx_window.hpp>
#include <plait/firmware/packet.hpp>
#include <span>

namespace plait::firmware {

/// A buffer in the device's packet memory; 0 = none. Reference counted by the device: a command that takes a
/// buffer holds it until it is carried out; firmware gives its own reference back with `release`.
using BufferId = std::uint32_t;

/// A range of host memory by device address, checked against a key before a command carries it.
struct Segment {
    std::uint64_t address = 0;
    std::uint32_t length = 0;
};

/// The first segment of a payload is a row of BF16 elements, or a part of one, to be encoded on its way: the
/// payload is what this format makes of it, codes and then scales, from byte `offset` on.
struct RowEncoding {
    regmap::RowFormat format = regmap::RowFormat::bf16;  ///< bf16: nothing is encoded.
    std::uint32_t offset = 0;
    std::uint32_t counter = 0;  ///< That counts infinities and NaN.
};

/// Names a sum of the reduce engine: the accumulator that it is made in, and a round that tells it from the
/// sums before it. A contribution may come when its sum is over, from a device that was given up: it must
/// not find the next one.
struct SumName {
    static constexpr std::uint32_t rounds = 128;
    static constexpr std::uint32_t max_accumulators = 1U << 16;

    static constexpr std::uint32_t of(std::uint32_t accumulator, std::uint32_t round) {
        return round % rounds << 16 | accumulator;
    }
    static constexpr std::uint32_t accumulator(std::uint32_t sum) { return sum & 0xffff; }

    /// What a scale-up frame carries: below bit 31, which tags of rows have.
    static constexpr std::uint32_t tag(std::uint32_t sum, std::uint32_t position) {
        return sum << 8 | position;
    }
    static constexpr std::uint32_t sum_of_tag(std::uint32_t tag) { return tag >> 8; }
    static constexpr std::uint8_t position_of_tag(std::uint32_t tag) {
        return static_cast<std::uint8_t>(tag & 0xff);
    }
};

/// A sum for the reduce engine: `contributions` rows of `elements`, in what format they come and in what
/// format the sum goes.
struct Reduction {
    std::uint8_t contributions = 0;
    std::uint32_t elements = 0;
    regmap::RowFormat from = regmap::RowFormat::bf16;
    regmap::RowFormat to = regmap::RowFormat::bf16;
    std::uint32_t counter = 0;  ///< That counts infinities and NaN of the sum.
};

/// Where the payload of a packet comes from: the host segments in order, then the inline bytes; or a slice of
/// a buffer.
struct Payload {
    std::array<Segment, 2> segments{};
    RowEncoding encoding{};
    std::uint8_t segment_count = 0;
    BufferId buffer = 0;
    std::uint32_t buffer_offset = 0;
    std::span<const std::uint8_t> inline_bytes{};  ///< Read before the command returns.

    /// Nothing: what is left of an earlier payload means nothing.
    void clear() {
        inline_bytes = {};
        encoding.format = regmap::RowFormat::bf16;
        segment_count = 0;
        buffer = 0;
    }
};

/// A packet to be sent. Fields that its opcode does not use need not be written.
struct alignas(32) Draft {
    Packet packet;
    Payload payload;
};

/// A packet has arrived from a plane: well formed, from the queue pair's peer, its place in the receive
/// window decided. Packets without a PSN (ACK, probe, port status) carry no verdict.
struct PacketEvent {
    const Packet& packet;
    BufferId buffer = 0;  ///< Its payload; 0 when it has none. Firmware's reference.
    engines::RxVerdict window{};
    std::span<const std::uint8_t> control{};  ///< Payload of an EP control packet; valid during the event.
};

/// A scale-up frame has arrived from a device of the node, or from this device itself.
struct ScaleUpEvent {
    const ScaleUpHeader& header;
    BufferId buffer = 0;                      ///< Payload of a row. Firmware's reference.
    std::span<const std::uint8_t> control{};  ///< Payload of a control frame; valid during the event.
};

/// Timers: one per queue pair, one per EP call, and the device's own.
enum class TimerKind : std::uint8_t { qp, ep_call, device };
struct TimerId {
    TimerKind kind = TimerKind::device;
    std::uint32_t number = 0;
};

/// Which module a fetched record belongs to, and its own label.
enum class FetchOwner : std::uint8_t { queues, admin, ep };
struct FetchTag {
    FetchOwner owner = FetchOwner::queues;
    std::uint32_t label = 0;
};

/// What windows and planes count of a packet beside its payload.
inline constexpr std::uint32_t packet_overhead_bytes = 128;

/// What a device is made of, fixed at reset.
struct DeviceConfig {
    std::uint32_t device_number = 0;
    std::uint8_t planes = 4;
    std::uint32_t max_qps = 1024;
    std::uint32_t max_memory_regions = 4096;
    std::uint32_t max_groups = 4;
    std::uint32_t transmit_ahead_bytes =
        28U << 10;  ///< Of data packets a plane takes ahead of the wire; the last may go beyond.
    std::uint32_t base_rtt_ns =
        5500;  ///< Of a full packet across leaves of an idle fabric, host read included.
    std::uint32_t plane_rate_gbps = 100;
    std::uint32_t scale_up_rate_gbps = 1280;
    std::uint32_t host_rate_gbps = 1600;
    [[nodiscard]] constexpr std::uint32_t planes_rate_gbps() const { return planes * plane_rate_gbps; }
    std::uint32_t accumulators = 256;  ///< Of the reduce engine, `accumulator_elements` FP32 each.
    std::uint32_t accumulator_elements = 2048;
    /// A sum takes quarters of an accumulator's room, wherever they are, and up to eight of them.
    [[nodiscard]] constexpr std::uint32_t quarter_elements() const { return (accumulator_elements + 3) / 4; }
    [[nodiscard]] constexpr std::uint32_t sum_elements() const { return 2 * accumulator_elements; }
    std::uint64_t packet_memory_bytes = 8ULL
                                        << 20;  ///< What EP holds in it leaves a quarter to arriving packets.
    std::uint64_t group_memory_bytes = 64ULL << 20;  ///< Table memory of one EP group.
    std::uint64_t seed = 1;
};

}  // namespace plait::firmware
