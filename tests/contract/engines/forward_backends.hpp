#pragma once
// Multicast sets of rows, once by the C++ engine and once Verilated.

#include <plait/regmap.hpp>
#include <plait/sim/verilated/forward_ports.hpp>
#include <vector>

#include "verilated_block.hpp"

namespace plait::contract {

using sim::forward_ranks;
using sim::ForwardAnswer;
using sim::ForwardPorts;
using sim::ForwardRow;

class ForwardReference {
  public:
    std::vector<ForwardAnswer> run(std::span<const ForwardRow> rows) {
        std::vector<ForwardAnswer> answers;
        for (const ForwardRow& row : rows) answers.push_back(run(row));
        return answers;
    }

    static ForwardAnswer run(const ForwardRow& row) { return sim::answer_of(row); }
};

using ForwardRtl = VerilatedBlock<ForwardPorts>;

}  // namespace plait::contract
