// Memory for the hot path: nothing is allocated once a run has reached its maximum.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace plait::sim {

/// Asks for bytes that lie in no cache any more, all at once: payload was written some microseconds of
/// simulated time ago.
inline void prefetch(const void* bytes, size_t length) {
    constexpr size_t line_bytes = 64;
    for (size_t at = 0; at < length; at += line_bytes) {
        __builtin_prefetch(static_cast<const std::byte*>(bytes) + at);
    }
}

/// Objects that are made once and used again. Objects keep their last content; whoever takes one sets what it
/// needs.
template <typename T>
class ObjectPool {
  public:
    T* take() {
        ++live_;
        if (free_.empty()) {
            add_slab();
        }
        T* const object = free_.back();
        free_.pop_back();
        if (!free_.empty()) {  // cold, and the next one to be filled in, mostly at its beginning
            prefetch(free_.back(), std::min(sizeof(T), prefetched_bytes));
        }
        return object;
    }

    void give_back(T* object) {
        --live_;
        free_.push_back(object);
    }

    /// Objects taken and not given back.
    size_t live() const { return live_; }

  private:
    static constexpr size_t max_slab_bytes = size_t{1} << 20;
    static constexpr size_t prefetched_bytes = 192;

    // As many as there are, up to a limit.
    void add_slab() {
        const size_t count = std::clamp<size_t>(made_, 16, std::max<size_t>(16, max_slab_bytes / sizeof(T)));
        T* const slab = slabs_.emplace_back(std::make_unique<T[]>(count)).get();
        made_ += count;
        for (size_t i = count; i-- > 0;) {
            free_.push_back(slab + i);
        }
    }

    std::vector<std::unique_ptr<T[]>> slabs_;
    std::vector<T*> free_;
    size_t made_ = 0;
    size_t live_ = 0;
};

/// A FIFO in a growing ring.
template <typename T>
class Ring {
  public:
    bool empty() const { return head_ == tail_; }
    size_t size() const { return tail_ - head_; }
    T& front() { return items_[head_ & (items_.size() - 1)]; }
    const T& front() const { return items_[head_ & (items_.size() - 1)]; }
    T& operator[](size_t i) { return items_[(head_ + i) & (items_.size() - 1)]; }  // from the front
    T& back() { return items_[(tail_ - 1) & (items_.size() - 1)]; }

    void push(T item) {
        if (size() == items_.size()) {
            grow();
        }
        items_[tail_++ & (items_.size() - 1)] = std::move(item);
    }

    void pop() { ++head_; }

  private:
    void grow() {
        std::vector<T> larger(items_.empty() ? 16 : 2 * items_.size());
        const size_t count = size();
        for (size_t i = 0; i < count; ++i) {
            larger[i] = std::move(items_[(head_ + i) & (items_.size() - 1)]);
        }
        items_ = std::move(larger);
        head_ = 0;
        tail_ = count;
    }

    std::vector<T> items_;
    size_t head_ = 0;
    size_t tail_ = 0;
};

}  // namespace plait::sim
