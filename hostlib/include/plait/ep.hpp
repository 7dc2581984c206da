#pragma once
// Expert-parallel calls on the device: dispatch sends each token's row to the ranks of its experts, combine
// brings the experts' outputs back and adds them. The calls and shapes follow what users of DeepEP know
// (docs/ep.md).

#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <plait/bootstrap.hpp>
#include <plait/registered_memory.hpp>
#include <plait/result.hpp>
#include <utility>
#include <vector>

namespace plait {

using regmap::EntryPolicy;
using regmap::EpMode;
using regmap::RowFormat;
using regmap::SprayPolicy;

/// Ranks by number: bit r stands for rank r.
using RankMask = std::bitset<regmap::max_ranks>;

/// What a group is made for. Every rank gives the same values, except spray_policy, entropy_values and the
/// timeout.
struct EpConfig {
    std::uint32_t ranks_per_node = 8;  ///< Divides the ranks; ranks of a node are consecutive.
    std::uint32_t experts = 0;     ///< A multiple of the ranks; expert e lives on rank e * ranks / experts.
    std::uint32_t topk = 0;        ///< Experts a token chooses.
    std::uint32_t hidden = 0;      ///< Elements of a row: a multiple of 64.
    std::uint32_t max_tokens = 0;  ///< Tokens a rank may give to one dispatch.
    /// normal: a row for each token and rank, outputs by source. low_latency: a row for each token and
    /// expert, outputs [experts / ranks, ranks, max_tokens], and combines that weigh.
    EpMode mode = EpMode::normal;
    RowFormat dispatch_format = RowFormat::e4m3_f32;  ///< Of rows on their way and in recv_x; not f32.
    RowFormat combine_format = RowFormat::bf16;       ///< Of the experts' outputs on their way.
    RowFormat partial_format = RowFormat::bf16;       ///< Of a node's sum on its way back over scale-out.
    /// x of a dispatch is BF16 and the device encodes it; dispatch_format is then neither bf16 nor f32.
    bool encode_dispatch = false;
    bool encode_combine = false;  ///< The same of a combine.
    EntryPolicy entry_policy = EntryPolicy::balanced;
    std::uint32_t handles = 2;  ///< Dispatches alive at once, up to max_handles: two for two micro-batches.

    std::uint16_t mtu_bytes = 4096;
    std::uint16_t window_packets = 512;
    std::uint16_t entropy_values = 128;  ///< Paths a queue pair sprays over: a multiple of the planes.
    SprayPolicy spray_policy = SprayPolicy::spray;

    std::uint64_t bootstrap_timeout_ns =
        10'000'000'000;  ///< Of each exchange with the other ranks at creation.
};

/// Bytes of the codes of a row, in elements' order.
constexpr std::uint64_t code_bytes(RowFormat format, std::uint32_t hidden) {
    return std::uint64_t{hidden} * regmap::code_bits(format) / 8;
}

/// Bytes of a row's scales, one for each block of 128 elements, a part of one included: f32, LogFMT's two
/// BF16, or a byte of UE8M0, so that four blocks fill a word.
constexpr std::uint64_t scale_bytes(RowFormat format, std::uint32_t hidden) {
    constexpr std::uint32_t block = regmap::scale_block_elements;
    return std::uint64_t{(hidden + block - 1) / block} * regmap::block_scale_bytes(format);
}

/// Names a dispatch: its routing and where its rows are. Made by dispatch, valid until release.
struct EpHandle {
    std::uint32_t group = 0;
    std::uint32_t number = 0;  ///< 0 .. handles - 1, the same on every rank.
    std::uint64_t generation = 0;

