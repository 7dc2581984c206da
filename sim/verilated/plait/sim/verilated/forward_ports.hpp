// The multicast sets of rows: ports of plait_forward.
#pragma once

#include <Vplait_forward.h>

#include <plait/sim/models/engine_commands.hpp>
#include <plait/sim/verilated/verilated_block.hpp>

namespace plait::sim {

struct ForwardPorts {
    using Model = Vplait_forward;
    using Command = ForwardRow;
    using Answer = ForwardAnswer;

    static void drive(Model& model, const Command& row) {
        model.cmd_targets_i = row.targets;
        model.cmd_node_size_i = row.node_size;
        model.cmd_own_rank_i = row.own_rank;
        model.cmd_index_count_i = row.index_count;
        for (size_t i = 0; i < forward_ranks; ++i) model.cmd_indices_i[i] = row.indices[i];
    }

    static Answer read(const Model& model) {
        Answer answer{.status = static_cast<regmap::Status>(model.rsp_status_o),
                      .targets = model.rsp_targets_o,
                      .copies = model.rsp_copies_o,
                      .includes_own = model.rsp_includes_own_o != 0,
                      .remote = model.rsp_remote_o};
        for (size_t i = 0; i < forward_ranks; ++i) answer.indices[i] = model.rsp_indices_o[i];
        return answer;
    }
};

}  // namespace plait::sim
