#pragma once
// What the transport keeps for a queue pair. Plain data; the rules are in transport*.hpp.

#include <array>
#include <bit>
#include <cstdint>
#include <plait/engines/spray.hpp>
#include <plait/firmware/commands.hpp>
#include <plait/firmware/congestion.hpp>
#include <plait/regmap.hpp>
#include <span>

namespace plait::firmware {

inline constexpr std::uint32_t message_ring =
    256;                                        ///< Messages a queue pair holds until they are acknowledged.
inline constexpr std::uint32_t work_ring = 64;  ///< Work requests among them.
inline constexpr std::uint32_t receive_ring = 64;  ///< Receive requests that wait for their messages.
inline constexpr std::uint64_t never_ns = ~std::uint64_t{0};

/// Counters of the transport of one device.
struct TransportStatistics {
    std::uint64_t data_packets_sent = 0;
    std::uint64_t retransmitted = 0;              ///< Of these.
    std::uint64_t cancelled_retransmissions = 0;  ///< Acknowledged while they waited to be sent again.
    std::uint64_t received = 0;                   ///< Data packets taken and acknowledged.
    std::uint64_t duplicates = 0;
    std::uint64_t refused = 0;           ///< Data packets answered with a NACK.
    std::uint64_t out_of_order_max = 0;  ///< Greatest distance of an arriving PSN from the cumulative one.
    std::uint64_t acks_sent = 0;
    std::uint64_t acks_received = 0;
    std::uint64_t nacks_received = 0;
    std::uint64_t rto_count = 0;  ///< Time-outs with nothing acknowledged since.
    std::uint64_t losses = 0;     ///< Packets assumed lost.
    std::uint64_t window_high_water =
        0;  ///< PSNs sent and not yet acknowledged cumulatively, greatest of a QP.
    std::uint64_t probes_sent = 0;
    std::uint64_t planes_excluded = 0;  ///< By silent loss.
    std::uint64_t planes_restored = 0;
    std::uint64_t qp_errors = 0;
};

/// A message that EP gives to the transport; `tag` is EP's own name for it.
struct EpMessage {
    Opcode opcode = Opcode::mp_ep_row;
    std::uint64_t tag = 0;
    std::uint32_t length_bytes = 0;
};

/// Answer to create_qp; the rest means something only with Status::ok.
struct QpCreated {
    regmap::Status status = regmap::Status::ok;
    std::uint32_t qpn = 0;
    std::uint32_t first_psn = 0;
};

enum class PacketState : std::uint8_t { free, in_flight, lost, acknowledged };

/// A ring of entries by number, a number's place being its low bits. As long as there are few of them they
/// lie in a small table, close to those of other queue pairs: a device has many, with few packets under way
/// on each. A large table takes over when there are more, until none is left.
template <class Entry, std::size_t few, std::size_t most>
class EntryRing {
  public:
    using Few = std::array<Entry, few>;
    using Most = std::array<Entry, most>;

    /// Makes room for entry number `next`, modulo 2^32, of `most` at most; those from `first` on are in use.
    void prepare(std::uint32_t first, std::uint32_t next, Few& small, Most& large) {
        if (first == next) {
            entries_ = small.data();
            mask_ = few - 1;
        } else if (next - first > mask_) {
            for (; first != next; ++first) large[first % most] = small[first % few];
            entries_ = large.data();
            mask_ = most - 1;
        }
    }
    /// With so many in use prepare() has something to do: with none, or more than there is room for.
    [[nodiscard]] bool must_prepare(std::uint64_t in_use) const { return in_use - 1 >= mask_; }

    /// A number's sign does not matter to its low bits, and a processor of 64 bits need not take it away.
    Entry& operator[](std::uint32_t number) const {
        return entries_[static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(number)}) & mask_];
    }

  private:
    static_assert(std::has_single_bit(few) && std::has_single_bit(most) && few < most);
    static_assert(std::has_single_bit(sizeof(Entry)), "found by a shift");

    Entry* entries_ = nullptr;
    std::uint64_t mask_ = 0;
};

/// A PSN inside the send window. In flight for the first time it is in no list: such packets left in the
/// order of their numbers. The others are in one of two: in flight again (in order of departure), or waiting
/// for it.
struct alignas(32) PacketEntry {
    std::uint32_t offset;     ///< Of its payload in the message, bytes.
    std::uint32_t sent_ns;    ///< Low 32 bits of the time of its latest departure.
    std::uint32_t departure;  ///< Counts the departures of the queue pair.
    std::uint16_t next;
    std::uint16_t previous;
    std::uint16_t entropy_index;
    std::uint16_t bytes;   ///< Of its payload.
    std::uint8_t message;  ///< Slot in the message ring.
    std::uint8_t plane;
    std::uint8_t transmissions;  ///< Stops at 255.
    PacketState state;

    [[nodiscard]] bool is_first_in_flight() const {
        return state == PacketState::in_flight && transmissions == 1;
    }
};

using PacketRing = EntryRing<PacketEntry, 16, regmap::max_window_packets>;

