#include <plait/sim/verilated/verilated_engines.hpp>

#include <fmt/format.h>

#include <numeric>
#include <optional>
#include <plait/sim/verilated/forward_ports.hpp>
#include <plait/sim/verilated/icrc_ports.hpp>
#include <plait/sim/verilated/order_ports.hpp>
#include <plait/sim/verilated/quantise_block.hpp>
#include <plait/sim/verilated/reduce_block.hpp>
#include <plait/sim/verilated/spray_ports.hpp>
#include <plait/sim/verilated/window_ports.hpp>
#include <span>
#include <sstream>
#include <utility>
#include <vector>

namespace plait::sim {

namespace {

/// A packet in a message: what it begins with and how long it is.
struct ShownPacket {
    std::span<const uint8_t> bytes;

    friend std::ostream& operator<<(std::ostream& out, const ShownPacket& packet) {
        out << packet.bytes.size() << " bytes, first";
        for (const uint8_t byte : packet.bytes.first(std::min<size_t>(packet.bytes.size(), 64)))
            out << fmt::format(" {:02x}", byte);
        return out;
    }
};

template <typename Value>
std::string text_of(const Value& value) {
    std::ostringstream out;
    out << value;
    return out.str();
}

/// A block, if the device has it, and what it has done.
template <typename Block>
struct Engine {
    Engine(EngineBlock which, EngineBlockSet set, uint64_t seed) {
        use.name = engine_block_names[static_cast<size_t>(which)];
        if (contains(set, which)) block.emplace(seed);
    }

    auto ask(const auto& beats) {
        auto outcome = block->ask(beats);
        use.add({outcome.latency, outcome.interval});
        return outcome;
    }

    BlockUse use;
    std::optional<Block> block;
};

class VerilatedEngines final : public EngineBlocks {
  public:
    VerilatedEngines(uint32_t device, uint64_t seed, EnginesDiffer differs, EngineBlockSet set);

    [[nodiscard]] bool has(EngineBlock block) const override { return contains(set_, block); }
    BlockCycles window(const WindowCommand& command, const WindowAnswer& expected) override;
    BlockCycles spray(const SprayCommand& command, const SprayAnswer& expected) override;
    BlockCycles icrc(std::span<const uint8_t> packet, uint32_t expected) override;
    BlockCycles forward(const ForwardRow& row, const ForwardAnswer& expected) override;
    BlockCycles order(const OrderCommand& command, const OrderAnswer& expected) override;
    BlockCycles quantise(const QuantiseRow& row, const QuantiseAnswer& expected) override;
    ReduceCycles reduce(const ReduceCommand& command, std::span<const engines::EncodedRow> rows,
                        const ReduceAnswer& expected, bool gives_result) override;
    void reduced(const ReduceResult& expected) override;
    std::vector<BlockUse> use() const override;

  private:
    template <typename Ports>
    BlockCycles carry_out(Engine<VerilatedBlock<Ports>>& engine, const typename Ports::Command& command,
                          const typename Ports::Answer& expected, BlockCycles usual);
    template <typename Command, typename Answer>
    void compare(const BlockUse& block, const Command& command, const Answer& answer, const Answer& expected);

