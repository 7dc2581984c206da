#pragma once
// The receive windows of a device, once over the C++ engine and once Verilated.

#include <Vplait_rx_window.h>

#include <array>
#include <optional>
#include <ostream>
#include <plait/engines/rx_window.hpp>
#include <plait/regmap.hpp>
#include <vector>

#include "verilated_block.hpp"

namespace plait::contract {

inline constexpr uint32_t window_queue_pairs = regmap::max_queues;

struct WindowCommand {
    regmap::WindowOpcode opcode = regmap::WindowOpcode::receive;
    uint32_t qp = 0;
    uint32_t psn = 0;
    uint16_t window_packets = 0;
};

struct WindowAnswer {
    regmap::Status status = regmap::Status::ok;
    engines::RxVerdict verdict{};
    uint32_t highest = 0;
    std::array<uint64_t, 2> bitmap{};

    bool operator==(const WindowAnswer& other) const {
        return status == other.status && verdict.verdict == other.verdict.verdict &&
               verdict.cumulative_psn == other.verdict.cumulative_psn &&
               verdict.advanced == other.verdict.advanced && verdict.hole == other.verdict.hole &&
               highest == other.highest && bitmap == other.bitmap;
    }
    friend std::ostream& operator<<(std::ostream& out, const WindowAnswer& answer) {
        return out << std::hex << "status " << static_cast<int>(answer.status) << " verdict "
                   << static_cast<int>(answer.verdict.verdict) << " next " << answer.verdict.cumulative_psn
                   << (answer.verdict.advanced ? " advanced" : "") << (answer.verdict.hole ? " hole" : "")
                   << " highest " << answer.highest << " bitmap " << answer.bitmap[1] << ' '
                   << answer.bitmap[0] << std::dec;
    }
};

/// One RxWindow a queue pair, and what its owner knows: which are open, and which packet came last.
class WindowReference {
  public:
    std::vector<WindowAnswer> run(std::span<const WindowCommand> commands) {
        std::vector<WindowAnswer> answers;
        for (const WindowCommand& command : commands) answers.push_back(run(command));
        return answers;
    }

    WindowAnswer run(const WindowCommand& command) {
        using regmap::Status;
        using regmap::WindowOpcode;
        if (command.opcode > WindowOpcode::close) return {.status = Status::invalid_opcode};
        if (command.qp >= window_queue_pairs) return {.status = Status::invalid_qp};
        QueuePair& qp = queue_pairs_[command.qp];
        if (command.opcode == WindowOpcode::open) return open(qp, command);
        if (!qp.is_open) return {.status = Status::invalid_qp};
        switch (command.opcode) {
            case WindowOpcode::receive: return receive(qp, command.psn);
            case WindowOpcode::refuse:
                if (qp.last_accepted != command.psn) return {.status = Status::invalid_state};
                qp.window.refuse(command.psn);
                qp.last_accepted.reset();
                return state_of(qp);
            case WindowOpcode::read: return read(qp, command.psn);
            default: qp.is_open = false; return {};
        }
    }

    [[nodiscard]] const engines::RxWindow& window(uint32_t qp) const { return queue_pairs_[qp].window; }
    [[nodiscard]] bool is_open(uint32_t qp) const { return queue_pairs_[qp].is_open; }

  private:
    struct QueuePair {
        engines::RxWindow window;
        bool is_open = false;
        std::optional<uint32_t> last_accepted;
    };

    static WindowAnswer state_of(const QueuePair& qp) {
        WindowAnswer answer;
        answer.verdict.cumulative_psn = qp.window.next_expected();
        answer.highest = qp.window.highest();
        answer.verdict.hole = answer.highest != qp.window.next_expected();
        return answer;
    }

    static WindowAnswer open(QueuePair& qp, const WindowCommand& command) {
        if (qp.is_open) return {.status = regmap::Status::invalid_state};
        if (!qp.window.reset(command.psn, command.window_packets))
            return {.status = regmap::Status::invalid_parameter};
        qp.is_open = true;
        qp.last_accepted.reset();
        return state_of(qp);
    }

    static WindowAnswer receive(QueuePair& qp, uint32_t psn) {
        WindowAnswer answer;
        answer.verdict = qp.window.receive(psn);
        answer.highest = qp.window.highest();
        if (answer.verdict.verdict == engines::Verdict::accept) qp.last_accepted = psn;
        return answer;
    }

    static WindowAnswer read(const QueuePair& qp, uint32_t psn) {
        constexpr int32_t quarter = 1 << 22;
        const int32_t ahead = engines::psn_diff(psn, qp.window.next_expected());
        if (ahead < -quarter || ahead >= quarter) return {.status = regmap::Status::invalid_parameter};
        WindowAnswer answer = state_of(qp);
        qp.window.bitmap(psn, answer.bitmap);
        return answer;
    }

    std::vector<QueuePair> queue_pairs_{window_queue_pairs};
};

struct WindowPorts {
    using Model = Vplait_rx_window;
    using Command = WindowCommand;
    using Answer = WindowAnswer;

    static void drive(Model& model, const Command& command) {
        model.cmd_opcode_i = static_cast<uint8_t>(command.opcode);
        model.cmd_qp_i = command.qp;
        model.cmd_psn_i = command.psn;
        model.cmd_window_packets_i = command.window_packets;
    }

    static Answer read(const Model& model) {
        Answer answer;
        answer.status = static_cast<regmap::Status>(model.rsp_status_o);
        answer.verdict = {static_cast<engines::Verdict>(model.rsp_verdict_o), model.rsp_next_psn_o,
                          model.rsp_advanced_o != 0, model.rsp_hole_o != 0};
        answer.highest = model.rsp_highest_psn_o;
        for (size_t word = 0; word < answer.bitmap.size(); ++word)
            answer.bitmap[word] =
                uint64_t{model.rsp_bitmap_o[2 * word + 1]} << 32 | model.rsp_bitmap_o[2 * word];
        return answer;
    }
};

using WindowRtl = VerilatedBlock<WindowPorts>;

}  // namespace plait::contract