    friend bool operator==(const EpHandle&, const EpHandle&) = default;
};

/// Inputs need local read only (access 0), outputs local write. A row is code_bytes() of codes in one buffer
/// and scale_bytes() of scales in the other, which is absent where the format has none. With 0 tokens the
/// inputs may be empty; a rank without tokens must make the call all the same.
///
/// In low latency the outputs hold C = experts / ranks * ranks * max_tokens rows, whatever receive_capacity
/// says: the i-th row of source rank r for local expert e is row (e * ranks + r) * max_tokens + i. Rows that
/// nothing came for stay as they are. There is no recv_topk_idx, recv_topk_weights or cached handle.
struct DispatchArguments {
    std::uint32_t tokens = 0;  ///< Of this rank, 0 .. max_tokens.
    std::uint32_t receive_capacity =
        0;  ///< C: rows the outputs hold. More to receive: capacity_exceeded, none placed.
    std::uint32_t timeout_us = 0;  ///< Time limit of the call, on the device; above 0.
    BufferView x;  ///< [tokens] rows of dispatch_format, or [tokens, hidden] bf16 with encode_dispatch.
    BufferView x_scales;      ///< Their scales.
    BufferView topk_idx;      ///< [tokens, topk] i64, -1 = none. Not read with `cached`.
    BufferView topk_weights;  ///< [tokens, topk] f32. Optional.
    BufferView recv_x;  ///< [receive_capacity] rows of dispatch_format, ordered by source rank, then token.
    BufferView recv_x_scales;        ///< Their scales.
    BufferView recv_topk_idx;        ///< [receive_capacity, topk] i64: local expert, -1 = not here. Optional.
    BufferView recv_topk_weights;    ///< [receive_capacity, topk] f32. Optional.
    BufferView recv_source;          ///< [receive_capacity] u64: source rank << 32 | token. Optional.
    std::optional<EpHandle> cached;  ///< Repeat the routing of this handle; tokens as then.
    std::uint32_t expert_alignment = 1;  ///< 1 .. max_expert_alignment, see aligned_rows_per_local_expert.
    /// Fill recv_topk_idx with -1 before the call, on the host: whatever row no token came for, beyond the
    /// received rows or a gap, then says so by itself. recv_topk_idx must be given, with its place on the
    /// host.
    bool mark_empty_rows = false;
};

/// Of DispatchArguments::expert_alignment, in rows.
inline constexpr std::uint32_t max_expert_alignment = 65536;

/// In normal mode the sum over ranks of a token's rows is not weighted: weights are applied by the experts.
/// In low latency the experts' rows are multiplied by the weights given here; without them by those of the
/// dispatch, and without either by 1. An expert that a token names twice has the sum of both weights.
struct CombineArguments {
    EpHandle handle;               ///< Its latest call ended with ok or rank_failed.
    std::uint32_t timeout_us = 0;  ///< Above 0.
    /// [received rows] of combine_format, or [received rows, hidden] bf16 with encode_combine; in the order
    /// of recv_x. Low latency: all C.
    BufferView x;
    BufferView x_scales = {};      ///< Their scales, where the format has any.
    BufferView topk_weights = {};  ///< Low latency: [tokens, topk] f32. Optional.
    BufferView combined_x;         ///< [tokens, hidden] bf16; a token without terms becomes zeros.
    /// [tokens, hidden] bf16 each, optional: the first terms of the tokens' sums, added in FP32, whatever the
    /// formats of the group. A rank may give what it likes.
    std::array<BufferView, 2> bias = {};
};

/// How a call ended. Anything but Status::ok says what did not happen; with rank_failed and timeout
/// `failed_ranks` names who was missing, and the other ranks' rows are in place.
struct EpCompletion {
    Status status = Status::ok;
    EpHandle handle;
    std::uint32_t received_rows = 0;  ///< dispatch: rows of the outputs. combine: tokens combined.
    /// Rows that failed ranks did not deliver, or not wholly. Of a dispatch: gaps in the outputs, -1 in
    /// recv_source and recv_topk_idx; of a combine: rows of nodes that its sums lack in part or whole.
    std::uint32_t missing_rows = 0;
    std::vector<std::uint32_t> rows_per_local_expert;  ///< dispatch: [experts / ranks]
    /// The same, each count rounded up to a multiple of expert_alignment.
    std::vector<std::uint32_t> aligned_rows_per_local_expert;
    std::vector<std::uint32_t> rows_per_source;  ///< dispatch: [ranks]; a token counts once for a rank.
    /// Low-latency dispatch: [ranks, experts / ranks]: how many of a source's max_tokens rows for an expert
    /// came.
    std::vector<std::uint32_t> rows_per_source_and_expert;
    /// Infinities and NaN that this rank's device met when it encoded or rounded for the call: in rows and
    /// contributions, once for each copy sent, and in sums.
    std::uint32_t non_finite = 0;
    RankMask failed_ranks;
};

class Driver;
class EpCalls;
struct EpCallState;

/// A call in flight. Copies name the same call; may outlive its group (it then ends as aborted).
class EpCall {
  public:
    /// True when the call has ended: wait() returns at once then. Never waits. Error: as wait(), without the
    /// timeout.
    Result<bool> poll();

