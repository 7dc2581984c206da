#pragma once
// Sums of rows, once by the C++ engine and once Verilated.

#include <bit>
#include <map>
#include <plait/engines/quantise.hpp>
#include <plait/engines/reduce.hpp>
#include <plait/regmap.hpp>
#include <plait/sim/verilated/reduce_block.hpp>
#include <utility>
#include <vector>

#include "verilated_block.hpp"

namespace plait::contract {

inline constexpr uint32_t reduce_sums = 256;
inline constexpr uint32_t reduce_pages = 1024;
inline constexpr uint32_t page_elements = 512;
inline constexpr uint32_t sum_elements = 8 * page_elements;

/// A row in memory, where its handle is its number.
struct ReduceRow {
    regmap::RowFormat format = regmap::RowFormat::bf16;
    std::vector<uint8_t> codes{};
    std::vector<uint8_t> scales{};

    [[nodiscard]] engines::EncodedRow view() const {
        return {format, std::as_bytes(std::span(codes)), std::as_bytes(std::span(scales))};
    }
};

using sim::ReduceAnswer;
using sim::ReduceCommand;
using sim::ReduceOutcome;
using sim::ReduceResult;

/// What the C++ engines make of the commands; results are out at once.
class ReduceReference {
  public:
    ReduceOutcome run(std::span<const ReduceCommand> commands, std::span<const ReduceRow> rows) {
        ReduceOutcome outcome;
        for (const ReduceCommand& command : commands) {
            ReduceAnswer answer;
            answer.status = run(command, rows, answer, outcome);
            outcome.answers.push_back(std::move(answer));
        }
        return outcome;
    }

    [[nodiscard]] uint32_t free_pages() const { return free_pages_; }
    [[nodiscard]] bool is_open(uint32_t sum) const { return open_.contains(sum); }

  private:
    struct Sum {
        engines::ReduceSlot slot{};
        regmap::RowFormat format{};
        uint32_t contributions = 0;
        std::vector<float> values{};
        bool has_row = false;
        std::map<uint32_t, float> weights{};
        [[nodiscard]] uint32_t pages() const {
            return (static_cast<uint32_t>(values.size()) + page_elements - 1) / page_elements;
        }
    };
    static constexpr uint32_t skipped = ~0U;

    regmap::Status run(const ReduceCommand& command, std::span<const ReduceRow> rows, ReduceAnswer& answer,
                       ReduceOutcome& outcome) {
        using regmap::ReduceOpcode;
        using regmap::Status;
        if (command.opcode > ReduceOpcode::close) return Status::invalid_opcode;
        if (command.sum >= reduce_sums) return Status::invalid_parameter;
        if (command.opcode == ReduceOpcode::open) return open(command, outcome);
        const auto found = open_.find(command.sum);
        if (found == open_.end()) return Status::invalid_state;
        Sum& sum = found->second;
        if (command.opcode == ReduceOpcode::close) {
            sum.slot.for_each_waiting([&](uint32_t handle) {
                if (handle != skipped) answer.handles.push_back(handle);
            });
            leave(command.sum);
            return Status::ok;
        }
        if (command.position >= sum.contributions) return Status::invalid_parameter;
        if (command.opcode == ReduceOpcode::weigh) {
            if (command.position < sum.slot.turn()) return Status::invalid_state;
            sum.weights[command.position] = std::bit_cast<float>(command.value);
            return Status::ok;
        }
        const bool is_add = command.opcode == ReduceOpcode::add;
        if (is_add && engines::code_bits(command.format) == 0) return Status::invalid_parameter;
        if (sum.slot.has_arrived(command.position)) return Status::invalid_state;
        if (is_add && command.length != engines::code_bytes(command.format, sum.values.size()) +
                                            engines::scale_bytes(command.format, sum.values.size()))
            return Status::invalid_length;
        const engines::Offer offer = sum.slot.offer(command.position, is_add ? command.value : skipped);
        for (size_t i = 0; i < offer.ready.size(); ++i) {
            if (offer.ready[i] == skipped) continue;
            outcome.fetched.push_back(offer.ready[i]);
            add(sum, offer.first_position + static_cast<uint32_t>(i), rows[offer.ready[i]]);
        }
        if (sum.slot.complete()) give(command.sum, outcome);
        return Status::ok;
    }

    regmap::Status open(const ReduceCommand& command, ReduceOutcome& outcome) {
        using regmap::Status;
        if (engines::code_bits(command.format) == 0 ||
            command.position > engines::ReduceSlot::max_contributions)
            return Status::invalid_parameter;
        if (command.length == 0 || command.length > sum_elements) return Status::invalid_length;
        if (is_open(command.sum)) return Status::invalid_state;
        Sum sum{.format = command.format, .contributions = command.position};
        sum.values.resize(command.length);
        sum.slot.reset(command.position);
        if (sum.pages() > free_pages_) return Status::limit_exceeded;
        free_pages_ -= sum.pages();
        open_[command.sum] = std::move(sum);
        if (command.position == 0) give(command.sum, outcome);
        return Status::ok;
    }

    static void add(Sum& sum, uint32_t position, const ReduceRow& row) {
        const auto weight = sum.weights.find(position);
        const bool is_weighted = weight != sum.weights.end();
        const bool is_first = !std::exchange(sum.has_row, true);
        if (is_first)
            is_weighted ? engines::decode_row_weighted(row.view(), weight->second, sum.values)
                        : engines::decode_row(row.view(), sum.values);
        else
            is_weighted ? engines::accumulate_row_weighted(row.view(), weight->second, sum.values)
                        : engines::accumulate_row(row.view(), sum.values);
    }

    void give(uint32_t number, ReduceOutcome& outcome) {
        const Sum& sum = open_[number];
        ReduceResult& result = outcome.results.emplace_back();
        result.sum = number;
        result.codes.resize(engines::code_bytes(sum.format, sum.values.size()));
        result.scales.resize(engines::scale_bytes(sum.format, sum.values.size()));
        result.non_finite = engines::encode_row(sum.format, std::span<const float>(sum.values),
                                                std::as_writable_bytes(std::span(result.codes)),
                                                std::as_writable_bytes(std::span(result.scales)))
                                .value();
        leave(number);
    }

    void leave(uint32_t number) {
        free_pages_ += open_[number].pages();
        open_.erase(number);
    }

    std::map<uint32_t, Sum> open_;
    uint32_t free_pages_ = reduce_pages;
};

class ReduceRtl : public sim::ReduceBlock {
  public:
    using ReduceBlock::ReduceBlock;

    ReduceOutcome run(std::span<const ReduceCommand> commands, std::span<const ReduceRow> rows,
                      Stalls stalls = {}) {
        return ReduceBlock::run(
            commands, [&](uint32_t handle) { return rows[handle].view(); }, stalls);
    }
};

}  // namespace plait::contract
