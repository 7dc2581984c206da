#pragma once
// Combine. The source admits tokens in order, somewhat further than it has accumulators, and gives each row's
// entry device credit for it; the entry pulls the contributions of its node over scale-up, adds them in rank
// order and returns one row; the source adds the nodes' rows in node order. Nobody holds an accumulator while
// waiting for somebody who needs one: the pool is split between tokens (source) and rows (entry), rows are
// only gathered from devices that have joined, and a pull is always answered.

#include <algorithm>
#include <plait/engines/bits.hpp>
#include <plait/firmware/ep_bias.hpp>
#include <plait/firmware/ep_contribute.hpp>
#include <plait/firmware/ep_gather.hpp>
#include <plait/firmware/ep_state.hpp>
#include <utility>

namespace plait::firmware {

/// `Core` is Ep<Context>. This is the source's side; EpContribute is the contributor's, EpGather the entry's.
template <class Core>
class EpCombine {
  public:
    static constexpr std::uint32_t tokens_ahead =
        4;  ///< That may always be under way: the pace stops no call.

    explicit EpCombine(Core& core) : core_(core), contribute_(core), gather_(core) {}

    EpContribute<Core>& contribute() { return contribute_; }
    EpGather<Core>& gather() { return gather_; }

    /// The request has been checked.
    void begin(EpGroup& group, EpHandle& handle) {
        handle.state = HandleState::combining;
        handle.sends_weights = handle.request.topk_weights.key != 0;
        handle.biases = static_cast<std::uint8_t>(bias_count(handle.request));
        handle.bias_room = static_cast<std::uint8_t>(bias_room(group, handle.biases));
        handle.next_token = handle.next_open = 0;
        handle.tokens_left = handle.token_count;
        handle.pace.start(core_.hal().now_ns() - lead_ns(), handle.row_count);
        handle.pace.set_duration(busiest_link_ns(group, handle));
        handle.missing_rows = 0;
        handle.lacking_ranks = {};
        for (RowInfo& row : handle.rows.first(handle.row_count)) {
            row.arrived = 0;
            row.missing = false;
        }
        for (Destination& destination : handle.destination) {
            destination.credited = destination.announced = destination.returned = 0;
            destination.weights_told = destination.weights_telling = 0;
            destination.next_row = destination.first_row;
        }
        contribute_.begin(group, handle);
        gather_.begin(group, handle);
        core_.control().announce_ready(group, handle, false);
        admit_tokens(group, handle);
        gather_.queue_all(group, handle);
        check_done(group, handle);
    }

    /// Credits the rows of the next tokens, and takes accumulators for those whose turn it is. What comes
    /// before its sum is open waits in packet memory, where there is room for it.
    void admit_tokens(EpGroup& group, EpHandle& handle) {
        if (handle.state != HandleState::combining) return;
        const std::uint32_t opened = handle.next_open;
        open_sums(group, handle);
        while (handle.next_token < handle.token_count && may_admit(group, handle)) {
            admit(group, handle, handle.next_token++);
            open_sums(group, handle);
        }
        if (handle.next_open != opened) gather_.queue_source(group, handle, group.parameters.rank);
    }

    void on_ready(EpGroup& group, EpHandle& handle) { gather_.queue_all(group, handle); }

    void on_credit(EpGroup& group, EpHandle& handle, std::uint32_t source) {
        gather_.queue_source(group, handle, source);
        gather_.pump(group, handle);
    }

    /// A node's row comes back to this source. none: it was taken, with its buffer.
    regmap::NackReason on_partial(EpGroup& group, EpHandle& handle, std::uint32_t entry_rank,
                                  const PacketEvent& event) {
        const Packet& packet = event.packet;
        const PartialHeader& partial = packet.partial;
        auto& hal = core_.hal();
        if (operation_before(handle.operation, partial.operation))
            return regmap::NackReason::unknown_operation;
        if (handle.state != HandleState::combining || partial.operation != handle.operation) {
            hal.count_drop(regmap::DropReason::unknown_operation);
            hal.release(event.buffer);
            return regmap::NackReason::none;
        }
        const std::uint32_t part = partial.first_element / group.part_elements;
        if (partial.token >= handle.next_token || part >= group.parts ||
            partial.first_element % group.part_elements != 0 ||
            packet.payload_bytes != partial_bytes(group, part) ||
            packet.message_bytes != packet.payload_bytes) {
            return regmap::NackReason::invalid_request;
        }
        const TokenRows& rows = handle.tokens[partial.token];
        for (std::uint32_t i = 0; i < rows.count; ++i) {
            RowInfo& row = handle.rows[rows.first + i];
            if (row.node != partial.node) continue;
            if (row.entry_rank != entry_rank || row.node == group.node || ((row.arrived >> part) & 1U) != 0)
                break;
            row.arrived |= 1U << part;
            if (row.arrived == all_parts(group)) row_returned(group, handle, row);
            if (partial.missing != 0) mark_lacking(group, handle, row, partial.missing);
            take_row(group, handle, row, i, part, event.buffer);
            return regmap::NackReason::none;
        }
        return regmap::NackReason::invalid_request;
    }

