// The simulator's event list: a time wheel of sorted buckets with a heap for the far future.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace plait::sim {

// Events run in the order (time, tie, order of scheduling). `tie` orders events of the same instant: see
// tie_break() in random.hpp. Nothing is allocated once the number of pending events has reached its maximum.
class EventQueue {
  public:
    using Function = void (*)(void* object, uint64_t argument);
    static constexpr uint64_t never = UINT64_MAX;

    // What an event does when it runs, and what is done a few events before, if it is known by then: `expect`
    // may bring into the cache what `run` will look at, and must change nothing.
    struct Handler {
        constexpr Handler() = default;
        template <std::convertible_to<Function> Run>
        constexpr Handler(Run runs, Function expects = nullptr) : run(runs), expect(expects) {}

        Function run = nullptr;
        Function expect = nullptr;
    };

    EventQueue();
    EventQueue(const EventQueue&) = delete;
    EventQueue& operator=(const EventQueue&) = delete;

    // Calls handler.run(object, argument) at time_ps. `object` is borrowed until then. A time before
    // now_ps(), or `never`, is an error of the program: it aborts with a message.
    void schedule(uint64_t time_ps, uint32_t tie, Handler handler, void* object, uint64_t argument) {
        if (time_ps < now_ps_ || time_ps == never) {
            refuse(time_ps);
        }
        const uint32_t index = allocate();
        Event& event = pool_[index];
        event.handler = handler;
        event.object = object;
        event.argument = argument;
        event.time_ps = time_ps;
        event.tie = tie;
        ++pending_;
        const uint64_t bucket = time_ps >> bucket_bits;
        if (bucket <= bucket_) {
            insert_late(index);
        } else if (bucket - bucket_ < bucket_count) {
            insert_wheel(bucket, index);
        } else {
            insert_far(index);
        }
    }

    // Runs every event with time <= limit_ps, including those the handlers add. Afterwards now_ps() is
    // limit_ps, unless a handler called stop() or the limit is `never`: then it is the time of the last
    // event.
    void run_until(uint64_t limit_ps) {
        stopped_ = false;
        while (!stopped_ && run_one(limit_ps)) {
        }
        if (!stopped_ && limit_ps != never && limit_ps > now_ps_) {
            now_ps_ = limit_ps;
        }
    }

    // Runs the next event; false when there is none.
    bool step() { return run_one(never); }

    // Makes run_until return after the running handler.
    void stop() { stopped_ = true; }

    uint64_t now_ps() const { return now_ps_; }
    // Time of the next event, `never` when there is none.
    uint64_t next_time_ps() const;
    size_t pending() const { return pending_; }
    uint64_t processed() const { return processed_; }

  private:
    static constexpr unsigned bucket_bits = 12;  // 4096 ps a bucket: a handful of events in a busy fabric
    static constexpr uint64_t bucket_count = 16384;
    static constexpr uint64_t bucket_mask = bucket_count - 1;
    static constexpr uint32_t none = UINT32_MAX;
    static constexpr unsigned bin_bits = 5;  // 32 ps a bin: the few events of one are quickly sorted
    static constexpr uint64_t buckets_ahead = 6;
    static constexpr size_t events_ahead = 4;
    static constexpr size_t bin_count = size_t{1} << (bucket_bits - bin_bits);

    struct alignas(64) Event {
        Handler handler;
        void* object;
        uint64_t argument;
        uint64_t time_ps;
        uint32_t tie;
        uint32_t next;  // in a bucket's list or in the free list
    };
    static_assert(sizeof(Event) == 64, "one cache line");

    // Place in the bucket that is being run: offset in the bucket and tie in one number, then order of
    // scheduling.
    struct Key {
        uint64_t offset_and_tie;
        uint32_t order;
        uint32_t event;
        size_t bin() const { return offset_and_tie >> (32 + bin_bits); }
        bool operator<(const Key& other) const {
            return offset_and_tie != other.offset_and_tie ? offset_and_tie < other.offset_and_tie
                                                          : order < other.order;
        }
        bool operator>(const Key& other) const { return other < *this; }
    };

    // Where look_ahead() is in the list of a bucket.
    struct Ahead {
        uint64_t bucket = 0;
        uint32_t event = none;
    };

    struct FarKey {
        uint64_t time_ps;
        uint64_t order;
        uint32_t tie;
        uint32_t event;
        bool operator>(const FarKey& other) const;
    };

