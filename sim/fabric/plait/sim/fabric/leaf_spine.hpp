// The scale-out network: several planes of store-and-forward, output-queued leaf and spine switches.
#pragma once

#include <array>
#include <cstdint>
#include <plait/sim/fabric/event_queue.hpp>
#include <plait/sim/fabric/faults.hpp>
#include <plait/sim/fabric/output_port.hpp>
#include <plait/sim/fabric/packet.hpp>
#include <plait/sim/fabric/topology.hpp>
#include <string>
#include <vector>

namespace plait::sim {

// offered + duplicated = delivered + the sum of dropped + what is in the fabric.
struct FabricTotals {
    uint64_t offered = 0;
    uint64_t delivered = 0;
    uint64_t delivered_bytes = 0;
    uint64_t corrupted = 0;
    uint64_t duplicated = 0;
    uint64_t not_duplicated = 0;  // chosen for duplication, but the packet has no clone()
    uint64_t delayed = 0;
    uint64_t ecn_marks = 0;
    uint64_t trimmed = 0;
    std::array<uint64_t, drop_reason_count> dropped{};

    uint64_t dropped_total() const;
    uint64_t in_flight() const { return offered + duplicated - delivered - dropped_total(); }
};

// One event a hop: a packet that has arrived at a switch completely is looked up, waits switch_latency_ns,
// and takes its place in the output queue, whose departure times are known at once. Packets between devices
// of one leaf turn there; the others cross the spine that a hash of (seed, plane, entropy, source,
// destination) selects. Data and control packets share the queues; what does not fit is lost or, with
// trim_bytes, cut and sent on ahead of the queues. Loopback (destination = source) turns at the leaf.
class LeafSpine {
  public:
    static std::string validate(const FabricConfig& config) { return sim::validate(config); }

    // `queue` is borrowed for the life of the fabric. Throws std::invalid_argument with the message of
    // validate().
    LeafSpine(EventQueue& queue, const FabricConfig& config);
    LeafSpine(const LeafSpine&) = delete;
    LeafSpine& operator=(const LeafSpine&) = delete;

    // Throws std::out_of_range for an unknown device, std::invalid_argument without a deliver function.
    void attach(uint32_t device, const FabricReceiver& receiver);

    // Sends from the device's port on packet->plane, in the order of the calls, when the port is free but not
    // before ready_ps (which counts as now if it has passed). Sets packet->source, clears ecn and corrupt.
    // Never refuses for lack of room: the device decides how far ahead it fills its port. An unknown
    // destination is dropped at the leaf, a packet for a port that is down is dropped when it would have
    // arrived; no callback runs inside the call. Throws std::out_of_range (device or plane) or
    // std::invalid_argument (size 0 or above buffer_bytes, no drop function); then the packet stays with the
    // caller.
    Slot transmit(uint32_t device, FabricPacket* packet, uint64_t ready_ps);
    // When the device's port on the plane has sent all it was given. Throws std::out_of_range.
    uint64_t transmit_free_at_ps(uint32_t device, uint8_t plane) const;

    // Takes a link (or everything under it) down or up now. What is queued for or in flight on it is lost.
    // Unless it is `silent`, the devices on it get link_change and the leaves avoid the spines concerned, at
    // once; a silent failure loses packets until it is repaired. Elements are independent: a link works when
    // it, its leaf, its spine and its plane are up. Returns an empty string, or why the link does not exist
    // (then nothing changed).
    std::string set_link(const Link& link, bool up, bool silent = false);
    // Whether the device's port works; a silent failure counts.
    bool link_up(uint32_t device, uint8_t plane) const;

    // Replaces the probabilities of faults on one link, in both directions. Returns an empty string, or what
    // is wrong (nothing changed).
    std::string impair(const Link& link, const FaultConfig& impairment);
    // Replaces the end-to-end probabilities. Returns an empty string, or what is wrong (nothing changed).
    std::string set_faults(const FaultConfig& faults);
    // Loses the nth packet from source to destination: see FaultInjector::lose_nth. Returns an empty string,
    // or why not.
    std::string lose_nth(uint32_t source, uint32_t destination, uint64_t nth);

