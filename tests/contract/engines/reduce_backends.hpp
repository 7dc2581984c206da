#pragma once
// Sums of rows, once by the C++ engine and once Verilated.

#include <Vplait_reduce.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <map>
#include <ostream>
#include <plait/engines/quantise.hpp>
#include <plait/engines/reduce.hpp>
#include <plait/regmap.hpp>
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

struct ReduceCommand {
    regmap::ReduceOpcode opcode = regmap::ReduceOpcode::open;
    uint32_t sum = 0;
    uint32_t position = 0;  ///< open: how many rows
    regmap::RowFormat format = regmap::RowFormat::bf16;
    uint32_t length = 0;       ///< open: elements; add: bytes
    uint32_t value = 0;        ///< weigh: the factor's bits; add: the handle
    size_t after_results = 0;  ///< It is given when as many results are out.
};

struct ReduceAnswer {
    regmap::Status status = regmap::Status::ok;
    std::vector<uint32_t> handles{};  ///< That waited.

    bool operator==(const ReduceAnswer&) const = default;
    friend std::ostream& operator<<(std::ostream& out, const ReduceAnswer& answer) {
        out << "status " << static_cast<int>(answer.status) << " handles";
        for (const uint32_t handle : answer.handles) out << ' ' << handle;
        return out;
    }
};

struct ReduceResult {
    uint32_t sum = 0;
    uint32_t non_finite = 0;
    std::vector<uint8_t> codes{};
    std::vector<uint8_t> scales{};

    bool operator==(const ReduceResult&) const = default;
    friend std::ostream& operator<<(std::ostream& out, const ReduceResult& result) {
        out << "sum " << result.sum << " non-finite " << result.non_finite << std::hex << " codes";
        for (const uint8_t byte : result.codes) out << ' ' << int{byte};
        out << " scales";
        for (const uint8_t byte : result.scales) out << ' ' << int{byte};
        return out << std::dec;
    }
};

struct ReduceOutcome {
    std::vector<ReduceAnswer> answers{};
    std::vector<uint32_t> fetched{};
    std::vector<ReduceResult> results{};
};

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

class ReduceRtl {
  public:
    explicit ReduceRtl(uint64_t seed = 1) : model_(seed) {
        set_ports_idle();
        model_.reset();
    }

    /// `stalls.command` also holds up the words of rows, `stalls.answer` fetches and results. Ends when all
    /// commands have their answers and nothing happens any more.
    ReduceOutcome run(std::span<const ReduceCommand> commands, std::span<const ReduceRow> rows,
                      Stalls stalls = {}) {
        constexpr uint64_t quiet_cycles = 200;
        ReduceOutcome outcome;
        ReduceAnswer answer;
        ReduceResult result;
        Offers<ReduceCommand> offers(commands);
        size_t given = 0;
        bool offers_word = false;
        uint64_t idle = 0;
        while (outcome.answers.size() < commands.size() || idle < quiet_cycles) {
            const bool waits =
                given < commands.size() && outcome.results.size() < commands[given].after_results;
            const ReduceCommand* const command = offers.offer(waits || model_.chance(stalls.command));
            drive(command);
            offers_word = !words_.empty() && (offers_word || !model_.chance(stalls.command));
            model_->row_valid_i = offers_word;
            if (offers_word) std::memcpy(&model_->row_data_i[0], words_.front().data(), sizeof(Word));
            model_->rsp_ready_i = !model_.chance(stalls.answer);
            model_->fetch_ready_i = !model_.chance(stalls.answer);
            model_->result_ready_i = !model_.chance(stalls.answer);
            model_->eval();
            ++idle;
            const auto happens = [&](bool valid, bool ready) {
                if (valid && ready) idle = 0;
                return valid && ready;
            };
            if (happens(command != nullptr, model_->cmd_ready_o)) {
                offers.taken();
                ++given;
            }
            if (happens(model_->rsp_valid_o, model_->rsp_ready_i)) read_answer(answer, outcome);
            if (happens(model_->fetch_valid_o, model_->fetch_ready_i)) {
                outcome.fetched.push_back(model_->fetch_handle_o);
                append(rows[model_->fetch_handle_o]);
            }
            if (happens(model_->result_valid_o, model_->result_ready_i)) {
                if (result.codes.empty()) result_cycle_ = model_.cycles();
                read_result(result, outcome);
            }
            if (happens(offers_word, model_->row_ready_o)) {
                words_.pop_front();
                offers_word = false;
                last_word_cycle_ = model_.cycles();
            }
            if (idle == 0) busy_cycles_ = model_.cycles() + 1;
            model_.tick();
            if (idle > most_idle_cycles) throw std::runtime_error("the block does nothing");
        }
        set_ports_idle();
        return outcome;
    }

    [[nodiscard]] uint64_t cycles() const { return model_.cycles(); }

    /// Up to the last one in which something happened.
    [[nodiscard]] uint64_t busy_cycles() const { return busy_cycles_; }

    /// From the last word of a row that was taken to the first one of the last result.
    [[nodiscard]] uint64_t latency_cycles() const { return result_cycle_ - last_word_cycle_; }

  private:
    using Word = std::array<uint8_t, 64>;

    void set_ports_idle() {
        model_->cmd_valid_i = 0;
        model_->row_valid_i = 0;
        model_->rsp_ready_i = 0;
        model_->fetch_ready_i = 0;
        model_->result_ready_i = 0;
    }

    void drive(const ReduceCommand* command) {
        model_->cmd_valid_i = command != nullptr;
        if (command == nullptr) return;
        model_->cmd_opcode_i = static_cast<uint8_t>(command->opcode);
        model_->cmd_sum_i = command->sum;
        model_->cmd_position_i = static_cast<uint8_t>(command->position);
        model_->cmd_format_i = static_cast<uint8_t>(command->format);
        model_->cmd_length_i = command->length;
        model_->cmd_value_i = command->value;
    }

    // Behind the ends there are ones, which must not matter.
    void append(const ReduceRow& row) {
        for (const std::vector<uint8_t>* const bytes : {&row.scales, &row.codes}) {
            for (size_t first = 0; first < bytes->size(); first += sizeof(Word)) {
                Word& word = words_.emplace_back();
                word.fill(0xFF);
                std::copy_n(bytes->begin() + static_cast<std::ptrdiff_t>(first),
                            std::min(sizeof(Word), bytes->size() - first), word.begin());
            }
        }
    }

    void read_answer(ReduceAnswer& answer, ReduceOutcome& outcome) {
        if (model_->rsp_is_handle_o) {
            answer.handles.push_back(model_->rsp_handle_o);
            return;
        }
        answer.status = static_cast<regmap::Status>(model_->rsp_status_o);
        outcome.answers.push_back(std::exchange(answer, {}));
    }

    void read_result(ReduceResult& result, ReduceOutcome& outcome) {
        std::vector<uint8_t>& bytes = model_->result_scales_o ? result.scales : result.codes;
        const auto* const data = reinterpret_cast<const uint8_t*>(&model_->result_data_o[0]);
        bytes.insert(bytes.end(), data, data + model_->result_bytes_o);
        if (!model_->result_last_o) return;
        result.sum = model_->result_sum_o;
        result.non_finite = model_->result_non_finite_o;
        outcome.results.push_back(std::exchange(result, {}));
    }

    ClockedModel<Vplait_reduce> model_;
    std::deque<Word> words_;  // of rows that were fetched
    uint64_t busy_cycles_ = 0;
    uint64_t last_word_cycle_ = 0;
    uint64_t result_cycle_ = 0;
};

}  // namespace plait::contract
