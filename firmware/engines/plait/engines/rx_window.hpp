#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <plait/engines/engine_call.hpp>
#include <plait/engines/psn.hpp>
#include <plait/regmap.hpp>
#include <span>

namespace plait::engines {

using Verdict = regmap::WindowVerdict;

struct RxVerdict {
    Verdict verdict;
    uint32_t cumulative_psn;  ///< next expected PSN after this packet
    bool advanced;            ///< this packet moved cumulative_psn
    bool hole;                ///< something below the highest received PSN is still missing
};

/// The receive window of one QP: which PSNs of [next_expected, next_expected + window) have arrived.
///
/// A ring of bits, indexed by the low bits of the PSN (2^24 is a multiple of every window size, so the wrap
/// needs no care). A bit is cleared when the window moves over it; a gap is never skipped, a packet beyond
/// the window is refused.
class RxWindow {
  public:
    /// Starts anew with `first_psn` expected (its low 24 bits). `window_packets` must be a power of two
    /// within the limits of the contract: otherwise the answer is false and nothing changes.
    constexpr bool reset(uint32_t first_psn, uint32_t window_packets) {
        if (window_packets < regmap::min_window_packets || window_packets > regmap::max_window_packets ||
            !std::has_single_bit(window_packets))
            return false;
        bits_.fill(0);
        next_ = highest_ = first_psn & psn_mask;
        window_ = window_packets;
        return true;
    }

    /// Judges one packet and, if it is new and inside the window, marks it as received.
    PLAIT_ENGINE_CALL constexpr RxVerdict receive(uint32_t psn) {
        const int32_t ahead = psn_diff(psn, next_);
        if (ahead < 0) return answer(Verdict::duplicate);
        if (ahead >= static_cast<int32_t>(window_)) return answer(Verdict::out_of_window);
        if (ahead == 0) {
            const uint32_t above = psn_add(next_, 1);
            if (next_ == highest_) {  // in order, nothing missing: no bit is ever set
                next_ = highest_ = above;
            } else {
                next_ = above;
                skip_received();
            }
            return {Verdict::accept, next_, true, next_ != highest_};
        }
        uint64_t& word = bits_[word_of(psn)];
        const uint64_t bit = uint64_t{1} << (psn % 64);
        if (word & bit) return answer(Verdict::duplicate);
        word |= bit;
        if (psn_diff(psn, highest_) >= 0) highest_ = psn_add(psn, 1);
        return {Verdict::accept, next_, false, true};
    }

    /// What receive() would accept; changes nothing. For a receiver that must first find room for the packet.
    constexpr bool would_accept(uint32_t psn) const {
        const int32_t ahead = psn_diff(psn, next_);
        return ahead >= 0 && ahead < static_cast<int32_t>(window_) &&
               !(bits_[word_of(psn)] >> (psn % 64) & 1);
    }

    /// Takes back the acceptance of `psn`, which must be the packet that receive() accepted last: it counts
    /// as never received. Where it had closed a gap, the packets behind it wait again.
    PLAIT_ENGINE_CALL constexpr void refuse(uint32_t psn) {
        psn &= psn_mask;
        if (psn_diff(psn, next_) < 0) {
            for (uint32_t later = psn_add(psn, 1); later != next_; later = psn_add(later, 1))
                bits_[word_of(later)] |= uint64_t{1} << (later % 64);
            next_ = psn;
        } else {
            bits_[word_of(psn)] &= ~(uint64_t{1} << (psn % 64));
        }
        while (highest_ != next_ && !received(psn_add(highest_, psn_mask)))
            highest_ = psn_add(highest_, psn_mask);
    }

    constexpr uint32_t next_expected() const { return next_; }

    /// One after the highest PSN received; equal to next_expected() when nothing is missing.
    constexpr uint32_t highest() const { return highest_; }

    constexpr uint32_t window_packets() const { return window_; }

    /// Everything behind next_expected() counts as received, everything beyond the window as missing.
    constexpr bool received(uint32_t psn) const {
        const int32_t ahead = psn_diff(psn, next_);
        if (ahead < 0) return true;
        return ahead < static_cast<int32_t>(window_) && (bits_[word_of(psn)] >> (psn % 64) & 1);
    }

    /// Bit i of `out` (bit i % 64 of word i / 64) = received(base_psn + i), for a base within 2^22 of
    /// next_expected().
    PLAIT_ENGINE_CALL constexpr void bitmap(uint32_t base_psn, std::span<uint64_t> out) const {
        for (uint64_t& word : out) {
            word = bitmap_word(base_psn);
            base_psn = psn_add(base_psn, 64);
        }
    }

  private:
    constexpr RxVerdict answer(Verdict verdict) const { return {verdict, next_, false, next_ != highest_}; }

    constexpr uint32_t word_of(uint32_t psn) const { return (psn & (window_ - 1)) / 64; }

    /// Moves next_ over the packets that already wait behind a filled gap, a word at a time.
    constexpr void skip_received() {
        for (;;) {
            const uint32_t offset = next_ % 64;
            uint64_t& word = bits_[word_of(next_)];
            const auto run = static_cast<uint32_t>(std::countr_one(word >> offset));
            if (run == 0) return;
            word &= ~((~uint64_t{0} >> (64 - run)) << offset);
            next_ = psn_add(next_, run);
            if (offset + run < 64) return;
        }
    }

    constexpr uint64_t bitmap_word(uint32_t base) const {
        const int32_t ahead = psn_diff(base, next_);
        const auto window = static_cast<int32_t>(window_);
        if (ahead <= -64) return ~uint64_t{0};
        if (ahead >= window) return 0;
        const uint32_t offset = base % 64;
        uint64_t word = bits_[word_of(base)] >> offset;
        if (offset != 0) word |= bits_[word_of(psn_add(base, 64))] << (64 - offset);
        // The ring repeats every window: below it everything is received, above it nothing is.
        if (ahead < 0) word |= ~uint64_t{0} >> (64 + ahead);
        if (ahead + 64 > window) word &= low_bits(static_cast<uint32_t>(window - ahead));
        return word;
    }

    static constexpr uint64_t low_bits(uint32_t count) {
        return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
    }

    uint32_t next_ = 0;
    uint32_t highest_ = 0;  // one after the highest received
    uint32_t window_ = regmap::min_window_packets;
    std::array<uint64_t, regmap::max_window_packets / 64> bits_{};
};

}  // namespace plait::engines
