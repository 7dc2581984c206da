#pragma once
// Routing of a rank's tokens: which nodes each goes to, by which entry device, to which devices there.

#include <algorithm>
#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// Policy `balanced`: every device gets an equal share of the sender's rows to the node (those from the
/// sender's own index on one more where they do not divide), and none runs ahead of the others by more than a
/// row or so: senders with like text would meet there. Among the targets that may take the row, the one with
/// most of its share left; if there is none, the device with most left.
inline std::uint32_t choose_balanced(const EpGroup& group, const EpHandle& handle, std::uint32_t node,
                                     std::uint8_t targets, const NodeRows& rows) {
    const std::uint32_t size = group.parameters.ranks_per_node;
    std::uint32_t best = group.local;
    std::int64_t best_left = INT64_MIN;
    bool best_is_target = false;
    for (std::uint32_t i = 0; i < size; ++i) {
        const std::uint32_t local = (group.local + i) % size;
        const std::uint32_t rank = group.rank_at(node, local);
        if (group.has_failed(rank)) continue;
        const std::uint32_t used = handle.destination[rank].used;
        const std::int64_t left = std::int64_t{rows.total / size} + (i < rows.total % size ? 1 : 0) - used;
        const bool is_target =
            ((targets >> local) & 1U) != 0 && left > 0 && std::uint64_t{used} * size < rows.done + size;
        if (is_target < best_is_target || (is_target == best_is_target && left <= best_left)) continue;
        best = local;
        best_left = left;
        best_is_target = is_target;
    }
    return best;
}

/// The device by which the row of `targets` enters `node` (decision 5; measured policies). A failed entry is
/// replaced by the next live device of the node.
inline std::uint32_t choose_entry(const EpGroup& group, EpHandle& handle, std::uint32_t node,
                                  std::uint8_t targets, const NodeRows& rows) {
    const std::uint32_t size = group.parameters.ranks_per_node;
    if (node == group.node) return group.parameters.rank;
    std::uint32_t local = group.local;
    if (group.parameters.entry_policy == regmap::EntryPolicy::spread) {
        local = (group.local + rows.done) % size;
    } else if (group.parameters.entry_policy == regmap::EntryPolicy::balanced) {
        local = choose_balanced(group, handle, node, targets, rows);
    } else if (group.parameters.entry_policy == regmap::EntryPolicy::target) {
        std::uint32_t best = no_index;
        for (std::uint32_t i = 0; i < size; ++i) {
            if (((targets >> i) & 1U) == 0) continue;
            if (best == no_index || handle.destination[group.rank_at(node, i)].used <
                                        handle.destination[group.rank_at(node, best)].used)
                best = i;
        }
        local = best;
    }
    for (std::uint32_t i = 0; i < size && group.has_failed(group.rank_at(node, local)); ++i)
        local = (local + 1) % size;
    ++handle.destination[group.rank_at(node, local)].used;
    return group.rank_at(node, local);
}

/// Nodes of one token and the devices it goes to there, in order of nodes.
class TokenNodes {
  public:
    void add(std::uint32_t node, std::uint32_t local) {
        std::uint32_t i = 0;
        while (i < count_ && nodes_[i] < node) ++i;
        if (i == count_ || nodes_[i] != node) {
            for (std::uint32_t k = count_; k > i; --k) {
                nodes_[k] = nodes_[k - 1];
                targets_[k] = targets_[k - 1];
            }
            nodes_[i] = node;
            targets_[i] = 0;
            ++count_;
        }
        targets_[i] = static_cast<std::uint8_t>(targets_[i] | (1U << local));
    }
    [[nodiscard]] std::uint32_t count() const { return count_; }
    [[nodiscard]] std::uint32_t node(std::uint32_t i) const { return nodes_[i]; }
    [[nodiscard]] std::uint8_t targets(std::uint32_t i) const { return targets_[i]; }

  private:
    std::array<std::uint32_t, regmap::max_topk> nodes_{};
    std::array<std::uint8_t, regmap::max_topk> targets_{};
    std::uint32_t count_ = 0;
};

