// Commands and answers of the engines that exist as blocks of their own (rtl_models), and what the C++ engine
// answers where a command is all that it needs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <ostream>
#include <vector>

#include <plait/engines/forward.hpp>
#include <plait/engines/rx_window.hpp>
#include <plait/regmap.hpp>

namespace plait::sim {

/// Cycles of one command: from the first in which it is offered until the one in which its answer is there,
/// and until the next command can be taken.
struct BlockCycles {
    uint32_t latency = 0;
    uint32_t interval = 1;
};

// What the blocks take; tests/verilated holds these to them.
inline constexpr BlockCycles window_cycles{3, 1};
inline constexpr BlockCycles spray_cycles{3, 1};  ///< Of all but configure.
inline constexpr BlockCycles forward_cycles{1, 1};
inline constexpr BlockCycles order_cycles{2, 1};  ///< Of what need not walk.
inline constexpr uint32_t icrc_tail_cycles = 6;   ///< From a packet's last bytes to its ICRC.
inline constexpr uint32_t icrc_bytes_a_cycle = 64;

struct WindowCommand {
    regmap::WindowOpcode opcode = regmap::WindowOpcode::receive;
    uint32_t qp = 0;
    uint32_t psn = 0;
    uint16_t window_packets = 0;

    friend std::ostream& operator<<(std::ostream& out, const WindowCommand& command) {
        return out << "opcode " << static_cast<int>(command.opcode) << " qp " << command.qp << std::hex
                   << " psn " << command.psn << std::dec << " packets " << command.window_packets;
    }
};

struct WindowAnswer {
    regmap::Status status = regmap::Status::ok;
    engines::RxVerdict verdict{};
    uint32_t highest = 0;
    std::array<uint64_t, 2> bitmap{};

    bool operator==(const WindowAnswer& other) const {
        return status == other.status && verdict.verdict == other.verdict.verdict &&
               verdict.cumulative_psn == other.verdict.cumulative_psn &&
               verdict.advanced == other.verdict.advanced && verdict.hole == other.verdict.hole &&
               highest == other.highest && bitmap == other.bitmap;
    }
    friend std::ostream& operator<<(std::ostream& out, const WindowAnswer& answer) {
        return out << std::hex << "status " << static_cast<int>(answer.status) << " verdict "
                   << static_cast<int>(answer.verdict.verdict) << " next " << answer.verdict.cumulative_psn
                   << (answer.verdict.advanced ? " advanced" : "") << (answer.verdict.hole ? " hole" : "")
                   << " highest " << answer.highest << " bitmap " << answer.bitmap[1] << ' '
                   << answer.bitmap[0] << std::dec;
    }
};

/// What a window says of itself.
inline WindowAnswer state_of(const engines::RxWindow& window) {
    WindowAnswer answer;
    answer.verdict.cumulative_psn = window.next_expected();
    answer.highest = window.highest();
    answer.verdict.hole = answer.highest != window.next_expected();
    return answer;
}

struct IcrcAnswer {
    regmap::Status status = regmap::Status::ok;
    uint32_t icrc = 0;

    bool operator==(const IcrcAnswer&) const = default;
    friend std::ostream& operator<<(std::ostream& out, const IcrcAnswer& answer) {
        return out << "status " << static_cast<int>(answer.status) << std::hex << " icrc " << answer.icrc
                   << std::dec;
    }
};

inline constexpr uint32_t forward_ranks = regmap::max_ranks_per_node;

struct ForwardRow {
    uint8_t targets = 0;
    uint8_t node_size = 0;
    uint8_t own_rank = 0;
    uint8_t index_count = 0;
    std::array<uint32_t, forward_ranks> indices{};

    friend std::ostream& operator<<(std::ostream& out, const ForwardRow& row) {
        out << std::hex << "targets " << int{row.targets} << std::dec << " node size " << int{row.node_size}
            << " own rank " << int{row.own_rank} << " indices";
        for (size_t i = 0; i < std::min<size_t>(row.index_count, forward_ranks); ++i)
            out << ' ' << row.indices[i];
        return out;
    }
};

struct ForwardAnswer {
    regmap::Status status = regmap::Status::ok;
    uint64_t targets = 0;
    std::array<uint32_t, forward_ranks> indices{};  ///< By rank.
    uint32_t copies = 0;
    bool includes_own = false;
    uint64_t remote = 0;

    bool operator==(const ForwardAnswer&) const = default;
    friend std::ostream& operator<<(std::ostream& out, const ForwardAnswer& answer) {
        out << "status " << static_cast<int>(answer.status) << std::hex << " targets " << answer.targets
            << " remote " << answer.remote << std::dec << (answer.includes_own ? " own" : "") << " copies "
            << answer.copies << " indices";
        for (const uint32_t index : answer.indices) out << ' ' << index;
        return out;
    }
};

inline ForwardAnswer answer_of(const ForwardRow& row) {
    // The engine checks the number of indices that it is given; more than the row can hold stand for too
    // many.
    std::array<uint32_t, 256> indices{};
    std::copy(row.indices.begin(), row.indices.end(), indices.begin());
    const auto set = engines::ForwardSet::make(row.targets, row.node_size, row.own_rank,
                                               std::span(indices).first(row.index_count));
    // The block is made for nodes of the contract's size, the engine for larger ones too.
    if (!set || row.node_size > forward_ranks) return {.status = regmap::Status::invalid_parameter};
    ForwardAnswer answer{.targets = set->targets(),
                         .copies = set->copies(),
                         .includes_own = set->includes_own(),
                         .remote = set->remote_targets()};
    set->for_each([&](uint32_t rank, uint32_t index) { answer.indices[rank] = index; });
    return answer;
}

struct OrderCommand {
    regmap::OrderOpcode opcode = regmap::OrderOpcode::place;
    uint32_t counter = 0;
    uint64_t count = 0;  ///< place: the amount; release: what is required
    uint64_t tag = 0;

    friend std::ostream& operator<<(std::ostream& out, const OrderCommand& command) {
        return out << "opcode " << static_cast<int>(command.opcode) << " counter " << command.counter
                   << " count " << command.count << " tag " << command.tag;
    }
};

struct OrderAnswer {
    regmap::Status status = regmap::Status::ok;
    bool kept = false;
    uint64_t placed = 0;
    uint32_t waiting = 0;
    std::vector<uint64_t> tags{};  ///< Released, or dropped.

    bool operator==(const OrderAnswer&) const = default;
    friend std::ostream& operator<<(std::ostream& out, const OrderAnswer& answer) {
        out << "status " << static_cast<int>(answer.status) << (answer.kept ? " kept" : "") << " placed "
            << answer.placed << " waiting " << answer.waiting << " tags";
        for (const uint64_t tag : answer.tags) out << ' ' << tag;
        return out;
    }
};

}  // namespace plait::sim
