#pragma once
// The pace of a call. Ranks differ in rows by some per cent. Were all to go as fast as they can, those with
// few rows would take their share of the links they meet on first, and those with many, which decide when the
// call is over, would finish alone. So every rank goes evenly through its rows in the time that the group's
// busiest link needs for its own.

#include <cstdint>
#include <plait/firmware/commands.hpp>

namespace plait::firmware {

/// How long `rows` of `row_bytes` in `parts` packets take at `rate_gbps`, with what comes along with each:
/// headers, preamble and gap, and half an acknowledgement.
constexpr std::uint64_t link_time_ns(std::uint64_t rate_gbps, std::uint32_t rows, std::uint32_t row_bytes,
                                     std::uint32_t parts) {
    constexpr std::uint32_t along_bytes = 192;
    return std::uint64_t{rows} * (row_bytes + parts * along_bytes) * 8 / rate_gbps;
}

/// How many of a call's rows may have been started.
class EpPace {
  public:
    /// Rows that may always be under way: the pace never stops a call.
    static constexpr std::uint32_t rows_ahead = 16;

    /// `rows` from `now_ns` on, or from before the call began, when it takes a while until the links are
    /// busy. As fast as they go, until set_duration().
    void start(std::uint64_t now_ns, std::uint32_t rows) {
        *this = EpPace{};
        start_ns_ = now_ns;
        rows_ = rows;
    }

    /// The rows are to take `duration_ns` from the start. 0: as fast as they go.
    void set_duration(std::uint64_t duration_ns) {
        duration_ns_ = duration_ns;
        if (duration_ns != 0) rows_per_ns_q32_ = (std::uint64_t{rows_} << 32) / duration_ns;
    }

    /// Rows that may have been started by now, when `done` of them are done.
    [[nodiscard]] std::uint32_t allowed(std::uint64_t now_ns, std::uint32_t done) const {
        const std::uint64_t elapsed_ns = now_ns - start_ns_;
        if (elapsed_ns >= duration_ns_) return rows_;
        const auto due = static_cast<std::uint32_t>((elapsed_ns * rows_per_ns_q32_) >> 32);
        return (due > done ? due : done) + rows_ahead;
    }

  private:
    std::uint64_t start_ns_ = 0;
    std::uint64_t duration_ns_ = 0;
    std::uint64_t rows_per_ns_q32_ = 0;
    std::uint32_t rows_ = 0;
};

}  // namespace plait::firmware