    /// A part of the own node's share of a token is summed up. The buffer is this function's.
    void local_part_done(EpGroup& group, EpHandle& handle, const AccumulatorJob& job, BufferId buffer) {
        if (job.missing != 0)
            mark_missing(handle, handle.rows[handle.tokens[job.token].first + job.position]);
        give_row(group, handle, job.token, job.position, job.part, buffer);
    }

    /// A part of a token is complete. The buffer is this function's.
    void token_part_done(EpGroup& group, EpHandle& handle, const AccumulatorJob& job, BufferId buffer) {
        auto& hal = core_.hal();
        hal.place(buffer, 0, combined_part(group, handle.request.recv_x, job.token, job.part), false);
        hal.release(buffer);
        if (--handle.tokens[job.token].parts_left == 0) --handle.tokens_left;
        check_done(group, handle);
    }

    /// A rank is gone: its rows and contributions will not come, and what it would take is not owed.
    void on_rank_failed(EpGroup& group, EpHandle& handle, std::uint32_t rank) {
        if (handle.state != HandleState::combining) return;
        for (std::uint32_t token = 0; token < handle.next_token; ++token) {
            const TokenRows& rows = handle.tokens[token];
            if (rows.parts_left == 0) continue;
            for (std::uint32_t i = 0; i < rows.count; ++i) {
                RowInfo& row = handle.rows[rows.first + i];
                if (row.entry_rank == rank && row.node != group.node) skip_row(group, handle, row, i);
            }
        }
        contribute_.forget(group, handle, rank);
        gather_.on_rank_failed(group, handle, rank);
        check_done(group, handle);
    }

    /// Gives back the accumulators of a call that ends without its result. What it has yet to read of the
    /// host's memory is read before a fetch is answered.
    void abandon(EpGroup& group, EpHandle& handle) {
        if (handle.tokens_left != 0 || handle.pulls_left != 0) fence_reads(group, handle);
        core_.token_pool().give_back_all(
            group.number, core_.handle_number(group, handle),
            [&](std::uint32_t sum, const AccumulatorJob&) { core_.hal().reduce_close(sum); });
        release_early_rows(group, handle);
        gather_.abandon(group, handle);
    }

    /// Lets go of rows that came before their sums.
    void release_early_rows(const EpGroup& group, EpHandle& handle) {
        if (handle.next_open == handle.next_token) return;
        for (; handle.next_open != handle.next_token; ++handle.next_open)
            early_room_ -= token_room(group, handle, handle.next_open);
        for (BufferId& buffer : handle.early_rows) {
            if (buffer != 0) core_.hal().release(std::exchange(buffer, 0));
        }
    }

    void check_done(EpGroup& group, EpHandle& handle) {
        if (handle.state != HandleState::combining || handle.tokens_left != 0 || handle.pulls_left != 0 ||
            handle.pulls_leaving != 0 || handle.partials_left != 0)
            return;
        const bool whole = handle.missing_rows == 0 && !core_.any_failed(group);
        core_.end(group, handle, whole ? regmap::Status::ok : regmap::Status::rank_failed);
    }

    /// Marks who kept the combine from ending, or from being whole.
    void missing_ranks(const EpGroup& group, const EpHandle& handle, RankMask& mask) const {
        for (std::size_t i = 0; i < mask.size(); ++i) mask[i] |= handle.lacking_ranks[i];
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            const PeerState& peer = handle.peer[rank];
            if (group.is_local(rank)) {
                if (!is_ready(group, handle, rank)) mark(mask, rank);
            } else if (!group.has_failed(rank) &&
                       std::uint64_t{peer.rows_via_me} * group.parts != peer.partials_done) {
                mark(mask, rank);
            }
        }
        for (std::uint32_t token = 0; token < handle.next_token; ++token) {
            const TokenRows& rows = handle.tokens[token];
            if (rows.parts_left == 0) continue;
            for (const RowInfo& row : handle.rows.subspan(rows.first, rows.count)) {
                if (row.node != group.node && row.arrived != all_parts(group)) mark(mask, row.entry_rank);
            }
        }
    }

