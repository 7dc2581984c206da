#pragma once
// The ICRC of packets, once by the C++ engine and once Verilated.

#include <plait/engines/icrc.hpp>
#include <plait/regmap.hpp>
#include <plait/sim/verilated/icrc_ports.hpp>
#include <vector>

#include "verilated_block.hpp"

namespace plait::contract {

using sim::IcrcAnswer;
using sim::IcrcBeat;
using sim::IcrcPorts;

/// From the first byte of the IP header to the last pad byte.
using IcrcPacket = std::vector<uint8_t>;

class IcrcReference {
  public:
    std::vector<IcrcAnswer> run(const std::vector<IcrcPacket>& packets) {
        std::vector<IcrcAnswer> answers;
        for (const IcrcPacket& packet : packets)
            answers.push_back({regmap::Status::ok, engines::icrc(packet)});
        return answers;
    }
};

class IcrcRtl {
  public:
    explicit IcrcRtl(uint64_t seed = 1) : block_(seed) {}

    std::vector<IcrcAnswer> run(const std::vector<IcrcPacket>& packets, Stalls stalls = {}) {
        std::vector<IcrcBeat> beats;
        for (const IcrcPacket& packet : packets) sim::append(beats, packet);
        return block_.run(beats, packets.size(), stalls);
    }

    VerilatedBlock<IcrcPorts>& block() { return block_; }

  private:
    VerilatedBlock<IcrcPorts> block_;
};

}  // namespace plait::contract
