#pragma once
// Combine at the entry device: the contributions of the node meet, and one part returns to its source.

#include <algorithm>
#include <bit>
#include <plait/engines/bits.hpp>
#include <plait/firmware/ep_pools.hpp>
#include <plait/firmware/ep_route.hpp>
#include <plait/firmware/ep_rows.hpp>
#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// The device of the node that the contribution at `position` comes from.
constexpr std::uint32_t local_at(std::uint64_t locals, std::uint32_t position) {
    return static_cast<std::uint32_t>(locals >> (4 * position)) & 0xfU;
}

/// `Core` is Ep<Context>.
template <class Core>
class EpGather {
  public:
    static constexpr std::uint32_t partials_ahead_limit =
        32;  ///< Parts open to one source, fewer with many sources.

    explicit EpGather(Core& core) : core_(core) {}

    void begin(EpGroup& group, EpHandle& handle) {
        handle.partials_left = 0;
        handle.gather_head = handle.gather_count = 0;
        std::uint32_t sources = 0;
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            PeerState& peer = handle.peer[rank];
            peer.entry_row = peer.entry_part = peer.partials_open = peer.partials_done = 0;
            peer.gather_queued = false;
            if (!group.has_failed(rank))
                handle.partials_left += std::uint64_t{peer.rows_via_me} * group.parts;
            if (peer.rows_via_me != 0) ++sources;
        }
        handle.partials_ahead = std::clamp(704U / std::max(1U, sources), 4U, partials_ahead_limit);
        handle.peer[group.parameters.rank].entry_row = handle.destination[group.parameters.rank].first_row;
    }

    /// Gathers rows for the sources in turn, one part each, as long as accumulators are free.
    void pump(EpGroup& group, EpHandle& handle) {
        while (handle.state == HandleState::combining && handle.gather_count != 0 && has_room(group)) {
            const std::uint32_t source = handle.gather_ring[handle.gather_head];
            handle.gather_head =
                (handle.gather_head + 1) % static_cast<std::uint32_t>(handle.gather_ring.size());
            --handle.gather_count;
            handle.peer[source].gather_queued = false;
            const bool is_own = source == group.parameters.rank;
            if (is_own ? gather_local(group, handle) : gather_for(group, handle, source))
                queue_source(group, handle, source);
        }
        if (handle.partials_left == 0) core_.combine().check_done(group, handle);
    }

    /// A source gave credit, a contributor became ready, or an acknowledgement made room.
    void queue_source(EpGroup& group, EpHandle& handle, std::uint32_t source) {
        PeerState& peer = handle.peer[source];
        const bool is_own = source == group.parameters.rank;
        if (handle.state != HandleState::combining || peer.gather_queued ||
            (group.is_local(source) && !is_own))
            return;
        peer.gather_queued = true;
        const auto size = static_cast<std::uint32_t>(handle.gather_ring.size());
        handle.gather_ring[(handle.gather_head + handle.gather_count++) % size] =
            static_cast<std::uint16_t>(source);
    }

    void queue_all(EpGroup& group, EpHandle& handle) {
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) queue_source(group, handle, rank);
        pump(group, handle);
    }

    /// A part is with the transport, which brings it to its source whatever becomes of the call.
    void partial_left(EpGroup& group, EpHandle& handle) {
        if (--handle.partials_left == 0) core_.combine().check_done(group, handle);
    }

    /// A part owed to `source` is acknowledged, or the source has gone.
    void partial_done(EpGroup& group, EpHandle& handle, std::uint32_t source) {
        PeerState& peer = handle.peer[source];
        --peer.partials_open;
        ++peer.partials_done;
        queue_source(group, handle, source);
        pump(group, handle);
    }

    /// A contributor's refusal: its position will not come.
    void on_refusal(const ScaleUpHeader& frame) {
        AccumulatorPool& pool = core_.entry_pool();
        const std::uint32_t sum = SumName::sum_of_tag(frame.tag);
        if (!pool.has(sum)) return core_.hal().count_drop(regmap::DropReason::unknown_operation);
        AccumulatorJob& job = pool.job(sum);
        const auto contributor = static_cast<std::uint8_t>(1U << frame.source_local);
        if ((job.targets & contributor) == 0) return core_.hal().count_drop(regmap::DropReason::malformed);
        skip_contributor(sum, job, frame.source_local);
    }

    void on_rank_failed(EpGroup& group, EpHandle& handle, std::uint32_t rank) {
        PeerState& peer = handle.peer[rank];
        if (!group.is_local(rank)) {
            // Parts that are open already leave one by one.
            const std::uint64_t owed =
                std::uint64_t{peer.rows_via_me} * group.parts - peer.partials_done - peer.partials_open;
            handle.partials_left -= std::min<std::uint64_t>(owed, handle.partials_left);
        }
        queue_all(group, handle);
    }

    /// A device of the node is gone: nobody waits for what it was asked for. What it has sent may still come.
    void on_contributor_failed(const EpGroup& group, std::uint32_t local) {
        core_.entry_pool().for_each([&](std::uint32_t sum, AccumulatorJob& job) {
            if (job.group == group.number && ((job.targets >> local) & 1U) != 0)
                skip_contributor(sum, job, local);
        });
    }

    /// The call is over. Contributions that were asked for will still come, for sums that are no more.
    void abandon(EpGroup& group, EpHandle& handle) {
        const auto close = [&](std::uint32_t sum, const AccumulatorJob& job) {
            if (job.use == AccumulatorUse::entry) core_.partials().give_back(job.slot);
            core_.hal().reduce_close(sum);
        };
        core_.entry_pool().give_back_all(group.number, core_.handle_number(group, handle), close);
        handle.gather_count = 0;
    }

  private:
    [[nodiscard]] bool has_room(const EpGroup& group) const {
        const AccumulatorPool& pool = core_.entry_pool();
        const auto& partials = core_.partials();
        return pool.has_room(1, part_room(group, 0)) &&
               pool.contributions() + group.row_contributions() <= group.entry_limit && partials.has_room() &&
               partials.in_use() < group.partial_limit;
    }

    void skip_contributor(std::uint32_t sum, AccumulatorJob& job, std::uint32_t local) {
        if (((job.missing >> local) & 1U) != 0) return;
        job.missing = static_cast<std::uint8_t>(job.missing | (1U << local));
        for (std::uint32_t position = 0; position < job.contributions; ++position) {
            if (local_at(job.locals, position) == local)
                core_.hal().reduce_skip(sum, static_cast<std::uint8_t>(position));
        }
    }

    /// Next part of the oldest own-node row of an admitted token.
    bool gather_local(EpGroup& group, EpHandle& handle) {
        PeerState& self = handle.peer[group.parameters.rank];
        if (self.entry_row == no_index) return false;
        const RowInfo& row = handle.rows[self.entry_row];
        if (row.token >= handle.next_open || !contributors_ready(group, handle, row.targets)) return false;
        const TokenRows& rows = handle.tokens[row.token];
        const AccumulatorJob job{.use = AccumulatorUse::local,
                                 .group = group.number,
                                 .handle = core_.handle_number(group, handle),
                                 .targets = row.targets,
                                 .position = static_cast<std::uint8_t>(self.entry_row - rows.first),
                                 .source = static_cast<std::uint16_t>(group.parameters.rank),
                                 .part = static_cast<std::uint16_t>(self.entry_part),
                                 .token = row.token};
        gather(group, handle, job, contributions_of(group, handle, row));
        if (++self.entry_part == group.parts) {
            self.entry_part = 0;
            self.entry_row = row.next;
        }
        return true;
    }

    /// Next part of the oldest credited row of `source`.
    bool gather_for(EpGroup& group, EpHandle& handle, std::uint32_t source) {
        PeerState& peer = handle.peer[source];
        const bool credited = peer.credit_valid && peer.credit_operation == handle.operation &&
                              peer.entry_row < std::min(peer.credit, peer.rows_via_me);
        if (!credited || group.has_failed(source) || peer.partials_open >= handle.partials_ahead)
            return false;
        const EntryRow& row = handle.entry_rows[peer.entry_base + peer.entry_row];
        if (row.dispatch != handle.dispatch_number) {
            skip_row(group, handle, source);
            return true;
        }
        if (!contributors_ready(group, handle, row.targets)) return false;
        AccumulatorJob job{.use = AccumulatorUse::entry,
                           .group = group.number,
                           .handle = core_.handle_number(group, handle),
                           .targets = row.targets,
                           .source = static_cast<std::uint16_t>(source),
                           .part = static_cast<std::uint16_t>(peer.entry_part),
                           .token = row.token};
        job.slot = core_.partials().take({.token = job.token, .source = job.source, .part = job.part});
        gather(group, handle, job, contributions_of(group, handle, peer.entry_base + peer.entry_row));
        ++peer.partials_open;
        if (++peer.entry_part == group.parts) {
            peer.entry_part = 0;
            ++peer.entry_row;
        }
        return true;
    }

    /// A row that never came here, in a dispatch that ended with failed ranks: nobody knows what it was. Its
    /// source is told not to wait for all of its rows.
    void skip_row(EpGroup& group, EpHandle& handle, std::uint32_t source) {
        PeerState& peer = handle.peer[source];
        handle.partials_left -= group.parts - peer.entry_part;
        peer.partials_done += group.parts - peer.entry_part;
        peer.entry_part = 0;
        ++peer.entry_row;
        core_.control().send_abort(group, handle, source, regmap::Status::rank_failed, group.failed);
    }

    [[nodiscard]] bool contributors_ready(const EpGroup& group, const EpHandle& handle,
                                          std::uint8_t targets) const {
        for (std::uint32_t left = targets; left != 0; left &= left - 1) {
            const auto local = engines::lowest_bit(left);
            if (!is_ready(group, handle, group.rank_at(group.node, local))) return false;
        }
        return true;
    }

    /// The contributions to a row, position by position: the device it comes from, its number there as a pull
    /// names it, and its weight. Normal mode: one a target, in rank order. Low latency: one a choice, in
    /// order of the top-k list.
    struct Contributions {
        std::uint8_t count = 0;
        std::uint64_t locals = 0;  ///< As in AccumulatorJob.
        std::array<std::uint32_t, regmap::max_topk> index{};
        std::array<float, regmap::max_topk> weight{};

        void add(std::uint32_t local, std::uint32_t number, float factor) {
            locals |= std::uint64_t{local} << (4 * count);
            index[count] = number;
            weight[count++] = factor;
        }
    };

    static Contributions by_target(std::uint8_t targets, const std::uint32_t* index) {
        Contributions all;
        for (std::uint32_t left = targets; left != 0; left &= left - 1)
            all.add(engines::lowest_bit(left), *index++, 1.0F);
        return all;
    }
    static Contributions by_choice(const EpGroup& group, std::span<const Choice> choices) {
        Contributions all;
        for (const Choice& choice : choices) {
            const std::uint32_t rank = group.rank_of_expert(choice.expert);
            all.add(rank % group.parameters.ranks_per_node,
                    choice.expert % group.own_experts() * group.parameters.max_tokens + choice.position,
                    choice.weight);
        }
        return all;
    }

    static Contributions contributions_of(const EpGroup& group, const EpHandle& handle, const RowInfo& row) {
        if (!group.is_low_latency()) return by_target(row.targets, handle.indices.data() + row.first_index);
        std::array<Choice, regmap::max_topk> choices;
        const std::uint8_t count = choices_of(group, handle, row, choices);
        return by_choice(group, std::span(choices).first(count));
    }
    static Contributions contributions_of(const EpGroup& group, const EpHandle& handle,
                                          std::uint32_t entry_row) {
        const EntryRow& row = handle.entry_rows[entry_row];
        return group.is_low_latency()
                   ? by_choice(group, choices_at(group, handle, entry_row).first(row.choice_count))
                   : by_target(row.targets, row.index.data());
    }

    /// Opens an accumulator and asks the contributors for one part of the row.
    void gather(EpGroup& group, const EpHandle& handle, AccumulatorJob job, const Contributions& all) {
        auto& hal = core_.hal();
        job.contributions = all.count;
        job.locals = all.locals;
        job.room = part_room(group, job.part);
        const std::uint32_t sum = core_.entry_pool().take(job);
        hal.reduce_open(sum, {.contributions = job.contributions,
                              .elements = part_length(group, job.part),
                              .from = group.parameters.combine_format,
                              .to = group.parameters.partial_format,
                              .counter = core_.counter(group, handle)});
        if (group.is_low_latency()) hal.reduce_weigh(sum, std::span(all.weight).first(all.count));
        ScaleUpHeader pull;
        pull.kind = regmap::ScaleUpKind::pull;
        pull.group = group.number;
        pull.handle = job.handle;
        pull.source_local = static_cast<std::uint8_t>(group.local);
        pull.operation = handle.operation;
        pull.source_rank = job.source;
        pull.token = job.token;
        pull.offset = job.part * group.part_elements;
        pull.length = part_length(group, job.part);
        for (std::uint32_t position = 0; position < all.count; ++position) {
            const std::uint32_t local = local_at(all.locals, position);
            if (group.has_failed(group.rank_at(group.node, local))) {
                skip_contributor(sum, core_.entry_pool().job(sum), local);
                continue;
            }
            pull.index = all.index[position];
            pull.tag = SumName::tag(sum, position);
            hal.scale_up(static_cast<std::uint8_t>(1U << local), pull, {}, Payload{}, false);
        }
    }

    Core& core_;
};

}  // namespace plait::firmware
