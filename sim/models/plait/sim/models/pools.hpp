// Memory for the hot path: nothing is allocated once a run has reached its maximum.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include <plait/firmware/commands.hpp>

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

class HostMemory;
class NonFiniteCounters;
class PayloadPool;
class UnmadeBlocks;
struct PayloadBlock;

/// Part of a block; holds no reference of its own.
struct PayloadSlice {
    PayloadBlock* block = nullptr;
    uint32_t offset = 0;
    uint32_t length = 0;

    bool is_virtual() const;
};

/// The bytes of one packet, or a sum that is no packet's. Shared by reference: copies of a multicast are one
/// block. Bytes that follow from what does not change any more are made when somebody looks at them, at the
/// end of their way, in memory that is in the cache.
struct alignas(64) PayloadBlock {
    static constexpr uint32_t capacity = 4096;              ///< Of a packet.
    static constexpr uint32_t sum_capacity = 2 * capacity;  ///< 4096 elements rounded to BF16.
    /// Writes the bytes of `block`; may look at other blocks of the pool and release block.rows.
    using Make = void (*)(PayloadPool& pool, PayloadBlock& block);

    uint8_t* bytes = nullptr;  ///< Null: not made yet, or virtual.
    uint32_t references = 0;
    uint32_t length = 0;
    uint64_t sent_ps = 0;            ///< When firmware ordered the packet that first carried these bytes.
    Make make = nullptr;             ///< Null without bytes: virtual, a length only.
    std::vector<float> weights;      ///< Of the rows; empty: none is weighted.
    std::vector<PayloadSlice> rows;  ///< What the bytes are made from: with a reference of each block,
    HostMemory* memory = nullptr;    ///< or memory, borrowed,
    std::array<firmware::Segment, 2> segments{};  ///< and ranges of it.
    uint32_t bf16_rows = 0;                       ///< Whose format is BF16, whatever the reduction says,
    firmware::Reduction reduction{};              ///< how the rows are added up,
    NonFiniteCounters* counters = nullptr;        ///< and where the sum counts.
    UnmadeBlocks* unmade_in = nullptr;            ///< The list that the block is in until it is made,
    size_t unmade_place = 0;                      ///< and its place there.
};

/// Blocks that must be made before something can be known. Those that are made, or given back, leave by
/// themselves.
class UnmadeBlocks {
  public:
    UnmadeBlocks() = default;
    UnmadeBlocks(const UnmadeBlocks&) = delete;
    UnmadeBlocks& operator=(const UnmadeBlocks&) = delete;
    ~UnmadeBlocks() {
        for (PayloadBlock* const block : blocks_) {
            block->unmade_in = nullptr;
        }
    }

    void add(PayloadBlock& block) {
        block.unmade_in = this;
        block.unmade_place = blocks_.size();
        blocks_.push_back(&block);
    }
    /// From the list that it is in, if it is in any.
    static void remove(PayloadBlock& block) {
        UnmadeBlocks* const list = std::exchange(block.unmade_in, nullptr);
        if (list == nullptr) {
            return;
        }
        PayloadBlock* const last = list->blocks_.back();
        list->blocks_[block.unmade_place] = last;
        last->unmade_place = block.unmade_place;
        list->blocks_.pop_back();
    }
    /// Any of them; null: there is none.
    PayloadBlock* any() const { return blocks_.empty() ? nullptr : blocks_.back(); }

  private:
    std::vector<PayloadBlock*> blocks_;
};

inline bool PayloadSlice::is_virtual() const {
    return block == nullptr || (block->bytes == nullptr && block->make == nullptr);
}

/// Blocks and their bytes, for all devices of a cluster.
class PayloadPool {
  public:
    /// A block of `length` (at most PayloadBlock::sum_capacity) bytes with one reference; its content is left
    /// from before.
    PayloadBlock* take(uint32_t length) {
        PayloadBlock* const block = take_virtual(length);
        block->bytes = take_bytes(length);
        return block;
    }

    /// The same with bytes that `make` will write when they are asked for; the caller fills in what it needs.
    PayloadBlock* take_unmade(uint32_t length, PayloadBlock::Make make) {
        PayloadBlock* const block = take_virtual(length);
        block->make = make;
        return block;
    }

    /// The same without bytes.
    PayloadBlock* take_virtual(uint32_t length) {
        PayloadBlock* const block = blocks_.take();
        block->references = 1;
        block->length = length;
        block->make = nullptr;
        return block;
    }

    /// The bytes of a slice, valid as long as its block; null when it is virtual.
    const uint8_t* bytes(const PayloadSlice& slice) {
        if (slice.is_virtual()) {
            return nullptr;
        }
        PayloadBlock& block = *slice.block;
        if (block.bytes == nullptr) {
            UnmadeBlocks::remove(block);
            block.bytes = take_bytes(block.length);
            block.make(*this, block);
        }
        return block.bytes + slice.offset;
    }

    void retain(PayloadBlock* block) { ++block->references; }

    void release(PayloadBlock* block) {
        if (--block->references != 0) {
            return;
        }
        UnmadeBlocks::remove(*block);
        release_rows(*block);
        if (block->bytes != nullptr) {
            free_bytes(block->length).push_back(std::exchange(block->bytes, nullptr));
        }
        blocks_.give_back(block);
    }

    /// Forgets what the bytes are made from.
    void release_rows(PayloadBlock& block) {
        for (const PayloadSlice& row : block.rows) {
            release(row.block);
        }
        block.rows.clear();
        block.weights.clear();
    }

    size_t live() const { return blocks_.live(); }

  private:
    static constexpr size_t slab_blocks = 64;

    /// Places of the size that a length needs; the last one freed is in the cache.
    std::vector<uint8_t*>& free_bytes(uint32_t length) {
        return length > PayloadBlock::capacity ? free_large_ : free_;
    }

    uint8_t* take_bytes(uint32_t length) {
        std::vector<uint8_t*>& free = free_bytes(length);
        if (free.empty()) {
            const size_t size =
                length > PayloadBlock::capacity ? PayloadBlock::sum_capacity : PayloadBlock::capacity;
            auto& slab = slabs_.emplace_back(new uint8_t[slab_blocks * size]);
            for (size_t i = slab_blocks; i-- > 0;) {
                free.push_back(slab.get() + i * size);
            }
        }
        uint8_t* const bytes = free.back();
        free.pop_back();
        return bytes;
    }

    ObjectPool<PayloadBlock> blocks_;
    std::vector<std::unique_ptr<uint8_t[]>> slabs_;
    std::vector<uint8_t*> free_;        // of PayloadBlock::capacity each
    std::vector<uint8_t*> free_large_;  // of PayloadBlock::sum_capacity
};

}  // namespace plait::sim
