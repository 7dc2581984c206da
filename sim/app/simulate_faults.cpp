#include <map>
#include <tuple>

#include <fmt/format.h>

#include <plait/sim/app/world.hpp>

namespace plait::sim {
namespace {

FaultConfig with(FaultConfig faults, const Fault& fault) {
    switch (fault.what) {
        case FaultKind::loss: faults.loss = fault.rate; break;
        case FaultKind::corruption: faults.corruption = fault.rate; break;
        case FaultKind::duplication: faults.duplication = fault.rate; break;
        case FaultKind::reordering:
            faults.delay = fault.rate;
            faults.max_delay_ns = fault.delay_ns;
            break;
        default: break;
    }
    return faults;
}

Link link_of(const Fault& fault) {
    switch (fault.what) {
        case FaultKind::leaf_down:
        case FaultKind::leaf_up: return Link::whole_leaf(fault.leaf, fault.plane);
        case FaultKind::spine_down:
        case FaultKind::spine_up: return Link::whole_spine(fault.spine, fault.plane);
        case FaultKind::plane_down:
        case FaultKind::plane_up: return Link::whole_plane(fault.plane);
        default: break;
    }
    return fault.between_switches ? Link::leaf_spine(fault.leaf, fault.spine, fault.plane)
                                  : Link::device_port(fault.device, fault.plane);
}

// The rates in force: end to end, and of links by what names them.
struct Rates {
    FaultConfig end_to_end;
    std::map<std::tuple<bool, uint32_t, uint32_t, uint32_t, uint8_t>, FaultConfig> of_link;
};

std::string apply_rate(LeafSpine& fabric, Rates& rates, const Fault& fault) {
    if (!fault.on_link) return fabric.set_faults(rates.end_to_end = with(rates.end_to_end, fault));
    FaultConfig& of_link =
        rates.of_link[{fault.between_switches, fault.device, fault.leaf, fault.spine, fault.plane}];
    return fabric.impair(link_of(fault), of_link = with(of_link, fault));
}

std::string apply(World& world, Rates& rates, const Fault& fault) {
    LeafSpine& fabric = world.cluster.fabric();
    switch (fault.what) {
        case FaultKind::loss:
        case FaultKind::corruption:
        case FaultKind::duplication:
        case FaultKind::reordering: return apply_rate(fabric, rates, fault);
        case FaultKind::lose_nth: return fabric.lose_nth(fault.source, fault.destination, fault.nth);
        case FaultKind::device_down:
            world.cluster.device(fault.device).kill();
            world.blame(fault.device);
            return {};
        case FaultKind::host_stops: world.stop_host(fault.device, fault.for_ns); return {};
        case FaultKind::link_down:
        case FaultKind::leaf_down:
        case FaultKind::spine_down:
        case FaultKind::plane_down: return fabric.set_link(link_of(fault), false, fault.silent);
        case FaultKind::link_up:
        case FaultKind::leaf_up:
        case FaultKind::spine_up:
        case FaultKind::plane_up: return fabric.set_link(link_of(fault), true, fault.silent);
        case FaultKind::link_flap: break;  // no schedule has it
    }
    return {};
}

}  // namespace

void spawn_faults(World& world) {
    if (world.scenario.faults.empty()) return;
    world.programs.spawn_background("faults", [&world] {
        Rates rates{world.cluster.parameters().fabric.faults, {}};
        for (const Fault& fault : world.scenario.faults) {
            const uint64_t now_ns = Kernel::now_ps() / 1000;
            if (fault.at_ns > now_ns) Kernel::sleep(fault.at_ns - now_ns);
            if (const std::string wrong = apply(world, rates, fault); !wrong.empty()) {
                world.error(
                    fmt::format("fault at {} us: {}", static_cast<double>(fault.at_ns) / 1000, wrong));
            }
        }
    });
}

}  // namespace plait::sim
