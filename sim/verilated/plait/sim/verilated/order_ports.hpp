// The placement counters of a device: ports of plait_order.
#pragma once

#include <Vplait_order.h>

#include <plait/sim/models/engine_commands.hpp>
#include <plait/sim/verilated/verilated_block.hpp>

namespace plait::sim {

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

}  // namespace plait::sim
