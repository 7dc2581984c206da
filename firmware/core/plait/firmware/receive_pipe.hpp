#pragma once
// What the receive engine decides about a packet before firmware hears of it. Any HAL uses it.

#include <cstdint>
#include <plait/engines/rx_window.hpp>
#include <plait/firmware/packet.hpp>
#include <span>

namespace plait::firmware {

/// The receive side of one queue pair, in memory of the HAL's.
struct alignas(32) ReceiveQp {
    std::uint32_t qpn = 0;
    std::uint32_t peer_device = 0;
    std::uint16_t mtu_bytes = 0;
    bool is_open = false;
    engines::RxWindow window;
};

/// Finds the queue pair of a packet, checks that it comes from its peer and that its fields fit each other,
/// and asks the receive window. Everything in a packet is hostile. An index is the QPN modulo the number of
/// queue pairs.
class ReceivePipe {
  public:
    struct Judgement {
        regmap::DropReason reason =
            regmap::DropReason::none;  ///< Other than none: drop it, firmware does not see it.
        engines::RxVerdict window{};   ///< Of data packets; one that is accepted is marked as received.
    };

    /// `queue_pairs` (a power of two) stays the caller's and must outlive the pipe.
    explicit constexpr ReceivePipe(std::span<ReceiveQp> queue_pairs) : queue_pairs_(queue_pairs) {}

    /// False, and nothing changed: the queue pair's place is taken, or window or MTU are not allowed.
    constexpr bool open(std::uint32_t qpn, std::uint32_t peer_device, std::uint32_t first_psn,
                        std::uint16_t window_packets, std::uint16_t mtu_bytes) {
        ReceiveQp& qp = at(qpn);
        if (qp.is_open || mtu_bytes == 0 || !qp.window.reset(first_psn, window_packets)) return false;
        qp.qpn = qpn;
        qp.peer_device = peer_device;
        qp.mtu_bytes = mtu_bytes;
        qp.is_open = true;
        return true;
    }

    constexpr void close(std::uint32_t qpn) {
        if (ReceiveQp* qp = find(qpn)) qp->is_open = false;
    }

    [[nodiscard]] constexpr bool is_open(std::uint32_t qpn) const { return find(qpn) != nullptr; }

    constexpr void close_all() {
        for (ReceiveQp& qp : queue_pairs_) qp.is_open = false;
    }

    /// Takes back the acceptance of the packet that was judged last for this queue pair.
    constexpr void refuse(std::uint32_t qpn, std::uint32_t psn) {
        if (ReceiveQp* qp = find(qpn)) qp->window.refuse(psn);
    }

    /// A packet for this queue pair will be judged soon: its state is brought into the cache.
    void expect(std::uint32_t qpn) const { __builtin_prefetch(&at(qpn)); }

    [[nodiscard]] constexpr const engines::RxWindow& window(std::uint32_t qpn) const {
        return at(qpn).window;
    }

    constexpr Judgement judge(const Packet& packet) {
        using regmap::DropReason;
        ReceiveQp* const qp = find(packet.qpn);
        if (qp == nullptr) return {DropReason::unknown_qp, {}};
        if (qp->peer_device != packet.source_device) return {DropReason::peer_mismatch, {}};
        const DropReason reason = packet.trimmed ? check_trimmed(packet) : check(packet, qp->mtu_bytes);
        if (reason != DropReason::none || !is_data(packet.opcode)) return {reason, {}};
        return {DropReason::none, qp->window.receive(packet.psn)};
    }

    /// What the header must fulfil whatever the state: a known opcode, and payload that is a part of its
    /// message as the sender must cut it (docs/wire.md): full parts of one MTU, the last one shorter, a
    /// message of nothing in one packet.
    static constexpr regmap::DropReason check(const Packet& packet, std::uint32_t mtu_bytes) {
        using regmap::DropReason;
        switch (packet.opcode) {
            case Opcode::mp_ack:
            case Opcode::mp_probe:
            case Opcode::mp_probe_reply:
            case Opcode::mp_port_status:
                return packet.payload_bytes == 0 ? DropReason::none : DropReason::length;
            case Opcode::mp_write:
            case Opcode::mp_write_immediate:
            case Opcode::mp_send:
            case Opcode::mp_send_immediate:
            case Opcode::mp_ep_row:
            case Opcode::mp_ep_partial: return check_part(packet, mtu_bytes);
            case Opcode::mp_ep_control:
                if (packet.payload_bytes > regmap::max_control_bytes ||
                    packet.payload_bytes != packet.message_bytes) {
                    return DropReason::length;
                }
                return check_part(packet, mtu_bytes);
            default: return DropReason::opcode;
        }
    }

    /// Of a trimmed packet nothing but opcode, queue pair and PSN is known. Firmware refuses it, so that the
    /// worst that a false one does is a packet sent twice.
    static constexpr regmap::DropReason check_trimmed(const Packet& packet) {
        return is_data(packet.opcode) ? regmap::DropReason::none : regmap::DropReason::malformed;
    }

  private:
    static constexpr regmap::DropReason check_part(const Packet& packet, std::uint32_t mtu_bytes) {
        using regmap::DropReason;
        const std::uint64_t end = std::uint64_t{packet.message_offset} + packet.payload_bytes;
        const bool last = end == packet.message_bytes;
        if (packet.message_bytes > regmap::max_message_bytes || end > packet.message_bytes)
            return DropReason::length;
        if (packet.payload_bytes > mtu_bytes || (!last && packet.payload_bytes != mtu_bytes))
            return DropReason::length;
        if (packet.message_offset % mtu_bytes != 0) return DropReason::malformed;
        if (packet.payload_bytes == 0 && packet.message_bytes != 0) return DropReason::malformed;
        return DropReason::none;
    }

    [[nodiscard]] constexpr ReceiveQp& at(std::uint32_t qpn) const {
        return queue_pairs_[qpn & static_cast<std::uint32_t>(queue_pairs_.size() - 1)];
    }

    [[nodiscard]] constexpr ReceiveQp* find(std::uint32_t qpn) const {
        ReceiveQp& qp = at(qpn);
        return qp.is_open && qp.qpn == qpn ? &qp : nullptr;
    }

    std::span<ReceiveQp> queue_pairs_;
};

}  // namespace plait::firmware
