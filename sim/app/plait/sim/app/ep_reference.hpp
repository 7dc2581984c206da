// What EP dispatch must do, written down the slow and obvious way, without a line of the firmware.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <plait/regmap.hpp>
#include <plait/sim/app/routing.hpp>

namespace plait::sim {

/// Where one rank's tokens go. A token counts once for a rank and once for a node; an expert counts every
/// entry that names it.
struct EpLayout {
    std::vector<uint32_t> tokens_per_rank;    ///< [ranks]
    std::vector<uint32_t> tokens_per_node;    ///< [nodes]
    std::vector<uint32_t> tokens_per_expert;  ///< [experts]
};
EpLayout layout_of(const EpShape& shape, const Routing& routing, uint32_t rank);

/// Ranks that the choices name, ascending, each once.
std::vector<uint32_t> target_ranks(const EpShape& shape, std::span<const int16_t> experts);

struct RowSource {
    static constexpr uint32_t nobody = UINT32_MAX;
    uint32_t rank = nobody;  ///< nobody: nothing comes there.
    uint32_t token = 0;
    bool operator==(const RowSource&) const = default;
};

/// What one rank must hold after dispatch.
struct ExpectedReceive {
    std::vector<RowSource> rows;                       ///< By slot.
    uint32_t received_rows = 0;                        ///< Those of somebody.
    std::vector<uint32_t> rows_per_source;             ///< [ranks]; a token counts once.
    std::vector<uint32_t> rows_per_local_expert;       ///< [experts / ranks]
    std::vector<uint32_t> rows_per_source_and_expert;  ///< Low latency: [ranks, experts / ranks].
};
/// For every rank. Normal mode: slots ordered by source rank, then token; of the rows of an expert every
/// entry of a list counts.
std::vector<ExpectedReceive> expected_receive(const EpShape& shape, const Routing& routing);

/// The same in low latency: the tokens of a rank that name an expert, each once and in order, lie in slots
/// [local expert, rank, 0 ...] of [experts / ranks, ranks, max_tokens].
std::vector<ExpectedReceive> expected_by_expert(const EpShape& shape, const Routing& routing,
                                                uint32_t max_tokens);

/// Experts that a list names, each once, in order of their first mention.
std::vector<uint32_t> distinct_experts(std::span<const int16_t> experts);

/// recv_topk_idx entry of a row at `rank`: the expert's local number, or -1 when it does not live there.
int64_t local_expert(const EpShape& shape, uint32_t rank, int16_t expert);

/// The devices of one node that need a row, the choices that live there, and the device by which it enters.
struct NodeRow {
    uint32_t node = 0;
    uint32_t entry = 0;             ///< Rank. In the source's own node: the source.
    std::vector<uint32_t> targets;  ///< Ranks, ascending.
    std::vector<uint32_t> experts;  ///< That live there, in order of the list, each once.
    uint32_t choices = 0;           ///< Entries of the list that live there.
};

/// Entry policies by their rule, for the tokens of one source in order:
/// `same_index` the device of the source's local index; `spread` the node's devices in turn, from the
/// source's local index on, counted for each node; `target` the target that this source has used least so
/// far, ties to the lowest; `balanced`: each device of the node has an even share of the source's rows
/// (remainders go to the devices from the source's local index on); of the targets with some of their share
/// left and less than one row ahead of the even progress, the one with most of it left, else the device
/// with most left, ties to the first from the source's local index on.
class EntryChooser {
  public:
    EntryChooser(const EpShape& shape, regmap::EntryPolicy policy, uint32_t source);
    /// All of the source's tokens are expected.
    EntryChooser(const EpShape& shape, regmap::EntryPolicy policy, uint32_t source, const Routing& routing);
    /// For `balanced`, before the first next(): a token that will be asked for.
    void expect(std::span<const int16_t> experts);
    /// The rows of the next token, by node.
    std::vector<NodeRow> next(std::span<const int16_t> experts);

  private:
    uint32_t choose(const NodeRow& row);
    uint32_t choose_balanced(const NodeRow& row) const;

    EpShape shape_;
    regmap::EntryPolicy policy_;
    uint32_t source_;
    std::vector<uint32_t> rows_to_node_;
    std::vector<uint32_t> expected_to_node_;
    std::vector<uint32_t> used_;
};

}  // namespace plait::sim
