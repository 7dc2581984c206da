// A block of rtl_models as Verilator makes it, behind its commands and answers.
#pragma once

#include <verilated.h>
#ifdef PLAIT_RTL_COVERAGE
#include <verilated_cov.h>
#endif

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace plait::sim {

/// How often, in 256 cycles, there is no command to give and the answer is not taken.
struct Stalls {
    uint32_t command = 0;
    uint32_t answer = 0;
};

#ifdef PLAIT_RTL_COVERAGE
/// One more file of what ran into the folder that PLAIT_RTL_COVERAGE_FOLDER names.
inline void write_coverage(VerilatedContext& context) {
    static uint32_t files = 0;
    if (const char* const folder = std::getenv("PLAIT_RTL_COVERAGE_FOLDER"))
        context.coveragep()->write((std::string(folder) + "/" + std::to_string(files++) + ".dat").c_str());
}
#endif

/// A block that does nothing for so long hangs.
inline constexpr uint64_t most_idle_cycles = 100'000;

/// A Verilated module with its clock: out of reset after a cycle, with random bits in whatever reset leaves
/// alone. The seed also chooses the stalls.
template <typename Model>
class ClockedModel {
  public:
    explicit ClockedModel(uint64_t seed) : random_(seed) {
        context_->threads(1);
        context_->randReset(2);
        context_->randSeed(static_cast<int>(seed & 0x3FFF'FFFF) + 1);
        model_ = std::make_unique<Model>(context_.get());
        model_->clk_i = 0;
        model_->rst_ni = 0;
    }
    ~ClockedModel() {
        Verilated::threadContextp(context_.get());  // from which the model takes out what it put in
        model_->final();
#ifdef PLAIT_RTL_COVERAGE
        write_coverage(*context_);
#endif
    }
    ClockedModel(const ClockedModel&) = delete;
    ClockedModel& operator=(const ClockedModel&) = delete;

    /// After the ports have got values that offer nothing.
    void reset() {
        model_->eval();  // the first evaluation sees no edge
        tick();
        model_->rst_ni = 1;
    }

    Model& operator*() { return *model_; }
    Model* operator->() { return model_.get(); }

    bool chance(uint32_t of_256) { return of_256 != 0 && random_() % 256 < of_256; }

    void tick() {
        model_->clk_i = 1;
        model_->eval();
        model_->clk_i = 0;
        model_->eval();
        ++cycles_;
    }

    /// Cycles so far, the one of reset included.
    [[nodiscard]] uint64_t cycles() const { return cycles_; }

  private:
    std::unique_ptr<VerilatedContext> context_ = std::make_unique<VerilatedContext>();
    std::unique_ptr<Model> model_;
    std::mt19937_64 random_;
    uint64_t cycles_ = 0;
};

/// What is given to a port, one after the other; what is offered stays until it is taken.
template <typename Item>
class Offers {
  public:
    explicit Offers(std::span<const Item> items) : items_(items) {}

    /// The item to offer in this cycle, null for none.
    const Item* offer(bool stalls) {
        offers_ = given_ < items_.size() && (offers_ || !stalls);
        return offers_ ? &items_[given_] : nullptr;
    }
    void taken() {
        ++given_;
        offers_ = false;
    }
    [[nodiscard]] bool done() const { return given_ == items_.size(); }

  private:
    std::span<const Item> items_;
    size_t given_ = 0;
    bool offers_ = false;
};

/// A Verilated block that takes commands and gives answers, each behind valid and ready.
///
/// `Ports` names the model and its beats: `Model`, `Command`, `Answer`, `drive(Model&, const Command&)` and
/// `read(const Model&)`; `is_last(const Answer&)` where a command may have several answers.
template <typename Ports>
class VerilatedBlock {
  public:
    using Command = typename Ports::Command;
    using Answer = typename Ports::Answer;

    explicit VerilatedBlock(uint64_t seed = 1) : model_(seed) {
        model_->cmd_valid_i = 0;
        model_->rsp_ready_i = 0;
        model_.reset();
    }

    /// Gives the commands, one a cycle unless stalled, and takes answers until `answers` have been
    /// the last one of a command; by default as many as there are commands.
    std::vector<Answer> run(std::span<const Command> commands, Stalls stalls = {}) {
        return run(commands, commands.size(), stalls);
    }

    std::vector<Answer> run(std::span<const Command> commands, size_t answers, Stalls stalls = {}) {
        std::vector<Answer> taken;
        taken.reserve(answers);
        Offers<Command> offers(commands);
        size_t ended = 0;
        uint64_t idle = 0;
        while (!offers.done() || ended < answers) {
            const Command* const command = offers.offer(model_.chance(stalls.command));
            model_->cmd_valid_i = command != nullptr;
            if (command != nullptr) Ports::drive(*model_, *command);
            model_->rsp_ready_i = !model_.chance(stalls.answer);
            model_->eval();
            ++idle;
            if (model_->rsp_valid_o && model_->rsp_ready_i) {
                taken.push_back(Ports::read(*model_));
                ended += is_last(taken.back());
                idle = 0;
            }
            if (command != nullptr && model_->cmd_ready_o) {
                offers.taken();
                idle = 0;
            }
            model_.tick();
            if (idle > most_idle_cycles) throw_idle();
        }
        model_->cmd_valid_i = 0;
        model_->rsp_ready_i = 0;
        return taken;
    }

    /// What came of one command that had the block for itself. Cycles count from the one in which its first
    /// beat was offered.
    struct Outcome {
        std::vector<Answer> answers;  ///< The last one is the command's own.
        uint32_t latency = 0;         ///< Until that one was there.
        uint32_t interval = 0;        ///< Until the block would have taken the next command.
    };

    /// Gives one command, of one or more beats, and waits for its answer.
    Outcome ask(std::span<const Command> beats) {
        Outcome outcome;
        size_t given = 0;
        bool answered = false;
        model_->rsp_ready_i = 1;
        for (uint32_t cycle = 0; !answered || outcome.interval == 0; ++cycle) {
            if (cycle == most_idle_cycles) throw_idle();
            const bool offers = given < beats.size();
            model_->cmd_valid_i = offers;
            if (offers) Ports::drive(*model_, beats[given]);
            model_->eval();
            if (model_->rsp_valid_o) {
                outcome.answers.push_back(Ports::read(*model_));
                answered = is_last(outcome.answers.back());
                outcome.latency = cycle;
            }
            if (model_->cmd_ready_o) {
                if (offers) ++given;
                else if (outcome.interval == 0) outcome.interval = cycle;
            }
            model_.tick();
        }
        model_->rsp_ready_i = 0;
        return outcome;
    }

    [[nodiscard]] uint64_t cycles() const { return model_.cycles(); }

  private:
    [[noreturn]] static void throw_idle() {
        throw std::runtime_error("the block neither takes a command nor answers");
    }
    static bool is_last(const Answer& answer) {
        if constexpr (requires { Ports::is_last(answer); }) return Ports::is_last(answer);
        else return true;
    }

    ClockedModel<typename Ports::Model> model_;
};

}  // namespace plait::sim
