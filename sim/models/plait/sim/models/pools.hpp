// Memory for the hot path: nothing is allocated once a run has reached its maximum.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
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

inline constexpr size_t huge_page_bytes = size_t{2} << 20;

/// Frees what take_slab() gives.
template <typename T>
struct FreeSlab {
    size_t count = 0;
    void operator()(T* slab) const {
        std::destroy_n(slab, count);
        std::free(slab);
    }
};
template <typename T>
using Slab = std::unique_ptr<T, FreeSlab<T>>;

/// Objects beside each other. Many lie in a huge page, if the system has one: they are looked at in any
/// order, and a processor remembers where pages are for a few small ones only.
template <typename T>
Slab<T> take_slab(size_t count) {
    const size_t size = count * sizeof(T);
    const size_t alignment = size > huge_page_bytes / 2 ? huge_page_bytes : 64;
    const size_t rounded = (size + alignment - 1) / alignment * alignment;
    void* const bytes = std::aligned_alloc(alignment, rounded);
    if (bytes == nullptr) throw std::bad_alloc();
    if (alignment == huge_page_bytes) madvise(bytes, rounded, MADV_HUGEPAGE);
    T* const slab = static_cast<T*>(bytes);
    std::uninitialized_default_construct_n(slab, count);
    return Slab<T>(slab, FreeSlab<T>{count});
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
    static constexpr size_t prefetched_bytes = 192;

    // Pools of a single device stay small, those of all devices soon take huge pages.
    void add_slab() {
        const size_t count =
            std::clamp<size_t>(16 * made_, 16, std::max<size_t>(16, huge_page_bytes / sizeof(T)));
        T* const slab = slabs_.emplace_back(take_slab<T>(count)).get();
        made_ += count;
        for (size_t i = count; i-- > 0;) {
            free_.push_back(slab + i);
        }
    }

    std::vector<Slab<T>> slabs_;
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
