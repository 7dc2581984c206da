// The encoders between host memory and packets: BF16 rows become rows of other formats as they are read.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <plait/firmware/commands.hpp>
#include <plait/sim/fabric/event_queue.hpp>
#include <plait/sim/models/engine_blocks.hpp>
#include <plait/sim/models/host_interface.hpp>
#include <plait/sim/models/parameters.hpp>
#include <plait/sim/models/payload.hpp>
#include <plait/sim/models/servers.hpp>
#include <systemc>

namespace plait::sim {

/// The counters of infinities and NaN. Throws FirmwareError when firmware names one that does not exist.
class NonFiniteCounters {
  public:
    NonFiniteCounters(PayloadPool& pool, uint32_t counters) : pool_(pool), counters_(counters) {}

    bool has(uint32_t counter) const { return counter < counters_.size(); }
    void add(uint32_t counter, uint32_t count) {
        uint32_t& sum = at(counter).count;
        sum += std::min(count, std::numeric_limits<uint32_t>::max() - sum);
    }
    /// A sum that will be added when it is made, at the latest when its counter is taken.
    void expect(PayloadBlock& sum) {
        sum.addends->counters = this;
        at(sum.addends->reduction.counter).unmade.add(sum);
    }
    uint32_t take(uint32_t counter);
    [[nodiscard]] uint32_t count(uint32_t counter) const { return counters_[counter].count; }

  private:
    struct Counter {
        uint32_t count = 0;
        UnmadeSums unmade;
    };
    Counter& at(uint32_t counter);

    PayloadPool& pool_;
    std::vector<Counter> counters_;
};

/// Reads of a BF16 row what the wanted bytes of its encoding are made of, and encodes it. A packet with codes
/// and scales reads the whole row, since it has the scales of blocks whose codes another packet has.
class EncodeEngine : public sc_core::sc_module {
  public:
    EncodeEngine(sc_core::sc_module_name module_name, EventQueue& queue, HostInterface& host,
                 const EngineParameters& parameters, NonFiniteCounters& counters, EngineBlocks* blocks);

    /// Fills `block` with its length of bytes of the encoded `row`; it may be virtual. Answers when they are
    /// there. Throws FirmwareError when there are no such bytes in the row.
    uint64_t fill(PayloadBlock& block, firmware::Segment row, const firmware::RowEncoding& encoding,
                  uint64_t issued_ps);

  private:
    EventQueue& queue_;
    HostInterface& host_;
    NonFiniteCounters& counters_;
    EngineBlocks* const blocks_;
    const CycleClock clock_;
    ServerGroup units_;
    std::array<uint16_t, regmap::max_hidden> elements_;
};

}  // namespace plait::sim
