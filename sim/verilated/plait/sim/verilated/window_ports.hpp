// The receive windows of a device: ports of plait_rx_window.
#pragma once

#include <Vplait_rx_window.h>

#include <plait/sim/models/engine_commands.hpp>
#include <plait/sim/verilated/verilated_block.hpp>

namespace plait::sim {

struct WindowPorts {
    using Model = Vplait_rx_window;
    using Command = WindowCommand;
    using Answer = WindowAnswer;

    static void drive(Model& model, const Command& command) {
        model.cmd_opcode_i = static_cast<uint8_t>(command.opcode);
        model.cmd_qp_i = command.qp;
        model.cmd_psn_i = command.psn;
        model.cmd_window_packets_i = command.window_packets;
    }

    static Answer read(const Model& model) {
        Answer answer;
        answer.status = static_cast<regmap::Status>(model.rsp_status_o);
        answer.verdict = {static_cast<engines::Verdict>(model.rsp_verdict_o), model.rsp_next_psn_o,
                          model.rsp_advanced_o != 0, model.rsp_hole_o != 0};
        answer.highest = model.rsp_highest_psn_o;
        for (size_t word = 0; word < answer.bitmap.size(); ++word)
            answer.bitmap[word] =
                uint64_t{model.rsp_bitmap_o[2 * word + 1]} << 32 | model.rsp_bitmap_o[2 * word];
        return answer;
    }
};

}  // namespace plait::sim
