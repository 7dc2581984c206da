#pragma once
// The placement counters of a device, once over the C++ engine and once Verilated.

#include <Vplait_order.h>

#include <array>
#include <ostream>
#include <plait/engines/order.hpp>
#include <plait/regmap.hpp>
#include <vector>

#include "verilated_block.hpp"

namespace plait::contract {

inline constexpr uint32_t order_counters = regmap::max_queues;
inline constexpr uint32_t order_releases = 256;

struct OrderCommand {
    regmap::OrderOpcode opcode = regmap::OrderOpcode::place;
    uint32_t counter = 0;
    uint64_t count = 0;  ///< place: the amount; release: what is required
    uint64_t tag = 0;
};

struct OrderAnswer {
    regmap::Status status = regmap::Status::ok;
    bool kept = false;
    uint64_t placed = 0;
    uint32_t waiting = 0;
    std::vector<uint64_t> tags{};  ///< Released, or dropped.

    bool operator==(const OrderAnswer&) const = default;
    friend std::ostream& operator<<(std::ostream& out, const OrderAnswer& answer) {
        out << "status " << static_cast<int>(answer.status) << (answer.kept ? " kept" : "") << " placed "
            << answer.placed << " waiting " << answer.waiting << " tags";
        for (const uint64_t tag : answer.tags) out << ' ' << tag;
        return out;
    }
};

class OrderReference {
  public:
    OrderReference() { table_.configure(counters_, pool_); }

    std::vector<OrderAnswer> run(std::span<const OrderCommand> commands) {
        std::vector<OrderAnswer> answers;
        for (const OrderCommand& command : commands) answers.push_back(run(command));
        return answers;
    }

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
                return command.counter < order_counters ? Status::ok : Status::invalid_parameter;
        }
        return Status::invalid_opcode;
    }

    std::array<engines::OrderCounter, order_counters> counters_{};
    std::array<engines::OrderRelease, order_releases> pool_{};
    engines::OrderTable table_;
};

struct OrderPorts {
    struct Answer {
        bool is_tag = false;
        uint64_t tag = 0;
        OrderAnswer answer{};
    };
    using Model = Vplait_order;
    using Command = OrderCommand;

    static void drive(Model& model, const Command& command) {
        model.cmd_opcode_i = static_cast<uint8_t>(command.opcode);
        model.cmd_counter_i = command.counter;
        model.cmd_count_i = command.count;
        model.cmd_tag_i = command.tag;
    }

    static Answer read(const Model& model) {
        const auto status = static_cast<regmap::Status>(model.rsp_status_o);
        return {model.rsp_is_tag_o != 0,
                model.rsp_tag_o,
                {status, model.rsp_kept_o != 0, model.rsp_placed_o, model.rsp_waiting_o}};
    }

    static bool is_last(const Answer& answer) { return !answer.is_tag; }
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
