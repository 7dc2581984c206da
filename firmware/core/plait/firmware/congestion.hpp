#pragma once
// How many bytes a queue pair may have in flight: the window rules of NSCC (Ultra Ethernet 1.0).

#include <algorithm>
#include <cstdint>

namespace plait::firmware {

/// What a congestion window is made for.
struct CongestionConfig {
    std::uint32_t base_rtt_ns = 3000;  ///< Round trip of an idle fabric; the most that is ever assumed.
    std::uint32_t rate_gbps = 400;     ///< Of all planes together.
    std::uint32_t mtu_bytes = 4096;
};

/// Congestion window of one queue pair, in bytes. Integers only.
///
/// Delay is measured above the base round trip (the smallest of a packet of data, within one half of the
/// configured one and all of it), against a target of one base round trip. From eight packets the window
/// doubles each round trip until a queue is met: a mark, or a delay above half the target. From then on, low
/// delay without marks: grow by (4 MTU + window / 8) * (target - delay) / target a round trip; high delay
/// without marks: by one MTU; marks with low delay: hold; marks with high delay: shrink by 0.8 * (delay -
/// target) / delay, at most to one half, at most once a base round trip. At most 1.5 times the
/// bandwidth-delay product, at least the floor.
class CongestionWindow {
  public:
    /// Starts anew with a few packets: a device has many queue pairs, and many may go to one other.
    constexpr void reset(const CongestionConfig& config) {
        config_ = config;
        min_rtt_ns_ = 0;
        smoothed_rtt_ns_ = config.base_rtt_ns;
        deviation_ns_ = 0;
        smoothed_delay_ns_ = 0;
        last_decrease_ns_ = 0;
        decreased_ = false;
        credit_ = 0;
        starting_ = true;
        floor_packets_ = 1;
        set_limits();
        window_ =
            clamped(std::min<std::uint64_t>(bandwidth_delay_bytes(), initial_packets * config.mtu_bytes));
    }

    /// The window does not shrink below so many packets any more. 1 at first.
    constexpr void set_floor(std::uint32_t packets) {
        floor_packets_ = packets;
        set_limits();
        set(window_);
    }

    [[nodiscard]] constexpr std::uint32_t bytes() const { return static_cast<std::uint32_t>(window_); }
    [[nodiscard]] constexpr std::uint32_t smoothed_rtt_ns() const {
        return static_cast<std::uint32_t>(smoothed_rtt_ns_);
    }

    /// Round trip that few packets exceed: smoothed, plus twice the mean deviation.
    [[nodiscard]] constexpr std::uint32_t long_rtt_ns() const {
        return static_cast<std::uint32_t>(smoothed_rtt_ns_ + 2 * deviation_ns_);
    }

    /// Round trip without queues.
    [[nodiscard]] constexpr std::uint32_t base_rtt_ns() const {
        return static_cast<std::uint32_t>(base_rtt_ns_);
    }

    /// Smallest round trip seen; 0 before the first.
    [[nodiscard]] constexpr std::uint32_t min_rtt_ns() const {
        return static_cast<std::uint32_t>(min_rtt_ns_);
    }

    /// `acked_bytes` arrived; `rtt_ns` is the round trip of the packet that caused the acknowledgement, 0
    /// when it cannot be told; `marked`: congestion was met.
    [[gnu::always_inline]] constexpr void on_ack(std::uint64_t acked_bytes, std::uint64_t rtt_ns, bool marked,
                                                 std::uint64_t now_ns) {
        if (rtt_ns == 0) return;
        sample(rtt_ns, acked_bytes >= config_.mtu_bytes);
        const std::uint64_t target = base_rtt_ns_;
        const std::uint64_t delay = rtt_ns > target ? rtt_ns - target : 0;
        const bool high = delay > target;
        if (marked || 2 * delay > target) starting_ = false;
        if (starting_) return grow(acked_bytes, window_);
        if (!marked && !high)
            grow(acked_bytes,
                 (4 * std::uint64_t{config_.mtu_bytes} + window_ / 8) * (target - delay) / target);
        else if (!marked) grow(acked_bytes, config_.mtu_bytes);
        else if (high) shrink(now_ns);
    }

