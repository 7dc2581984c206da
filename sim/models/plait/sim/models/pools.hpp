// Memory for the hot path: nothing is allocated once a run has reached its maximum.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
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
            return &objects_.emplace_back();
        }
        T* const object = free_.back();
        free_.pop_back();
        if (!free_.empty()) {
            prefetch(free_.back(), sizeof(T));  // cold, and the next one to be filled in
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
    std::deque<T> objects_;
    std::vector<T*> free_;
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

/// The bytes of one packet. Shared by reference: copies of a multicast are one block.
struct PayloadBlock {
    static constexpr uint32_t capacity = 4096;

    uint8_t* bytes = nullptr;  ///< Null: virtual, a length without bytes.
    uint32_t references = 0;
    uint32_t length = 0;
    uint64_t sent_ps = 0;  ///< When firmware ordered the packet that first carried these bytes.
};

/// Blocks with and without bytes, for all devices of a cluster.
class PayloadPool {
  public:
    /// A block of `length` (at most PayloadBlock::capacity) bytes with one reference; its content is left
    /// from before.
    PayloadBlock* take(uint32_t length, bool is_virtual) {
        PayloadBlock* block;
        if (is_virtual) {
            block = virtual_.take();
        } else {
            if (free_.empty()) {
                add_slab();
            }
            block = free_.back();
            free_.pop_back();
            ++live_;
        }
        block->references = 1;
        block->length = length;
        return block;
    }

    void retain(PayloadBlock* block) { ++block->references; }

    void release(PayloadBlock* block) {
        if (--block->references != 0) {
            return;
        }
        if (block->bytes == nullptr) {
            virtual_.give_back(block);
        } else {
            --live_;
            free_.push_back(block);
        }
    }

    size_t live() const { return live_ + virtual_.live(); }

  private:
    static constexpr size_t slab_blocks = 64;

    void add_slab() {
        auto& slab = slabs_.emplace_back(new uint8_t[slab_blocks * PayloadBlock::capacity]);
        for (size_t i = slab_blocks; i-- > 0;) {
            PayloadBlock& block = blocks_.emplace_back();
            block.bytes = slab.get() + i * PayloadBlock::capacity;
            free_.push_back(&block);
        }
    }

    std::deque<PayloadBlock> blocks_;
    std::vector<std::unique_ptr<uint8_t[]>> slabs_;
    std::vector<PayloadBlock*> free_;
    size_t live_ = 0;
    ObjectPool<PayloadBlock> virtual_;
};

/// Part of a block; holds no reference of its own.
struct PayloadSlice {
    PayloadBlock* block = nullptr;
    uint32_t offset = 0;
    uint32_t length = 0;

    bool is_virtual() const { return block == nullptr || block->bytes == nullptr; }
    const uint8_t* bytes() const { return is_virtual() ? nullptr : block->bytes + offset; }
};

}  // namespace plait::sim
