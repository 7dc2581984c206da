// What one rank's host memory holds in an EP scenario: inputs made when the device reads them, outputs
// checked when it writes them, against a reference that shares no line with the firmware.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <plait/ep.hpp>
#include <plait/sim/app/activations.hpp>
#include <plait/sim/app/combine_reference.hpp>
#include <plait/sim/app/encoded_rows.hpp>
#include <plait/sim/app/ep_reference.hpp>
#include <plait/sim/app/world.hpp>

namespace plait::sim {

/// EpConfig::max_tokens of a scenario.
inline uint32_t max_tokens_of(const Scenario& scenario) { return std::max(1U, scenario.ep.tokens); }

/// What all ranks of a micro-batch share.
struct EpBatch {
    EpBatch(World& world, uint32_t number);
    Routing routing;
    EpShape shape;
    std::vector<ExpectedReceive> expected;  ///< Of each rank.
    Activations activations;
    EncodedRows bf16;            ///< What ranks give to the device to encode.
    EncodedRows dispatched;      ///< Of dispatch_format,
    EncodedRows contributions;   ///< and of combine_format.
    const EncodedRows& x;        ///< What ranks give to dispatch,
    const EncodedRows& outputs;  ///< and to combine.
    CombineReference combine;
    uint32_t number = 0;
};

/// Which of the rows expected of all sources lies at `slot` when those of the sources `absent` do not come.
uint64_t index_of(const ExpectedReceive& expected, uint64_t slot, const RankMask& absent);

template <class T>
std::span<T> elements(std::span<std::byte> bytes) {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

/// What the device of one rank reads of a micro-batch: rows that are made when somebody looks at them. Lives
/// as long as the run: packets with them may be under way when the rank's program has ended.
class EpInputs {
  public:
    EpInputs(const EpBatch& batch, uint32_t rank) : batch_(batch), rank_(rank) {}
    EpInputs(const EpInputs&) = delete;
    EpInputs& operator=(const EpInputs&) = delete;

    ReadHandler x();
    ReadHandler x_scales();
    ReadHandler outputs();
    ReadHandler output_scales();
    ReadHandler bias(uint32_t number);  ///< 0, 1.

    /// Sources that the dispatch left out: the slots after theirs moved down.
    void leave_out(const RankMask& sources) { absent_ = sources; }

    /// The row expected at `slot`, of somebody or nobody.
    RowSource row_at(uint64_t slot) const;

  private:
    template <uint32_t number>
    ReadHandler bias_rows();
    enum class Rows : uint8_t { x, outputs };
    enum class Part : uint8_t { codes, scales };
    template <Rows which, Part part>
    ReadHandler reader();
    void expect_row(uint64_t slot) const;
    RowName x_name(uint64_t token) const;
    RowName output_name(uint64_t slot) const;
    uint32_t serving(uint64_t slot) const;

    const EpBatch& batch_;
    const uint32_t rank_;
    RankMask absent_;
};

/// Buffers of one rank for one micro-batch. Registers them at the device; lives as long as the calls.
class EpMemory {
  public:
    EpMemory(World& world, const EpBatch& batch, EpInputs& inputs, uint32_t rank, Driver& driver);
    EpMemory(const EpMemory&) = delete;
    EpMemory& operator=(const EpMemory&) = delete;

    DispatchArguments dispatch_arguments(std::optional<EpHandle> cached) const;
    CombineArguments combine_arguments(EpHandle handle) const;

    /// Whether everything that was to arrive did, and nothing else; forgets it for the next time. Mismatches
    /// become errors of the world.
    bool check_dispatch(const EpCompletion& completion);
    bool check_combine(const EpCompletion& completion);

    /// Adds up how far the combined rows that have come since the last time were off, of every 16th token.
    void take_error(PhaseOutcome& phase);

  private:
    static EpMemory& self(void* object) { return *static_cast<EpMemory*>(object); }
    void check_x(uint64_t offset, std::span<const std::byte> in);
    void check_scales(uint64_t offset, std::span<const std::byte> in);
    template <class Fill>
    void check_received(uint64_t offset, std::span<const std::byte> in, uint32_t row_bytes, Fill&& fill);
    void check_combined(uint64_t offset, std::span<const std::byte> in);

    void fill_topk();
    BufferView map(uint64_t length, ReadHandler read, WriteHandler write);
    RankMask dead_ranks() const;
    template <class Matches>
    bool matches_row(uint64_t slot, Matches&& matches) const;
    bool lacks_only_what_died(uint32_t token, std::span<const uint16_t> part, uint32_t offset) const;
    void measure_error(uint32_t token, std::span<const uint16_t> part, uint32_t offset);
    void check_names(const char* call, const EpCompletion& completion) const;
    void check_slots(const EpCompletion& completion);
    uint64_t source_of(uint32_t slot) const;
    void report_end(const char* call, const EpCompletion& completion, uint64_t expected_rows) const;
    void count(std::vector<uint32_t>& arrived, uint64_t row, size_t bytes, bool right, const char* what);
    bool check_metadata(uint32_t slot, const RowSource& row) const;

    World& world_;
    const EpBatch& batch_;
    EpInputs& inputs_;
    const uint32_t rank_;
    Driver& driver_;
    const ExpectedReceive& expected_;
    const uint32_t tokens_;
    const uint32_t combined_bytes_;  // of a row
    const bool is_expert_major_;
    const uint32_t capacity_;
    std::vector<uint32_t> row_bytes_arrived_;       // of each slot
    std::vector<uint32_t> combined_bytes_arrived_;  // of each token
    double error_energy_ = 0;
    double exact_energy_ = 0;
    BufferView x_, x_scales_, recv_x_, recv_x_scales_, outputs_, output_scales_, combined_;
    std::array<BufferView, 2> bias_;
    RegisteredMemory topk_idx_, topk_weights_, recv_topk_idx_, recv_topk_weights_, recv_source_;
};

}  // namespace plait::sim