    uint32_t allocate() {
        if (free_ == none) {
            grow();
        }
        const uint32_t index = free_;
        free_ = pool_[index].next;
        return index;
    }

    void insert_wheel(uint64_t bucket, uint32_t index) {
        const size_t slot = bucket & bucket_mask;
        pool_[index].next = heads_[slot];
        heads_[slot] = index;
        occupied_[slot / 64] |= uint64_t{1} << (slot % 64);
        occupied_groups_[slot / 4096] |= uint64_t{1} << (slot / 64 % 64);
    }

    bool run_one(uint64_t limit_ps) {
        if (cursor_ == current_.size() && late_.empty() && !enter_next_bucket(limit_ps)) {
            return false;
        }
        const bool from_late =
            !late_.empty() && (cursor_ == current_.size() || late_.front() < current_[cursor_]);
        const uint32_t index = from_late ? late_.front().event : current_[cursor_].event;
        const Event event = pool_[index];  // a copy: the handler may make the pool grow
        if (event.time_ps > limit_ps) {
            return false;
        }
        if (from_late) {
            pop_late();
        } else {
            ++cursor_;
            expect(cursor_ + events_ahead - 1);
        }
        look_ahead();
        pool_[index].next = free_;
        free_ = index;
        now_ps_ = event.time_ps;
        --pending_;
        ++processed_;
        event.handler.run(event.object, event.argument);
        return true;
    }

    // For the event at this place of the bucket that is being run, if there is one.
    void expect(size_t place) const {
        if (place >= current_.size()) {
            return;
        }
        const Event& event = pool_[current_[place].event];
        if (event.handler.expect != nullptr) {
            event.handler.expect(event.object, event.argument);
        }
    }

    // Nobody has looked at the events of the next buckets, nor at the packets that are the arguments of most,
    // since they were scheduled: one is brought into the cache with each event that runs. Several buckets
    // take turns, so that the event that a list goes on with has come by its turn.
    void look_ahead() {
        Ahead& ahead = ahead_[ahead_turn_++ % ahead_.size()];
        if (ahead.event != none) {
            const Event& event = pool_[ahead.event];
            __builtin_prefetch(reinterpret_cast<const void*>(event.argument));
            __builtin_prefetch(reinterpret_cast<const void*>(event.argument + 64));
            ahead.event = event.next;
        }
        if (ahead.event == none && ahead_bucket_ - bucket_ < buckets_ahead) {
            ++ahead_bucket_;
            ahead = {ahead_bucket_, heads_[ahead_bucket_ & bucket_mask]};
        }
        if (ahead.event != none) {
            __builtin_prefetch(&pool_[ahead.event]);
        }
    }

    Key key_of(uint32_t index, uint32_t order) const {
        const Event& event = pool_[index];
        const uint64_t offset = event.time_ps & ((uint64_t{1} << bucket_bits) - 1);
        return {offset << 32 | event.tie, order, index};
    }

    [[noreturn]] void refuse(uint64_t time_ps) const;
    void grow();
    void insert_late(uint32_t index);
    void insert_far(uint32_t index);
    void pop_late();
    uint64_t next_occupied_bucket() const;
    bool enter_next_bucket(uint64_t limit_ps);
    void move_far_events();
    void sort_current();

    uint64_t now_ps_ = 0;
    uint64_t bucket_ =
        0;  // number of the bucket that is being run; the wheel holds the bucket_count - 1 after it
    size_t cursor_ = 0;
    std::vector<Key> current_;   // the bucket being run, sorted; cursor_ is the next one
    std::vector<Key> unsorted_;  // that bucket before it is sorted
    std::vector<Key> late_;      // heap of what was added to that bucket since it was sorted
    uint32_t late_order_ = 0;
    bool stopped_ = false;
    uint32_t free_ = none;
    std::vector<Event> pool_;
    std::vector<uint32_t> heads_;
    std::array<Ahead, 4> ahead_;
    uint32_t ahead_turn_ = 0;
    uint64_t ahead_bucket_ = 0;  // the last one of ahead_
    std::array<uint64_t, bucket_count / 64> occupied_{};
    std::array<uint64_t, bucket_count / 4096> occupied_groups_{};
    std::vector<FarKey> far_;  // heap
    uint64_t far_order_ = 0;
    size_t pending_ = 0;
    uint64_t processed_ = 0;
};

}  // namespace plait::sim
