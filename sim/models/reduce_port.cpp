#include <plait/sim/models/reduce_port.hpp>

#include <algorithm>
#include <bit>
#include <utility>

namespace plait::sim {

namespace {

using regmap::ReduceOpcode;
using regmap::Status;

Status status_of(engines::OfferStatus status) {
    switch (status) {
        case engines::OfferStatus::taken: return Status::ok;
        case engines::OfferStatus::duplicate: return Status::invalid_state;
        case engines::OfferStatus::bad_position: break;
    }
    return Status::invalid_parameter;
}

}  // namespace

void ReducePort::ask(const ReduceCommand& command, ReduceAnswer expected, std::span<const Row> ready,
                     bool completes) {
    std::vector<engines::EncodedRow> rows;
    for (const Row& row : ready) {
        rows.push_back(row.row);
        expected.fetched.push_back(row.handle);
    }
    cycles_ = blocks_->reduce(command, rows, expected, completes);
}

void ReducePort::open(uint32_t number, const firmware::Reduction& reduction) {
    if (!has_block()) return;
    ask({.opcode = ReduceOpcode::open,
         .sum = number,
         .position = reduction.contributions,
         .format = reduction.to,
         .length = reduction.elements},
        {}, {}, reduction.contributions == 0);
}

void ReducePort::weigh(uint32_t number, std::span<const float> weights) {
    if (!has_block()) return;
    for (uint32_t position = 0; position < weights.size(); ++position)
        ask({.opcode = ReduceOpcode::weigh,
             .sum = number,
             .position = position,
             .value = std::bit_cast<uint32_t>(weights[position])});
}

void ReducePort::offer(uint32_t number, uint32_t position, const Row* row, engines::OfferStatus status,
                       std::span<const Row> ready, bool completes) {
    if (!has_block()) return;
    ReduceCommand command{.opcode = ReduceOpcode::skip, .sum = number, .position = std::min(position, 0xFFU)};
    if (row != nullptr) {
        command.opcode = ReduceOpcode::add;
        command.format = row->row.format;
        command.length = static_cast<uint32_t>(row->row.codes.size() + row->row.scales.size());
        command.value = row->handle;
    }
    ask(command, {.status = status_of(status)}, ready, completes);
}

void ReducePort::gave(uint32_t number, const firmware::Reduction& reduction, std::span<const uint8_t> bytes,
                      uint32_t non_finite) {
    if (!has_block()) return;
    const auto codes = static_cast<std::ptrdiff_t>(engines::code_bytes(reduction.to, reduction.elements));
    blocks_->reduced(
        {number, non_finite, {bytes.begin(), bytes.begin() + codes}, {bytes.begin() + codes, bytes.end()}});
}

void ReducePort::close(uint32_t number, const std::vector<uint32_t>& waiting) {
    if (!has_block()) return;
    ask({.opcode = ReduceOpcode::close, .sum = number}, {.handles = waiting});
}

}  // namespace plait::sim