    const uint32_t device_;
    const EnginesDiffer differs_;
    const EngineBlockSet set_;
    bool differed_ = false;
    Engine<VerilatedBlock<WindowPorts>> window_;
    Engine<VerilatedBlock<SprayPorts>> spray_;
    Engine<VerilatedBlock<IcrcPorts>> icrc_;
    Engine<VerilatedBlock<ForwardPorts>> forward_;
    Engine<VerilatedBlock<OrderPorts>> order_;
    Engine<QuantiseBlock> quantise_;
    Engine<ReduceBlock> reduce_;
    std::vector<IcrcBeat> beats_;
    ReduceCommand reduce_command_;  // the latest,
    ReduceResult reduce_result_;    // and what came of it
};

VerilatedEngines::VerilatedEngines(uint32_t device, uint64_t seed, EnginesDiffer differs, EngineBlockSet set)
    : device_(device),
      differs_(std::move(differs)),
      set_(set),
      window_(EngineBlock::rx_window, set, seed),
      spray_(EngineBlock::spray, set, seed),
      icrc_(EngineBlock::icrc, set, seed),
      forward_(EngineBlock::forward, set, seed),
      order_(EngineBlock::order, set, seed),
      quantise_(EngineBlock::quantise, set, seed),
      reduce_(EngineBlock::reduce, set, seed) {}

// A command of one beat with one answer; `usual` is what the C++ engine takes.
template <typename Ports>
BlockCycles VerilatedEngines::carry_out(Engine<VerilatedBlock<Ports>>& engine,
                                        const typename Ports::Command& command,
                                        const typename Ports::Answer& expected, BlockCycles usual) {
    if (differed_) return usual;
    const auto outcome = engine.ask(std::span(&command, 1));
    compare(engine.use, command, outcome.answers.back(), expected);
    return {outcome.latency, outcome.interval};
}

BlockCycles VerilatedEngines::window(const WindowCommand& command, const WindowAnswer& expected) {
    return carry_out(window_, command, expected, window_cycles);
}

BlockCycles VerilatedEngines::spray(const SprayCommand& command, const SprayAnswer& expected) {
    return carry_out(spray_, command, expected, spray_cycles);
}

BlockCycles VerilatedEngines::icrc(std::span<const uint8_t> packet, uint32_t expected) {
    beats_.clear();
    append(beats_, packet);
    const auto beats = static_cast<uint32_t>(beats_.size());
    if (differed_) return {beats - 1 + icrc_tail_cycles, beats};
    const auto outcome = icrc_.ask(beats_);
    compare(icrc_.use, ShownPacket{packet}, outcome.answers.back(), {regmap::Status::ok, expected});
    return {outcome.latency, outcome.interval};
}

BlockCycles VerilatedEngines::forward(const ForwardRow& row, const ForwardAnswer& expected) {
    return carry_out(forward_, row, expected, forward_cycles);
}

BlockCycles VerilatedEngines::order(const OrderCommand& command, const OrderAnswer& expected) {
    if (differed_) return order_cycles;
    auto outcome = order_.ask(std::span(&command, 1));
    OrderAnswer answer = std::move(outcome.answers.back().answer);
    outcome.answers.pop_back();
    for (const OrderPorts::Answer& released : outcome.answers) answer.tags.push_back(released.tag);
    compare(order_.use, command, answer, expected);
    return {outcome.latency, outcome.interval};
}

BlockCycles VerilatedEngines::quantise(const QuantiseRow& row, const QuantiseAnswer& expected) {
    if (differed_)
        return {quantise_latency_cycles(row.format, row.elements.size()), encode_cycles(row.elements.size())};
    const QuantiseAnswer answer = quantise_.block->run(std::span(&row, 1)).front();
    const BlockCycles cycles = quantise_.block->taken_cycles();
    quantise_.use.add(cycles);
    compare(quantise_.use, row, answer, expected);
    return cycles;
}

ReduceCycles VerilatedEngines::reduce(const ReduceCommand& command, std::span<const engines::EncodedRow> rows,
                                      const ReduceAnswer& expected, bool gives_result) {
    ReduceCycles cycles;
    if (!differed_) {
        ReduceOutcome outcome = reduce_.block->ask(command, rows, gives_result, cycles);
        reduce_.use.add({std::accumulate(cycles.rows.begin(), cycles.rows.end(), cycles.result), 1});
        ReduceAnswer answer;
        if (!outcome.answers.empty()) answer = std::move(outcome.answers.front());
        answer.fetched = std::move(outcome.fetched);
        compare(reduce_.use, command, answer, expected);
        reduce_result_ = outcome.results.empty() ? ReduceResult{} : std::move(outcome.results.front());
    }
    reduce_command_ = command;
    cycles.rows.resize(rows.size());
    return cycles;
}

void VerilatedEngines::reduced(const ReduceResult& expected) {
    if (!differed_) compare(reduce_.use, reduce_command_, reduce_result_, expected);
}

std::vector<BlockUse> VerilatedEngines::use() const {
    std::vector<BlockUse> uses;
    const auto note = [&](const auto& engine) {
        if (engine.block) uses.push_back(engine.use);
    };
    note(window_), note(spray_), note(icrc_), note(forward_), note(order_), note(quantise_), note(reduce_);
    return uses;
}

template <typename Command, typename Answer>
void VerilatedEngines::compare(const BlockUse& block, const Command& command, const Answer& answer,
                               const Answer& expected) {
    if (answer == expected) return;
    differed_ = true;
    differs_(fmt::format("device {}: {}, command {}: {}: it answers {}, the C++ engine {}", device_,
                         block.name, block.commands, text_of(command), text_of(answer), text_of(expected)));
}

}  // namespace

std::unique_ptr<EngineBlocks> make_verilated_engines(uint32_t device, uint64_t seed, EnginesDiffer differs,
                                                     EngineBlockSet set) {
    return std::make_unique<VerilatedEngines>(device, seed, std::move(differs), set);
}

}  // namespace plait::sim
