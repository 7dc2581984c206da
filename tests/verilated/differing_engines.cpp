// Instead of Verilated blocks: engines of which one soon says something else than the C++ engine.
#include <plait/sim/verilated/verilated_engines.hpp>

namespace plait::sim {
namespace {

class DifferingEngines final : public EngineBlocks {
  public:
    DifferingEngines(uint32_t device, EnginesDiffer differs)
        : device_(device), differs_(std::move(differs)) {}

    [[nodiscard]] bool has(EngineBlock) const override { return true; }
    BlockCycles window(const WindowCommand&, const WindowAnswer&) override {
        if (++windows_ == 20) differs_("device " + std::to_string(device_) + ": another answer");
        return window_cycles;
    }
    BlockCycles spray(const SprayCommand&, const SprayAnswer&) override { return spray_cycles; }
    BlockCycles icrc(std::span<const uint8_t>, uint32_t) override { return {icrc_tail_cycles, 1}; }
    BlockCycles forward(const ForwardRow&, const ForwardAnswer&) override { return forward_cycles; }
    BlockCycles order(const OrderCommand&, const OrderAnswer&) override { return order_cycles; }
    BlockCycles quantise(const QuantiseRow&, const QuantiseAnswer&) override { return {1, 1}; }
    ReduceCycles reduce(const ReduceCommand&, std::span<const engines::EncodedRow> rows, const ReduceAnswer&,
                        bool) override {
        return {std::vector<uint32_t>(rows.size(), 1), 1, 1};
    }
    void reduced(const ReduceResult&) override {}
    std::vector<BlockUse> use() const override { return {}; }

  private:
    uint32_t device_;
    EnginesDiffer differs_;
    uint32_t windows_ = 0;
};

}  // namespace

std::unique_ptr<EngineBlocks> make_verilated_engines(uint32_t device, uint64_t, EnginesDiffer differs,
                                                     EngineBlockSet) {
    return std::make_unique<DifferingEngines>(device, std::move(differs));
}

}  // namespace plait::sim
