// The engines of one device as Verilated blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <plait/sim/models/engine_blocks.hpp>

namespace plait::sim {

/// Called once, with a line that names device, block, command and both answers.
using EnginesDiffer = std::function<void(const std::string& line)>;

/// Those of `set`. A command has its block for itself, and the block is clocked while it has one: what
/// overlaps in time is the device's to reckon (EngineTimer). After the first difference nothing is compared
/// any more. What reset leaves alone in the blocks is drawn with `seed`.
std::unique_ptr<EngineBlocks> make_verilated_engines(uint32_t device, uint64_t seed, EnginesDiffer differs,
                                                     EngineBlockSet set = all_engine_blocks);

}  // namespace plait::sim
