#pragma once
// Rows that are encoded, once by the C++ engine and once Verilated.

#include <Vplait_quantise.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ostream>
#include <plait/engines/quantise.hpp>
#include <plait/regmap.hpp>
#include <vector>

#include "verilated_block.hpp"

namespace plait::contract {

struct QuantiseRow {
    regmap::RowFormat format = regmap::RowFormat::bf16;
    std::vector<uint16_t> elements{};
};

struct QuantiseAnswer {
    regmap::Status status = regmap::Status::ok;
    uint32_t non_finite = 0;
    std::vector<uint8_t> codes{};
    std::vector<uint8_t> scales{};

    bool operator==(const QuantiseAnswer&) const = default;
    friend std::ostream& operator<<(std::ostream& out, const QuantiseAnswer& answer) {
        out << "status " << static_cast<int>(answer.status) << " non-finite " << answer.non_finite
            << std::hex;
        out << " codes";
        for (const uint8_t byte : answer.codes) out << ' ' << int{byte};
        out << " scales";
        for (const uint8_t byte : answer.scales) out << ' ' << int{byte};
        return out << std::dec;
    }
};

class QuantiseReference {
  public:
    std::vector<QuantiseAnswer> run(std::span<const QuantiseRow> rows) {
        std::vector<QuantiseAnswer> answers;
        for (const QuantiseRow& row : rows) answers.push_back(run(row));
        return answers;
    }

    static QuantiseAnswer run(const QuantiseRow& row) {
        const size_t elements = row.elements.size();
        if (engines::code_bits(row.format) == 0) return {regmap::Status::invalid_parameter};
        if (elements == 0 || elements > regmap::max_hidden) return {regmap::Status::invalid_length};
        QuantiseAnswer answer;
        answer.codes.resize(engines::code_bytes(row.format, elements));
        answer.scales.resize(engines::scale_bytes(row.format, elements));
        answer.non_finite =
            engines::encode_row(row.format, row.elements, std::as_writable_bytes(std::span(answer.codes)),
                                std::as_writable_bytes(std::span(answer.scales)))
                .value();
        return answer;
    }
};

class QuantiseRtl {
  public:
    /// 32 elements.
    using Word = std::array<uint16_t, 32>;

    explicit QuantiseRtl(uint64_t seed = 1) : model_(seed) {
        model_->cmd_valid_i = 0;
        model_->row_valid_i = 0;
        model_->rsp_ready_i = 0;
        model_.reset();
    }

    /// Rows of elements that no command announces are left out.
    std::vector<QuantiseAnswer> run(std::span<const QuantiseRow> rows, Stalls stalls = {}) {
        std::vector<Word> words;
        for (const QuantiseRow& row : rows) {
            if (QuantiseReference::run(row).status == regmap::Status::ok) append(words, row.elements);
        }
        std::vector<Command> announced;
        for (const QuantiseRow& row : rows)
            announced.push_back({row.format, static_cast<uint32_t>(row.elements.size()),
                                 tag_ + static_cast<uint32_t>(announced.size())});
        Offers<Command> commands(announced);
        Offers<Word> offers(words);
        std::vector<QuantiseAnswer> answers;
        QuantiseAnswer answer;
        for (uint64_t idle = 0; answers.size() < rows.size(); ++idle) {
            drive(commands.offer(model_.chance(stalls.command)), offers.offer(model_.chance(stalls.command)));
            model_->rsp_ready_i = !model_.chance(stalls.answer);
            model_->eval();
            if (model_->cmd_valid_i && model_->cmd_ready_o) commands.taken();
            if (model_->row_valid_i && model_->row_ready_o) {
                offers.taken();
                idle = 0;
            }
            if (model_->rsp_valid_o && model_->rsp_ready_i) {
                if (read(answer, static_cast<uint32_t>(answers.size())))
                    answers.push_back(std::exchange(answer, {}));
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

  private:
    // Behind a row's end there are ones, which must not matter.
    static void append(std::vector<Word>& words, const std::vector<uint16_t>& elements) {
        for (size_t first = 0; first < elements.size(); first += 32) {
            Word& word = words.emplace_back();
            word.fill(0xFFFF);
            const size_t count = std::min<size_t>(32, elements.size() - first);
            std::copy_n(elements.begin() + static_cast<std::ptrdiff_t>(first), count, word.begin());
        }
    }

    struct Command {
        regmap::RowFormat format;
        uint32_t elements;
        uint32_t tag;
    };

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
};

}  // namespace plait::contract
