#pragma once
// The QP engine of the mp transport: messages cut into self-describing packets, sprayed over the planes,
// placed in any order, acknowledged selectively, sent again when lost; releases wait at the receiver.
//
// The member functions are defined by subject in
// transport_{manage,send,receive,acknowledge,recovery,paths}.hpp.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <plait/engines/bits.hpp>
#include <plait/engines/psn.hpp>
#include <plait/engines/rx_window.hpp>
#include <plait/engines/spray.hpp>
#include <plait/firmware/arena.hpp>
#include <plait/firmware/commands.hpp>
#include <plait/firmware/congestion.hpp>
#include <plait/firmware/memory_table.hpp>
#include <plait/firmware/packet.hpp>
#include <plait/firmware/transport_state.hpp>
#include <span>

namespace plait::firmware {

using regmap::DropReason;
using regmap::NackReason;
using regmap::Status;

/// Needs of its Context: hal(), config(), memory_table().check, queues().{complete, resume}, ep().{build,
/// message_done, refill, on_row, on_partial, on_control, qp_failed}, registers().qp_time_limit_us().
///
/// Calls of ep() and queues() are made while a handler runs; they may call enqueue(), submit(),
/// post_receive() and queue_overflow() in turn. What these make ready is sent when the outermost handler
/// ends.
template <class Context>
class Transport {
  public:
    /// Memory for config().max_qps queue pairs comes from `arena` (qp_memory_bytes each); without it every
    /// create_qp answers limit_exceeded. Asks hal().port_up().
    Transport(Context& context, Arena& arena);

    /// Forgets every queue pair; nothing completes. Credits and port states start anew.
    void reset();

    // Administration.

    /// invalid_parameter (the rc transport, or a value that the field does not allow), limit_exceeded (no
    /// queue pair left): nothing was made. The queues must exist; whoever calls attaches them.
    QpCreated create_qp(const regmap::AdminRequest& request);
    /// invalid_qp, invalid_state (already connected), invalid_parameter: nothing changed.
    Status connect_qp(const regmap::AdminRequest& request);
    /// Outstanding requests complete as flushed, EP messages are done as flushed. invalid_qp: nothing
    /// happened.
    Status destroy_qp(std::uint32_t qpn);

    // Requests of the host. A request that is refused gets its error completion, in order.

    /// Work requests that submit() takes now. After an answer of 0, queues().resume(send queue) follows some
    /// time.
    unsigned submit_room(std::uint32_t qpn);
    void submit(std::uint32_t qpn, const regmap::WorkRequest& request, std::uint16_t request_index);
    unsigned receive_room(std::uint32_t qpn);
    void post_receive(std::uint32_t qpn, const regmap::ReceiveRequest& request, std::uint16_t request_index);
    /// A completion of the queue pair found its completion queue full: the queue pair fails.
    void queue_overflow(std::uint32_t qpn) { give_up(qpn, Status::limit_exceeded); }
    /// The queue pair fails with `status` when the outermost handler ends; unknown ones are ignored.
    void give_up(std::uint32_t qpn, Status status);

    // EP.

    /// False, and nothing taken: no room now (ep().refill(qpn) follows some time), or the queue pair is not
    /// usable.
    bool enqueue(std::uint32_t qpn, const EpMessage& message);
    unsigned room(std::uint32_t qpn);
    [[nodiscard]] bool is_usable(std::uint32_t qpn) const;
    /// EP bounds what goes to the peer by credit or pace, so the window need not shrink below `packets`. Only
    /// for a usable queue pair.
    void set_window_floor(std::uint32_t qpn, std::uint32_t packets) {
        find(qpn)->congestion.set_floor(packets);
    }
    /// Device number of the peer; 0 while not connected.
    [[nodiscard]] std::uint32_t peer_of(std::uint32_t qpn) const;

    // Events.

