// The placement counters of a device, command by command.
#pragma once

#include <array>
#include <cstdint>

#include <plait/engines/order.hpp>
#include <plait/sim/models/engine_commands.hpp>

namespace plait::sim {

/// As many counters and waiting releases as the block has.
class OrderEngine {
  public:
    static constexpr uint32_t counters = regmap::max_queues;
    static constexpr uint32_t releases = 256;

    OrderEngine() { table_.configure(counters_, pool_); }

    OrderAnswer run(const OrderCommand& command) {
        OrderAnswer answer;
        answer.status = apply(command, answer);
        if (answer.status == regmap::Status::ok) answer.placed = table_.placed(command.counter);
        answer.waiting = table_.waiting();
        return answer;
    }

    [[nodiscard]] uint64_t placed(uint32_t counter) const { return table_.placed(counter); }

  private:
    regmap::Status apply(const OrderCommand& command, OrderAnswer& answer) {
        using regmap::Status;
        const auto note = [&](uint64_t tag) { answer.tags.push_back(tag); };
        switch (command.opcode) {
            case regmap::OrderOpcode::place:
                switch (table_.place(command.counter, command.count, note)) {
                    case engines::PlaceStatus::placed: return Status::ok;
                    case engines::PlaceStatus::refused_counter: return Status::invalid_parameter;
                    case engines::PlaceStatus::refused_overflow: return Status::out_of_range;
                }
                break;
            case regmap::OrderOpcode::release:
                switch (table_.release(command.counter, command.count, command.tag)) {
                    case engines::ReleaseStatus::fired: return Status::ok;
                    case engines::ReleaseStatus::waiting: answer.kept = true; return Status::ok;
                    case engines::ReleaseStatus::refused_full: return Status::limit_exceeded;
                    case engines::ReleaseStatus::refused_counter: return Status::invalid_parameter;
                }
                break;
            case regmap::OrderOpcode::reset:
                return table_.reset(command.counter, note) ? Status::ok : Status::invalid_parameter;
            case regmap::OrderOpcode::read:
                return command.counter < counters ? Status::ok : Status::invalid_parameter;
        }
        return Status::invalid_opcode;
    }

    std::array<engines::OrderCounter, counters> counters_{};
    std::array<engines::OrderRelease, releases> pool_{};
    engines::OrderTable table_;
};

}  // namespace plait::sim