    /// Waits for the end, at most `timeout_ns` of the link's clock. The call's own failure is a completion,
    /// not an Error. Errors: timeout (still in flight, may be waited for again), device_removed,
    /// device_fatal, aborted.
    Result<EpCompletion> wait(std::uint64_t timeout_ns);

    /// The handle the call works on: usable for combine once a dispatch has ended.
    [[nodiscard]] EpHandle handle() const;

  private:
    friend class EpCalls;
    explicit EpCall(std::shared_ptr<EpCallState> state) : state_(std::move(state)) {}
    std::shared_ptr<EpCallState> state_;
};

/// One rank's membership in an EP group. All ranks make the same calls in the same order. One thread at a
/// time. The driver must outlive it.
class EpGroup {
  public:
    /// Collective over `bootstrap`, whose ranks are consecutive devices of the fabric. One queue pair to each
    /// rank of another node; the ranks of the own node are reached over scale-up. Errors leave nothing behind
    /// and are given on every rank: invalid_parameter with the limit in the message, parameter_mismatch
    /// naming rank and field, version_mismatch, limit_exceeded, timeout of the bootstrap, and what the driver
    /// reports.
    static Result<std::unique_ptr<EpGroup>> create(Driver& driver, const EpConfig& config,
                                                   Bootstrap& bootstrap);

    /// Calls in flight end as aborted. Peers must have no call in flight: they see this rank fail otherwise.
    ~EpGroup();
    EpGroup(const EpGroup&) = delete;
    EpGroup& operator=(const EpGroup&) = delete;

    /// Posts a dispatch and returns without waiting. It takes a free handle, which stays taken, whatever the
    /// outcome, until released. Errors, nothing posted and no handle taken: invalid_length or
    /// invalid_parameter naming the argument, limit_exceeded (no free handle), invalid_handle, queue_full,
    /// device_removed, device_fatal. Expert ids are checked by the device: invalid_expert in the completion
    /// (check_expert_ids says where). A cached handle that holds no routing (invalid_handle): the other ranks
    /// are told that this call will not take place, theirs end as aborted.
    Result<EpCall> dispatch(const DispatchArguments& arguments);

    /// Posts the combine of a finished dispatch. May be repeated. Errors, nothing posted: as dispatch.
    Result<EpCall> combine(const CombineArguments& arguments);

    /// Gives the handle back. Errors, handle unchanged: invalid_handle (stale, not of this group, or a call
    /// uses it), queue_full, device_removed, device_fatal.
    Result<void> release(EpHandle handle);

    /// The mask of failed ranks: those that any call so far found missing, and what mark_failed_rank() said.
    [[nodiscard]] const RankMask& failed_ranks() const;

    /// Puts a rank into the mask or takes it out. The mask is the host's: calls leave out the ranks that the
    /// device itself found unreachable, no others. Error: invalid_parameter, no such rank.
    Result<void> mark_failed_rank(std::uint32_t rank, bool failed);

    /// Empties the mask. A rank that is still unreachable comes back with the next call that ends.
    void clean_failed_ranks();

    /// The first error that belongs to no call: device_removed, device_fatal, a release that the device
    /// refused, a completion or result that makes no sense (device_fatal). Looks for completions, does not
    /// wait.
    Result<void> query_asynchronous_error();

    [[nodiscard]] std::uint32_t rank() const;
    [[nodiscard]] std::uint32_t ranks() const;
    [[nodiscard]] const EpConfig& config() const;

  private:
    explicit EpGroup(std::unique_ptr<EpCalls> calls);
    std::unique_ptr<EpCalls> calls_;
};

}  // namespace plait
