#include <algorithm>
#include <string>

#include <fmt/format.h>

#include <plait/sim/app/campaign.hpp>
#include <plait/sim/fabric/random.hpp>

namespace plait::sim {
namespace {

// The same numbers with every library.
class Draw {
  public:
    explicit Draw(uint64_t seed) : state_(seed) {}
    uint64_t below(uint64_t limit) { return next() % limit; }
    uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
    bool one_in(uint64_t count) { return below(count) == 0; }
    template <class T, size_t N>
    T of(const T (&choices)[N]) {
        return choices[below(N)];
    }

  private:
    uint64_t next() { return mix64(state_ += golden_gamma); }
    uint64_t state_;
};

struct Shape {
    uint64_t nodes, gpus, planes;
    uint64_t devices() const { return nodes * gpus; }
};

// Calls begin some tens of microseconds after the start and take some tens each.
constexpr uint64_t latest_fault_us = 400;
constexpr uint64_t longest_outage_us = 1000;

std::string workload(Draw& draw, const Shape& shape) {
    const uint64_t experts = shape.devices() * draw.between(1, 4);
    const uint64_t topk = draw.between(1, std::min<uint64_t>(experts, 8));
    const bool groups = experts % 8 == 0 && topk <= experts / 2;
    const uint64_t repeat = draw.between(1, 3);
    std::string text = "\n[workload]\nkind = \"ep\"\ntimeout_us = 50000\n";
    text += fmt::format("tokens = {}\nhidden = {}\nexperts = {}\ntopk = {}\n",
                        draw.one_in(10) ? draw.below(3) : draw.between(1, 96), 128 * draw.between(1, 16),
                        experts, topk);
    text +=
        fmt::format("dispatch_format = \"{}\"\nentry_policy = \"{}\"\nrouting = \"{}\"\n",
                    draw.of({"e4m3_f32", "bf16"}), draw.of({"same_index", "spread", "target", "balanced"}),
                    draw.of({"uniform", "skewed", groups ? "grouped" : "uniform"}));
    text += fmt::format("repeat = {}\ncached = {}\nmicro_batches = {}\n", repeat,
                        repeat > 1 && draw.one_in(2), draw.between(1, 2));
    if (draw.one_in(4)) text += fmt::format("idle_ranks = [{}]\n", draw.below(shape.devices()));
    return text;
}

std::string device(Draw& draw) {
    if (!draw.one_in(3)) return {};
    return fmt::format("\n[device]\naccumulators = {}\n", draw.of({64, 96, 256}));
}

std::string rate_fault(Draw& draw, uint64_t at_us) {
    switch (draw.below(4)) {
        case 0: return fmt::format("at_us = {}\nwhat = \"loss\"\nrate = 0.{:03}\n", at_us, draw.below(50));
        case 1:
            return fmt::format("at_us = {}\nwhat = \"corruption\"\nrate = 0.{:03}\n", at_us, draw.below(20));
        case 2:
            return fmt::format("at_us = {}\nwhat = \"duplication\"\nrate = 0.{:03}\n", at_us, draw.below(50));
        default:
            return fmt::format("at_us = {}\nwhat = \"reordering\"\nrate = 0.{:03}\ndelay_ns = {}\n", at_us,
                               draw.below(100), draw.between(100, 20'000));
    }
}

// What goes down comes back, perhaps several times.
void add_outage(Draw& draw, const Shape& shape, uint64_t at_us,
                std::vector<std::pair<uint64_t, std::string>>& faults) {
    const uint64_t plane = draw.below(shape.planes);
    const bool whole_plane = shape.planes > 1 && draw.one_in(4);
    const std::string where =
        whole_plane ? fmt::format("plane = {}\n", plane)
                    : fmt::format("device = {}\nplane = {}\n", draw.below(shape.devices()), plane);
    const char* what = whole_plane ? "plane" : "link";
    const bool silent = draw.one_in(2);
    for (uint64_t flaps = draw.between(1, 3); flaps != 0; --flaps) {
        const uint64_t back_us = at_us + draw.between(1, longest_outage_us / 4);
        for (const auto& [time_us, direction] : {std::pair{at_us, "down"}, std::pair{back_us, "up"}}) {
            faults.emplace_back(time_us, fmt::format("at_us = {}\nwhat = \"{}_{}\"\n{}silent = {}\n", time_us,
                                                     what, direction, where, silent));
        }
        at_us = back_us + draw.between(1, 100);
    }
}

std::string schedule(Draw& draw, const Shape& shape) {
    std::vector<std::pair<uint64_t, std::string>> faults;
    if (!draw.one_in(8)) {
        for (uint64_t count = draw.between(0, 3); count != 0; --count) {
            const uint64_t at_us = draw.below(latest_fault_us);
            faults.emplace_back(at_us, rate_fault(draw, at_us));
        }
        // One outage: several at once could cut a device off for longer than a queue pair waits.
        if (draw.one_in(2)) add_outage(draw, shape, draw.below(latest_fault_us), faults);
    }
    if (shape.devices() > 1 && draw.one_in(6)) {
        const uint64_t at_us = draw.below(latest_fault_us);
        faults.emplace_back(at_us, fmt::format("at_us = {}\nwhat = \"device_down\"\ndevice = {}\n", at_us,
                                               draw.below(shape.devices())));
    }
    std::stable_sort(faults.begin(), faults.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::string text;
    for (const auto& [at_us, fault] : faults) text += "\n[[fault]]\n" + fault;
    return text;
}

}  // namespace

std::string campaign_scenario(uint64_t seed) {
    Draw draw(seed);
    const Shape shape{draw.between(1, 4), draw.of({1U, 2U, 4U, 8U}), draw.of({1U, 2U, 4U, 4U})};
    std::string text = fmt::format(
        "seed = {}\n\n[topology]\nnodes = {}\ngpus_per_node = {}\nplanes = {}\n\n[limits]\nsimulated_time_us "
        "= 1000000\n",
        seed & INT64_MAX, shape.nodes, shape.gpus, shape.planes);
    text += device(draw);
    text += workload(draw, shape);
    return text + schedule(draw, shape);
}

}  // namespace plait::sim