    /// A packet that needs nothing but to be placed, in a straight line: a WRITE that the window has
    /// accepted, of a queue pair where nothing waits for it. False: nothing was done, it is for on_packet().
    /// Of the verdict `window` what is needed is read where it is: cumulative_psn and, seldom, hole.
    template <class Window>
    [[gnu::always_inline]] inline bool take_plain(const Packet& packet, BufferId buffer,
                                                  const Window& window);
    [[gnu::always_inline]] inline void on_packet(const PacketEvent& event);
    /// For an ACK, which needs no more than its header; on_packet() does it too.
    [[gnu::always_inline]] inline void on_ack_packet(const Packet& packet);
    [[gnu::always_inline]] inline void on_transmit_credit(std::uint8_t plane, std::uint32_t payload_bytes);
    void on_timer(TimerId timer);
    void on_port_change(std::uint8_t plane, bool up);

    [[nodiscard]] const TransportStatistics& statistics() const { return statistics_; }
    /// The state of a queue pair, for tests and reports; nullptr when there is none.
    [[nodiscard]] const QueuePair* queue_pair(std::uint32_t qpn) const {
        return const_cast<Transport*>(this)->find(qpn);
    }

  private:
    enum class SendResult : std::uint8_t { sent, sent_last, blocked, no_plane };

    /// Runs finish() when the outermost handler ends.
    class Handler {
      public:
        explicit Handler(Transport& transport) : transport_(transport) { ++transport_.depth_; }
        ~Handler() {
            if (transport_.depth_ == 1) transport_.finish();
            --transport_.depth_;
        }
        Handler(const Handler&) = delete;
        Handler& operator=(const Handler&) = delete;

      private:
        Transport& transport_;
    };

    static constexpr std::uint32_t reordering_packets = 16;       ///< Of the network: threshold at first, and
    static constexpr std::uint32_t max_reordering_packets = 256;  ///< at most.
    static constexpr std::uint32_t min_rto_ns = 20'000;
    static constexpr std::uint32_t tries_in_limit = 32;
    static constexpr std::uint32_t tries_when_late = 4;
    static constexpr std::uint32_t ack_every_packets = 4;
    static constexpr std::uint32_t ack_age_ns = 4'000;   ///< An arrival acknowledges what is as old as this;
    static constexpr std::uint32_t ack_more_ns = 4'000;  ///< the timer, so much later, what no arrival did.
    static constexpr std::int32_t old_hole_packets = 16;
    static constexpr std::uint32_t min_backoff_ns = 2'000;
    static constexpr std::uint32_t min_probe_interval_ns = 4'000;
    static constexpr std::uint32_t max_probe_interval_ns = 100'000;
    static constexpr unsigned probes_at_once = 4;
    static constexpr std::uint8_t announcement_count = 3;
    static constexpr std::uint32_t resume_room = 16;

    // transport_manage.hpp
    QueuePair* find(std::uint32_t qpn);
    void start_sending(QueuePair& qp);
    [[gnu::noinline, gnu::cold]] void fail(QueuePair& qp, Status first, std::uint32_t message_slot);
    void fail_later(QueuePair& qp, Status status);
    [[gnu::noinline, gnu::cold]] void flush_sends(QueuePair& qp, Status first, std::uint32_t message_slot);
    [[gnu::noinline, gnu::cold]] void flush_receives(QueuePair& qp);
    [[gnu::always_inline]] inline void finish();

    // transport_send.hpp
    Status check_request(const QueuePair& qp, const regmap::WorkRequest& request) const;
    void add_message(QueuePair& qp, const MessageEntry& message);
    [[gnu::noinline]] void retire_messages(QueuePair& qp);
    void retire_work(QueuePair& qp);
    void complete_work(QueuePair& qp, const WorkEntry& work, Status status);
    [[gnu::always_inline]] inline void make_ready(QueuePair& qp);
    [[nodiscard]] bool has_packet(const QueuePair& qp) const;
    [[gnu::noinline]] void pump();
    [[gnu::always_inline]] inline QueuePair* next_sender();
    void wait_for_plane(QueuePair& qp);
    void wake(QueuePair& qp);
    [[gnu::always_inline]] inline SendResult send_one(QueuePair& qp);
    template <bool again>
    [[gnu::always_inline]] inline SendResult send_packet(QueuePair& qp);
    [[gnu::noinline, gnu::cold]] SendResult send_again(QueuePair& qp) { return send_packet<true>(qp); }
    [[gnu::always_inline]] inline static void address(const QueuePair& qp, Packet& packet);
    [[nodiscard, gnu::always_inline]] inline std::uint32_t queued_ns(std::uint8_t plane) const;
    [[nodiscard]] bool has_room(std::uint8_t plane) const {
        return ahead_bytes_[plane] < context_.config().transmit_ahead_bytes;
    }
    [[gnu::noinline]] void prepare_packets(QueuePair& qp);
    [[gnu::always_inline]] inline PacketEntry& prepare_packet(QueuePair& qp, const MessageEntry& message);
    [[gnu::always_inline]] inline bool asks_for_ack(QueuePair& qp, const MessageEntry& message,
                                                    std::uint64_t outstanding, bool is_last);
    [[gnu::always_inline]] inline void fill_work(const MessageEntry& message, const WorkEntry& work,
                                                 Packet& packet, Payload& payload);

