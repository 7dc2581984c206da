// What single packets of plain messages take: the paths that have a budget (docs/firmware.md).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <plait/firmware/packet.hpp>
#include <plait/regmap.hpp>

namespace plait::sim {

/// Counts the instructions of one device's events, apart from the data packets that they send, by what came
/// of the event. Events that have no path (completions, refusals, rows of EP) count nowhere.
class PathCounts {
  public:
    struct Path {
        std::string_view name;
        uint64_t events = 0;
        uint64_t instructions = 0;
        uint64_t most = 0;  ///< Of one event.

        void add(uint64_t count);
        void add(const Path& other);
    };
    /// An ACK that confirms so many packets has a path of its own.
    static constexpr uint64_t max_confirmed = 8;

    PathCounts();

    /// A packet arrives; `cumulative_psn` is that of its verdict.
    void begin(const firmware::Packet& packet, bool accepted, uint32_t cumulative_psn);
    /// Firmware has given a command.
    void given(regmap::CommandKind kind);
    /// That command sent an ACK, a probe or port status; or a data packet, which took so many instructions.
    void sent_control() { ++controls_; }
    void sent_data(firmware::Opcode opcode, uint64_t instructions);
    /// The event is over. It took so many instructions, without data packets; an ACK confirmed `confirmed`.
    void end(uint64_t instructions, uint64_t confirmed);

    /// All of them, also those that nothing took.
    const std::vector<Path>& paths() const { return paths_; }

  private:
    enum Kind : uint8_t {
        none,
        receive_in_order,
        receive_out_of_order,
        receive_acknowledged,
        send_new,
        ack_with_bitmap,
        ack_in_order,  // and of max_confirmed - 1 packets more
        kinds = ack_in_order + max_confirmed,
    };

    std::vector<Path> paths_;
    Kind kind_ = none;
    uint32_t controls_ = 0;
};

}  // namespace plait::sim
