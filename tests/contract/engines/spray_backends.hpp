#pragma once
// The spray selectors of a device, once over the C++ engine and once Verilated.

#include <algorithm>
#include <array>
#include <plait/engines/spray.hpp>
#include <plait/regmap.hpp>
#include <plait/sim/verilated/spray_ports.hpp>
#include <vector>

#include "verilated_block.hpp"

namespace plait::contract {

inline constexpr uint32_t spray_queue_pairs = regmap::max_queues;

using sim::SprayAnswer;
using sim::SprayCommand;
using sim::SprayPorts;

/// One SpraySelector a queue pair, and what its owner knows: what it was configured with, which packets are
/// in flight, and what each plane takes.
class SprayReference {
  public:
    struct QueuePair {
        engines::SpraySelector selector;
        engines::SprayConfig config{.planes = 0};  ///< No plane: not configured.
        std::array<uint32_t, regmap::max_planes> in_flight{};
        uint32_t total = 0;
    };

    std::vector<SprayAnswer> run(std::span<const SprayCommand> commands) {
        std::vector<SprayAnswer> answers;
        for (const SprayCommand& command : commands) answers.push_back(run(command));
        return answers;
    }

    SprayAnswer run(const SprayCommand& command) {
        using regmap::SprayOpcode;
        using regmap::Status;
        if (command.opcode > SprayOpcode::credit) return {.status = Status::invalid_opcode};
        if (command.opcode == SprayOpcode::credit) return {.status = credit(command)};
        if (command.qp >= spray_queue_pairs) return {.status = Status::invalid_qp};
        QueuePair& qp = queue_pairs_[command.qp];
        if (command.opcode != SprayOpcode::configure && qp.config.planes == 0)
            return {.status = Status::invalid_qp};
        SprayAnswer answer;
        answer.status = apply(qp, command, answer);
        if (answer.status != Status::ok) return {.status = answer.status};
        sim::add_state(answer, qp.selector);
        return answer;
    }

    [[nodiscard]] const QueuePair& queue_pair(uint32_t qp) const { return queue_pairs_[qp]; }

  private:
    regmap::Status credit(const SprayCommand& command) {
        if (command.plane >= credits_.size()) return regmap::Status::invalid_parameter;
        if (credits_[command.plane] + command.bytes >= 2 << 20) return regmap::Status::out_of_range;
        credits_[command.plane] += command.bytes;
        return regmap::Status::ok;
    }

    regmap::Status apply(QueuePair& qp, const SprayCommand& command, SprayAnswer& answer) {
        using regmap::SprayOpcode;
        using regmap::Status;
        engines::SpraySelector& selector = qp.selector;
        const bool is_plane = command.plane < qp.config.planes;
        const bool is_value = command.index < qp.config.entropy_values;
        switch (command.opcode) {
            case SprayOpcode::configure: return configure(qp, command.config);
            case SprayOpcode::choose: return choose(qp, command, answer);
            case SprayOpcode::due:
                answer.due = static_cast<uint8_t>(selector.planes_due(command.up));
                return Status::ok;
            case SprayOpcode::gone:
                if (!is_plane) return Status::invalid_parameter;
                if (qp.in_flight[command.plane] == 0) return Status::invalid_state;
                --qp.in_flight[command.plane];
                --qp.total;
                selector.on_gone(command.plane, command.flag);
                return Status::ok;
            case SprayOpcode::exclude: selector.exclude_plane(command.plane); break;
            case SprayOpcode::restore: selector.restore_plane(command.plane); break;
            case SprayOpcode::probe: grant(answer, selector.next_to_probe()); return Status::ok;
            case SprayOpcode::forget:
                selector.forget_in_flight();
                qp.in_flight = {};
                qp.total = 0;
                return Status::ok;
            default:
                if (!is_value) return Status::invalid_parameter;
                on_value(selector, command, answer);
                return Status::ok;
        }
        return is_plane ? Status::ok : Status::invalid_parameter;
    }

    static void on_value(engines::SpraySelector& selector, const SprayCommand& command, SprayAnswer& answer) {
        using regmap::SprayOpcode;
        switch (command.opcode) {
            case SprayOpcode::acknowledged: selector.on_ack(command.index, command.flag); break;
            case SprayOpcode::lost: selector.on_loss(command.index); break;
            case SprayOpcode::probe_returned: selector.on_probe_returned(command.index); break;
            case SprayOpcode::deny: selector.deny(command.index); break;
            default: grant(answer, selector.path(command.index));
        }
    }

    static regmap::Status configure(QueuePair& qp, const engines::SprayConfig& config) {
        if (config.policy > engines::SprayPolicy::single_path || !qp.selector.configure(config))
            return regmap::Status::invalid_parameter;
        qp.config = config;
        qp.in_flight = {};
        qp.total = 0;
        return regmap::Status::ok;
    }

    regmap::Status choose(QueuePair& qp, const SprayCommand& command, SprayAnswer& answer) {
        if (command.bytes == 0) return regmap::Status::invalid_parameter;
        if (qp.total == 0xFFFF) return regmap::Status::limit_exceeded;
        const uint32_t due = qp.selector.planes_due(command.up);
        uint32_t offered = 0;
        for (uint32_t plane = 0; plane < credits_.size(); ++plane)
            if (credits_[plane] > 0) offered |= command.up & 1U << plane;
        answer.due = static_cast<uint8_t>(due);
        if ((due & offered) == 0) return regmap::Status::ok;
        grant(answer, qp.selector.choose_due(due, offered, command.bytes));
        if (!answer.granted) return regmap::Status::ok;
        credits_[answer.path.plane] -= command.bytes;
        ++qp.in_flight[answer.path.plane];
        ++qp.total;
        return regmap::Status::ok;
    }

    static void grant(SprayAnswer& answer, std::optional<engines::PathChoice> path) {
        answer.granted = path.has_value();
        if (path) answer.path = *path;
    }

    std::vector<QueuePair> queue_pairs_{spray_queue_pairs};
    std::array<int32_t, regmap::max_planes> credits_{};  ///< Bytes.
};

using SprayRtl = VerilatedBlock<SprayPorts>;

}  // namespace plait::contract
