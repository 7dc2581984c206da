#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <plait/engines/bits.hpp>
#include <plait/engines/engine_call.hpp>
#include <plait/engines/plane_balance.hpp>
#include <plait/engines/spray_types.hpp>
#include <plait/regmap.hpp>

namespace plait::engines {

/// Chooses path (plane and entropy value) for each packet of one QP at the moment it leaves.
///
/// Entropy index i belongs to plane i % planes; its value follows from index and seed, so only two bits of
/// state are kept for each, and for each plane the order in which its values failed. States after OCP
/// MRC 1.0. A value that is not good is replaced by one on the same plane. Indices and planes out of range in
/// the feedback change nothing.
class alignas(64) SpraySelector {
  public:
    /// Starts anew with every value good and no plane excluded. False, and nothing changed, if a limit is
    /// broken.
    PLAIT_ENGINE_CALL constexpr bool configure(const SprayConfig& config) {
        if (config.planes == 0 || config.planes > regmap::max_planes || config.entropy_values == 0 ||
            config.entropy_values > regmap::max_entropy_values ||
            config.entropy_values % config.planes != 0 || config.suspect_losses == 0)
            return false;
        *this = SpraySelector{};
        config_ = config;
        per_plane_ = config.entropy_values / config.planes;
        reciprocal_ = 65536 / config.planes + 1;
        const uint32_t start = mix(config.seed);
        single_ = rotation_ = start % config.entropy_values;
        last_plane_ = start % config.planes;
        for (uint32_t plane = 0; plane < config.planes; ++plane) {
            planes_[plane].key = mix(config.seed + 0x9E37'79B9u * (plane + 1));
            planes_[plane].cursor = static_cast<uint8_t>(planes_[plane].key % per_plane_);
        }
        return true;
    }

    /// A path that may leave now on one of the offered planes (bit p = plane p), or nothing: every offered
    /// plane is excluded or has only denied values, or the policy waits for a plane that is not offered.
    /// While an offered plane is not excluded, failed values never stop the traffic: the least recently
    /// failed one is used if no other is left.
    PLAIT_ENGINE_CALL constexpr std::optional<PathChoice> choose(uint32_t offered_planes) {
        switch (config_.policy) {
            case SprayPolicy::spray: return choose_sprayed(offered_planes);
            case SprayPolicy::round_robin: return choose_in_rotation(offered_planes);
            case SprayPolicy::single_path: return choose_single(offered_planes);
        }
        return std::nullopt;
    }

    /// Planes whose turn it is, of those in `up`. A queue pair with few packets in flight keeps its planes
    /// even in bytes, and waits for the one that is behind: many such senders meet at a receiver, and if each
    /// took what is free, its planes would be loaded by chance. One with many may take any plane.
    PLAIT_ENGINE_CALL constexpr uint32_t planes_due(uint32_t up) {
        constexpr uint32_t few_on_a_plane = 2;
        const uint32_t usable = usable_planes() & up;
        if (config_.policy != SprayPolicy::spray || usable == 0 ||
            in_flight_ > few_on_a_plane * count_bits(usable))
            return every_plane;
        return balance_.behind(usable);
    }

    /// As choose(), for a packet of `bytes` that then is in flight: on one of the planes that are due. Where
    /// all are, on the one with the fewest packets of this queue pair in flight: where a queue is long they
    /// stay longer, and the congestion window alone would not tell a long queue on one plane from short ones
    /// on all.
    PLAIT_ENGINE_CALL constexpr std::optional<PathChoice> choose_due(uint32_t due, uint32_t offered,
                                                                     uint32_t bytes) {
        std::optional<PathChoice> path;
        if (config_.policy != SprayPolicy::spray) {
            path = choose(offered);
        } else {
            if (due != every_plane) path = choose_sprayed(due & offered);
            if (!path) {
                balance_.forget();
                path = choose_sprayed(least_in_flight(offered & usable_planes()));
            }
        }
        if (!path) return path;
        ++planes_[path->plane].in_flight;
        ++in_flight_;
        balance_.sent(path->plane, bytes);
        return path;
    }

    /// A packet of choose_due() on this plane has `arrived`, or it counts as lost.
    PLAIT_ENGINE_CALL constexpr void on_gone(uint32_t plane, bool arrived) {
        --planes_[plane].in_flight;
        --in_flight_;
        if (arrived) planes_[plane].losses = 0;
    }

    /// Nothing is in flight any more.
    constexpr void forget_in_flight() {
        for (Plane& plane : planes_) plane.in_flight = 0;
        in_flight_ = 0;
    }

    /// A packet on this value was acknowledged: its plane is alive, but congested if `ecn_marked`. A value
    /// assumed bad stays so (the acknowledged packet may have left before the loss).
    PLAIT_ENGINE_CALL constexpr void on_ack(uint32_t entropy_index, bool ecn_marked) {
        if (entropy_index >= config_.entropy_values) return;
        planes_[plane_of(entropy_index)].losses = 0;
        if (ecn_marked && config_.policy == SprayPolicy::spray && state(entropy_index) == EntropyState::good)
            set_state(entropy_index, EntropyState::skip);
    }

    /// A packet on this value was lost.
    PLAIT_ENGINE_CALL constexpr void on_loss(uint32_t entropy_index) {
        if (entropy_index >= config_.entropy_values) return;
        Plane& plane = planes_[plane_of(entropy_index)];
        if (plane.losses != UINT32_MAX) ++plane.losses;
        const EntropyState before = state(entropy_index);
        if (before == EntropyState::denied) return;
        if (before == EntropyState::assumed_bad) forget_failure(entropy_index);
        remember_failure(entropy_index);
    }

    /// A probe sent on this value came back: it is good again. Its plane stays excluded until
    /// restore_plane().
    PLAIT_ENGINE_CALL constexpr void on_probe_returned(uint32_t entropy_index) {
        if (entropy_index >= config_.entropy_values) return;
        planes_[plane_of(entropy_index)].losses = 0;
        if (state(entropy_index) != EntropyState::assumed_bad) return;
        forget_failure(entropy_index);
        set_state(entropy_index, EntropyState::good);
    }

    /// Management forbids this value until the next configure().
    constexpr void deny(uint32_t entropy_index) {
        if (entropy_index >= config_.entropy_values || state(entropy_index) == EntropyState::denied) return;
        if (state(entropy_index) == EntropyState::assumed_bad) forget_failure(entropy_index);
        set_state(entropy_index, EntropyState::denied);
        ++planes_[plane_of(entropy_index)].denied;
    }

    /// The plane lost `suspect_losses` packets since its last acknowledgement and is not excluded yet.
    constexpr bool plane_suspect(uint32_t plane) const {
        return plane < config_.planes && !is_excluded(plane) &&
               planes_[plane].losses >= config_.suspect_losses;
    }

    constexpr void exclude_plane(uint32_t plane) {
        if (plane < config_.planes) excluded_ |= 1u << plane;
    }

    /// The plane is back: its values are good again, all but the denied ones.
    PLAIT_ENGINE_CALL constexpr void restore_plane(uint32_t plane) {
        if (plane >= config_.planes) return;
        excluded_ &= ~(1u << plane);
        planes_[plane].losses = 0;
        planes_[plane].failed = 0;
        for (uint32_t index = plane; index < config_.entropy_values; index += config_.planes)
            if (state(index) != EntropyState::denied) set_state(index, EntropyState::good);
    }

    /// Planes not excluded (bit p = plane p).
    constexpr uint32_t usable_planes() const { return all_planes() & ~excluded_; }

    /// `entropy_index` must be below entropy_values, here and in path().
    constexpr EntropyState state(uint32_t entropy_index) const {
        return static_cast<EntropyState>(states_[entropy_index / 4] >> (entropy_index % 4 * 2) & 3);
    }

    constexpr uint32_t assumed_bad_count() const {
        uint32_t count = 0;
        for (const Plane& plane : planes_) count += plane.failed;
        return count;
    }

    /// The next value to send a probe on: walks round all values assumed bad, plane by plane, oldest failure
    /// first, and visits an excluded plane without such values once a round too. Nothing, if there is nothing
    /// to probe.
    PLAIT_ENGINE_CALL constexpr std::optional<PathChoice> next_to_probe() {
        for (uint32_t visited = 0; visited <= config_.planes; ++visited) {
            if (probe_ordinal_ < planes_[probe_plane_].failed)
                return path(failed_index(probe_plane_, probe_ordinal_++));
            if (probe_ordinal_ == 0 && is_excluded(probe_plane_) && has_available(probe_plane_)) {
                ++probe_ordinal_;
                return path_at(probe_plane_, next_position(probe_plane_));
            }
            probe_plane_ = (probe_plane_ + 1) % config_.planes;
            probe_ordinal_ = 0;
        }
        return std::nullopt;
    }

    /// The path that an index stands for.
    PLAIT_ENGINE_CALL constexpr PathChoice path(uint32_t entropy_index) const {
        return path_at(plane_of(entropy_index), position_of(entropy_index));
    }

  private:
    struct Plane {
        uint32_t losses = 0;  // since the last acknowledgement
        uint32_t key = 0;     // of the entropy values
        uint16_t failed = 0;  // values assumed bad
        uint16_t denied = 0;
        uint16_t in_flight = 0;  // packets of choose_due()
        uint8_t cursor = 0;      // position of the next value
    };

    constexpr uint32_t all_planes() const { return (1u << config_.planes) - 1; }
    constexpr bool is_excluded(uint32_t plane) const { return excluded_ >> plane & 1; }
    // Division by the number of planes as a multiplication, exact for an index below 256 and up to 8 planes.
    constexpr uint32_t position_of(uint32_t index) const { return index * reciprocal_ >> 16; }
    constexpr uint32_t plane_of(uint32_t index) const { return index - position_of(index) * config_.planes; }
    constexpr uint32_t index_of(uint32_t plane, uint32_t position) const {
        return position * config_.planes + plane;
    }

    constexpr void set_state(uint32_t index, EntropyState state) {
        uint8_t& four = states_[index / 4];
        const uint32_t shift = index % 4 * 2;
        four = static_cast<uint8_t>((four & ~(3u << shift)) | static_cast<uint32_t>(state) << shift);
    }

    constexpr bool has_available(uint32_t plane) const {
        return uint32_t{planes_[plane].failed} + planes_[plane].denied < per_plane_;
    }

    constexpr std::optional<PathChoice> choose_sprayed(uint32_t offered) {
        uint32_t candidates = offered & usable_planes();
        uint32_t with_failed = 0;
        while (candidates != 0) {
            const uint32_t plane = next_plane(candidates);
            if (has_available(plane)) {
                last_plane_ = plane;
                return path_at(plane, next_position(plane));
            }
            if (planes_[plane].failed != 0) with_failed |= 1u << plane;
            candidates &= ~(1u << plane);
        }
        return least_recently_failed(with_failed);
    }

    constexpr uint32_t least_in_flight(uint32_t planes) const {
        uint32_t least = 0;
        uint32_t fewest = ~0u;
        for (uint32_t left = planes; left != 0; left &= left - 1) {
            const uint32_t count = planes_[lowest_bit(left)].in_flight;
            if (count < fewest) least = 0;
            if (count <= fewest) least |= left & (~left + 1);
            fewest = std::min(fewest, count);
        }
        return least;
    }

    constexpr std::optional<PathChoice> choose_in_rotation(uint32_t offered) {
        for (uint32_t step = 0; step < config_.entropy_values; ++step) {
            const uint32_t index = rotation_;
            const uint32_t plane = plane_of(index);
            if (!is_excluded(plane) && state(index) == EntropyState::good) {
                if (!(offered >> plane & 1)) return std::nullopt;
                advance_rotation();
                return path(index);
            }
            advance_rotation();
        }
        return least_recently_failed(offered & usable_planes());
    }

    constexpr std::optional<PathChoice> choose_single(uint32_t offered) {
        if (is_excluded(plane_of(single_)) || state(single_) != EntropyState::good) move_single();
        const uint32_t plane = plane_of(single_);
        if (is_excluded(plane) || state(single_) == EntropyState::denied || !(offered >> plane & 1))
            return std::nullopt;
        return path(single_);
    }

    // To a good value of the same plane, else of another one, else to the value that failed least recently.
    constexpr void move_single() {
        const uint32_t home = plane_of(single_);
        for (uint32_t step = 0; step < config_.planes; ++step) {
            const uint32_t plane = (home + step) % config_.planes;
            if (is_excluded(plane) || !has_available(plane)) continue;
            single_ = index_of(plane, next_position(plane));
            return;
        }
        for (uint32_t step = 0; step < config_.planes; ++step) {
            const uint32_t plane = (home + step) % config_.planes;
            if (is_excluded(plane) || planes_[plane].failed == 0) continue;
            single_ = failed_index(plane, 0);
            return;
        }
    }

    constexpr std::optional<PathChoice> least_recently_failed(uint32_t candidates) {
        while (candidates != 0) {
            const uint32_t plane = next_plane(candidates);
            if (planes_[plane].failed != 0) {
                last_plane_ = plane;
                return path(failed_index(plane, 0));
            }
            candidates &= ~(1u << plane);
        }
        return std::nullopt;
    }

    // The first candidate after the plane used last.
    constexpr uint32_t next_plane(uint32_t candidates) const {
        const uint32_t after = candidates & ~((2u << last_plane_) - 1);
        return lowest_bit(after != 0 ? after : candidates);
    }

    constexpr PathChoice path_at(uint32_t plane, uint32_t position) const {
        return {static_cast<uint16_t>(index_of(plane, position)), entropy_value(planes_[plane].key, position),
                static_cast<uint8_t>(plane)};
    }

    // Position of the plane's next value that is neither failed nor denied; there must be one. Values that
    // met congestion are passed over once: after at most two rotations one is good.
    constexpr uint32_t next_position(uint32_t plane) {
        for (;;) {
            const uint32_t position = planes_[plane].cursor;
            const uint32_t index = index_of(plane, position);
            planes_[plane].cursor = static_cast<uint8_t>(position + 1 == per_plane_ ? 0 : position + 1);
            if (state(index) == EntropyState::good) return position;
            if (state(index) == EntropyState::skip) set_state(index, EntropyState::good);
        }
    }

    constexpr void advance_rotation() {
        rotation_ = rotation_ + 1 == config_.entropy_values ? 0 : rotation_ + 1;
    }

    // Each plane keeps the positions of its failed values, oldest first, in its own part of failed_.
    constexpr uint8_t* failures(uint32_t plane) { return failed_.data() + size_t{plane} * per_plane_; }

    constexpr uint32_t failed_index(uint32_t plane, uint32_t ordinal) {
        return index_of(plane, failures(plane)[ordinal]);
    }

    constexpr void remember_failure(uint32_t index) {
        const uint32_t plane = plane_of(index);
        failures(plane)[planes_[plane].failed++] = static_cast<uint8_t>(position_of(index));
        set_state(index, EntropyState::assumed_bad);
    }

    constexpr void forget_failure(uint32_t index) {
        const uint32_t plane = plane_of(index);
        uint8_t* const first = failures(plane);
        uint8_t* const last = first + planes_[plane].failed;
        const uint8_t* const end = std::remove(first, last, static_cast<uint8_t>(position_of(index)));
        planes_[plane].failed = static_cast<uint16_t>(end - first);
    }

    // Distinct within the plane: each step maps 14 bits onto 14 bits one to one.
    static constexpr uint16_t entropy_value(uint32_t key, uint32_t position) {
        uint32_t value = (position + key) & 0x3FFF;
        value = (value * 0x2C6Du + (key >> 14)) & 0x3FFF;
        value ^= value >> 7;
        value = (value * 0x1A35u) & 0x3FFF;
        value ^= value >> 5;
        return static_cast<uint16_t>(0xC000 | value);
    }

    // The finaliser of MurmurHash3 (public domain): neighbouring seeds give unrelated keys.
    static constexpr uint32_t mix(uint32_t value) {
        value = (value ^ value >> 16) * 0x85EB'CA6Bu;
        value = (value ^ value >> 13) * 0xC2B2'AE35u;
        return value ^ value >> 16;
    }

    // What each packet looks at comes first.
    SprayConfig config_{};
    uint32_t per_plane_ = 1;
    uint32_t reciprocal_ = 65537;
    uint32_t excluded_ = 0;    // planes
    uint32_t last_plane_ = 0;  // spray: plane used last
    uint32_t in_flight_ = 0;
    std::array<Plane, regmap::max_planes> planes_{};
    PlaneBalance balance_;
    std::array<uint8_t, regmap::max_entropy_values / 4> states_{};
    uint32_t rotation_ = 0;     // round_robin: index of the next value
    uint32_t single_ = 0;       // single_path: index of the value
    uint32_t probe_plane_ = 0;  // where the walk over values to probe stands
    uint32_t probe_ordinal_ = 0;
    std::array<uint8_t, regmap::max_entropy_values> failed_{};
};

}  // namespace plait::engines
