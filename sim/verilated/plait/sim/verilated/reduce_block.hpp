// plait_reduce behind commands, rows and results.
#pragma once

#include <Vplait_reduce.h>

#include <array>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <utility>
#include <vector>

#include <plait/sim/models/row_commands.hpp>
#include <plait/sim/verilated/verilated_block.hpp>

namespace plait::sim {

struct ReduceOutcome {
    std::vector<ReduceAnswer> answers{};
    std::vector<uint32_t> fetched{};
    std::vector<ReduceResult> results{};
};

class ReduceBlock {
  public:
    explicit ReduceBlock(uint64_t seed = 1) : model_(seed) {
        set_ports_idle();
        model_.reset();
    }

    /// `row_of(handle)` is a row as engines::EncodedRow. `stalls.command` also holds up the words of rows,
    /// `stalls.answer` fetches and results. Ends when all commands have their answers and nothing happens any
    /// more.
    template <typename RowOf>
    ReduceOutcome run(std::span<const ReduceCommand> commands, RowOf&& row_of, Stalls stalls = {}) {
        constexpr uint64_t quiet_cycles = 200;
        outcome_ = {};
        Offers<ReduceCommand> offers(commands);
        size_t given = 0;
        idle_ = 0;
        while (outcome_.answers.size() < commands.size() || idle_ < quiet_cycles) {
            const bool waits =
                given < commands.size() && outcome_.results.size() < commands[given].after_results;
            const ReduceCommand* const command = offers.offer(waits || model_.chance(stalls.command));
            offers_word_ = !words_.empty() && (offers_word_ || !model_.chance(stalls.command));
            model_->rsp_ready_i = !model_.chance(stalls.answer);
            model_->fetch_ready_i = !model_.chance(stalls.answer);
            model_->result_ready_i = !model_.chance(stalls.answer);
            if (cycle(command, row_of)) {
                offers.taken();
                ++given;
            }
            if (idle_ > most_idle_cycles) throw std::runtime_error("the block does nothing");
        }
        set_ports_idle();
        return std::exchange(outcome_, {});
    }

    /// Gives one command that has the block for itself, `rows` as it asks for rows and as long as there are
    /// any, and waits for its answer, for all words of the rows to be taken, and for a result where
    /// there is to be one. The outcome lacks what does not come.
    template <typename Rows>
    ReduceOutcome ask(const ReduceCommand& command, const Rows& rows, bool gives_result,
                      ReduceCycles& cycles) {
        constexpr uint64_t quiet_cycles = 1000;
        outcome_ = {};
        row_cycles_.clear();
        last_word_cycle_ = model_.cycles();
        bool given = false;
        idle_ = 0;
        model_->rsp_ready_i = model_->fetch_ready_i = model_->result_ready_i = 1;
        size_t next = 0;
        const auto row_of = [&](uint32_t) {
            return next < rows.size() ? rows[next++] : engines::EncodedRow{};
        };
        while (outcome_.answers.empty() || next < rows.size() || !words_.empty() ||
               outcome_.results.size() < (gives_result ? 1U : 0U)) {
            offers_word_ = !words_.empty();
            given |= cycle(given ? nullptr : &command, row_of);
            if (idle_ > quiet_cycles) break;
        }
        set_ports_idle();
        cycles.rows = row_cycles_;
        if (gives_result) {
            cycles.result = static_cast<uint32_t>(result_cycle_ - last_word_cycle_);
            cycles.result_busy = static_cast<uint32_t>(result_cycle_ - first_result_cycle_ + 1);
        }
        return std::exchange(outcome_, {});
    }

    [[nodiscard]] uint64_t cycles() const { return model_.cycles(); }

    /// Up to the last one in which something happened.
    [[nodiscard]] uint64_t busy_cycles() const { return busy_cycles_; }

    /// From the last word of a row that was taken to the first one of the last result.
    [[nodiscard]] uint64_t latency_cycles() const { return first_result_cycle_ - last_word_cycle_; }

