#pragma once
// The placement counters of a device, once over the C++ engine and once Verilated.

#include <plait/regmap.hpp>
#include <plait/sim/models/order_engine.hpp>
#include <plait/sim/verilated/order_ports.hpp>
#include <vector>

#include "verilated_block.hpp"

namespace plait::contract {

inline constexpr uint32_t order_counters = sim::OrderEngine::counters;
inline constexpr uint32_t order_releases = sim::OrderEngine::releases;

using sim::OrderAnswer;
using sim::OrderCommand;
using sim::OrderPorts;

class OrderReference : public sim::OrderEngine {
  public:
    using OrderEngine::run;
    std::vector<OrderAnswer> run(std::span<const OrderCommand> commands) {
        std::vector<OrderAnswer> answers;
        for (const OrderCommand& command : commands) answers.push_back(run(command));
        return answers;
    }
};

class OrderRtl {
  public:
    explicit OrderRtl(uint64_t seed = 1) : block_(seed) {}

    std::vector<OrderAnswer> run(std::span<const OrderCommand> commands, Stalls stalls = {}) {
        std::vector<OrderAnswer> answers;
        std::vector<uint64_t> tags;
        for (OrderPorts::Answer& beat : block_.run(commands, stalls)) {
            if (beat.is_tag) {
                tags.push_back(beat.tag);
            } else {
                beat.answer.tags.swap(tags);
                answers.push_back(std::move(beat.answer));
            }
        }
        return answers;
    }

    [[nodiscard]] uint64_t cycles() const { return block_.cycles(); }

  private:
    VerilatedBlock<OrderPorts> block_;
};

}  // namespace plait::contract
