#include <plait/sim/verilated/verilated_engines.hpp>

#include <fmt/format.h>

#include <plait/sim/verilated/forward_ports.hpp>
#include <plait/sim/verilated/icrc_ports.hpp>
#include <plait/sim/verilated/order_ports.hpp>
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

class VerilatedEngines final : public EngineBlocks {
  public:
    VerilatedEngines(uint32_t device, uint64_t seed, EnginesDiffer differs);

    BlockCycles window(const WindowCommand& command, const WindowAnswer& expected) override;
    BlockCycles spray(const SprayCommand& command, const SprayAnswer& expected) override;
    BlockCycles icrc(std::span<const uint8_t> packet, uint32_t expected) override;
    BlockCycles forward(const ForwardRow& row, const ForwardAnswer& expected) override;
    BlockCycles order(const OrderCommand& command, const OrderAnswer& expected) override;
    std::vector<BlockUse> use() const override;

  private:
    template <typename Ports>
    struct Engine {
        explicit Engine(const char* name, uint64_t seed) : use{.name = name}, block(seed) {}

        auto ask(std::span<const typename Ports::Command> beats) {
            auto outcome = block.ask(beats);
            use.add({outcome.latency, outcome.interval});
            return outcome;
        }

        BlockUse use;
        VerilatedBlock<Ports> block;
    };

    template <typename Ports>
    BlockCycles carry_out(Engine<Ports>& engine, const typename Ports::Command& command,
                          const typename Ports::Answer& expected, BlockCycles usual);
    template <typename Command, typename Answer>
    void compare(const BlockUse& block, const Command& command, const Answer& answer, const Answer& expected);

    const uint32_t device_;
    const EnginesDiffer differs_;
    bool differed_ = false;
    Engine<WindowPorts> window_;
    Engine<SprayPorts> spray_;
    Engine<IcrcPorts> icrc_;
    Engine<ForwardPorts> forward_;
    Engine<OrderPorts> order_;
    std::vector<IcrcBeat> beats_;
};

VerilatedEngines::VerilatedEngines(uint32_t device, uint64_t seed, EnginesDiffer differs)
    : device_(device),
      differs_(std::move(differs)),
      window_("plait_rx_window", seed),
      spray_("plait_spray", seed),
      icrc_("plait_icrc", seed),
      forward_("plait_forward", seed),
      order_("plait_order", seed) {}

// A command of one beat with one answer; `usual` is what the C++ engine takes.
template <typename Ports>
BlockCycles VerilatedEngines::carry_out(Engine<Ports>& engine, const typename Ports::Command& command,
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

std::vector<BlockUse> VerilatedEngines::use() const {
    return {window_.use, spray_.use, icrc_.use, forward_.use, order_.use};
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

std::unique_ptr<EngineBlocks> make_verilated_engines(uint32_t device, uint64_t seed, EnginesDiffer differs) {
    return std::make_unique<VerilatedEngines>(device, seed, std::move(differs));
}

}  // namespace plait::sim
