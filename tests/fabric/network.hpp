// A leaf-spine network with devices that only record what happens to them.
#pragma once

#include <cstdlib>
#include <deque>
#include <plait/sim/fabric/leaf_spine.hpp>
#include <plait/sim/fabric/random.hpp>
#include <string>
#include <tuple>
#include <vector>

namespace plait::sim::testing {

inline uint64_t test_seed(uint64_t fallback) {
    const char* text = std::getenv("PLAIT_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 0) : fallback;
}

struct TestPacket : FabricPacket {
    uint64_t number = 0;
    int deliveries = 0;
    int drops = 0;
    DropReason reason{};
};

struct Delivery {
    uint64_t time_ps;
    uint64_t number;
    uint32_t device;
};

struct LinkChange {
    uint32_t device;
    uint8_t plane;
    bool up;
    bool operator==(const LinkChange&) const = default;
};

class Network {
  public:
    explicit Network(const FabricConfig& config) : fabric(queue, config), ends_(config.devices) {
        for (uint32_t device = 0; device < config.devices; ++device) {
            ends_[device] = {this, device};
            fabric.attach(device, {deliver, link_change, &ends_[device]});
        }
    }

    TestPacket& send(uint32_t source, uint32_t destination, uint32_t size_bytes, uint64_t ready_ps = 0,
                     uint16_t entropy = 0, uint8_t plane = 0) {
        TestPacket& packet = packets.emplace_back();
        packet.owner = this;
        packet.number = packets.size() - 1;
        packet.drop = drop;
        packet.clone = clone;
        packet.size_bytes = size_bytes;
        packet.destination = destination;
        packet.entropy = entropy;
        packet.plane = plane;
        fabric.transmit(source, &packet, ready_ps);
        return packet;
    }

    void run() { queue.run_until(EventQueue::never); }

    uint64_t dropped(DropReason reason) const { return fabric.totals().dropped[static_cast<size_t>(reason)]; }

    // Every packet met exactly one end, and the totals say so.
    bool all_accounted_for() const {
        uint64_t delivered = 0, lost = 0;
        for (const TestPacket& packet : packets) {
            if (packet.deliveries + packet.drops != 1) {
                return false;
            }
            delivered += static_cast<uint64_t>(packet.deliveries);
            lost += static_cast<uint64_t>(packet.drops);
        }
        const FabricTotals& totals = fabric.totals();
        return delivered == totals.delivered && lost == totals.dropped_total() && totals.in_flight() == 0 &&
               packets.size() == totals.offered + totals.duplicated;
    }

    uint64_t trace_hash() const {
        uint64_t hash = 0;
        for (const Delivery& delivery : deliveries) {
            hash = hash_combine(hash, delivery.time_ps);
            hash = hash_combine(hash, delivery.number << 20 | delivery.device);
        }
        return hash;
    }

    EventQueue queue;
    LeafSpine fabric;
    std::deque<TestPacket> packets;
    std::vector<Delivery> deliveries;
    std::vector<LinkChange> link_changes;

  private:
    struct End {
        Network* network = nullptr;
        uint32_t device = 0;
    };

    static void deliver(void* object, FabricPacket* packet) {
        const End& end = *static_cast<End*>(object);
        auto& arrived = *static_cast<TestPacket*>(packet);
        ++arrived.deliveries;
        end.network->deliveries.push_back({end.network->queue.now_ps(), arrived.number, end.device});
    }
    static void link_change(void* object, uint8_t plane, bool up) {
        const End& end = *static_cast<End*>(object);
        end.network->link_changes.push_back({end.device, plane, up});
    }
    static void drop(FabricPacket* packet, DropReason reason) {
        auto& lost = *static_cast<TestPacket*>(packet);
        ++lost.drops;
        lost.reason = reason;
    }
    static FabricPacket* clone(const FabricPacket* packet) {
        auto& network = *static_cast<Network*>(packet->owner);
        TestPacket& copy = network.packets.emplace_back(*static_cast<const TestPacket*>(packet));
        return &copy;
    }

    std::vector<End> ends_;
};

}  // namespace plait::sim::testing
