// What a device counts for the report.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include <plait/regmap.hpp>
#include <plait/sim/models/work.hpp>

namespace plait::sim {

/// Log-linear histogram of nanoseconds: 16 buckets an octave, so a value is known to 6 % (below 16 ns
/// exactly). Fixed size; histograms add up.
class LatencyHistogram {
  public:
    void add(uint64_t value_ns) {
        ++counts_[bucket_of(value_ns)];
        ++total_;
        max_ns_ = std::max(max_ns_, value_ns);
    }

    LatencyHistogram& operator+=(const LatencyHistogram& other) {
        for (size_t i = 0; i < counts_.size(); ++i) {
            counts_[i] += other.counts_[i];
        }
        total_ += other.total_;
        max_ns_ = std::max(max_ns_, other.max_ns_);
        return *this;
    }

    /// What has been added since `earlier`, a copy of this histogram's past. The maximum is then known to a
    /// bucket.
    LatencyHistogram& operator-=(const LatencyHistogram& earlier) {
        total_ -= earlier.total_;
        uint64_t greatest = 0;
        for (size_t i = 0; i < counts_.size(); ++i) {
            counts_[i] -= earlier.counts_[i];
            if (counts_[i] != 0) greatest = upper_end(i);
        }
        max_ns_ = std::min(max_ns_, greatest);
        return *this;
    }

    uint64_t count() const { return total_; }
    uint64_t max_ns() const { return max_ns_; }

    /// Upper end of the bucket in which the given fraction (0 .. 1) of the values is reached; 0 when there
    /// are none.
    uint64_t percentile_ns(double fraction) const {
        const auto wanted = static_cast<uint64_t>(fraction * static_cast<double>(total_) + 0.5);
        uint64_t seen = 0;
        for (size_t i = 0; i < counts_.size(); ++i) {
            seen += counts_[i];
            if (seen != 0 && seen >= wanted) {
                return std::min(max_ns_, upper_end(i));
            }
        }
        return max_ns_;
    }

  private:
    static constexpr unsigned linear_bits = 4;
    static constexpr uint64_t linear = 1U << linear_bits;
    static constexpr unsigned max_bits = 40;  // 18 minutes; longer ones count in the last bucket

    static size_t bucket_of(uint64_t value) {
        value = std::min(value, (uint64_t{1} << max_bits) - 1);
        if (value < linear) {
            return value;
        }
        const auto octave = static_cast<unsigned>(std::bit_width(value)) - linear_bits - 1;
        return (octave + 1) * linear + (value >> octave) - linear;
    }

    static uint64_t upper_end(size_t bucket) {
        if (bucket < linear) {
            return bucket;
        }
        const size_t octave = bucket / linear - 1;
        return ((linear + bucket % linear + 1) << octave) - 1;
    }

    std::array<uint64_t, (max_bits - linear_bits + 1) * linear> counts_{};
    uint64_t total_ = 0;
    uint64_t max_ns_ = 0;
};

struct PacketCount {
    uint64_t packets = 0;
    uint64_t bytes = 0;  ///< On the wire or link, framing included.

    void add(uint64_t size_bytes) {
        ++packets;
        bytes += size_bytes;
    }
};

struct WorkCount {
    uint64_t events = 0;
    uint64_t instructions = 0;
};

/// Counters of one device since it was made.
struct DeviceStatistics {
    PacketCount scale_out_data_sent;  ///< Retransmissions included.
    PacketCount scale_out_control_sent;
    PacketCount scale_out_data_delivered;  ///< Accepted by window and firmware: each packet counts once.
    PacketCount scale_out_control_delivered;
    PacketCount scale_out_corrupt;   ///< Bits had been flipped on the way, whatever became of it.
    PacketCount scale_up_data_sent;  ///< Rows and contributions, a copy each; the loopback included.
    PacketCount scale_up_control_sent;
    PacketCount scale_up_data_delivered;
    PacketCount scale_up_control_delivered;
    PacketCount loopback;                  ///< Part of scale_up_data_sent that never used the link.
    uint64_t payload_bytes_delivered = 0;  ///< Scale-out, without framing.

    std::array<uint64_t, 32> drops{};  ///< Packets received and dropped, by regmap::DropReason.
    uint64_t lost_in_fabric = 0;       ///< Packets of this device that the planes lost.
    uint64_t lost_in_scale_up = 0;

    std::array<WorkCount, work_kinds> work{};
    uint64_t core_busy_ps = 0;      ///< Of all cores together.
    uint64_t core_busy_max_ps = 0;  ///< Of the busiest core.

    uint64_t host_read_bytes = 0;
    uint64_t host_written_bytes = 0;
    uint64_t host_faults = 0;  ///< DMA to unmapped addresses.

    uint64_t packet_memory_high_water_bytes = 0;
    uint64_t packet_memory_refused = 0;  ///< Packets that found no room.
    uint64_t scale_up_waited = 0;        ///< Scale-up frames that had to wait for room.
    uint64_t accumulator_high_water = 0;
    uint64_t reductions = 0;
    uint64_t reduce_busy_ps = 0;
    uint64_t reduce_refused = 0;  ///< Contributions that fitted no open accumulator and position.
    uint32_t window_high_water =
        0;  ///< Packets between the next expected and the highest received, over all QPs.

    LatencyHistogram latency;  ///< Of data packets: firmware's order to send to placement in host memory.
    uint64_t last_placement_ps = 0;
};

}  // namespace plait::sim
