#include <plait/sim/models/engine_blocks.hpp>

#include <plait/engines/icrc.hpp>

namespace plait::sim {

uint32_t icrc_tail(EngineBlocks& blocks, std::span<const uint8_t> frame) {
    constexpr size_t around_bytes = regmap::Ethernet::size_bytes + sizeof(uint32_t);
    if (frame.size() <= around_bytes) return icrc_tail_cycles;
    const auto packet = frame.subspan(regmap::Ethernet::size_bytes, frame.size() - around_bytes);
    const BlockCycles cycles = blocks.icrc(packet, engines::icrc(packet));
    return cycles.latency + 1 - cycles.interval;
}

}  // namespace plait::sim
