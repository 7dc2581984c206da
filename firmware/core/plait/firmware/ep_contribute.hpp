#pragma once
// Combine at the contributor: what the entry devices of the node ask for, and what they have still to ask.

#include <algorithm>
#include <plait/firmware/ep_rows.hpp>
#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// `Core` is Ep<Context>.
template <class Core>
class EpContribute {
  public:
    explicit EpContribute(Core& core) : core_(core) {}

    /// Every row that came from a live rank by way of a live entry will be pulled by that entry.
    void begin(const EpGroup& group, EpHandle& handle) {
        handle.pulls_left = 0;
        handle.pulls_leaving = 0;
        handle.pulls_by_entry.fill(0);
        handle.is_leaving.fill(false);
        for (std::uint32_t rank = 0; rank < group.parameters.ranks; ++rank) {
            PeerState& peer = handle.peer[rank];
            peer.pulls_left.fill(0);
            if (group.has_failed(rank)) continue;
            for (std::uint32_t entry = 0; entry < group.parameters.ranks_per_node; ++entry) {
                if (group.has_failed(group.rank_at(group.node, entry))) continue;
                peer.pulls_left[entry] = peer.rows_by_entry[entry] * group.parts;
                handle.pulls_by_entry[entry] += peer.pulls_left[entry];
                handle.pulls_left += peer.pulls_left[entry];
            }
        }
    }

    /// What is not expected any more when `rank` is gone, as the source of rows and as an entry.
    void forget(const EpGroup& group, EpHandle& handle, std::uint32_t rank) {
        auto forget_entry = [&](PeerState& peer, std::uint32_t entry) {
            handle.pulls_left -= peer.pulls_left[entry];
            handle.pulls_by_entry[entry] -= peer.pulls_left[entry];
            peer.pulls_left[entry] = 0;
        };
        for (std::uint32_t entry = 0; entry < group.parameters.ranks_per_node; ++entry)
            forget_entry(handle.peer[rank], entry);
        if (!group.is_local(rank)) return;
        for (PeerState& peer : handle.peer) forget_entry(peer, rank % group.parameters.ranks_per_node);
    }

    /// An entry of the node asks for part of this rank's output. It is answered whatever the state: the
    /// entry's accumulator must not wait for ever.
    void on_pull(EpGroup& group, EpHandle& handle, const ScaleUpHeader& pull) {
        PeerState& peer = handle.peer[pull.source_rank];
        const bool known = handle.state == HandleState::combining && pull.operation == handle.operation;
        const std::uint32_t part = pull.offset / group.part_elements;
        const bool fits = known && pull.index < rows_of(group, peer) && part < group.parts &&
                          pull.offset % group.part_elements == 0 && pull.length == part_length(group, part);
        if (known && !fits) return refuse(pull, regmap::DropReason::malformed);
        // The entry may have had a row that came here too late, or in part: there is nothing to contribute.
        const std::uint32_t slot = known ? slot_of(group, peer, pull) : 0;
        if (!known || handle.parts_placed[slot] != group.row_parts)
            return refuse(pull, regmap::DropReason::unknown_operation);
        const std::uint32_t entry = pull.source_local;
        ScaleUpHeader answer = pull;
        answer.kind = regmap::ScaleUpKind::contribution;
        answer.source_local = static_cast<std::uint8_t>(group.local);
        Payload payload;
        answer.length =
            fill_contribution(group, handle.request, slot, part, core_.counter(group, handle), payload);
        bool is_last = false;
        if (peer.pulls_left[entry] != 0) {
            --peer.pulls_left[entry];
            --handle.pulls_left;
            is_last = --handle.pulls_by_entry[entry] == 0 && !handle.is_leaving[entry];
        }
        if (is_last) {
            handle.is_leaving[entry] = true;
            handle.leaving_tag[entry] = answer.tag;
            ++handle.pulls_leaving;
        }
        core_.hal().scale_up(static_cast<std::uint8_t>(1U << entry), answer, {}, payload, is_last);
    }

    /// Tells the entry that nothing comes for its pull.
    void refuse(const ScaleUpHeader& pull, regmap::DropReason reason) {
        core_.hal().count_drop(reason);
        ScaleUpHeader answer = pull;
        answer.kind = regmap::ScaleUpKind::contribution;
        answer.status = regmap::Status::aborted;
        answer.length = 0;
        core_.hal().scale_up(static_cast<std::uint8_t>(1U << pull.source_local), answer, {}, Payload{},
                             false);
    }

    /// The last contribution to an entry has left. False: none with this tag was leaving.
    bool sent(EpGroup& group, EpHandle& handle, std::uint32_t tag) {
        for (std::uint32_t entry = 0; entry < handle.is_leaving.size(); ++entry) {
            if (!handle.is_leaving[entry] || handle.leaving_tag[entry] != tag) continue;
            handle.is_leaving[entry] = false;
            --handle.pulls_leaving;
            core_.combine().check_done(group, handle);
            core_.try_end(group, handle);
            return true;
        }
        return false;
    }

    /// Marks the ranks whose rows have still to be pulled from here. Their entries may be late, or they are
    /// themselves.
    static void mark_sources(const EpHandle& handle, RankMask& mask) {
        for (std::size_t rank = 0; rank < handle.peer.size(); ++rank) {
            const auto& left = handle.peer[rank].pulls_left;
            const bool waits =
                std::any_of(left.begin(), left.end(), [](std::uint32_t pulls) { return pulls != 0; });
            if (waits) mark(mask, static_cast<std::uint32_t>(rank));
        }
    }

  private:
    /// What numbers in a pull mean: rows from its source to this rank, or places for them at its experts.
    [[nodiscard]] static std::uint32_t rows_of(const EpGroup& group, const PeerState& peer) {
        return group.is_low_latency() ? group.own_experts() * group.parameters.max_tokens : peer.rows_to_me;
    }
    [[nodiscard]] static std::uint32_t slot_of(const EpGroup& group, const PeerState& peer,
                                               const ScaleUpHeader& pull) {
        const std::uint32_t places = group.parameters.max_tokens;
        return group.is_low_latency()
                   ? expert_slot(group, pull.source_rank, pull.index / places, pull.index % places)
                   : peer.base_slot + pull.index;
    }

    Core& core_;
};

}  // namespace plait::firmware