  private:
    void fence_reads(const EpGroup& group, EpHandle& handle) {
        ++handle.fetches_left;
        core_.hal().fetch(FetchTag{FetchOwner::ep, core_.fetch_label(group, handle, false, 0)},
                          Segment{handle.request.result.address, sizeof(std::uint32_t)});
    }

    [[nodiscard]] static std::uint32_t all_parts(const EpGroup& group) {
        return static_cast<std::uint32_t>((std::uint64_t{1} << group.parts) - 1);
    }

    /// From a credit to its row: the tokens that the links could carry in that time may go at once.
    [[nodiscard]] std::uint64_t lead_ns() const {
        return 2 * std::uint64_t{core_.context().config().base_rtt_ns};
    }

    /// What the busiest link of the group needs for the call: planes carry rows back, scale-up and host
    /// interfaces carry contributions.
    [[nodiscard]] std::uint64_t busiest_link_ns(const EpGroup& group, const EpHandle& handle) const {
        const DeviceConfig& config = core_.context().config();
        const RowLayout& x = group.outputs;
        const std::uint32_t contributions =
            std::max(handle.most_contributions, handle.peer[group.parameters.rank].contributions);
        return std::max(
            {link_time_ns(config.planes_rate_gbps(), handle.busiest_rows, partial_row_bytes(group),
                          group.parts),
             link_time_ns(config.scale_up_rate_gbps, contributions, contribution_row_bytes(group),
                          group.parts),
             link_time_ns(config.host_rate_gbps, contributions, x.data_bytes + x.scale_bytes, 0)});
    }

    /// May the next token be admitted by now?
    [[nodiscard]] bool in_pace(const EpHandle& handle) {
        const std::uint32_t done = handle.token_count - handle.tokens_left;
        return handle.next_token < done + tokens_ahead ||
               handle.tokens[handle.next_token].first <= handle.pace.allowed(core_.hal().now_ns(), 0);
    }

    [[nodiscard]] static std::uint32_t token_sum(const EpGroup& group, const EpHandle& handle,
                                                 std::uint32_t token, std::uint32_t part) {
        return handle.token_sums[std::size_t{token} * group.parts + part];
    }

    /// Place of a token's row in its sum.
    [[nodiscard]] static std::uint8_t position_of(const EpHandle& handle, std::uint32_t row) {
        return static_cast<std::uint8_t>(handle.biases + row);
    }
    /// Partial rows and what takes their room: a part of the token may keep so many in packet memory.
    [[nodiscard]] static std::uint32_t room_of(const EpHandle& handle, const TokenRows& rows) {
        return handle.bias_room + rows.count;
    }

    [[nodiscard]] static std::uint32_t token_room(const EpGroup& group, const EpHandle& handle,
                                                  std::uint32_t token) {
        return group.parts * room_of(handle, handle.tokens[token]);
    }

    static void mark_missing(EpHandle& handle, RowInfo& row) {
        if (!row.missing) ++handle.missing_rows;
        row.missing = true;
    }

    /// The devices `missing` of the row's node did not contribute to what came back.
    static void mark_lacking(const EpGroup& group, EpHandle& handle, RowInfo& row, std::uint8_t missing) {
        mark_missing(handle, row);
        for (std::uint32_t left = missing & row.targets; left != 0; left &= left - 1) {
            const auto local = engines::lowest_bit(left);
            mark(handle.lacking_ranks, group.rank_at(row.node, local));
        }
    }

    [[nodiscard]] bool may_admit(const EpGroup& group, const EpHandle& handle) {
        const std::uint32_t room = token_room(group, handle, handle.next_token);
        return in_pace(handle) && handle.next_token - handle.next_open < early_tokens &&
               core_.token_pool().contributions() + early_room_ + room <= group.token_limit;
    }

    /// Opens the sums of admitted tokens in order, as far as there are accumulators.
    void open_sums(EpGroup& group, EpHandle& handle) {
        while (handle.next_open < handle.next_token &&
               core_.token_pool().has_room(group.parts, row_room(group)))
            open(group, handle, handle.next_open++);
    }

