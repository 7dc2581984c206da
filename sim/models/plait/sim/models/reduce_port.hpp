// What the reduce engine does, command by command, for the block that a device may have beside it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <plait/engines/reduce.hpp>
#include <plait/firmware/commands.hpp>
#include <plait/sim/models/engine_blocks.hpp>

namespace plait::sim {

/// Without a block it does nothing. Sums are named by the number of their accumulator.
class ReducePort {
  public:
    /// A row with the handle that names it.
    struct Row {
        uint32_t handle = 0;
        engines::EncodedRow row{};
    };

    explicit ReducePort(EngineBlocks* blocks) : blocks_(blocks) {}

    [[nodiscard]] bool has_block() const { return blocks_ != nullptr; }

    void open(uint32_t number, const firmware::Reduction& reduction);
    void weigh(uint32_t number, std::span<const float> weights);

    /// The row of a position is there, or null: it will not come. `ready` are to be added, and when it
    /// `completes` the sum they are the last ones.
    void offer(uint32_t number, uint32_t position, const Row* row, engines::OfferStatus status,
               std::span<const Row> ready, bool completes);

    /// The sum that was opened without rows or whose last ones were ready.
    void gave(uint32_t number, const firmware::Reduction& reduction, std::span<const uint8_t> bytes,
              uint32_t non_finite);

    /// Before its sum is complete.
    void close(uint32_t number, const std::vector<uint32_t>& waiting);

    // What the latest command took.
    [[nodiscard]] const ReduceCycles& cycles() const { return cycles_; }

  private:
    void ask(const ReduceCommand& command, ReduceAnswer expected = {}, std::span<const Row> ready = {},
             bool completes = false);

    EngineBlocks* const blocks_;
    ReduceCycles cycles_;
};

}  // namespace plait::sim