    // transport_receive.hpp
    [[gnu::always_inline]] inline void on_data(QueuePair& qp, const PacketEvent& event);
    [[gnu::always_inline]] inline NackReason take(QueuePair& qp, const PacketEvent& event,
                                                  std::uint64_t position);
    [[gnu::always_inline]] inline bool may_write(const Packet& packet);
    [[gnu::always_inline]] inline void place(const Packet& packet, BufferId buffer);
    [[gnu::noinline]] NackReason take_receive(QueuePair& qp, const PacketEvent& event,
                                              std::uint64_t position);
    [[gnu::noinline]] void complete_receives(QueuePair& qp);
    void complete_receive(QueuePair& qp, const ReceiveEntry& entry, Status status);
    [[gnu::noinline, gnu::cold]] void refuse(QueuePair& qp, const PacketEvent& event, NackReason reason);
    [[gnu::always_inline]] inline void catch_up(QueuePair& qp, std::uint32_t cumulative_psn);
    template <class Window>
    [[gnu::always_inline]] inline bool account(QueuePair& qp, std::uint64_t psn, const Window& window,
                                               bool is_asked, bool mark_changed, std::uint64_t now);
    [[gnu::noinline]] void send_ack(QueuePair& qp, const Packet* cause, NackReason reason);

    // transport_acknowledge.hpp
    [[gnu::always_inline]] inline bool take_plain_ack(QueuePair& qp, const Packet& packet);
    [[gnu::noinline]] void on_ack(QueuePair& qp, const Packet& packet);
    [[nodiscard, gnu::always_inline]] inline bool is_plausible(const QueuePair& qp,
                                                               const Packet& packet) const;
    [[nodiscard, gnu::always_inline]] inline std::uint32_t round_trip_ns(const QueuePair& qp,
                                                                         const Packet& packet,
                                                                         std::int64_t cause) const;
    [[nodiscard]] bool is_late_answer(const QueuePair& qp, const Packet& packet, std::int64_t cause) const;
    /// What an acknowledgement confirmed.
    struct Confirmed {
        std::uint32_t payload_bytes = 0;
        std::uint32_t packets = 0;
        bool is_orderly = true;  ///< All were in flight for the first time.
    };
    [[gnu::noinline]] Confirmed take_bitmap(QueuePair& qp, const AckHeader& ack, Confirmed confirmed);
    [[gnu::always_inline]] inline Confirmed take_cumulative(QueuePair& qp, std::uint64_t cumulative);
    [[gnu::always_inline]] inline void packet_acknowledged(QueuePair& qp, std::uint32_t count,
                                                           Confirmed& confirmed);
    [[gnu::noinline, gnu::cold]] bool late_acknowledged(QueuePair& qp, std::uint16_t number);
    void raise_threshold(QueuePair& qp, std::uint32_t packets);
    [[gnu::noinline]] void message_acknowledged(QueuePair& qp, const MessageEntry& message);
    [[gnu::noinline, gnu::cold]] void on_nack(QueuePair& qp, NackReason reason, std::uint64_t count);
    /// Where a packet's acknowledgement is marked that came before its turn.
    [[nodiscard]] static std::uint64_t& acknowledged_word(const QueuePair& qp, std::uint64_t count) {
        auto& words = qp.small_tables->acknowledged;
        return words[count / 64 % words.size()];
    }
    [[nodiscard]] std::uint64_t pending_bits(const QueuePair& qp, std::int64_t first) const;

