// Engines of a device that are there as blocks too, beside the C++ engines.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <plait/sim/models/engine_commands.hpp>
#include <plait/sim/models/row_commands.hpp>
#include <plait/sim/models/servers.hpp>
#include <plait/sim/models/spray_commands.hpp>

namespace plait::sim {

/// The engines that exist as blocks, and the blocks' names.
enum class EngineBlock : uint8_t { rx_window, spray, icrc, forward, order, quantise, reduce };
inline constexpr std::array<std::string_view, 7> engine_block_names{
    "plait_rx_window", "plait_spray",    "plait_icrc",  "plait_forward",
    "plait_order",     "plait_quantise", "plait_reduce"};

/// Some of them, a bit each.
using EngineBlockSet = uint32_t;
inline constexpr EngineBlockSet all_engine_blocks = (1U << engine_block_names.size()) - 1;
constexpr bool contains(EngineBlockSet set, EngineBlock block) {
    return (set >> static_cast<uint32_t>(block) & 1) != 0;
}

/// How much a block has done.
struct BlockUse {
    std::string name{};
    uint64_t commands = 0;
    uint64_t latency_cycles = 0;  ///< Of all commands.
    uint32_t latency_cycles_max = 0;

    void add(BlockCycles cycles) {
        ++commands;
        latency_cycles += cycles.latency;
        latency_cycles_max = std::max(latency_cycles_max, cycles.latency);
    }
};

/// Each function carries out one command, compares the block's answer with that of the C++ engine, and says
/// what the block took. Who implements it ends the run when they differ.
class EngineBlocks {
  public:
    virtual ~EngineBlocks() = default;
    /// The functions of other blocks are not called.
    [[nodiscard]] virtual bool has(EngineBlock block) const = 0;
    virtual BlockCycles window(const WindowCommand& command, const WindowAnswer& expected) = 0;
    virtual BlockCycles spray(const SprayCommand& command, const SprayAnswer& expected) = 0;
    /// `packet` is what the ICRC covers: from the first byte of the IP header to the last pad byte.
    virtual BlockCycles icrc(std::span<const uint8_t> packet, uint32_t expected) = 0;
    virtual BlockCycles forward(const ForwardRow& row, const ForwardAnswer& expected) = 0;
    virtual BlockCycles order(const OrderCommand& command, const OrderAnswer& expected) = 0;
    virtual BlockCycles quantise(const QuantiseRow& row, const QuantiseAnswer& expected) = 0;
    /// `rows` are those that the command has added, in this order: as many cycles are answered. When they are
    /// the last ones of their sum, which has a result then, reduced() follows.
    virtual ReduceCycles reduce(const ReduceCommand& command, std::span<const engines::EncodedRow> rows,
                                const ReduceAnswer& expected, bool gives_result) = 0;
    virtual void reduced(const ReduceResult& expected) = 0;
    virtual std::vector<BlockUse> use() const = 0;
};

/// Makes the blocks of a device; null for one whose engines are C++ alone.
using EngineBlocksFactory = std::function<std::unique_ptr<EngineBlocks>(uint32_t device)>;

/// Has the block compute the ICRC of a whole frame, of what it covers; cycles from the frame's last bytes to
/// the answer.
uint32_t icrc_tail(EngineBlocks& blocks, std::span<const uint8_t> frame);

/// When an engine answers that takes one command after the other.
class EngineTimer {
  public:
    explicit EngineTimer(uint64_t cycle_ps) : cycle_ps_(cycle_ps) {}

    /// A command that is given now and ready at `ready_ps`.
    uint64_t answered_ps(uint64_t now_ps, uint64_t ready_ps, BlockCycles cycles) {
        return engine_.take(now_ps, ready_ps, cycles.interval * cycle_ps_).start_ps +
               cycles.latency * cycle_ps_;
    }
    /// The same, but for what `usual` takes: that is in a latency which whoever asks adds.
    uint64_t answered_ps(uint64_t now_ps, uint64_t ready_ps, BlockCycles cycles, BlockCycles usual) {
        return answered_ps(now_ps, ready_ps, cycles) - usual.latency * cycle_ps_;
    }

  private:
    uint64_t cycle_ps_;
    Server engine_;
};

/// What is left of a pipe's latency beside that of its engines.
inline uint64_t beside_engines_ps(uint64_t latency_ps, uint64_t engines_ps) {
    return latency_ps > engines_ps ? latency_ps - engines_ps : 0;
}

}  // namespace plait::sim