    // The spine a packet would take now, or `no_spine`.
    static constexpr uint32_t no_spine = UINT32_MAX;
    uint32_t spine_of(uint32_t source, uint32_t destination, uint8_t plane, uint16_t entropy) const;

    // Statistics of one port, by its number: topology().leaf_to_device(device, plane) and so on. Throws
    // std::out_of_range.
    PortStatistics port_statistics(uint32_t port) const;
    const FabricTotals& totals() const { return totals_; }
    const Topology& topology() const { return topology_; }
    const FabricConfig& config() const { return config_; }

  private:
    struct Element {
        bool up = true;
        bool silent = false;
        bool known_up() const { return up || silent; }
    };

    static FabricPacket* packet_of(uint64_t argument);
    // The event of a hop: what comes out of the link goes on by `arrive`, one of those below.
    template <EventQueue::Function arrive>
    static void leave_link(void* object, uint64_t argument);
    static void arrive_at_first_leaf(void* object, uint64_t argument);
    static void expect_at_first_leaf(void* object, uint64_t argument);
    static void expect_at_spine(void* object, uint64_t argument);
    static void expect_at_last_leaf(void* object, uint64_t argument);
    static void expect_at_device(void* object, uint64_t argument);
    static void turn(void* object, uint64_t argument);
    static void arrive_at_spine(void* object, uint64_t argument);
    static void arrive_at_last_leaf(void* object, uint64_t argument);
    static void arrive_at_device(void* object, uint64_t argument);

    void suffer(FabricPacket* packet, const FaultInjector::Verdict& verdict, EventQueue::Function arrive);
    void corrupt_if(FabricPacket* packet, bool hit);
    void route(FabricPacket* packet);
    void forward(FabricPacket* packet, uint32_t port, EventQueue::Handler arrival);
    void depart(FabricPacket* packet, uint32_t port, Slot slot, EventQueue::Handler arrival);
    void trim(FabricPacket* packet, uint32_t port, uint64_t enqueue_ps, EventQueue::Handler arrival);
    void drop(FabricPacket* packet, uint32_t port, DropReason reason);

    Element& element(const Link& link);
    bool refresh_device_link(uint32_t device, uint32_t plane);
    void refresh_spine_link(uint32_t leaf, uint32_t spine, uint32_t plane);
    template <typename VisitDevice, typename VisitSpine>
    void for_each_link(const Link& link, VisitDevice&& visit_device_link, VisitSpine&& visit_spine_link);

    EventQueue& queue_;
    const FabricConfig config_;
    const Topology topology_;
    const RateClock clock_;
    const uint64_t ecmp_seed_;
    const uint64_t tie_seed_;
    const uint64_t cable_ps_;
    const uint64_t switch_latency_ps_;
    const uint64_t buffer_ps_;         // the buffer as the time it takes to drain
    const uint64_t ecn_threshold_ps_;  // likewise
    const uint64_t trim_buffer_ps_;    // likewise
    std::vector<OutputPort> ports_;
    std::vector<TrimQueue> trim_queues_;  // for each port; empty when nothing is trimmed
    std::vector<std::array<uint64_t, drop_reason_count>> drops_;  // for each port
    std::vector<uint64_t> spine_masks_;  // for each plane and leaf: spines that it knows to be reachable
    std::vector<FabricReceiver> receivers_;
    FaultInjector injector_;
    uint64_t delayed_ties_ = 0;
    FabricTotals totals_;

    std::vector<Element> device_links_, spine_links_, leaves_, spines_, planes_;
    std::vector<uint8_t> device_link_known_up_;
};

}  // namespace plait::sim