    // transport_recovery.hpp
    void on_qp_timer(QueuePair& qp);
    [[gnu::always_inline]] inline void arm(QueuePair& qp, std::uint64_t time_ns);
    void rearm(QueuePair& qp);
    [[nodiscard, gnu::always_inline]] inline std::uint64_t rto_ns(const QueuePair& qp) const;
    [[nodiscard]] std::uint32_t age_ns(const PacketEntry& entry) const;
    [[nodiscard]] bool is_overtaken(const QueuePair& qp, const PacketEntry& entry) const;
    [[nodiscard]] std::uint16_t oldest_in_flight(QueuePair& qp);
    [[gnu::noinline]] void find_losses(QueuePair& qp);
    void check_timeout(QueuePair& qp);
    void check_doubts(QueuePair& qp);
    [[gnu::noinline, gnu::cold]] void requeue(QueuePair& qp, std::uint16_t number);
    [[gnu::noinline, gnu::cold]] void packet_lost(QueuePair& qp, std::uint16_t number);
    [[gnu::noinline, gnu::cold]] void pause(QueuePair& qp, NackReason reason);

    // transport_paths.hpp
    void exclude(QueuePair& qp, std::uint32_t planes);
    void probe_soon(QueuePair& qp);
    void probe(QueuePair& qp);
    void on_probe(QueuePair& qp, const Packet& packet);
    void on_probe_reply(QueuePair& qp, const Packet& packet);
    void on_port_status(QueuePair& qp, const Packet& packet);
    void announce(QueuePair& qp);
    void send_control(const QueuePair& qp, Packet& packet);
    [[nodiscard]] bool address_control(const QueuePair& qp, Packet& packet);
    [[nodiscard]] std::uint8_t control_plane(const QueuePair& qp, std::uint8_t preferred);

    auto& hal() { return context_.hal(); }
    /// The queue pair's spray selector, or what its HAL has before it.
    decltype(auto) spray_of(const QueuePair& qp) {
        if constexpr (requires { hal().spray_port(qp.qpn, *qp.spray); })
            return hal().spray_port(qp.qpn, *qp.spray);
        else return (*qp.spray);
    }
    [[nodiscard]] std::uint64_t now_ns() const { return context_.hal().now_ns(); }
    /// Name of a packet in the lists.
    [[nodiscard]] static std::uint16_t number_of(std::uint64_t count) { return count % (1U << 15); }
    [[nodiscard]] static std::uint32_t packets_of(std::uint32_t bytes, std::uint32_t mtu_bytes) {
        return bytes == 0 ? 1 : (bytes - 1) / mtu_bytes + 1;
    }
    [[nodiscard]] static std::uint32_t psn_of(const QueuePair& qp, std::uint64_t count) {
        return engines::psn_add(qp.first_psn, static_cast<std::uint32_t>(count));
    }

    Context& context_;
    std::span<QueuePair> qps_;
    std::span<QpSmallTables> small_tables_;
    std::span<QpTables> tables_;
    QpQueue<QpList::ready> ready_;
    std::array<QpQueue<QpList::waiting_for_plane>, any_plane + 1> waiting_;  ///< By awaited plane.
    std::uint32_t waiting_planes_ = 0;  ///< Awaited planes whose list may hold something.
    QpQueue<QpList::failing> failing_;
    std::array<std::uint32_t, regmap::max_planes> ahead_bytes_{};  ///< Given to the plane, not on the wire.
    std::uint32_t offered_planes_ = 0;                             ///< Up, and with room.
    std::uint32_t ports_up_ = 0;
    std::uint64_t byte_ns_ = 0;  ///< On a plane, times 2^32.
    std::uint16_t port_sequence_ = 0;
    bool message_done_ = false;  ///< The acknowledgement being handled was the last of a message.
    std::uint32_t last_created_ = 0;
    std::uint32_t connections_ = 0;
    unsigned depth_ = 0;
    TransportStatistics statistics_;
};

}  // namespace plait::firmware

#include <plait/firmware/transport_acknowledge.hpp>
#include <plait/firmware/transport_manage.hpp>
#include <plait/firmware/transport_paths.hpp>
#include <plait/firmware/transport_receive.hpp>
#include <plait/firmware/transport_recovery.hpp>
#include <plait/firmware/transport_send.hpp>
