// plait_quantise behind rows and their codes.
#pragma once

#include <Vplait_quantise.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include <plait/sim/models/row_commands.hpp>
#include <plait/sim/verilated/verilated_block.hpp>

namespace plait::sim {

class QuantiseBlock {
  public:
    explicit QuantiseBlock(uint64_t seed = 1) : model_(seed) {
        model_->cmd_valid_i = 0;
        model_->row_valid_i = 0;
        model_->rsp_ready_i = 0;
        model_.reset();
    }

    /// `stalls.command` holds up commands and elements. Rows that the block refuses have no elements.
    std::vector<QuantiseAnswer> run(std::span<const QuantiseRow> rows, Stalls stalls = {}) {
        std::vector<Word> words;
        std::vector<Command> announced;
        for (const QuantiseRow& row : rows) {
            const size_t elements = row.elements.size();
            announced.push_back({row.format, static_cast<uint32_t>(elements),
                                 tag_ + static_cast<uint32_t>(announced.size())});
            if (engines::code_bits(row.format) != 0 && elements <= regmap::max_hidden)
                append(words, row.elements);
        }
        Offers<Command> commands(announced);
        Offers<Word> offers(words);
        std::vector<QuantiseAnswer> answers;
        QuantiseAnswer answer;
        bool has_begun = false;
        for (uint64_t idle = 0; answers.size() < rows.size(); ++idle) {
            drive(commands.offer(model_.chance(stalls.command)), offers.offer(model_.chance(stalls.command)));
            model_->rsp_ready_i = !model_.chance(stalls.answer);
            model_->eval();
            if (model_->cmd_valid_i && model_->cmd_ready_o) commands.taken();
            if (model_->row_valid_i && model_->row_ready_o) {
                if (!std::exchange(has_begun, true)) first_word_cycle_ = model_.cycles();
                offers.taken();
                last_word_cycle_ = model_.cycles();
                idle = 0;
            }
            if (model_->rsp_valid_o && model_->rsp_ready_i) {
                if (read(answer, static_cast<uint32_t>(answers.size())))
                    answers.push_back(std::exchange(answer, {}));
                answer_cycle_ = model_.cycles();
                idle = 0;
            }
            model_.tick();
            if (idle > most_idle_cycles) throw std::runtime_error("the block does nothing");
        }
        tag_ += static_cast<uint32_t>(rows.size());
        drive(nullptr, nullptr);
        model_->rsp_ready_i = 0;
        return answers;
    }

    [[nodiscard]] uint64_t cycles() const { return model_.cycles(); }

    /// Of the rows of the latest run(): from their last elements to the last word of their last answer, and
    /// as long as elements were taken.
    [[nodiscard]] BlockCycles taken_cycles() const {
        return {static_cast<uint32_t>(answer_cycle_ - last_word_cycle_),
                static_cast<uint32_t>(last_word_cycle_ - first_word_cycle_ + 1)};
    }

  private:
    using Word = std::array<uint16_t, encoded_elements>;

    struct Command {
        regmap::RowFormat format;
        uint32_t elements;
        uint32_t tag;
    };

    // Behind a row's end there are ones, which must not matter.
    static void append(std::vector<Word>& words, std::span<const uint16_t> elements) {
        for (size_t first = 0; first < elements.size(); first += encoded_elements) {
            Word& word = words.emplace_back();
            word.fill(0xFFFF);
            const size_t count = std::min<size_t>(encoded_elements, elements.size() - first);
            std::copy_n(elements.begin() + static_cast<std::ptrdiff_t>(first), count, word.begin());
        }
    }

    void drive(const Command* command, const Word* word) {
        model_->cmd_valid_i = command != nullptr;
        if (command != nullptr) {
            model_->cmd_format_i = static_cast<uint8_t>(command->format);
            model_->cmd_elements_i = command->elements;
            model_->cmd_tag_i = command->tag;
        }
        model_->row_valid_i = word != nullptr;
        if (word != nullptr) std::memcpy(&model_->row_data_i[0], word->data(), sizeof *word);
    }

    // True: that was the answer's last word.
    bool read(QuantiseAnswer& answer, uint32_t number) {
        std::vector<uint8_t>& bytes = model_->rsp_scales_o ? answer.scales : answer.codes;
        const auto* const data = reinterpret_cast<const uint8_t*>(&model_->rsp_data_o[0]);
        bytes.insert(bytes.end(), data, data + model_->rsp_bytes_o);
        answer.status = static_cast<regmap::Status>(model_->rsp_status_o);
        answer.non_finite = model_->rsp_non_finite_o;
        if (model_->rsp_tag_o != tag_ + number) throw std::runtime_error("a row has another one's tag");
        return model_->rsp_last_o;
    }

    ClockedModel<Vplait_quantise> model_;
    uint32_t tag_ = 0;  // of the next row
    uint64_t first_word_cycle_ = 0;
    uint64_t last_word_cycle_ = 0;
    uint64_t answer_cycle_ = 0;
};

}  // namespace plait::sim
