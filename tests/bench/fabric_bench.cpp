// Speed of the event queue and of packets through the fabric. items_per_second counts events.
#include <benchmark/benchmark.h>

#include <plait/sim/fabric/event_queue.hpp>
#include <plait/sim/fabric/leaf_spine.hpp>
#include <plait/sim/fabric/random.hpp>
#include <plait/sim/fabric/scale_up.hpp>
#include <vector>

namespace {

using plait::sim::EventQueue;
using plait::sim::FabricPacket;
using plait::sim::LeafSpine;
using plait::sim::Random;
using plait::sim::ScaleUpPacket;
using plait::sim::ScaleUpSwitch;

// The classic hold model: every event schedules one other, a random time later.
struct Hold {
    EventQueue queue;
    Random random{1, "hold"};
    static void run(void* object, uint64_t argument) {
        Hold& hold = *static_cast<Hold*>(object);
        const uint64_t value = hold.random.next();
        hold.queue.schedule(hold.queue.now_ps() + (value & 0xfffff), static_cast<uint32_t>(value >> 32), run,
                            object, argument);
    }
};

void event_queue_hold(benchmark::State& state) {
    Hold hold;
    for (int64_t i = 0; i < state.range(0); ++i) {
        Hold::run(&hold, 0);
    }
    for (auto _ : state) {
        hold.queue.step();
    }
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(event_queue_hold)->Arg(100)->Arg(2'000)->Arg(30'000);

// A permutation between leaves, sprayed over planes and spines; each device keeps a few packets in each plane
// under way.
class Permutation {
  public:
    Permutation(uint32_t devices, uint32_t packets_per_port)
        : fabric(queue, configuration(devices)), ends_(devices) {
        packets_.resize(size_t{devices} * 4 * packets_per_port);
        for (uint32_t device = 0; device < devices; ++device) {
            ends_[device] = {this, device};
            fabric.attach(device, {deliver, nullptr, &ends_[device]});
        }
        for (size_t i = 0; i < packets_.size(); ++i) {
            FabricPacket& packet = packets_[i];
            packet.size_bytes = 4174;
            packet.plane = static_cast<uint8_t>(i % 4);
            packet.owner = this;
            packet.drop = [](FabricPacket* lost, plait::sim::DropReason) {
                static_cast<Permutation*>(lost->owner)->send(lost);
            };
            packet.source = static_cast<uint32_t>(i / 4 % devices);
            packet.destination = (packet.source + devices / 2) % devices;
            send(&packet);
        }
    }

    EventQueue queue;
    LeafSpine fabric;

  private:
    struct End {
        Permutation* permutation = nullptr;
        uint32_t device = 0;
    };
    static plait::sim::FabricConfig configuration(uint32_t devices) {
        plait::sim::FabricConfig config;
        config.devices = devices;
        return config;
    }
    static void deliver(void* object, FabricPacket* packet) {
        static_cast<End*>(object)->permutation->send(packet);
    }
    void send(FabricPacket* packet) {
        packet->entropy = static_cast<uint16_t>(random_.next());
        fabric.transmit(packet->source, packet, 0);
    }

    Random random_{1, "entropy"};
    std::vector<FabricPacket> packets_;
    std::vector<End> ends_;
};

void leaf_spine_permutation(benchmark::State& state) {
    Permutation permutation(static_cast<uint32_t>(state.range(0)), 16);
    const uint64_t delivered = permutation.fabric.totals().delivered;
    for (auto _ : state) {
        permutation.queue.step();
    }
    state.SetItemsProcessed(state.iterations());
    state.counters["packets_per_second"] = benchmark::Counter(
        static_cast<double>(permutation.fabric.totals().delivered - delivered), benchmark::Counter::kIsRate);
}
BENCHMARK(leaf_spine_permutation)->Arg(32)->Arg(128)->Arg(1024);

// All ports of a node send to all others.
struct AllToAll {
    EventQueue queue;
    ScaleUpSwitch node_switch{queue, {}};
    std::vector<ScaleUpPacket> packets = std::vector<ScaleUpPacket>(8 * 7 * 16);
    AllToAll() {
        for (uint16_t port = 0; port < 8; ++port) {
            node_switch.attach(port, {deliver, nullptr, this});
        }
        for (size_t i = 0; i < packets.size(); ++i) {
            packets[i].size_bytes = 4096;
            packets[i].source = static_cast<uint16_t>(i % 8);
            packets[i].destination = static_cast<uint16_t>((i % 8 + 1 + i / 8 % 7) % 8);
            packets[i].drop = [](ScaleUpPacket*, plait::sim::DropReason) {};
            node_switch.send(&packets[i], 0);
        }
    }
    static void deliver(void* object, ScaleUpPacket* packet) {
        static_cast<AllToAll*>(object)->node_switch.send(packet, 0);
    }
};

void scale_up_all_to_all(benchmark::State& state) {
    AllToAll node;
    for (auto _ : state) {
        node.queue.step();
    }
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(scale_up_all_to_all);

}  // namespace
