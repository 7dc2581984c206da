#pragma once
// The end of an EP call: its result, and its completion as soon as the device has let go of its memory.

#include <algorithm>
#include <plait/firmware/ep_gather.hpp>
#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// `Core` is Ep<Context>.
template <class Core>
class EpEnding {
  public:
    explicit EpEnding(Core& core) : core_(core) {}

    /// The call in progress is over with `status`. Its completion follows at once, or when what is on its way
    /// out of its memory has left: rows not yet acknowledged (the time limit of their queue pairs bounds
    /// that), own-node rows and contributions that are being read.
    void end(EpGroup& group, EpHandle& handle, regmap::Status status) {
        core_.hal().cancel_timer(core_.timer(group, handle));
        const bool combining = handle.state == HandleState::combining;
        const bool dispatching = handle.state == HandleState::dispatching;
        const bool is_dispatch = handle.kind != CallKind::combine;
        const bool usable = status == regmap::Status::ok ||
                            (status == regmap::Status::rank_failed && dispatching && handle.rows_known);
        handle.end_status = status;
        handle.result_counts = is_dispatch && usable;
        handle.tables_busy = dispatching;
        make_result(group, handle, status);
        if (combining) core_.combine().abandon(group, handle);
        else if (is_dispatch) handle.routed = usable;
        handle.state = HandleState::ending;
        core_.partials().retry();
        try_end(group, handle);
    }

    /// Completes a call that is over, if nothing holds it back any more.
    void try_end(EpGroup& group, EpHandle& handle) {
        const bool busy = handle.fetches_left != 0 || handle.local_in_flight != 0 ||
                          handle.pulls_leaving != 0 || (handle.tables_busy && handle.table_messages != 0);
        if (handle.state != HandleState::ending || busy) return;
        handle.state = handle.routed ? HandleState::dispatched : HandleState::free;
        write_result(group, handle);
        complete(group, handle.request, handle.request_index, handle.end_status, handle.result.received_rows);
    }

    /// Writes the completion of a request.
    void complete(const EpGroup& group, const regmap::EpRequest& request, std::uint16_t request_index,
                  regmap::Status status, std::uint32_t length) {
        regmap::Completion completion{};
        completion.user_data = request.user_data;
        completion.object = group.number;
        completion.length = length;
        completion.request_index = request_index;
        completion.opcode = static_cast<std::uint8_t>(request.opcode);
        completion.status = status;
        core_.context().queues().complete(group.queue, completion);
    }

    /// Those that have not joined the call, as far as this rank can tell.
    RankMask absent_ranks(const EpGroup& group, const EpHandle& handle) const {
        RankMask mask{};
        const bool told_all = handle.state != HandleState::combining || handle.asked > asked_enough;
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            const bool joined = handle.state == HandleState::counting
                                    ? core_.dispatch().has_counts(group, handle, rank)
                                    : is_ready(group, handle, rank) || contains(handle.joined_ranks, rank);
            if (!joined && (told_all || group.is_local(rank))) mark(mask, rank);
        }
        return mask;
    }

    /// The ranks that the result of a call in progress names when it ends with `status`.
    RankMask failed_ranks(const EpGroup& group, const EpHandle& handle, regmap::Status status) const {
        // Where a failed rank is known, who is late may be so because of it, and is as alive as can be.
        const bool late = status == regmap::Status::timeout ||
                          (status == regmap::Status::rank_failed && !core_.any_failed(group));
        RankMask mask = late ? late_ranks(group, handle) : RankMask{};
        for (std::size_t i = 0; i < mask.size(); ++i) mask[i] |= group.failed[i];
        return mask;
    }

  private:
    void make_result(const EpGroup& group, EpHandle& handle, regmap::Status status) {
        const bool combining = handle.state == HandleState::combining;
        const bool received = handle.state == HandleState::dispatching;
        regmap::EpResult& result = handle.result;
        result = regmap::EpResult{};
        result.status = static_cast<std::uint32_t>(status);
        result.non_finite = core_.hal().take_non_finite(core_.counter(group, handle));
        if (combining) {
            result.received_rows = handle.token_count - handle.tokens_left;
            result.missing_rows = handle.missing_rows;
        } else if (received) {
            result.received_rows = handle.received_rows;
            result.missing_rows = core_.dispatch().receive().mark_gaps(group, handle);
        }
        const RankMask failed = failed_ranks(group, handle, status);
        std::copy(failed.begin(), failed.end(), std::begin(result.failed_ranks));
    }

    /// Who is to blame where no failed rank is known: those that did not join, else whom peers name, else
    /// those from whom something is missing, which may wait for others themselves.
    RankMask late_ranks(const EpGroup& group, const EpHandle& handle) const {
        constexpr RankMask nobody{};
        if (handle.state == HandleState::loading) return handle.blamed_ranks;
        RankMask mask = absent_ranks(group, handle);
        if (mask == nobody) mask = handle.blamed_ranks;
        if (mask != nobody) return mask;
        if (handle.state == HandleState::combining) core_.combine().missing_ranks(group, handle, mask);
        else core_.dispatch().missing_ranks(group, handle, mask);
        return mask;
    }

    /// The record, then for a dispatch its rows per local expert and per source rank.
    void write_result(const EpGroup& group, const EpHandle& handle) {
        auto& hal = core_.hal();
        const std::uint64_t address = handle.request.result.address;
        hal.write(address, {reinterpret_cast<const std::uint8_t*>(&handle.result), sizeof(handle.result)});
        if (!handle.result_counts) return;
        const std::uint32_t ranks = group.parameters.ranks;
        const std::uint32_t own = group.parameters.experts / ranks;
        const std::uint64_t counts = address + sizeof(handle.result);
        std::fill_n(words_.begin(), own, 0U);
        for (std::uint32_t i = 0; i < ranks * own; ++i) words_[i % own] += handle.peer_expert_rows[i];
        write_words(counts, own);
        for (std::uint32_t rank = 0; rank < ranks; ++rank) words_[rank] = handle.peer[rank].rows_to_me;
        write_words(counts + own * sizeof(std::uint32_t), ranks);
        if (!group.is_low_latency()) return;
        hal.write(counts + (own + ranks) * sizeof(std::uint32_t),
                  {reinterpret_cast<const std::uint8_t*>(handle.peer_expert_rows.data()),
                   handle.peer_expert_rows.size_bytes()});
    }

    void write_words(std::uint64_t address, std::uint32_t count) {
        core_.hal().write(
            address, {reinterpret_cast<const std::uint8_t*>(words_.data()), count * sizeof(std::uint32_t)});
    }

    Core& core_;
    std::array<std::uint32_t, regmap::max_ranks> words_{};
};

}  // namespace plait::firmware
