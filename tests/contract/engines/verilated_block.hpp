#pragma once
// The blocks as the simulator drives them, for backends of the contract tests.

#include <plait/sim/verilated/verilated_block.hpp>

namespace plait::contract {

using sim::ClockedModel;
using sim::most_idle_cycles;
using sim::Offers;
using sim::Stalls;
using sim::VerilatedBlock;

}  // namespace plait::contract
