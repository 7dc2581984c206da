// The reduce engine: accumulators, turn keeping, and the time that the additions take.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <plait/engines/reduce.hpp>
#include <plait/sim/fabric/event_queue.hpp>
#include <plait/sim/models/encode_engine.hpp>
#include <plait/sim/models/engine_events.hpp>
#include <plait/sim/models/packet_memory.hpp>
#include <plait/sim/models/parameters.hpp>
#include <plait/sim/models/reduce_port.hpp>
#include <plait/sim/models/servers.hpp>
#include <plait/sim/models/statistics.hpp>
#include <systemc>

namespace plait::sim {

/// Adds rows of any format in FP32 in order of position and encodes the sum once. Contributions that are out
/// of turn wait, holding their buffers. The result takes the room of the last contribution. The time that
/// additions take is kept by unit and accumulator; the simulator makes the sum when somebody looks at it, or
/// at the count of its infinities and NaN.
class ReduceEngine : public sc_core::sc_module {
  public:
    ReduceEngine(sc_core::sc_module_name module_name, EventQueue& queue, PayloadPool& pool,
                 PacketMemory& memory, const EngineParameters& parameters,
                 const firmware::DeviceConfig& config, NonFiniteCounters& counters, EngineEvents& events,
                 EngineBlocks* blocks);

    /// Starts a sum of up to 32 rows; without any, the result is zeros. Throws FirmwareError when firmware
    /// names an accumulator that does not exist or is in use, a size that does not fit accumulator or
    /// packet, or a format or counter that there is not: firmware owns the pool. `sum`, here and below: a
    /// firmware::SumName.
    void open(uint32_t sum, const firmware::Reduction& reduction, uint64_t time_ps);

    /// Contributions are multiplied by these factors, one a position, in FP32 before they are added. Only for
    /// a sum that was just opened; throws FirmwareError else.
    void weigh(uint32_t sum, std::span<const float> weights);

    /// Takes over one reference of `buffer`. A contribution for a sum that is not open, to a position that is
    /// not due or came before, or of another size is refused, counted and released; nothing else changes.
    void add(uint32_t sum, uint32_t position, BufferId buffer, uint64_t time_ps);

    /// The same with a row of BF16, whatever the format of the others.
    void add_bf16(uint32_t sum, uint32_t position, BufferId buffer, uint64_t time_ps);

    /// The position will not come. When all of them are skipped the result is zeros.
    void skip(uint32_t sum, uint32_t position, uint64_t time_ps);

    void close(uint32_t sum, uint64_t time_ps);
    void close_all(uint64_t time_ps);

    /// A contribution to the sum will come in a moment: its accumulator is brought into the cache.
    void expect(uint32_t sum) const {
        const uint32_t number = firmware::SumName::accumulator(sum);
        if (number < accumulators_.size()) prefetch(&accumulators_[number], used_bytes);
    }

    uint32_t in_use() const { return in_use_; }
    void report(DeviceStatistics& statistics) const;

  private:
    static constexpr uint32_t skipped = 0;  // a handle that is no buffer

    struct alignas(64) Accumulator {
        uint32_t sum = 0;         // its name
        uint32_t generation = 0;  // tells a result that is still on its way from the next sum
        bool open = false;
        bool is_virtual = false;
        BufferId result = 0;
        uint32_t quarters = 0;  // that the sum takes up
        uint64_t sent_ps = 0;   // of the newest contribution
        uint64_t free_ps = 0;
        engines::ReduceSlot slot;
        firmware::Reduction reduction;
        bool is_weighted = false;
        uint32_t row_count = 0;
        uint32_t bf16_positions = 0;  // a bit each: whose row is BF16 whatever reduction.from says
        uint32_t bf16_rows = 0;       // the same of the rows
        [[nodiscard]] regmap::RowFormat format_of(uint32_t position) const {
            return (bf16_positions >> position & 1) != 0 ? regmap::RowFormat::bf16 : reduction.from;
        }
        std::array<PayloadSlice, engines::ReduceSlot::max_contributions> rows;  // in turn; with references
        std::array<float, engines::ReduceSlot::max_contributions> row_weights;  // of the rows
        std::array<float, engines::ReduceSlot::max_contributions> weights;      // by position
    };

    static constexpr size_t used_bytes = 320;  // of an accumulator, with the usual few rows

    static void finished(void* object, uint64_t argument);
    static void expect_finished(void* object, uint64_t argument);

    void leave(Accumulator& accumulator);
    Accumulator* open_sum(uint32_t sum);
    void add_in(regmap::RowFormat format, Accumulator* accumulator, uint32_t position, BufferId buffer,
                uint64_t time_ps);
    void offer(Accumulator& accumulator, uint32_t position, BufferId handle, regmap::RowFormat format,
               uint64_t time_ps);
    void tell(const Accumulator& accumulator, uint32_t position, BufferId handle, regmap::RowFormat format,
              const engines::Offer& offer, bool completes);
    ReducePort::Row row_of(BufferId handle, regmap::RowFormat format, uint32_t elements);
    void add_now(Accumulator& accumulator, uint32_t position, BufferId buffer, bool is_last, uint32_t cycles,
                 uint64_t time_ps);
    void finish(Accumulator& accumulator, uint64_t time_ps);
    void give_up(Accumulator& accumulator, uint64_t time_ps);
    static void make_sum(PayloadPool& pool, PayloadBlock& block);
    PayloadBlock* take_result(Accumulator& accumulator);
    void refuse(BufferId buffer, uint64_t time_ps);

    EventQueue& queue_;
    PayloadPool& pool_;
    PacketMemory& memory_;
    NonFiniteCounters& counters_;
    EngineEvents& events_;
    ReducePort port_;
    const uint64_t cycle_ps_;
    const uint32_t bytes_per_cycle_;
    const uint32_t quarter_elements_;
    const uint32_t max_elements_;
    ServerGroup units_;
    std::vector<Accumulator> accumulators_;
    uint32_t in_use_ = 0;
    uint32_t free_quarters_;
    uint32_t high_water_ = 0;
    uint64_t reductions_ = 0;
    uint64_t refused_ = 0;
};

}  // namespace plait::sim
