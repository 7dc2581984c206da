// The spray selectors of a device: ports of plait_spray.
#pragma once

#include <Vplait_spray.h>

#include <plait/sim/models/spray_commands.hpp>
#include <plait/sim/verilated/verilated_block.hpp>

namespace plait::sim {

struct SprayPorts {
    using Model = Vplait_spray;
    using Command = SprayCommand;
    using Answer = SprayAnswer;

    static void drive(Model& model, const Command& command) {
        model.cmd_opcode_i = static_cast<uint8_t>(command.opcode);
        model.cmd_qp_i = command.qp;
        model.cmd_up_i = command.up;
        model.cmd_bytes_i = command.bytes;
        model.cmd_plane_i = command.plane;
        model.cmd_index_i = command.index;
        model.cmd_flag_i = command.flag;
        model.cmd_policy_i = static_cast<uint8_t>(command.config.policy);
        model.cmd_planes_i = static_cast<uint8_t>(command.config.planes);
        model.cmd_entropies_i = static_cast<uint16_t>(command.config.entropy_values);
        model.cmd_seed_i = command.config.seed;
        model.cmd_suspect_losses_i = static_cast<uint8_t>(command.config.suspect_losses);
    }

    static Answer read(const Model& model) {
        return {.status = static_cast<regmap::Status>(model.rsp_status_o),
                .granted = model.rsp_granted_o != 0,
                .path = {model.rsp_index_o, model.rsp_entropy_o, model.rsp_plane_o},
                .due = model.rsp_due_o,
                .usable = model.rsp_usable_o,
                .suspect = model.rsp_suspect_o,
                .failed = model.rsp_failed_o};
    }
};

}  // namespace plait::sim