/// List of packet entries, linked by their numbers.
struct PacketList {
    static constexpr std::uint16_t none = 0xffff;
    std::uint16_t head = none;
    std::uint16_t tail = none;

    [[nodiscard]] constexpr bool empty() const { return head == none; }

    void push_back(const PacketRing& entries, std::uint16_t number) {
        entries[number].next = none;
        entries[number].previous = tail;
        (tail == none ? head : entries[tail].next) = number;
        tail = number;
    }

    void remove(const PacketRing& entries, std::uint16_t number) {
        const PacketEntry& entry = entries[number];
        (entry.previous == none ? head : entries[entry.previous].next) = entry.next;
        (entry.next == none ? tail : entries[entry.next].previous) = entry.previous;
    }
};

/// A work request: a copy of its record, until its completion.
struct WorkEntry {
    regmap::WorkRequest request;
    std::uint16_t index;  ///< In its queue.
    regmap::Status status;
    bool done;
};

/// A message on its way.
struct MessageEntry {
    WorkEntry* work;    ///< Its work request; nullptr: it is EP's.
    std::uint64_t tag;  ///< EP's.
    std::uint32_t length_bytes;
    std::uint32_t receive_number;
    std::uint32_t unacknowledged;  ///< Packets, those not sent yet among them.
    Opcode opcode;
};

using MessageRing = EntryRing<MessageEntry, 16, message_ring>;

/// A receive request and what has arrived for it.
struct ReceiveEntry {
    regmap::ReceiveRequest request;
    std::uint64_t end;  ///< Packets received in order once the message is complete.
    std::uint32_t message_number;
    std::uint32_t message_bytes;
    std::uint32_t immediate;
    std::uint16_t index;  ///< In its queue.
    Opcode opcode;
    bool arrived;           ///< A packet of its message has.
    regmap::Status status;  ///< If not ok, why it fails when the queue pair does.
};

/// The large tables of a queue pair. Reserved, not made: pages that no queue pair uses are never touched, and
/// every entry is written before it is read.
struct QpTables {
    PacketRing::Most packets;
    MessageRing::Most messages;
    std::array<WorkEntry, work_ring> work;
    std::array<ReceiveEntry, receive_ring> receives;
};

/// The small ones; reserved too.
struct alignas(64) QpSmallTables {
    PacketRing::Few packets;
    MessageRing::Few messages;
    std::array<std::uint64_t, regmap::max_window_packets / 64> acknowledged;
};

enum class QpState : std::uint8_t { free, created, connected, error };

/// Which list of the scheduler a queue pair is in.
enum class QpList : std::uint8_t { none, ready, waiting_for_plane, failing };

/// In QueuePair::awaited_plane.
constexpr std::uint8_t any_plane = regmap::max_planes;

/// One queue pair. Counts that end in no unit are packets since the connection; PSN = first PSN + count, 24
/// bits. What a packet needs to be sent comes first, in the first two or three cache lines. Its size is a
/// power of two, so that its place is found by a shift.
struct alignas(64) QueuePair {
    // Scheduling and sending.
    QpState state = QpState::free;
    QpList list = QpList::none;
    std::uint8_t awaited_plane = any_plane;  ///< In list waiting_for_plane: which.
    regmap::SprayPolicy spray_policy = regmap::SprayPolicy::spray;
    bool cautious = false;  ///< After a "try later": one packet at a time until one is taken.
    std::uint8_t rto_backoff = 0;
    /// An answer came after its time-out. Where many do, every packet is sent again and no round trip can be
    /// measured: from then on the time-out stays backed off until one is (Karn).
    bool answers_late = false;
    /// Nothing waits to be sent again or asks for care: no pause, not cautious, no time-out.
    bool sends_plain = false;
    std::uint16_t window_packets = 0;
    std::uint8_t usable_planes = 0;  ///< As its spray selector says.
    QueuePair* link = nullptr;       ///< Next queue pair of the same list.
    std::uint64_t base = 0;          ///< Oldest unacknowledged packet.
    std::uint64_t next = 0;          ///< Next new packet.
    std::uint64_t pause_until_ns = 0;
    PacketList again;  ///< In flight, not for the first time.
    PacketList lost;
    std::uint32_t in_flight_bytes = 0;
    std::uint32_t message_head = 0;    ///< Message numbers: oldest unacknowledged,
    std::uint32_t message_cursor = 0;  ///< being cut into packets,
    std::uint32_t message_tail = 0;    ///< next.

    engines::SpraySelector* spray = nullptr;
    PacketRing packets;                 ///< Those that are not acknowledged,
    MessageRing messages;               ///< and theirs.
    std::uint64_t timer_ns = never_ns;  ///< What the timer of the queue pair is set to; never_ns: it is not.
    std::uint32_t cursor_offset = 0;    ///< In the message at the cursor, bytes.
    std::uint32_t departures = 0;
    std::uint32_t requested_departure = 0;  ///< Latest departure that asked for an acknowledgement.
    std::uint32_t first_psn = 0;
    std::uint32_t device = 0;  ///< Own number. These four stand in a packet as here.
    std::uint32_t peer_device = 0;
    std::uint32_t peer_qpn = 0;
    std::uint32_t qpn = 0;
    MessageEntry* cursor_message = nullptr;  ///< The message at the cursor, if there is one.

