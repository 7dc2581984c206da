#include <plait/sim/models/release_order.hpp>

namespace plait::sim {

namespace {
constexpr uint32_t channel = 0;  // the counter that stands for the way to the host
}

void ReleaseOrder::placement(uint64_t end_ps) {
    ++placements_;
    queue_.schedule(end_ps, 0, &ReleaseOrder::placed, this, 0);
}

void ReleaseOrder::release() {
    required_.push(placements_);
    if (required_.size() == 1) ask();
}

void ReleaseOrder::cut() {
    cut_ = true;
    (void)run({regmap::OrderOpcode::reset, channel, 0, 0});
}

void ReleaseOrder::placed(void* object, uint64_t) {
    auto& self = *static_cast<ReleaseOrder*>(object);
    if (self.cut_) return;
    const OrderAnswer answer = self.run({regmap::OrderOpcode::place, channel, 1, 0});
    if (answer.tags.empty()) return;
    self.happened();
    self.ask();
}

// Only the first one is asked for: the block would have to walk past those that wait.
void ReleaseOrder::ask() {
    while (!required_.empty()) {
        if (run({regmap::OrderOpcode::release, channel, required_.front(), happened_}).kept) return;
        happened();
    }
}

void ReleaseOrder::happened() {
    required_.pop();
    ++happened_;
    sink_.released(sink_.object, answered_ps_);
}

// What the channel itself takes for a command that need not walk is a part of its latency.
OrderAnswer ReleaseOrder::run(const OrderCommand& command) {
    OrderAnswer answer = engine_.run(command);
    const uint64_t now_ps = queue_.now_ps();
    answered_ps_ = timer_.answered_ps(now_ps, now_ps, blocks_.order(command, answer), order_cycles);
    return answer;
}

}  // namespace plait::sim
