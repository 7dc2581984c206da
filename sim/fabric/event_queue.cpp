#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <plait/sim/fabric/event_queue.hpp>
#include <utility>

namespace plait::sim {

bool EventQueue::FarKey::operator>(const FarKey& other) const {
    if (time_ps != other.time_ps) {
        return time_ps > other.time_ps;
    }
    return tie != other.tie ? tie > other.tie : order > other.order;
}

EventQueue::EventQueue() : heads_(bucket_count, none) {}

void EventQueue::refuse(uint64_t time_ps) const {
    std::fprintf(stderr, "EventQueue: event for %llu ps scheduled at %llu ps\n",
                 static_cast<unsigned long long>(time_ps), static_cast<unsigned long long>(now_ps_));
    std::abort();
}

void EventQueue::grow() {
    const size_t old_size = pool_.size();
    const size_t new_size = std::max<size_t>(1024, 2 * old_size);
    if (new_size > none) {
        std::fprintf(stderr, "EventQueue: more than %zu events are pending\n", old_size);
        std::abort();
    }
    pool_.resize(new_size);
    for (size_t i = new_size; i-- > old_size;) {
        pool_[i].next = free_;
        free_ = static_cast<uint32_t>(i);
    }
}

void EventQueue::insert_late(uint32_t index) {
    if (late_order_ == UINT32_MAX) {
        std::fprintf(stderr, "EventQueue: time does not advance beyond %llu ps\n",
                     static_cast<unsigned long long>(now_ps_));
        std::abort();
    }
    late_.push_back(key_of(index, late_order_++));
    std::push_heap(late_.begin(), late_.end(), std::greater<>{});
}

void EventQueue::pop_late() {
    std::pop_heap(late_.begin(), late_.end(), std::greater<>{});
    late_.pop_back();
}

void EventQueue::insert_far(uint32_t index) {
    far_.push_back({pool_[index].time_ps, far_order_++, pool_[index].tie, index});
    std::push_heap(far_.begin(), far_.end(), std::greater<>{});
}

// Far events enter the wheel in their final order, and before anything can be scheduled into their bucket
// directly: so the order of a bucket's list is the order of scheduling among events of the same time and tie.
void EventQueue::move_far_events() {
    while (!far_.empty() && (far_.front().time_ps >> bucket_bits) - bucket_ < bucket_count) {
        const FarKey key = far_.front();
        std::pop_heap(far_.begin(), far_.end(), std::greater<>{});
        far_.pop_back();
        insert_wheel(key.time_ps >> bucket_bits, key.event);
    }
}

// First occupied bucket after bucket_, in the wheel or else among the far events; `never` when there is none.
uint64_t EventQueue::next_occupied_bucket() const {
    const uint64_t first = bucket_ + 1;
    const size_t start = first & bucket_mask;
    const auto distance = [&](size_t slot) { return (slot - start) & bucket_mask; };
    const size_t words = occupied_.size();
    const uint64_t head = occupied_[start / 64] >> (start % 64);
    if (head != 0) {
        return first + static_cast<uint64_t>(std::countr_zero(head));
    }
    // Words after the first one, in wheel order, by way of the groups; the first word comes last, with its
    // low bits.
    size_t word = start / 64 + 1;
    for (size_t seen = 0; seen <= occupied_groups_.size(); ++seen) {
        word %= words;
        const uint64_t group = occupied_groups_[word / 64] >> (word % 64);
        if (group != 0) {
            word += static_cast<size_t>(std::countr_zero(group));
            const size_t slot = word * 64 + static_cast<size_t>(std::countr_zero(occupied_[word]));
            return first + distance(slot);
        }
        word = (word / 64 + 1) * 64;
    }
    return far_.empty() ? never : far_.front().time_ps >> bucket_bits;
}

// Many are put into bins first, so that hardly any comparison is left: their outcomes are random, and a
// processor guesses half of them wrong.
void EventQueue::sort_current() {
    constexpr size_t few = 16;
    if (unsorted_.size() <= few) {
        std::sort(unsorted_.begin(), unsorted_.end());
        std::swap(current_, unsorted_);
        return;
    }
    std::array<uint32_t, bin_count> ends{};
    for (const Key& key : unsorted_) {
        ++ends[key.bin()];
    }
    uint32_t end = 0;
    for (uint32_t& bin : ends) {
        end += std::exchange(bin, end);
    }
    current_.resize(unsorted_.size());
    for (const Key& key : unsorted_) {
        current_[ends[key.bin()]++] = key;
    }
    uint32_t begin = 0;
    for (const uint32_t bin_end : ends) {
        if (bin_end - begin > 1) {
            std::sort(current_.begin() + begin, current_.begin() + bin_end);
        }
        begin = bin_end;
    }
}

bool EventQueue::enter_next_bucket(uint64_t limit_ps) {
    const uint64_t next = next_occupied_bucket();
    // A bucket after the limit stays closed: events before it may still be scheduled from outside.
    if (next == never || next > limit_ps >> bucket_bits) {
        return false;
    }
    bucket_ = next;
    move_far_events();

    const size_t slot = bucket_ & bucket_mask;
    unsorted_.clear();
    cursor_ = 0;
    for (uint32_t index = heads_[slot]; index != none; index = pool_[index].next) {
        unsorted_.push_back(key_of(index, 0));
    }
    late_order_ = static_cast<uint32_t>(unsorted_.size());
    for (size_t i = 0; i < unsorted_.size(); ++i) {
        unsorted_[i].order = late_order_ - 1 - static_cast<uint32_t>(i);  // the list runs from the newest
    }
    sort_current();
    for (size_t place = 0; place < events_ahead; ++place) {
        expect(place);
    }

    ahead_bucket_ = std::max(ahead_bucket_, bucket_);
    for (Ahead& ahead : ahead_) {
        if (ahead.bucket <= bucket_) {
            ahead.event = none;
        }
    }
    heads_[slot] = none;
    occupied_[slot / 64] &= ~(uint64_t{1} << (slot % 64));
    if (occupied_[slot / 64] == 0) {
        occupied_groups_[slot / 4096] &= ~(uint64_t{1} << (slot / 64 % 64));
    }
    return true;
}

uint64_t EventQueue::next_time_ps() const {
    uint64_t earliest = never;
    if (cursor_ < current_.size()) {
        earliest = pool_[current_[cursor_].event].time_ps;
    }
    if (!late_.empty()) {
        earliest = std::min(earliest, pool_[late_.front().event].time_ps);
    }
    if (earliest != never || pending_ == 0) {
        return earliest;
    }
    const uint64_t bucket = next_occupied_bucket();
    if (bucket - bucket_ >= bucket_count) {
        return far_.front().time_ps;
    }
    for (uint32_t index = heads_[bucket & bucket_mask]; index != none; index = pool_[index].next) {
        earliest = std::min(earliest, pool_[index].time_ps);
    }
    return earliest;
}

}  // namespace plait::sim
