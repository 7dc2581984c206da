#pragma once
// Queues in host memory: request records in, completions out. Nothing in a ring is believed: a record is
// copied out once, as a whole, and its owner checks that copy.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <plait/firmware/arena.hpp>
#include <plait/firmware/commands.hpp>
#include <plait/firmware/queue_state.hpp>
#include <plait/firmware/registers.hpp>
#include <plait/regmap.hpp>
#include <span>

namespace plait::firmware {

struct QueueStatistics {
    std::uint64_t fetches = 0;            ///< Batches of records fetched.
    std::uint64_t requests = 0;           ///< Records handed to their owners.
    std::uint64_t completions = 0;        ///< Completions written.
    std::uint64_t lost_completions = 0;   ///< Not written: completion queue full or queue gone.
    std::uint64_t refused_doorbells = 0;  ///< No such queue, or an index that cannot be.
};

/// Needs of its Context: config(), hal() (fetch, write), registers(), admin(), transport() and ep() as
/// described at room(), take() and overflow().
template <class Context>
class Queues {
  public:
    static constexpr std::uint32_t admin_queue = 0;

    Queues(Context& context, Arena& arena)
        : context_(context), queues_(arena.make<Queue>(regmap::max_queues + 1)) {}

    /// Forgets every queue. Fetches under way are ignored when they arrive.
    void reset() {
        for (Queue& queue : queues_) clear(queue);
    }

    /// The rings of the administration queue, from the registers. invalid_parameter: nothing changed.
    Status open_admin(std::uint64_t requests, std::uint64_t completions, std::uint32_t log2_entries) {
        if (log2_entries < 2 || log2_entries > 10) return Status::invalid_parameter;
        const auto log2 = static_cast<std::uint8_t>(log2_entries);
        if (!is_ring(requests, log2, sizeof(regmap::AdminRequest)) ||
            !is_ring(completions, log2, sizeof(regmap::Completion)))
            return Status::invalid_parameter;
        open(admin_queue, QueueKind::send, sizeof(regmap::AdminRequest), log2, requests);
        queues_[admin_queue].completion_queue = admin_completion_queue;
        queues_[admin_queue].owner = {OwnerKind::admin, 0};
        open(admin_completion_queue, QueueKind::completion, sizeof(regmap::Completion), log2, completions);
        return Status::ok;
    }

    /// `completion_queue` is 0 for a completion queue. Otherwise invalid_queue (number not the driver's to
    /// give, or no such completion queue), invalid_state (number in use) or invalid_parameter: nothing
    /// changed.
    Status create(std::uint32_t number, QueueKind kind, std::uint8_t log2_entries, std::uint64_t address,
                  std::uint32_t completion_queue) {
        if (number == admin_queue || number >= regmap::max_queues) return Status::invalid_queue;
        if (queues_[number].used) return Status::invalid_state;
        if (!is_known(kind) || log2_entries < 4 || log2_entries > 15 ||
            !is_ring(address, log2_entries, record_bytes(kind)))
            return Status::invalid_parameter;
        if (kind == QueueKind::completion) {
            if (completion_queue != 0) return Status::invalid_parameter;
        } else {
            if (!is_queue(completion_queue, QueueKind::completion)) return Status::invalid_queue;
            ++queues_[completion_queue].users;
        }
        open(number, kind, record_bytes(kind), log2_entries, address);
        queues_[number].completion_queue = completion_queue;
        return Status::ok;
    }

    /// invalid_queue; invalid_state while a queue pair, a group or another queue uses it: nothing changed.
    Status destroy(std::uint32_t number) {
        if (number == admin_queue || number >= regmap::max_queues || !queues_[number].used)
            return Status::invalid_queue;
        Queue& queue = queues_[number];
        if (queue.owner.kind != OwnerKind::none || queue.users != 0) return Status::invalid_state;
        const std::uint32_t completion_queue = queue.completion_queue;
        if (queue.kind != QueueKind::completion) {
            --queues_[completion_queue].users;
            Queue& ring = queues_[completion_queue];
            ring.promised = distance(queue.promised, ring.promised);
        }
        clear(queue);
        serve_starved(completion_queue);
        return Status::ok;
    }

    /// May `owner` take the requests of this queue? invalid_queue: no such queue, or not of this kind;
    /// invalid_state: it has another owner.
    [[nodiscard]] Status attachable(std::uint32_t number, QueueKind kind, QueueOwner owner) const {
        if (!is_queue(number, kind)) return Status::invalid_queue;
        const QueueOwner present = queues_[number].owner;
        return present.kind == OwnerKind::none || present == owner ? Status::ok : Status::invalid_state;
    }

