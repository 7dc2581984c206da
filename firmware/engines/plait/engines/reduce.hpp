#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace plait::engines {

// The reduction datapath: rows of BF16 accumulate in FP32, in the order of the calls, and are rounded once at
// the end. A multiplication and an addition are two roundings, never fused. `row` and `out` hold as many
// elements as `acc` and do not overlap it. All results are the same bits on every machine.

/// First contribution: acc = row, exactly (no zero is added, so -0 stays -0).
void start_bf16(std::span<float> acc, const uint16_t* row);

/// acc += row
void accumulate_bf16(std::span<float> acc, const uint16_t* row);

/// First weighted contribution: acc = weight * row
void start_bf16_weighted(std::span<float> acc, const uint16_t* row, float weight);

/// acc += weight * row
void accumulate_bf16_weighted(std::span<float> acc, const uint16_t* row, float weight);

/// out = acc, rounded to nearest even (see float_to_bf16).
void round_bf16(std::span<const float> acc, uint16_t* out);

enum class OfferStatus : uint8_t {
    taken,
    duplicate,     ///< this position came before; nothing changed
    bad_position,  ///< not below the number of contributions; nothing changed
};

struct Offer {
    OfferStatus status;
    uint32_t first_position;          ///< of ready[0]
    std::span<const uint32_t> ready;  ///< handles to add now, in this order; valid until the next reset()
};

/// Keeps turns for one accumulator: contributions arrive in any order and are added in order of position, so
/// that the sum does not depend on arrival.
class ReduceSlot {
  public:
    static constexpr uint32_t max_contributions = 32;

    /// Expects contributions at positions 0 .. contributions - 1. False, and nothing changed, unless that
    /// is 1..32.
    constexpr bool reset(uint32_t contributions) {
        if (contributions == 0 || contributions > max_contributions) return false;
        contributions_ = contributions;
        arrived_ = 0;
        turn_ = 0;
        return true;
    }

    /// A contribution arrived; `handle` is the caller's name for it. Answers which ones are to be added now:
    /// none if an earlier one is missing, else this one and those that waited for it.
    constexpr Offer offer(uint32_t position, uint32_t handle) {
        if (position >= contributions_) return {OfferStatus::bad_position, turn_, {}};
        if (has_arrived(position)) return {OfferStatus::duplicate, turn_, {}};
        handles_[position] = handle;
        arrived_ |= 1u << position;
        const uint32_t first = turn_;
        while (turn_ < contributions_ && has_arrived(turn_)) ++turn_;
        return {OfferStatus::taken, first, std::span(handles_).subspan(first, turn_ - first)};
    }

    /// Every contribution has been handed out by offer().
    constexpr bool complete() const { return contributions_ != 0 && turn_ == contributions_; }

    /// The next position to be added; also how many have been handed out.
    constexpr uint32_t turn() const { return turn_; }

    constexpr uint32_t contributions() const { return contributions_; }

    constexpr bool has_arrived(uint32_t position) const {
        return position < contributions_ && (arrived_ >> position & 1);
    }

    /// Calls `visit(handle)` for each contribution that still waits, so that its owner can free it when the
    /// sum is given up.
    template <typename Visit>
    constexpr void for_each_waiting(Visit&& visit) const {
        for (uint32_t position = turn_; position < contributions_; ++position)
            if (has_arrived(position)) visit(handles_[position]);
    }

  private:
    uint32_t contributions_ = 0;
    uint32_t arrived_ = 0;
    uint32_t turn_ = 0;
    std::array<uint32_t, max_contributions> handles_{};
};

}  // namespace plait::engines