/// The rows of `token`, one a node, in order of nodes; their entries are still to be chosen. Experts on
/// failed ranks are left out. Counts the token's choices per expert and the rows per node.
inline void add_rows(const EpGroup& group, EpHandle& handle, std::uint32_t token) {
    const std::uint32_t topk = group.parameters.topk;
    const auto experts = handle.experts.subspan(std::size_t{token} * topk, topk);
    TokenNodes nodes;
    for (std::uint32_t k = 0; k < topk; ++k) {
        const std::int16_t expert = experts[k];
        if (expert < 0) continue;
        const std::uint32_t rank = group.rank_of_expert(static_cast<std::uint32_t>(expert));
        if (group.has_failed(rank)) continue;
        if (group.is_low_latency()) {  // an expert named twice gets the row once
            if (std::find(experts.begin(), experts.begin() + k, expert) != experts.begin() + k) continue;
            handle.slots[std::size_t{token} * topk + k] =
                static_cast<std::uint16_t>(handle.expert_rows[static_cast<std::uint32_t>(expert)]);
        }
        ++handle.expert_rows[static_cast<std::uint32_t>(expert)];
        nodes.add(rank / group.parameters.ranks_per_node, rank % group.parameters.ranks_per_node);
    }
    handle.tokens[token] =
        TokenRows{.first = handle.row_count, .count = static_cast<std::uint16_t>(nodes.count())};
    for (std::uint32_t i = 0; i < nodes.count(); ++i) {
        handle.rows[handle.row_count++] = RowInfo{
            .token = token, .node = static_cast<std::uint16_t>(nodes.node(i)), .targets = nodes.targets(i)};
        ++handle.rows_to[nodes.node(i)].total;
    }
}

/// Puts a row on the list of its entry and numbers it there and at its targets.
inline void enter_row(const EpGroup& group, EpHandle& handle, std::uint32_t number,
                      std::uint32_t entry_rank) {
    Destination& entry = handle.destination[entry_rank];
    RowInfo& row = handle.rows[number];
    row.row = entry.rows_via++;
    row.first_index = handle.index_count;
    row.entry_rank = static_cast<std::uint16_t>(entry_rank);
    for (std::uint32_t i = 0; i < group.parameters.ranks_per_node; ++i) {
        if (((row.targets >> i) & 1U) == 0) continue;
        const std::uint32_t index = handle.destination[group.rank_at(row.node, i)].rows_to++;
        if (!group.is_low_latency()) handle.indices[handle.index_count++] = index;
    }
    if (entry.last_row == no_index) entry.first_row = number;
    else handle.rows[entry.last_row].next = number;
    entry.last_row = number;
}

/// No token of the handle is routed.
inline void begin_routing(EpHandle& handle) {
    for (Destination& destination : handle.destination) {  // messages may be on their way
        destination.rows_to = destination.rows_via = destination.used = 0;
        destination.first_row = destination.last_row = no_index;
    }
    std::fill(handle.expert_rows.begin(), handle.expert_rows.end(), 0U);
    std::fill(handle.rows_to.begin(), handle.rows_to.end(), NodeRows{});
    handle.row_count = handle.rows_away = 0;
    handle.index_count = 0;
    handle.tokens_routed = handle.rows_entered = 0;
}

/// Routes the tokens before `end`, in their order, from their top-k lists: fills tokens, rows, indices and
/// the counts per destination and expert. Where entries depend on how many rows there are, they are chosen
/// with the last token.
inline void route_tokens(const EpGroup& group, EpHandle& handle, std::uint32_t end) {
    for (; handle.tokens_routed < end; ++handle.tokens_routed) add_rows(group, handle, handle.tokens_routed);
    if (group.parameters.entry_policy == regmap::EntryPolicy::balanced && end < handle.token_count) return;
    for (; handle.rows_entered < handle.row_count; ++handle.rows_entered) {
        const std::uint32_t number = handle.rows_entered;
        const RowInfo& row = handle.rows[number];
        NodeRows& rows = handle.rows_to[row.node];
        enter_row(group, handle, number, choose_entry(group, handle, row.node, row.targets, rows));
        if (row.node != group.node) ++handle.rows_away;
        ++rows.done;
    }
}

/// The choices of a row: those of its token that live on its targets, into `choices`; answers how many. Low
/// latency: an expert named more than once is one choice, with the sum of its weights.
inline std::uint8_t choices_of(const EpGroup& group, const EpHandle& handle, const RowInfo& row,
                               std::array<Choice, regmap::max_topk>& choices) {
    const std::uint32_t topk = group.parameters.topk;
    const std::uint32_t first_rank = group.rank_at(row.node, 0);
    std::uint8_t count = 0;
    for (std::uint32_t k = 0; k < topk; ++k) {
        const std::size_t place = std::size_t{row.token} * topk + k;
        const std::int16_t expert = handle.experts[place];
        if (expert < 0) continue;
        const std::uint32_t local = group.rank_of_expert(static_cast<std::uint32_t>(expert)) - first_rank;
        if (local >= group.parameters.ranks_per_node || ((row.targets >> local) & 1U) == 0) continue;
        Choice choice{.expert = static_cast<std::uint16_t>(expert),
                      .position = static_cast<std::uint16_t>(k),
                      .weight = handle.weights[place]};
        if (group.is_low_latency()) {
            const auto end = choices.begin() + count;
            const auto same = std::find_if(
                choices.begin(), end, [&](const Choice& other) { return other.expert == choice.expert; });
            if (same != end) {
                same->weight += choice.weight;
                continue;
            }
            choice.position = handle.slots[place];
        }
        choices[count++] = choice;
    }
    return count;
}

}  // namespace plait::firmware