    /// From now on `owner` (a qp: send or receive queue; a group: collective queue) takes the requests, those
    /// already posted included. As attachable(); attaching the present owner again changes nothing.
    Status attach(std::uint32_t number, QueueOwner owner) {
        if (number >= regmap::max_queues) return Status::invalid_queue;
        const QueueKind kind = queues_[number].kind;
        const bool fits = owner.kind == OwnerKind::group ? kind == QueueKind::collective
                          : owner.kind == OwnerKind::qp
                              ? kind == QueueKind::send || kind == QueueKind::receive
                              : false;
        const Status status = fits ? attachable(number, kind, owner) : Status::invalid_queue;
        if (status != Status::ok) return status;
        queues_[number].owner = owner;
        fetch(number);
        return Status::ok;
    }

    /// Nobody takes the requests any more; those not taken yet are dropped without a completion.
    void detach(std::uint32_t number) {
        if (number == admin_queue || number >= regmap::max_queues || !queues_[number].used) return;
        Queue& queue = queues_[number];
        queue.owner = {};
        queue.consumed = queue.produced;
        queue.overflowed = false;
        cancel_fetch(queue);
    }

    /// detach() for every queue of an owner.
    void detach_all(QueueOwner owner) {
        for (std::uint32_t number = 1; number < regmap::max_queues; ++number)
            if (queues_[number].used && queues_[number].owner == owner) detach(number);
    }

    /// The driver's index: produced requests or consumed completions, modulo 2^16. One that cannot be (no
    /// such queue, backwards, more than the ring holds) is counted and ignored.
    void on_doorbell(std::uint32_t number, std::uint32_t value) {
        if (number >= regmap::max_queues || !queues_[number].used || value > 0xffffU) {
            ++statistics_.refused_doorbells;
            return;
        }
        Queue& queue = queues_[number];
        const auto index = static_cast<std::uint16_t>(value);
        if (queue.kind == QueueKind::completion) {
            if (distance(queue.consumed, index) > distance(queue.consumed, queue.produced))
                ++statistics_.refused_doorbells;
            else queue.consumed = index;
            serve_starved(number);
            return;
        }
        const std::uint16_t posted = distance(queue.consumed, index);
        if (posted > queue.entries() || posted < distance(queue.consumed, queue.produced)) {
            ++statistics_.refused_doorbells;
            return;
        }
        queue.produced = index;
        fetch(number);
    }

    /// Records asked for by hal().fetch have arrived (FetchOwner::queues). When they could not be read the
    /// ring is not where the driver said: the device stops itself.
    void on_fetched(std::uint32_t label, Status status, std::span<const std::uint8_t> bytes) {
        const std::uint32_t number = label % regmap::max_queues;
        Queue& queue = queues_[number];
        if (!queue.used || !queue.busy || label != label_of(number)) return;  // of a queue that is gone
        if (status != Status::ok || bytes.size() != std::size_t{queue.fetching} * queue.record_bytes) {
            context_.registers().fail(status != Status::ok ? status : Status::invalid_length);
            return;
        }
        hand_over(queue, bytes);
        if (label != label_of(number)) return;  // detached meanwhile
        queue.busy = false;
        fetch(number);
    }

    /// The owner has room again.
    void resume(std::uint32_t number) {
        if (number < regmap::max_queues) fetch(number);
    }

    /// Writes `completion` of a request of queue `number` to that queue's completion queue and raises the
    /// completion interrupt behind it; `queue` and `phase` are set here. A collective request was only taken
    /// when there was an entry for its completion. For a queue pair's, when the completion queue is full, the
    /// entry is lost, counted, and the queue pair is told once.
    void complete(std::uint32_t number, regmap::Completion completion) {
        if (number >= regmap::max_queues || !queues_[number].used ||
            queues_[number].kind == QueueKind::completion) {
            ++statistics_.lost_completions;
            return;
        }
        Queue& queue = queues_[number];
        Queue& ring = queues_[queue.completion_queue];
        // The administration's ring has no consumer index: each of its entries answers one request of a ring
        // of the same length.
        if (queue.promised != 0) {
            --queue.promised;
            --ring.promised;
        } else if (number != admin_queue && free_entries(ring) == 0) {
            ++statistics_.lost_completions;
            overflow(queue);
            return;
        }
        const std::uint32_t round = ring.produced >> ring.log2_entries;
        completion.queue = number;
        completion.phase = (round & 1) == 0 ? 1 : 0;
        std::uint8_t bytes[sizeof completion];
        std::memcpy(bytes, &completion, sizeof completion);
        context_.hal().write(ring.record_address(ring.produced), bytes);
        ++ring.produced;
        ++statistics_.completions;
        context_.registers().raise(interrupt_completion);
    }

    [[nodiscard]] const QueueStatistics& statistics() const { return statistics_; }

  private:
    static constexpr std::uint32_t admin_completion_queue =
        regmap::max_queues;  // behind those with a doorbell
    static constexpr std::uint32_t max_fetch_bytes = 4096;

    [[nodiscard]] bool is_queue(std::uint32_t number, QueueKind kind) const {
        return number != admin_queue && number < regmap::max_queues && queues_[number].used &&
               queues_[number].kind == kind;
    }