    void open(EpGroup& group, EpHandle& handle, std::uint32_t token) {
        const TokenRows& rows = handle.tokens[token];
        early_room_ -= token_room(group, handle, token);
        for (std::uint32_t part = 0; part < group.parts; ++part) {
            const std::uint32_t sum =
                core_.token_pool().take({.use = AccumulatorUse::token,
                                         .group = group.number,
                                         .handle = core_.handle_number(group, handle),
                                         .contributions = static_cast<std::uint8_t>(room_of(handle, rows)),
                                         .room = part_room(group, part),
                                         .part = static_cast<std::uint16_t>(part),
                                         .token = token});
            handle.token_sums[std::size_t{token} * group.parts + part] = sum;
            core_.hal().reduce_open(sum, {.contributions = position_of(handle, rows.count),
                                          .elements = part_length(group, part),
                                          .from = group.parameters.partial_format,
                                          .counter = core_.counter(group, handle)});
            read_biases(core_.hal(), group, handle.request, sum, token, part);
            add_early_rows(group, handle, rows, part);
        }
    }

    /// What came of a part, or is known not to come, before its sum was open.
    void add_early_rows(EpGroup& group, EpHandle& handle, const TokenRows& rows, std::uint32_t part) {
        for (std::uint32_t i = 0; i < rows.count; ++i) {
            RowInfo& row = handle.rows[rows.first + i];
            if (row.node == group.node || ((row.arrived >> part) & 1U) == 0) continue;
            const BufferId buffer = std::exchange(early_row(group, handle, row.token, i, part), 0);
            give_row(group, handle, row.token, i, part, buffer);
        }
    }

    /// Gives the i-th row of a token to an open sum, with its buffer; 0: it will not come.
    void give_row(const EpGroup& group, const EpHandle& handle, std::uint32_t token, std::uint32_t i,
                  std::uint32_t part, BufferId buffer) {
        const std::uint32_t sum = token_sum(group, handle, token, part);
        if (buffer != 0) core_.hal().reduce_add(sum, position_of(handle, i), buffer);
        else core_.hal().reduce_skip(sum, position_of(handle, i));
    }

    /// The same, or keeps it until its sum is open.
    void take_row(EpGroup& group, EpHandle& handle, const RowInfo& row, std::uint32_t i, std::uint32_t part,
                  BufferId buffer) {
        if (row.token >= handle.next_open) early_row(group, handle, row.token, i, part) = buffer;
        else give_row(group, handle, row.token, i, part, buffer);
    }

    void admit(EpGroup& group, EpHandle& handle, std::uint32_t token) {
        TokenRows& rows = handle.tokens[token];
        rows.parts_left = static_cast<std::uint16_t>(group.parts);
        early_room_ += token_room(group, handle, token);
        for (std::uint32_t i = 0; i < rows.count; ++i) {
            RowInfo& row = handle.rows[rows.first + i];
            if (row.node == group.node) continue;  // gathered by this device itself
            ++handle.destination[row.entry_rank].credited;
            if (group.has_failed(row.entry_rank)) skip_row(group, handle, row, i);
            else announce(group, handle, row.entry_rank);
        }
        if (handle.next_token != handle.token_count) return;
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) announce(group, handle, rank);
    }

    /// Tells an entry how many rows it may return: two at a time, but it must not run dry, and it learns of
    /// all when no more tokens follow.
    void announce(EpGroup& group, EpHandle& handle, std::uint32_t rank) {
        Destination& entry = handle.destination[rank];
        const std::uint32_t untold = entry.credited - entry.announced;
        if (untold == 0 || group.has_failed(rank)) return;
        const bool is_dry = entry.announced <= entry.returned + 1;
        if (untold < 2 && !is_dry && handle.next_token != handle.token_count) return;
        entry.announced = entry.credited;
        core_.control().send(group, handle, rank, regmap::EpControlKind::credit);
    }

    void row_returned(EpGroup& group, EpHandle& handle, const RowInfo& row) {
        ++handle.destination[row.entry_rank].returned;
        announce(group, handle, row.entry_rank);
    }

    void skip_row(EpGroup& group, EpHandle& handle, RowInfo& row, std::uint32_t position) {
        for (std::uint32_t part = 0; part < group.parts; ++part) {
            if (((row.arrived >> part) & 1U) != 0) continue;
            row.arrived |= 1U << part;
            mark_missing(handle, row);
            take_row(group, handle, row, position, part, 0);
        }
    }

    Core& core_;
    EpContribute<Core> contribute_;
    EpGather<Core> gather_;
    std::uint32_t early_room_ = 0;  ///< Of the tokens of all handles that are admitted and not open.
};

}  // namespace plait::firmware
