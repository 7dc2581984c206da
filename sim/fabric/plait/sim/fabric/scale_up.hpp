// The scale-up switch of one node: credited, lossless, without head-of-line blocking.
#pragma once

#include <cstdint>
#include <plait/sim/fabric/event_queue.hpp>
#include <plait/sim/fabric/output_port.hpp>
#include <plait/sim/fabric/packet.hpp>
#include <string>
#include <vector>

namespace plait::sim {

struct ScaleUpConfig {
    uint32_t ports = 8;
    double rate_gbytes_per_s = 160;  // of each port, each way
    uint64_t latency_ns = 300;
    // What one source may have on its way to one destination. One pair alone reaches the full rate when this
    // covers the latency and two packets: 48 KB + 2 packets at the defaults.
    uint32_t credit_bytes = 128 * 1024;
    uint64_t node = 0;  // makes the ties of different nodes different
    uint64_t seed = 1;
};

struct ScaleUpTotals {
    uint64_t offered = 0;
    uint64_t delivered = 0;
    uint64_t delivered_bytes = 0;
    uint64_t dropped = 0;  // a port went down: the only reason
    uint64_t blocked = 0;  // packets that had to wait for credits
};

// A packet passes the sender's port (a server at the port's rate), the switch, and the receiver's port
// (another server). A source holds credits for each destination; without credits a packet waits at the sender
// in a queue of that destination, while packets to others pass. Credits return when the packet has been
// delivered. Two events a packet.
class ScaleUpSwitch {
  public:
    // Empty when the configuration is possible, else what is wrong.
    static std::string validate(const ScaleUpConfig& config);

    // `queue` is borrowed. Throws std::invalid_argument with the message of validate().
    ScaleUpSwitch(EventQueue& queue, const ScaleUpConfig& config);
    ScaleUpSwitch(const ScaleUpSwitch&) = delete;
    ScaleUpSwitch& operator=(const ScaleUpSwitch&) = delete;

    // Throws std::out_of_range for an unknown port, std::invalid_argument without a deliver function.
    void attach(uint16_t port, const ScaleUpReceiver& receiver);

    // Sends from packet->source to packet->destination, not before ready_ps (which counts as now if it has
    // passed); packets of one pair stay in the order of the calls. A port that is down loses the packet at
    // the time it would have left; no callback runs inside the call. Throws std::out_of_range (ports) or
    // std::invalid_argument (size 0 or above credit_bytes, no drop function); then the packet stays with the
    // caller.
    void send(ScaleUpPacket* packet, uint64_t ready_ps);

    // A device dies or returns: what is on its way from or to the port, or waits for it, is dropped, and
    // unless `silent` the other devices get port_change. Throws std::out_of_range.
    void set_port(uint16_t port, bool up, bool silent = false);
    bool port_up(uint16_t port) const { return outputs_.at(port).up(); }

    // When the source's port has sent all that has credits. Throws std::out_of_range.
    uint64_t egress_free_at_ps(uint16_t port) const { return egresses_.at(port).free_ps; }
    // Bytes of the pair that wait for credits, and that are on their way. Throw std::out_of_range.
    uint64_t waiting_bytes(uint16_t source, uint16_t destination) const;
    uint64_t outstanding_bytes(uint16_t source, uint16_t destination) const;

    PortStatistics egress_statistics(uint16_t port) const;
    // max_queue_bytes counts from the moment a packet is in the queue until its last byte has left.
    PortStatistics output_statistics(uint16_t port) const;
    const ScaleUpTotals& totals() const { return totals_; }
    const ScaleUpConfig& config() const { return config_; }

  private:
    struct Pair {
        uint64_t outstanding_bytes = 0;
        uint64_t waiting_bytes = 0;
        ScaleUpPacket* head = nullptr;
        ScaleUpPacket* tail = nullptr;
    };

    static void leave_source(void* object, uint64_t argument);
    static void arrive(void* object, uint64_t argument);
    static void expect_leaving(void* object, uint64_t argument);
    static void expect_arrival(void* object, uint64_t argument);

    Pair& pair_of(const ScaleUpPacket& packet);
    const Pair& pair_at(uint16_t source, uint16_t destination) const;
    bool lost(const ScaleUpPacket& packet) const;
    void start(Pair& pair, ScaleUpPacket* packet);
    void return_credits(const ScaleUpPacket& packet);
    void drop(ScaleUpPacket* packet);
    PortStatistics statistics(const OutputPort& port) const;
    uint32_t tie(uint32_t server);

    EventQueue& queue_;
    const ScaleUpConfig config_;
    const RateClock clock_;
    const uint64_t latency_ps_;
    std::vector<OutputPort> egresses_;
    std::vector<OutputPort> outputs_;
    std::vector<Pair> pairs_;
    std::vector<ScaleUpReceiver> receivers_;
    std::vector<uint64_t> drops_;  // by destination
    uint64_t ties_ = 0;
    ScaleUpTotals totals_;
};

}  // namespace plait::sim