    void open(std::uint32_t number, QueueKind kind, std::uint16_t record, std::uint8_t log2_entries,
              std::uint64_t address) {
        Queue& queue = queues_[number];
        clear(queue);
        queue.address = address;
        queue.kind = kind;
        queue.record_bytes = record;
        queue.log2_entries = log2_entries;
        queue.used = true;
    }

    void clear(Queue& queue) {
        const std::uint32_t generation = queue.generation + 1;
        queue = Queue{};
        queue.generation = generation;
    }

    void cancel_fetch(Queue& queue) {
        ++queue.generation;
        queue.busy = false;
    }

    /// Queue number below, as much of its generation as fits above.
    [[nodiscard]] std::uint32_t label_of(std::uint32_t number) const {
        return queues_[number].generation * regmap::max_queues + number;
    }

    /// Fetches what is posted, as far as the owner has room: one batch at a time, not across the ring's end.
    /// What the owner has no room for any more when it arrives is fetched again later.
    void fetch(std::uint32_t number) {
        Queue& queue = queues_[number];
        if (!queue.used || queue.busy || queue.kind == QueueKind::completion ||
            !context_.registers().enabled())
            return;
        const std::uint32_t posted = distance(queue.consumed, queue.produced);
        if (posted == 0) return;
        const std::uint32_t to_end = queue.entries() - (queue.consumed & (queue.entries() - 1));
        const std::uint32_t count =
            std::min({posted, to_end, max_fetch_bytes / queue.record_bytes, room(queue)});
        if (count == 0) return;
        queue.busy = true;
        queue.fetching = static_cast<std::uint8_t>(count);
        ++statistics_.fetches;
        context_.hal().fetch(FetchTag{FetchOwner::queues, label_of(number)},
                             Segment{queue.record_address(queue.consumed), count * queue.record_bytes});
    }

    /// Collective queues that found no entry for their completions go on.
    void serve_starved(std::uint32_t completion_queue) {
        if (!queues_[completion_queue].starved) return;
        queues_[completion_queue].starved = false;
        for (std::uint32_t number = 1; number < regmap::max_queues; ++number) {
            const Queue& queue = queues_[number];
            if (queue.kind == QueueKind::collective && queue.completion_queue == completion_queue)
                fetch(number);
        }
    }

    /// Collective requests that may be taken without a completion having to be lost.
    [[nodiscard]] std::uint32_t collective_room(const Queue& queue) {
        Queue& ring = queues_[queue.completion_queue];
        const std::uint32_t free = free_entries(ring);
        ring.starved |= free == 0;
        return std::min(free, static_cast<std::uint32_t>(context_.ep().submit_room(queue.owner.number)));
    }

    /// Requests the owner takes now.
    [[nodiscard]] std::uint32_t room(const Queue& queue) {
        const std::uint32_t number = queue.owner.number;
        switch (queue.owner.kind) {
            case OwnerKind::none: return 0;
            case OwnerKind::admin: return context_.admin().submit_room();
            case OwnerKind::group: return collective_room(queue);
            case OwnerKind::qp:
                return static_cast<std::uint32_t>(queue.kind == QueueKind::send
                                                      ? context_.transport().submit_room(number)
                                                      : context_.transport().receive_room(number));
        }
        return 0;
    }

    void hand_over(Queue& queue, std::span<const std::uint8_t> bytes) {
        const std::uint32_t generation = queue.generation;
        for (std::size_t at = 0; at < bytes.size(); at += queue.record_bytes) {
            if (room(queue) == 0) return;
            const std::uint16_t index = queue.consumed++;
            ++statistics_.requests;
            take(queue, bytes.data() + at, index);
            // The owner's answer may have been to let go of the queue, or to stop the device.
            if (queue.generation != generation || !context_.registers().enabled()) return;
        }
    }

    void take(Queue& queue, const std::uint8_t* bytes, std::uint16_t index) {
        const std::uint32_t number = queue.owner.number;
        switch (queue.owner.kind) {
            case OwnerKind::none: return;
            case OwnerKind::admin: context_.admin().submit(copy<regmap::AdminRequest>(bytes), index); return;
            case OwnerKind::group:
                ++queue.promised;
                ++queues_[queue.completion_queue].promised;
                context_.ep().submit(number, copy<regmap::EpRequest>(bytes), index);
                return;
            case OwnerKind::qp:
                if (queue.kind == QueueKind::send)
                    context_.transport().submit(number, copy<regmap::WorkRequest>(bytes), index);
                else context_.transport().post_receive(number, copy<regmap::ReceiveRequest>(bytes), index);
                return;
        }
    }

    template <class Record>
    static Record copy(const std::uint8_t* bytes) {
        Record record;
        std::memcpy(&record, bytes, sizeof record);
        return record;
    }

    /// Told once: what the owner flushes in answer overflows again.
    void overflow(Queue& queue) {
        if (queue.overflowed) return;
        queue.overflowed = true;
        if (queue.owner.kind == OwnerKind::qp) context_.transport().queue_overflow(queue.owner.number);
    }

    Context& context_;
    std::span<Queue> queues_;
    QueueStatistics statistics_;
};

}  // namespace plait::firmware
