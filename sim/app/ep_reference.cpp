#include <plait/sim/app/ep_reference.hpp>

#include <algorithm>
#include <set>

namespace plait::sim {

EpLayout layout_of(const EpShape& shape, const Routing& routing, uint32_t rank) {
    EpLayout layout;
    layout.tokens_per_rank.resize(shape.ranks);
    layout.tokens_per_node.resize(shape.nodes());
    layout.tokens_per_expert.resize(shape.experts);
    for (uint32_t token = 0; token < routing.tokens(rank); ++token) {
        const auto experts = routing.experts_of(rank, token);
        for (const int16_t expert : experts) {
            if (expert >= 0) ++layout.tokens_per_expert[static_cast<uint32_t>(expert)];
        }
        const auto targets = target_ranks(shape, experts);
        for (size_t i = 0; i < targets.size(); ++i) {
            ++layout.tokens_per_rank[targets[i]];
            const uint32_t node = shape.node_of(targets[i]);
            if (i == 0 || node != shape.node_of(targets[i - 1])) ++layout.tokens_per_node[node];
        }
    }
    return layout;
}

std::vector<uint32_t> target_ranks(const EpShape& shape, std::span<const int16_t> experts) {
    std::vector<uint32_t> ranks;
    ranks.reserve(experts.size());
    for (const int16_t expert : experts) {
        if (expert >= 0) ranks.push_back(shape.rank_of(static_cast<uint32_t>(expert)));
    }
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
}

std::vector<ExpectedReceive> expected_receive(const EpShape& shape, const Routing& routing) {
    std::vector<ExpectedReceive> expected(shape.ranks);
    for (auto& receive : expected) {
        receive.rows_per_source.resize(shape.ranks);
        receive.rows_per_local_expert.resize(shape.experts_per_rank());
    }
    for (uint32_t source = 0; source < shape.ranks; ++source) {
        for (uint32_t token = 0; token < routing.tokens(source); ++token) {
            const auto experts = routing.experts_of(source, token);
            for (const uint32_t rank : target_ranks(shape, experts)) {
                expected[rank].rows.push_back({source, token});
                ++expected[rank].rows_per_source[source];
            }
            for (const int16_t expert : experts) {
                if (expert < 0) continue;
                const auto number = static_cast<uint32_t>(expert);
                ++expected[shape.rank_of(number)].rows_per_local_expert[number % shape.experts_per_rank()];
            }
        }
    }
    for (auto& receive : expected) receive.received_rows = static_cast<uint32_t>(receive.rows.size());
    return expected;
}

std::vector<uint32_t> distinct_experts(std::span<const int16_t> experts) {
    std::vector<uint32_t> distinct;
    for (const int16_t expert : experts) {
        const auto number = static_cast<uint32_t>(expert);
        if (expert >= 0 && std::find(distinct.begin(), distinct.end(), number) == distinct.end())
            distinct.push_back(number);
    }
    return distinct;
}

std::vector<ExpectedReceive> expected_by_expert(const EpShape& shape, const Routing& routing,
                                                uint32_t max_tokens) {
    std::vector<ExpectedReceive> expected(shape.ranks);
    for (auto& receive : expected) {
        receive.rows.resize(size_t{shape.experts} * max_tokens);
        receive.rows_per_source.resize(shape.ranks);
        receive.rows_per_local_expert.resize(shape.experts_per_rank());
        receive.rows_per_source_and_expert.resize(shape.experts);
    }
    for (uint32_t source = 0; source < shape.ranks; ++source) {
        for (uint32_t token = 0; token < routing.tokens(source); ++token) {
            const auto experts = routing.experts_of(source, token);
            for (const uint32_t rank : target_ranks(shape, experts)) ++expected[rank].rows_per_source[source];
            for (const uint32_t expert : distinct_experts(experts)) {
                ExpectedReceive& receive = expected[shape.rank_of(expert)];
                const uint32_t local = expert % shape.experts_per_rank();
                uint32_t& rows =
                    receive.rows_per_source_and_expert[source * shape.experts_per_rank() + local];
                receive.rows[(size_t{local} * shape.ranks + source) * max_tokens + rows++] = {source, token};
                ++receive.rows_per_local_expert[local];
                ++receive.received_rows;
            }
        }
    }
    return expected;
}

int64_t local_expert(const EpShape& shape, uint32_t rank, int16_t expert) {
    if (expert < 0 || shape.rank_of(static_cast<uint32_t>(expert)) != rank) return -1;
    return expert - static_cast<int64_t>(rank) * shape.experts_per_rank();
}

EntryChooser::EntryChooser(const EpShape& shape, regmap::EntryPolicy policy, uint32_t source)
    : shape_(shape),
      policy_(policy),
      source_(source),
      rows_to_node_(shape.nodes()),
      expected_to_node_(shape.nodes()),
      used_(shape.ranks) {}

EntryChooser::EntryChooser(const EpShape& shape, regmap::EntryPolicy policy, uint32_t source,
                           const Routing& routing)
    : EntryChooser(shape, policy, source) {
    for (uint32_t token = 0; token < routing.tokens(source); ++token)
        expect(routing.experts_of(source, token));
}

void EntryChooser::expect(std::span<const int16_t> experts) {
    std::set<uint32_t> nodes;
    for (const uint32_t rank : target_ranks(shape_, experts)) nodes.insert(shape_.node_of(rank));
    for (const uint32_t node : nodes) ++expected_to_node_[node];
}

std::vector<NodeRow> EntryChooser::next(std::span<const int16_t> experts) {
    std::vector<NodeRow> rows;
    for (const uint32_t rank : target_ranks(shape_, experts)) {
        const uint32_t node = shape_.node_of(rank);
        if (rows.empty() || rows.back().node != node) rows.emplace_back().node = node;
        rows.back().targets.push_back(rank);
    }
    for (auto& row : rows) {
        row.choices =
            static_cast<uint32_t>(std::count_if(experts.begin(), experts.end(), [&](int16_t expert) {
                return expert >= 0 &&
                       shape_.node_of(shape_.rank_of(static_cast<uint32_t>(expert))) == row.node;
            }));
        for (const uint32_t expert : distinct_experts(experts)) {
            if (shape_.node_of(shape_.rank_of(expert)) == row.node) row.experts.push_back(expert);
        }
        row.entry = choose(row);
    }
    return rows;
}

uint32_t EntryChooser::choose(const NodeRow& row) {
    if (row.node == shape_.node_of(source_)) return source_;
    const uint32_t first = row.node * shape_.ranks_per_node;
    const uint32_t own_index = source_ % shape_.ranks_per_node;
    uint32_t entry = first + own_index;
    if (policy_ == regmap::EntryPolicy::spread) {
        entry = first + (own_index + rows_to_node_[row.node]) % shape_.ranks_per_node;
    } else if (policy_ == regmap::EntryPolicy::target) {
        entry = *std::min_element(row.targets.begin(), row.targets.end(),
                                  [&](uint32_t a, uint32_t b) { return used_[a] < used_[b]; });
    }
    if (policy_ == regmap::EntryPolicy::balanced) entry = choose_balanced(row);
    ++rows_to_node_[row.node];
    ++used_[entry];
    return entry;
}

uint32_t EntryChooser::choose_balanced(const NodeRow& row) const {
    constexpr double most_ahead = 1;
    const uint32_t size = shape_.ranks_per_node;
    const double progress = static_cast<double>(rows_to_node_[row.node]) / size;
    std::vector<uint32_t> devices(size);  // from the source's own index on
    std::vector<int64_t> left(size);
    for (uint32_t i = 0; i < size; ++i) {
        devices[i] = row.node * size + (source_ + i) % size;
        const uint32_t expected = expected_to_node_[row.node];
        left[i] = (int64_t{expected} + size - 1 - i) / size - used_[devices[i]];
    }
    const auto may_take = [&](size_t i) {
        return std::find(row.targets.begin(), row.targets.end(), devices[i]) != row.targets.end() &&
               left[i] > 0 && used_[devices[i]] < progress + most_ahead;
    };
    size_t best = size;
    for (size_t i = 0; i < size; ++i)
        if (may_take(i) && (best == size || left[i] > left[best])) best = i;
    if (best == size) best = static_cast<size_t>(std::max_element(left.begin(), left.end()) - left.begin());
    return devices[best];
}

}  // namespace plait::sim