    std::uint64_t first_sent = 0;          ///< None before it is in flight for the first time.
    std::uint32_t acknowledged_ahead = 0;  ///< Packets acknowledged before their turn.
    std::uint32_t acked_departure = 0;     ///< Latest departure known to have arrived.
    std::uint32_t reordering_packets = 0;
    std::uint64_t progress_ns = 0;  ///< The peer last showed that it lives, or the first request came.
    std::uint16_t mtu_bytes = 0;
    std::uint8_t refusals = 0;    ///< "Try later" in a row.
    bool submit_starved = false;  ///< The send queue, EP, or the receive queue was told: no room.
    bool ep_starved = false;
    bool receive_starved = false;
    CongestionWindow congestion;
    QpSmallTables* small_tables = nullptr;
    QpTables* tables = nullptr;

    // Receiving.
    bool mark_reported = false;  ///< The latest packet was marked.
    bool ack_urgent = false;     ///< The sender waits: acknowledge when no packet is missing.
    bool takes_plain = false;    ///< Connected, no mark reported, no receive request waits for its message.
    std::uint8_t since_ack_marked = 0;
    std::uint32_t since_ack = 0;         ///< Data packets since the last acknowledgement.
    std::uint32_t expected_psn = 0;      ///< Next in order when the window was looked at last, and
    std::uint64_t received = 0;          ///< packets received in order until then.
    std::uint64_t ack_at_ns = never_ns;  ///< An arrival from then on acknowledges; never_ns: nothing is owed.
    std::uint32_t receive_head = 0;      ///< Receive requests completed ...
    std::uint32_t receive_posted = 0;    ///< ... and posted.
    std::uint32_t receives_arrived = 0;  ///< Between these, those of which something arrived.

    // Requests of the host.
    std::uint32_t work_head = 0;
    std::uint32_t work_tail = 0;
    std::uint32_t next_receive_number = 0;
    std::uint32_t send_queue = 0;  ///< 0 = none.
    std::uint32_t receive_queue = 0;
    regmap::Status failure = regmap::Status::ok;

    // Paths. Times: never_ns = not set.
    std::uint64_t doubt_ns = never_ns;
    std::uint64_t doubt_before_ns = 0;  ///< Packets on doubtful planes that left before this are lost.
    std::uint64_t probe_ns = never_ns;
    std::uint32_t probe_interval_ns = 0;
    std::uint16_t probe_sequence = 0;
    std::uint16_t entropy_values = 0;
    std::uint8_t doubtful_planes = 0;
    std::uint8_t announcements = 0;   ///< Of port state, still to be sent.
    std::uint8_t peer_planes = 0xff;  ///< As the peer announced.
    bool peer_announced = false;
    std::uint16_t peer_port_sequence = 0;
    std::array<std::uint64_t, 8> unused{};
};
static_assert(std::has_single_bit(sizeof(QueuePair)));

/// That the transport needs for each queue pair.
inline constexpr std::size_t qp_memory_bytes = sizeof(QueuePair) + sizeof(QpSmallTables) + sizeof(QpTables);

/// Brings a queue pair into the cache that will be looked at soon and has waited in none.
inline void expect(const QueuePair* qp) {
#ifdef __riscv  // RV64GC has nothing for it
    (void)qp;
#else
    for (std::size_t line = 0; line < 5; ++line)
        __builtin_prefetch(reinterpret_cast<const std::byte*>(qp) + 64 * line);
#endif
}

/// A first-in first-out list of queue pairs, linked through QueuePair::link. A queue pair is in one list at
/// most.
template <QpList which>
class QpQueue {
  public:
    [[nodiscard]] bool empty() const { return head_ == nullptr; }

    /// Appends every queue pair of another list, which is empty then.
    template <QpList other>
    void take_all(QpQueue<other>& from) {
        while (QueuePair* qp = from.pop_front()) push_back(*qp);
    }

    void push_back(QueuePair& qp) {
        qp.list = which;
        qp.link = nullptr;
        (head_ == nullptr ? head_ : tail_->link) = &qp;
        tail_ = &qp;
    }

    QueuePair* pop_front() {
        QueuePair* const qp = head_;
        if (qp == nullptr) return nullptr;
        head_ = qp->link;
        qp->list = QpList::none;
        expect(head_);
        return qp;
    }

    /// Takes one out of the middle; the list is walked (failures only).
    void remove(QueuePair& qp) {
        QueuePair* previous = nullptr;
        for (QueuePair* at = head_; at != nullptr; previous = at, at = at->link) {
            if (at != &qp) continue;
            (previous == nullptr ? head_ : previous->link) = qp.link;
            if (tail_ == &qp) tail_ = previous;
            qp.list = QpList::none;
            return;
        }
    }

  private:
    QueuePair* head_ = nullptr;
    QueuePair* tail_ = nullptr;
};

}  // namespace plait::firmware