    /// The receiver had no room for a packet: a quarter less, at most once a base round trip.
    constexpr void on_refusal(std::uint64_t now_ns) {
        if (may_decrease(now_ns)) set(window_ - window_ / 4);
    }

    /// A switch had no room for a packet of `bytes`: they are too much. Each of a burst says so. False: the
    /// window cannot shrink any more.
    constexpr bool on_trimmed(std::uint64_t bytes) {
        starting_ = false;
        const std::uint64_t before = window_;
        set(window_ - std::min(bytes, window_));
        return window_ != before;
    }

    /// Nothing came back for a retransmission time-out.
    constexpr void on_timeout() { set(window_ / 2); }

  private:
    static constexpr std::uint64_t initial_packets = 8;

    [[nodiscard]] constexpr std::uint64_t bandwidth_delay_bytes() const {
        return config_.rate_gbps * base_rtt_ns_ / 8;
    }

    /// What follows from the smallest round trip and the floor, which seldom change.
    constexpr void set_limits() {
        const std::uint64_t base = config_.base_rtt_ns;
        base_rtt_ns_ = min_rtt_ns_ == 0 ? base : std::clamp(min_rtt_ns_, base / 2, base);
        least_ = std::uint64_t{floor_packets_} * config_.mtu_bytes;
        most_ = std::max(least_, bandwidth_delay_bytes() * 3 / 2);
    }

    [[nodiscard]] constexpr std::uint64_t clamped(std::uint64_t window) const {
        return std::clamp(window, least_, most_);
    }

    constexpr void set(std::uint64_t window) { window_ = clamped(window); }

    /// Small packets are faster: they say nothing about the round trip of data.
    constexpr void sample(std::uint64_t rtt_ns, bool is_data) {
        if (is_data && (min_rtt_ns_ == 0 || rtt_ns < min_rtt_ns_)) [[unlikely]] {
            min_rtt_ns_ = rtt_ns;
            set_limits();
        }
        const std::uint64_t distance =
            rtt_ns > smoothed_rtt_ns_ ? rtt_ns - smoothed_rtt_ns_ : smoothed_rtt_ns_ - rtt_ns;
        deviation_ns_ = (deviation_ns_ * 3 + distance) / 4;
        smoothed_rtt_ns_ = (smoothed_rtt_ns_ * 7 + rtt_ns) / 8;
        const std::uint64_t base = base_rtt_ns_;
        const std::uint64_t delay = rtt_ns > base ? rtt_ns - base : 0;
        smoothed_delay_ns_ = (smoothed_delay_ns_ * 7 + delay) / 8;
    }

    /// By `per_round_trip` bytes for each window of bytes acknowledged; what is less than a byte is kept.
    constexpr void grow(std::uint64_t acked_bytes, std::uint64_t per_round_trip) {
        credit_ += acked_bytes * per_round_trip;
        const std::uint64_t gain = credit_ / window_;
        credit_ -= gain * window_;
        set(window_ + gain);
    }

    constexpr void shrink(std::uint64_t now_ns) {
        const std::uint64_t target = base_rtt_ns_;
        const std::uint64_t delay = smoothed_delay_ns_;
        if (delay <= target || !may_decrease(now_ns)) return;
        const std::uint64_t cut = window_ * 4 * (delay - target) / (5 * delay);
        set(window_ - std::min(cut, window_ / 2));
    }

    constexpr bool may_decrease(std::uint64_t now_ns) {
        if (decreased_ && now_ns - last_decrease_ns_ < base_rtt_ns_) return false;
        decreased_ = true;
        last_decrease_ns_ = now_ns;
        return true;
    }

    CongestionConfig config_{};
    std::uint64_t window_ = 0;
    std::uint64_t credit_ = 0;
    std::uint64_t last_decrease_ns_ = 0;
    std::uint64_t smoothed_delay_ns_ = 0;
    std::uint64_t least_ = 0;  ///< Limits of the window.
    std::uint64_t most_ = 0;
    std::uint64_t min_rtt_ns_ = 0;
    std::uint64_t base_rtt_ns_ = 0;
    std::uint64_t smoothed_rtt_ns_ = 0;
    std::uint64_t deviation_ns_ = 0;
    std::uint32_t floor_packets_ = 1;
    bool decreased_ = false;
    bool starting_ = false;  ///< No queue seen yet: the window doubles each round trip.
};

}  // namespace plait::firmware
