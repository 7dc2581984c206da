// The spray selector of a queue pair as firmware calls it, with the block that a device may have beside it.
#pragma once

#include <cstdint>
#include <optional>

#include <plait/engines/spray.hpp>
#include <plait/sim/models/engine_blocks.hpp>

namespace plait::sim {

/// Has the functions of SpraySelector that firmware uses. What each of them did goes to the block, if there
/// is one; the latest choice's cycles are kept for the packet that departs.
class SprayPort {
  public:
    SprayPort(engines::SpraySelector& selector, uint32_t qp, EngineBlocks* blocks, BlockCycles& choice)
        : selector_(selector), blocks_(blocks), choice_(choice), qp_(qp) {}

    bool configure(const engines::SprayConfig& config) {
        const bool done = selector_.configure(config);
        if (done) tell({.opcode = Opcode::configure, .config = config});
        return done;
    }
    uint32_t planes_due(uint32_t up) {
        up_ = static_cast<uint8_t>(up);
        const uint32_t due = selector_.planes_due(up);
        tell({.opcode = Opcode::due, .up = up_}, {.due = static_cast<uint8_t>(due)});
        return due;
    }
    /// After planes_due(), of the same planes. The block knows by itself which of them have credit.
    std::optional<engines::PathChoice> choose_due(uint32_t due, uint32_t offered, uint32_t bytes) {
        const auto path = selector_.choose_due(due, offered, bytes);
        choice_ = tell({.opcode = Opcode::choose, .up = up_, .bytes = static_cast<uint16_t>(bytes)},
                       answer_of(path, due));
        return path;
    }
    void on_gone(uint32_t plane, bool arrived) {
        selector_.on_gone(plane, arrived);
        tell({.opcode = Opcode::gone, .plane = static_cast<uint8_t>(plane), .flag = arrived});
    }
    void forget_in_flight() {
        selector_.forget_in_flight();
        tell({.opcode = Opcode::forget});
    }
    void on_ack(uint32_t index, bool marked) {
        selector_.on_ack(index, marked);
        tell({.opcode = Opcode::acknowledged, .index = static_cast<uint8_t>(index), .flag = marked});
    }
    void on_loss(uint32_t index) {
        selector_.on_loss(index);
        tell({.opcode = Opcode::lost, .index = static_cast<uint8_t>(index)});
    }
    void on_probe_returned(uint32_t index) {
        selector_.on_probe_returned(index);
        tell({.opcode = Opcode::probe_returned, .index = static_cast<uint8_t>(index)});
    }
    void exclude_plane(uint32_t plane) {
        selector_.exclude_plane(plane);
        tell({.opcode = Opcode::exclude, .plane = static_cast<uint8_t>(plane)});
    }
    void restore_plane(uint32_t plane) {
        selector_.restore_plane(plane);
        tell({.opcode = Opcode::restore, .plane = static_cast<uint8_t>(plane)});
    }
    std::optional<engines::PathChoice> next_to_probe() {
        const auto path = selector_.next_to_probe();
        tell({.opcode = Opcode::probe}, answer_of(path, 0));
        return path;
    }
    engines::PathChoice path(uint32_t index) {
        const engines::PathChoice path = selector_.path(index);
        tell({.opcode = Opcode::path, .index = static_cast<uint8_t>(index)}, answer_of(path, 0));
        return path;
    }

    // What every answer says.
    bool plane_suspect(uint32_t plane) const { return selector_.plane_suspect(plane); }
    uint32_t usable_planes() const { return selector_.usable_planes(); }
    uint32_t assumed_bad_count() const { return selector_.assumed_bad_count(); }

  private:
    using Opcode = regmap::SprayOpcode;

    static SprayAnswer answer_of(const std::optional<engines::PathChoice>& path, uint32_t due) {
        return {.granted = path.has_value(),
                .path = path.value_or(engines::PathChoice{}),
                .due = static_cast<uint8_t>(due)};
    }

    BlockCycles tell(SprayCommand command, SprayAnswer answer = {}) {
        if (blocks_ == nullptr) return spray_cycles;
        command.qp = qp_;
        add_state(answer, selector_);
        return blocks_->spray(command, answer);
    }

    engines::SpraySelector& selector_;
    EngineBlocks* const blocks_;
    BlockCycles& choice_;
    const uint32_t qp_;
    uint8_t up_ = 0;
};

}  // namespace plait::sim
