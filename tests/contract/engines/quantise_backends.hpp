#pragma once
// Rows that are encoded, once by the C++ engine and once Verilated.

#include <plait/sim/verilated/quantise_block.hpp>
#include <vector>

#include "verilated_block.hpp"

namespace plait::contract {

using sim::QuantiseAnswer;

struct QuantiseRow {
    regmap::RowFormat format = regmap::RowFormat::bf16;
    std::vector<uint16_t> elements{};
};

class QuantiseReference {
  public:
    std::vector<QuantiseAnswer> run(std::span<const QuantiseRow> rows) {
        std::vector<QuantiseAnswer> answers;
        for (const QuantiseRow& row : rows) answers.push_back(run(row));
        return answers;
    }

    static QuantiseAnswer run(const QuantiseRow& row) {
        return sim::answer_of(sim::QuantiseRow{row.format, row.elements});
    }
};

class QuantiseRtl : public sim::QuantiseBlock {
  public:
    using QuantiseBlock::QuantiseBlock;

    std::vector<QuantiseAnswer> run(std::span<const QuantiseRow> rows, Stalls stalls = {}) {
        std::vector<sim::QuantiseRow> views;
        for (const QuantiseRow& row : rows) views.push_back({row.format, row.elements});
        return QuantiseBlock::run(views, stalls);
    }
};

}  // namespace plait::contract
