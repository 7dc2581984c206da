#pragma once
// Multicast sets of rows, once by the C++ engine and once Verilated.

#include <Vplait_forward.h>

#include <array>
#include <ostream>
#include <plait/engines/forward.hpp>
#include <plait/regmap.hpp>
#include <vector>

#include "verilated_block.hpp"

namespace plait::contract {

inline constexpr uint32_t forward_ranks = regmap::max_ranks_per_node;

struct ForwardRow {
    uint8_t targets = 0;
    uint8_t node_size = 0;
    uint8_t own_rank = 0;
    uint8_t index_count = 0;
    std::array<uint32_t, forward_ranks> indices{};
};

struct ForwardAnswer {
    regmap::Status status = regmap::Status::ok;
    uint64_t targets = 0;
    std::array<uint32_t, forward_ranks> indices{};  ///< By rank.
    uint32_t copies = 0;
    bool includes_own = false;
    uint64_t remote = 0;

    bool operator==(const ForwardAnswer&) const = default;
    friend std::ostream& operator<<(std::ostream& out, const ForwardAnswer& answer) {
        out << "status " << static_cast<int>(answer.status) << std::hex << " targets " << answer.targets
            << " remote " << answer.remote << std::dec << (answer.includes_own ? " own" : "") << " copies "
            << answer.copies << " indices";
        for (const uint32_t index : answer.indices) out << ' ' << index;
        return out;
    }
};

class ForwardReference {
  public:
    std::vector<ForwardAnswer> run(std::span<const ForwardRow> rows) {
        std::vector<ForwardAnswer> answers;
        for (const ForwardRow& row : rows) answers.push_back(run(row));
        return answers;
    }

    static ForwardAnswer run(const ForwardRow& row) {
        // The engine checks the number of indices that it is given; more than the row can hold stand for too
        // many.
        std::array<uint32_t, 256> indices{};
        std::copy(row.indices.begin(), row.indices.end(), indices.begin());
        const auto set = engines::ForwardSet::make(row.targets, row.node_size, row.own_rank,
                                                   std::span(indices).first(row.index_count));
        // The block is made for nodes of the contract's size, the engine for larger ones too.
        if (!set || row.node_size > forward_ranks) return {.status = regmap::Status::invalid_parameter};
        ForwardAnswer answer{.targets = set->targets(),
                             .copies = set->copies(),
                             .includes_own = set->includes_own(),
                             .remote = set->remote_targets()};
        set->for_each([&](uint32_t rank, uint32_t index) { answer.indices[rank] = index; });
        return answer;
    }
};

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

using ForwardRtl = VerilatedBlock<ForwardPorts>;

}  // namespace plait::contract
