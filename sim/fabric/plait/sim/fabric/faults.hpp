// Faults of single packets: what happens to a packet on its way through the fabric, drawn or asked for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <plait/sim/fabric/packet.hpp>
#include <plait/sim/fabric/random.hpp>
#include <set>
#include <string>
#include <utility>

namespace plait::sim {

// Probabilities for each packet: end to end (drawn once, where the packet enters its first switch), or of one
// link, for each direction.
struct FaultConfig {
    double loss = 0;
    double corruption = 0;
    double duplication = 0;
    double delay = 0;           // fraction of packets that are delayed, which reorders them
    uint64_t max_delay_ns = 0;  // a delayed packet waits 1 ps up to this long more

    bool any() const { return loss > 0 || corruption > 0 || duplication > 0 || delay > 0; }
};

class FaultInjector {
  public:
    struct Verdict {
        std::optional<DropReason> drop;
        uint64_t delay_ps = 0;
        bool corrupt = false;
        bool duplicate = false;
    };

    // Empty when the probabilities are valid, else what is wrong.
    static std::string validate(const FaultConfig& config);

    FaultInjector(const FaultConfig& config, uint64_t seed);

    // Takes effect for the packets that enter from now on. `config` must be valid.
    void configure(const FaultConfig& config);

    // Loses the nth packet (1 is the next one) from `source` to `destination`, over all planes, counted where
    // packets enter their first switch and from the first call for that pair.
    void lose_nth(uint32_t source, uint32_t destination, uint64_t nth);

    // Sets or, with zeros, clears the impairment of one port.
    void impair(uint32_t port, const FaultConfig& impairment);

    // False when judge() would let every packet pass: the usual case, tested first.
    bool active() const { return active_; }
    // What happens to the packet, end to end. Draws from the streams: call it once for a packet.
    Verdict judge(const FabricPacket& packet);
    // What happens to a packet on an impaired port.
    Verdict judge_link(uint32_t port);

  private:
    // Each is drawn from for each packet, so that one probability does not change what another one hits.
    struct Streams {
        Random loss;
        Random corruption;
        Random duplication;
        Random delay;
    };

    struct PairLosses {
        uint64_t seen = 0;
        std::set<uint64_t> lost;
    };

    static Verdict draw(Streams& streams, const FaultConfig& config);
    void update_active();

    FaultConfig config_;
    Streams end_to_end_;
    Streams links_;
    std::map<std::pair<uint32_t, uint32_t>, PairLosses> scheduled_;
    std::map<uint32_t, FaultConfig> impairments_;
    bool active_ = false;
};

}  // namespace plait::sim
