// Reads the schedule of faults.

#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include <plait/sim/app/scenario_sections.hpp>
#include <plait/sim/fabric/random.hpp>

namespace plait::sim {
namespace {

uint32_t required_integer(TableReader& table, std::string_view key, uint64_t highest) {
    uint32_t value = 0;
    if (!table.has(key)) table.refuse(key, fmt::format("an integer from 0 to {}", highest));
    table.integer(key, value, 0, highest);
    return value;
}

FaultKind read_fault_kind(TableReader& table) {
    using enum FaultKind;
    FaultKind what = plane_down;
    const auto kinds = {std::pair<std::string_view, FaultKind>{"link_down", link_down},
                        {"link_up", link_up},
                        {"link_flap", link_flap},
                        {"leaf_down", leaf_down},
                        {"leaf_up", leaf_up},
                        {"spine_down", spine_down},
                        {"spine_up", spine_up},
                        {"plane_down", plane_down},
                        {"plane_up", plane_up},
                        {"loss", loss},
                        {"corruption", corruption},
                        {"duplication", duplication},
                        {"reordering", reordering},
                        {"lose_nth", lose_nth},
                        {"device_down", device_down},
                        {"host_stops", host_stops}};
    if (!table.has("what")) table.refuse("what", "a kind of fault, such as \"plane_down\"");
    table.choice("what", what, kinds);
    return what;
}

// `what` and where: one link, or all that the kind names.
void read_place(TableReader& table, const Scenario& scenario, Fault& fault) {
    const uint32_t down_ports = scenario.scale_out.leaf_down_ports;
    const uint32_t leaves = (scenario.ranks() + down_ports - 1) / down_ports;
    const auto leaf = [&] { fault.leaf = required_integer(table, "leaf", leaves - 1); };
    const auto spine = [&] {
        fault.spine = required_integer(table, "spine", scenario.scale_out.leaf_up_ports - 1);
    };
    switch (fault.what) {
        case FaultKind::leaf_down:
        case FaultKind::leaf_up: leaf(); break;
        case FaultKind::spine_down:
        case FaultKind::spine_up: spine(); break;
        case FaultKind::plane_down:
        case FaultKind::plane_up: break;
        default:  // of one link
            fault.between_switches = table.has("leaf") || table.has("spine");
            if (fault.between_switches) {
                leaf();
                spine();
            } else {
                fault.device = required_integer(table, "device", scenario.ranks() - 1);
            }
            break;
    }
    fault.plane = static_cast<uint8_t>(required_integer(table, "plane", scenario.topology.planes - 1));
}

void read_rate(TableReader& table, const Scenario& scenario, Fault& fault) {
    if (!table.has("rate")) table.refuse("rate", "a number from 0 to 1");
    table.number("rate", fault.rate, 0, 1);
    if (fault.what == FaultKind::reordering) {
        if (!table.has("delay_ns")) table.refuse("delay_ns", "an integer from 1 to 1000000000");
        table.integer("delay_ns", fault.delay_ns, 1, 1'000'000'000);
    }
    fault.on_link = table.has("plane");
    if (fault.on_link) read_place(table, scenario, fault);
}

uint64_t required_ns(TableReader& table, std::string_view key, double lowest_us) {
    constexpr double most_us = 3.6e9;
    double value_us = 0;
    if (!table.has(key)) table.refuse(key, fmt::format("a number from {} to {}", lowest_us, most_us));
    table.number(key, value_us, lowest_us, most_us);
    return static_cast<uint64_t>(std::llround(value_us * 1000));
}

struct Flapping {
    uint64_t down_ns = 0;
    uint64_t up_ns = 0;
    uint32_t times = 1;
    bool random = false;
};

// Down and up again. The times are as given or, at random, evenly from nothing to twice that.
void add_flaps(Scenario& scenario, Fault fault, const Flapping& flapping, Random& random) {
    const auto drawn = [&](uint64_t mean_ns) {
        return flapping.random ? 1 + random.uniform(2 * mean_ns) : mean_ns;
    };
    for (uint32_t i = 0; i < flapping.times; ++i) {
        fault.what = FaultKind::link_down;
        scenario.faults.push_back(fault);
        fault.at_ns += drawn(flapping.down_ns);
        fault.what = FaultKind::link_up;
        scenario.faults.push_back(fault);
        fault.at_ns += drawn(flapping.up_ns);
    }
}

// Several links: ports of devices, drawn; each begins somewhere in its first period.
void add_flaps_of(Scenario& scenario, const Fault& fault, uint32_t links, const Flapping& flapping,
                  Random& random) {
    std::vector<uint32_t> ports(scenario.ranks() * scenario.topology.planes);
    std::iota(ports.begin(), ports.end(), 0U);
    for (uint32_t i = 0; i < links; ++i) {
        std::swap(ports[i], ports[i + random.uniform(ports.size() - i)]);
        Fault of_link = fault;
        of_link.device = ports[i] / scenario.topology.planes;
        of_link.plane = static_cast<uint8_t>(ports[i] % scenario.topology.planes);
        of_link.at_ns += random.uniform(flapping.down_ns + flapping.up_ns);
        add_flaps(scenario, of_link, flapping, random);
    }
}

void read_flapping(TableReader& table, Scenario& scenario, Fault fault) {
    uint32_t links = 0;
    table.integer("links", links, 1, scenario.ranks() * scenario.topology.planes);
    if (links == 0) read_place(table, scenario, fault);
    Flapping flapping;
    flapping.down_ns = required_ns(table, "down_us", 0.001);
    flapping.up_ns = required_ns(table, "up_us", 0.001);
    table.integer("times", flapping.times, 1, 10'000);
    table.boolean("random", flapping.random);
    constexpr uint64_t most = 1'000'000;
    if (uint64_t{links} * flapping.times > most)
        table.fail("times",
                   fmt::format("{} links {} times are more than {} flaps", links, flapping.times, most));
    table.boolean("silent", fault.silent);
    Random random(hash_combine(scenario.seed, scenario.faults.size()), "flapping links");
    if (links == 0) add_flaps(scenario, fault, flapping, random);
    else add_flaps_of(scenario, fault, links, flapping, random);
}

// Left out `for_us`: for ever.
void read_host(TableReader& table, const Scenario& scenario, Fault& fault) {
    if (scenario.workload != WorkloadKind::ep)
        table.fail("what", "only the hosts of workload.kind = \"ep\" can stop");
    fault.device = required_integer(table, "device", scenario.ranks() - 1);
    if (table.has("for_us")) fault.for_ns = required_ns(table, "for_us", 0.001);
}

}  // namespace

void read_fault(TableReader& table, Scenario& scenario) {
    Fault fault;
    fault.at_ns = required_ns(table, "at_us", 0);
    fault.what = read_fault_kind(table);
    switch (fault.what) {
        case FaultKind::loss:
        case FaultKind::corruption:
        case FaultKind::duplication:
        case FaultKind::reordering: read_rate(table, scenario, fault); break;
        case FaultKind::lose_nth:
            fault.source = required_integer(table, "source", scenario.ranks() - 1);
            fault.destination = required_integer(table, "destination", scenario.ranks() - 1);
            fault.nth = 1;
            table.integer("nth", fault.nth, 1, 1ULL << 40);
            break;
        case FaultKind::device_down:
            fault.device = required_integer(table, "device", scenario.ranks() - 1);
            break;
        case FaultKind::host_stops: read_host(table, scenario, fault); break;
        case FaultKind::link_flap: read_flapping(table, scenario, fault); break;
        default:
            read_place(table, scenario, fault);
            table.boolean("silent", fault.silent);
            break;
    }
    table.finish();
    if (fault.what != FaultKind::link_flap) scenario.faults.push_back(fault);
}

}  // namespace plait::sim
