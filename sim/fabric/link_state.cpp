// The part of LeafSpine that takes links down and up, and makes them bad.
#include <algorithm>
#include <plait/sim/fabric/leaf_spine.hpp>

namespace plait::sim {

LeafSpine::Element& LeafSpine::element(const Link& link) {
    switch (link.kind) {
        case Link::Kind::device: return device_links_[topology_.device_link(link.first, link.plane)];
        case Link::Kind::leaf_spine:
            return spine_links_[topology_.spine_link(link.first, link.second, link.plane)];
        case Link::Kind::leaf: return leaves_[link.plane * topology_.leaves + link.first];
        case Link::Kind::spine: return spines_[link.plane * topology_.spines + link.first];
        case Link::Kind::plane: break;
    }
    return planes_[link.plane];
}

// Calls visit_device_link(device, plane) and visit_spine_link(leaf, spine, plane) for what `link` consists
// of.
template <typename VisitDevice, typename VisitSpine>
void LeafSpine::for_each_link(const Link& link, VisitDevice&& visit_device_link,
                              VisitSpine&& visit_spine_link) {
    uint32_t first_device = 0, last_device = 0;
    uint32_t first_leaf = 0, last_leaf = topology_.leaves;
    uint32_t first_spine = 0, last_spine = topology_.spines;
    switch (link.kind) {
        case Link::Kind::device:
            first_device = link.first;
            last_device = link.first + 1;
            last_leaf = 0;
            break;
        case Link::Kind::leaf_spine:
            first_leaf = link.first;
            last_leaf = link.first + 1;
            first_spine = link.second;
            last_spine = link.second + 1;
            break;
        case Link::Kind::leaf:
            first_device = link.first * topology_.leaf_down_ports;
            last_device = std::min(topology_.devices, first_device + topology_.leaf_down_ports);
            first_leaf = link.first;
            last_leaf = link.first + 1;
            break;
        case Link::Kind::spine:
            first_spine = link.first;
            last_spine = link.first + 1;
            break;
        case Link::Kind::plane: last_device = topology_.devices; break;
    }
    for (uint32_t device = first_device; device < last_device; ++device) {
        visit_device_link(device, uint32_t{link.plane});
    }
    for (uint32_t leaf = first_leaf; leaf < last_leaf; ++leaf) {
        for (uint32_t spine = first_spine; spine < last_spine; ++spine) {
            visit_spine_link(leaf, spine, uint32_t{link.plane});
        }
    }
}

// Returns whether the device has to be told.
bool LeafSpine::refresh_device_link(uint32_t device, uint32_t plane) {
    const uint32_t number = topology_.device_link(device, plane);
    const Element& link = device_links_[number];
    const Element& leaf = leaves_[plane * topology_.leaves + topology_.leaf_of(device)];
    const bool up = link.up && leaf.up && planes_[plane].up;
    ports_[topology_.device_to_leaf(device, plane)].set_up(up, queue_.now_ps());
    ports_[topology_.leaf_to_device(device, plane)].set_up(up, queue_.now_ps());

    const bool known_up = link.known_up() && leaf.known_up() && planes_[plane].known_up();
    const bool changed = known_up != (device_link_known_up_[number] != 0);
    device_link_known_up_[number] = known_up ? 1 : 0;
    return changed;
}

void LeafSpine::refresh_spine_link(uint32_t leaf, uint32_t spine, uint32_t plane) {
    const uint32_t leaf_index = plane * topology_.leaves + leaf;
    const Element* parts[] = {&spine_links_[topology_.spine_link(leaf, spine, plane)], &leaves_[leaf_index],
                              &spines_[plane * topology_.spines + spine], &planes_[plane]};
    bool up = true, known_up = true;
    for (const Element* part : parts) {
        up = up && part->up;
        known_up = known_up && part->known_up();
    }
    ports_[topology_.leaf_to_spine(leaf, spine, plane)].set_up(up, queue_.now_ps());
    ports_[topology_.spine_to_leaf(leaf, spine, plane)].set_up(up, queue_.now_ps());

    const uint64_t bit = uint64_t{1} << spine;
    spine_masks_[leaf_index] = known_up ? spine_masks_[leaf_index] | bit : spine_masks_[leaf_index] & ~bit;
}

std::string LeafSpine::set_link(const Link& link, bool up, bool silent) {
    if (std::string message = topology_.check(link); !message.empty()) {
        return message;
    }
    element(link) = {up, silent && !up};
    std::vector<uint32_t> changed;
    for_each_link(
        link,
        [&](uint32_t device, uint32_t plane) {
            if (refresh_device_link(device, plane)) {
                changed.push_back(device);
            }
        },
        [&](uint32_t leaf, uint32_t spine, uint32_t plane) { refresh_spine_link(leaf, spine, plane); });
    // The devices are told when the whole change is in place: they may send at once.
    for (const uint32_t device : changed) {
        const FabricReceiver& receiver = receivers_[device];
        if (receiver.link_change != nullptr) {
            const bool known_up = device_link_known_up_[topology_.device_link(device, link.plane)] != 0;
            receiver.link_change(receiver.object, link.plane, known_up);
        }
    }
    return {};
}

bool LeafSpine::link_up(uint32_t device, uint8_t plane) const {
    return topology_.check(Link::device_port(device, plane)).empty() &&
           ports_[topology_.device_to_leaf(device, plane)].up();
}

std::string LeafSpine::impair(const Link& link, const FaultConfig& impairment) {
    std::string message = topology_.check(link);
    if (message.empty()) {
        message = FaultInjector::validate(impairment);
    }
    if (!message.empty()) {
        return message;
    }
    const auto impair_port = [&](uint32_t port) {
        injector_.impair(port, impairment);
        ports_[port].impaired = impairment.any();
    };
    for_each_link(
        link,
        [&](uint32_t device, uint32_t plane) {
            impair_port(topology_.device_to_leaf(device, plane));
            impair_port(topology_.leaf_to_device(device, plane));
        },
        [&](uint32_t leaf, uint32_t spine, uint32_t plane) {
            impair_port(topology_.leaf_to_spine(leaf, spine, plane));
            impair_port(topology_.spine_to_leaf(leaf, spine, plane));
        });
    return {};
}

std::string LeafSpine::set_faults(const FaultConfig& faults) {
    std::string message = FaultInjector::validate(faults);
    if (message.empty()) {
        injector_.configure(faults);
    }
    return message;
}

std::string LeafSpine::lose_nth(uint32_t source, uint32_t destination, uint64_t nth) {
    if (source >= topology_.devices || destination >= topology_.devices) {
        return "device " + std::to_string(source >= topology_.devices ? source : destination) +
               " does not exist: there are " + std::to_string(topology_.devices);
    }
    if (nth == 0) {
        return "packets are counted from 1";
    }
    injector_.lose_nth(source, destination, nth);
    return {};
}

}  // namespace plait::sim