  private:
    struct Word {
        std::array<uint8_t, 64> bytes;
        bool is_last;  // of its row
    };

    void set_ports_idle() {
        model_->cmd_valid_i = 0;
        model_->row_valid_i = 0;
        model_->rsp_ready_i = 0;
        model_->fetch_ready_i = 0;
        model_->result_ready_i = 0;
    }

    // One clock cycle. True: the command was taken.
    template <typename RowOf>
    bool cycle(const ReduceCommand* command, RowOf&& row_of) {
        drive(command);
        model_->row_valid_i = offers_word_;
        if (offers_word_) std::memcpy(&model_->row_data_i[0], words_.front().bytes.data(), 64);
        model_->eval();
        ++idle_;
        const auto happens = [&](bool valid, bool ready) {
            if (valid && ready) idle_ = 0;
            return valid && ready;
        };
        const bool taken = happens(command != nullptr, model_->cmd_ready_o);
        if (happens(model_->rsp_valid_o, model_->rsp_ready_i)) read_answer();
        if (happens(model_->fetch_valid_o, model_->fetch_ready_i)) {
            outcome_.fetched.push_back(model_->fetch_handle_o);
            append(row_of(model_->fetch_handle_o));
        }
        if (happens(model_->result_valid_o, model_->result_ready_i)) read_result();
        if (happens(offers_word_, model_->row_ready_o)) take_word();
        if (idle_ == 0) busy_cycles_ = model_.cycles() + 1;
        model_.tick();
        return taken;
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
    void append(const engines::EncodedRow& row) {
        for (const std::span<const std::byte> bytes : {row.scales, row.codes}) {
            for (size_t first = 0; first < bytes.size(); first += 64) {
                Word& word = words_.emplace_back();
                word.bytes.fill(0xFF);
                word.is_last = false;
                std::memcpy(word.bytes.data(), bytes.data() + first,
                            std::min<size_t>(64, bytes.size() - first));
            }
        }
        if (!words_.empty()) words_.back().is_last = true;
    }

    void take_word() {
        last_word_cycle_ = model_.cycles();
        if (!std::exchange(in_row_, true)) row_began_cycle_ = last_word_cycle_;
        if (words_.front().is_last) {
            row_cycles_.push_back(static_cast<uint32_t>(last_word_cycle_ - row_began_cycle_ + 1));
            in_row_ = false;
        }
        words_.pop_front();
        offers_word_ = false;
    }

    void read_answer() {
        if (model_->rsp_is_handle_o) {
            answer_.handles.push_back(model_->rsp_handle_o);
            return;
        }
        answer_.status = static_cast<regmap::Status>(model_->rsp_status_o);
        outcome_.answers.push_back(std::exchange(answer_, {}));
    }

    void read_result() {
        result_cycle_ = model_.cycles();
        if (result_.codes.empty()) first_result_cycle_ = result_cycle_;
        std::vector<uint8_t>& bytes = model_->result_scales_o ? result_.scales : result_.codes;
        const auto* const data = reinterpret_cast<const uint8_t*>(&model_->result_data_o[0]);
        bytes.insert(bytes.end(), data, data + model_->result_bytes_o);
        if (!model_->result_last_o) return;
        result_.sum = model_->result_sum_o;
        result_.non_finite = model_->result_non_finite_o;
        outcome_.results.push_back(std::exchange(result_, {}));
    }

    ClockedModel<Vplait_reduce> model_;
    ReduceOutcome outcome_;
    ReduceAnswer answer_;       // that has not ended
    ReduceResult result_;       // likewise
    std::deque<Word> words_;    // of rows that were fetched
    bool offers_word_ = false;  // and goes on until it is taken
    bool in_row_ = false;
    uint64_t row_began_cycle_ = 0;
    std::vector<uint32_t> row_cycles_;
    uint64_t idle_ = 0;
    uint64_t busy_cycles_ = 0;
    uint64_t last_word_cycle_ = 0;
    uint64_t first_result_cycle_ = 0;
    uint64_t result_cycle_ = 0;
};

}  // namespace plait::sim
