#pragma once
// The receive windows of a device, once over the C++ engine and once Verilated.

#include <optional>
#include <plait/engines/rx_window.hpp>
#include <plait/regmap.hpp>
#include <plait/sim/verilated/window_ports.hpp>
#include <vector>

#include "verilated_block.hpp"

namespace plait::contract {

inline constexpr uint32_t window_queue_pairs = regmap::max_queues;

using sim::WindowAnswer;
using sim::WindowCommand;
using sim::WindowPorts;

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
                return sim::state_of(qp.window);
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

    static WindowAnswer open(QueuePair& qp, const WindowCommand& command) {
        if (qp.is_open) return {.status = regmap::Status::invalid_state};
        if (!qp.window.reset(command.psn, command.window_packets))
            return {.status = regmap::Status::invalid_parameter};
        qp.is_open = true;
        qp.last_accepted.reset();
        return sim::state_of(qp.window);
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
        WindowAnswer answer = sim::state_of(qp.window);
        qp.window.bitmap(psn, answer.bitmap);
        return answer;
    }

    std::vector<QueuePair> queue_pairs_{window_queue_pairs};
};

using WindowRtl = VerilatedBlock<WindowPorts>;

}  // namespace plait::contract
