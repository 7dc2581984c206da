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
constexpr uint64_t longest_flapping_us = 2000;

// Half of the groups as most are, the others with any format anywhere.
std::string formats(Draw& draw) {
    constexpr const char* any[] = {"e4m3_f32", "e4m3_ue8m0", "e5m2_f32", "e5m2_ue8m0", "logfmt8", "logfmt10"};
    const auto line = [](const char* key, auto value) { return fmt::format("{} = {}\n", key, value); };
    const auto quoted = [](const char* format) { return fmt::format("\"{}\"", format); };
    if (draw.one_in(2)) return line("dispatch_format", quoted(draw.of({"e4m3_f32", "bf16"})));
    std::string text = line("dispatch_format", quoted(draw.of(any)));
    text += line("encode_dispatch", draw.one_in(2));
    if (draw.one_in(2)) {
        text += line("combine_format", quoted(draw.of(any)));
        text += line("encode_combine", draw.one_in(2));
    }
    return text + line("partial_format", quoted(draw.one_in(4) ? "f32" : draw.of(any)));
}

std::string workload(Draw& draw, const Shape& shape) {
    const uint64_t experts = shape.devices() * draw.between(1, 4);
    const uint64_t topk = draw.between(1, std::min<uint64_t>(experts, 8));
    const bool groups = experts % 8 == 0 && topk <= experts / 2;
    const uint64_t repeat = draw.between(1, 3);
    std::string text =
        fmt::format("\n[workload]\nkind = \"ep\"\ntimeout_us = {}\n", draw.between(15, 50) * 1000);
    text += fmt::format("tokens = {}\nhidden = {}\nexperts = {}\ntopk = {}\n",
                        draw.one_in(10) ? draw.below(3) : draw.between(1, 96), 64 * draw.between(2, 32),
                        experts, topk);
    text += fmt::format("entry_policy = \"{}\"\nrouting = \"{}\"\n",
                        draw.of({"same_index", "spread", "target", "balanced"}),
                        draw.of({"uniform", "skewed", groups ? "grouped" : "uniform"}));
    text += formats(draw);
    if (draw.one_in(4)) text += fmt::format("biases = {}\n", draw.between(1, 2));
    const bool low_latency = draw.one_in(3);
    if (low_latency)
        text +=
            fmt::format("mode = \"low_latency\"\nweights_at = \"{}\"\n", draw.of({"dispatch", "combine"}));
    text += fmt::format("repeat = {}\ncached = {}\nmicro_batches = {}\n", repeat,
                        !low_latency && repeat > 1 && draw.one_in(2), draw.between(1, 2));
    if (draw.one_in(4)) text += fmt::format("idle_ranks = [{}]\n", draw.below(shape.devices()));
    if (draw.one_in(12)) text += fmt::format("absent_ranks = [{}]\n", draw.below(shape.devices()));
    return text;
}

// Shallow queues before links that are too few: they overflow.
std::string switches(Draw& draw, const Shape& shape) {
    if (!draw.one_in(3)) return {};
    const uint64_t buffer_bytes = draw.of({8192, 16384, 65536});
    return fmt::format(
        "\n[scale_out]\ntrimming = {}\nbuffer_bytes = {}\necn_threshold_bytes = {}\nleaf_down_ports = {}\n"
        "leaf_up_ports = {}\n",
        !draw.one_in(3), buffer_bytes, buffer_bytes / 2, shape.gpus, draw.between(1, 2));
}

std::string device(Draw& draw) {
    if (!draw.one_in(3)) return {};
    return fmt::format("\n[device]\naccumulators = {}\n", draw.of({64, 96, 256}));
}

std::string rate_fault(Draw& draw, const Shape& shape, uint64_t at_us) {
    std::string text = fmt::format("at_us = {}\n", at_us);
    switch (draw.below(4)) {
        case 0: text += fmt::format("what = \"loss\"\nrate = 0.{:03}\n", draw.below(50)); break;
        case 1: text += fmt::format("what = \"corruption\"\nrate = 0.{:03}\n", draw.below(20)); break;
        case 2: text += fmt::format("what = \"duplication\"\nrate = 0.{:03}\n", draw.below(50)); break;
        default:
            text += fmt::format("what = \"reordering\"\nrate = 0.{:03}\ndelay_ns = {}\n", draw.below(100),
                                draw.between(100, 20'000));
            break;
    }
    if (draw.one_in(3))
        text +=
            fmt::format("device = {}\nplane = {}\n", draw.below(shape.devices()), draw.below(shape.planes));
    return text;
}

// Several links at once, each for itself.
std::string flapping(Draw& draw, const Shape& shape, uint64_t at_us) {
    const uint64_t down_us = draw.between(1, 60);
    const uint64_t up_us = draw.between(10, 100);
    const bool random = draw.one_in(2);
    const uint64_t longest_us = (random ? 2 : 1) * (down_us + up_us);
    return fmt::format(
        "at_us = {}\nwhat = \"link_flap\"\nlinks = {}\ndown_us = {}\nup_us = {}\ntimes = {}\nrandom = {}\n"
        "silent = {}\n",
        at_us, draw.between(1, std::min<uint64_t>(shape.devices() * shape.planes, 12)), down_us, up_us,
        draw.between(1, longest_flapping_us / longest_us), random, draw.one_in(2));
}

// A host that stops, for less than a call may take, for longer, or for ever.
std::string stopping_host(Draw& draw, const Shape& shape, uint64_t at_us) {
    std::string text =
        fmt::format("at_us = {}\nwhat = \"host_stops\"\ndevice = {}\n", at_us, draw.below(shape.devices()));
    if (!draw.one_in(3)) text += fmt::format("for_us = {}\n", draw.of({100, 3000, 30'000, 80'000}));
    return text;
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
    const auto at_some_time = [&](auto&& make) {
        const uint64_t at_us = draw.below(latest_fault_us);
        faults.emplace_back(at_us, make(at_us));
    };
    if (!draw.one_in(8)) {
        for (uint64_t count = draw.between(0, 3); count != 0; --count)
            at_some_time([&](uint64_t at_us) { return rate_fault(draw, shape, at_us); });
        // One outage: several at once could cut a device off for longer than a queue pair waits.
        if (draw.one_in(3)) add_outage(draw, shape, draw.below(latest_fault_us), faults);
        if (draw.one_in(3)) at_some_time([&](uint64_t at_us) { return flapping(draw, shape, at_us); });
    }
    for (uint64_t deaths = draw.one_in(6) ? draw.between(1, 2) : 0; shape.devices() > deaths && deaths != 0;
         --deaths) {
        at_some_time([&](uint64_t at_us) {
            return fmt::format("at_us = {}\nwhat = \"device_down\"\ndevice = {}\n", at_us,
                               draw.below(shape.devices()));
        });
    }
    if (draw.one_in(8)) at_some_time([&](uint64_t at_us) { return stopping_host(draw, shape, at_us); });
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
    text += switches(draw, shape);
    text += device(draw);
    text += workload(draw, shape);
    return text + schedule(draw, shape);
}

}  // namespace plait::sim
