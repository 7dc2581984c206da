// Payload: what packets, frames and packet memory refer to, and how its bytes are made.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <plait/engines/reduce.hpp>
#include <plait/firmware/commands.hpp>
#include <plait/sim/models/pools.hpp>

namespace plait::sim {

class HostMemory;
class NonFiniteCounters;
class PayloadPool;
class UnmadeSums;
struct Addends;
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
/// end of their way, in memory that is in the cache. One cache line: a great many are under way.
struct alignas(64) PayloadBlock {
    static constexpr uint32_t capacity = 4096;              ///< Of a packet.
    static constexpr uint32_t sum_capacity = 2 * capacity;  ///< 4096 elements rounded to BF16.
    /// Writes the bytes of `block`; may look at other blocks of the pool and forget what it is made from.
    using Make = void (*)(PayloadPool& pool, PayloadBlock& block);

    uint8_t* bytes = nullptr;  ///< Null: not made yet, or virtual.
    uint32_t references = 0;
    uint16_t length = 0;
    uint16_t first_length = 0;     ///< Of the first range of memory; the second has the rest.
    uint64_t sent_ps = 0;          ///< When firmware ordered the packet that first carried these bytes.
    Make make = nullptr;           ///< Null without bytes: virtual, a length only.
    Addends* addends = nullptr;    ///< What the bytes are made from: a sum's rows,
    HostMemory* memory = nullptr;  ///< or memory, borrowed (else null),
    std::array<uint64_t, 2> addresses{};  ///< and ranges of it.
};
static_assert(sizeof(PayloadBlock) == 64);

/// What a sum is made from.
struct alignas(64) Addends {
    firmware::Reduction reduction{};        ///< How the rows are added up,
    NonFiniteCounters* counters = nullptr;  ///< and where the sum counts.
    UnmadeSums* unmade_in = nullptr;        ///< The list that the sum is in until it is made,
    uint64_t unmade_number = 0;             ///< and its number there.
    uint32_t row_count = 0;
    uint32_t bf16_rows = 0;  ///< A bit each: whose format is BF16, whatever the reduction says.
    bool is_weighted = false;
    std::array<PayloadSlice, engines::ReduceSlot::max_contributions> rows;  ///< With a reference of each.
    std::array<float, engines::ReduceSlot::max_contributions> weights;      ///< Of the rows.
};

/// Sums that must be made before something can be known. Those that are made, or given back, leave by
/// themselves.
class UnmadeSums {
  public:
    UnmadeSums() = default;
    UnmadeSums(const UnmadeSums&) = delete;
    UnmadeSums& operator=(const UnmadeSums&) = delete;
    ~UnmadeSums() {
        while (PayloadBlock* const sum = any()) {
            remove(*sum->addends);
        }
    }

    void add(PayloadBlock& sum) {
        sum.addends->unmade_in = this;
        sum.addends->unmade_number = first_ + sums_.size();
        sums_.push(&sum);
    }
    /// From the list that it is in, if it is in any.
    static void remove(Addends& addends) {
        if (UnmadeSums* const list = std::exchange(addends.unmade_in, nullptr)) {
            list->sums_[addends.unmade_number - list->first_] = nullptr;
            list->skip_gone();
        }
    }
    /// The one that has been here longest; null: there is none.
    PayloadBlock* any() const { return sums_.empty() ? nullptr : sums_.front(); }

  private:
    void skip_gone() {
        for (; !sums_.empty() && sums_.front() == nullptr; ++first_) {
            sums_.pop();
        }
    }

    Ring<PayloadBlock*> sums_;  // in order of arrival; null: gone
    uint64_t first_ = 0;        // number of the first one
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
        block->length = static_cast<uint16_t>(length);
        block->make = nullptr;
        block->memory = nullptr;
        return block;
    }

    /// For the sum of a block, which gives them back; empty.
    Addends* take_addends() {
        Addends* const addends = addends_.take();
        addends->row_count = 0;
        addends->is_weighted = false;
        return addends;
    }

    /// The bytes of a slice, valid as long as its block; null when it is virtual.
    const uint8_t* bytes(const PayloadSlice& slice) {
        if (slice.is_virtual()) {
            return nullptr;
        }
        PayloadBlock& block = *slice.block;
        if (block.bytes == nullptr) {
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
        forget_addends(*block);
        if (block->bytes != nullptr) {
            free_bytes(block->length).push_back(std::exchange(block->bytes, nullptr));
        }
        blocks_.give_back(block);
    }

    /// Forgets what a sum is made from.
    void forget_addends(PayloadBlock& block) {
        Addends* const addends = std::exchange(block.addends, nullptr);
        if (addends == nullptr) {
            return;
        }
        UnmadeSums::remove(*addends);
        for (uint32_t i = 0; i < addends->row_count; ++i) {
            release(addends->rows[i].block);
        }
        addends_.give_back(addends);
    }

    size_t live() const { return blocks_.live(); }

  private:
    static constexpr size_t slab_bytes = huge_page_bytes;

    /// Places of the size that a length needs; the last one freed is in the cache.
    std::vector<uint8_t*>& free_bytes(uint32_t length) {
        return length > PayloadBlock::capacity ? free_large_ : free_;
    }

    uint8_t* take_bytes(uint32_t length) {
        std::vector<uint8_t*>& free = free_bytes(length);
        if (free.empty()) {
            const size_t size =
                length > PayloadBlock::capacity ? PayloadBlock::sum_capacity : PayloadBlock::capacity;
            uint8_t* const slab = slabs_.emplace_back(take_slab<uint8_t>(slab_bytes)).get();
            for (size_t at = slab_bytes; at != 0; at -= size) {
                free.push_back(slab + at - size);
            }
        }
        uint8_t* const bytes = free.back();
        free.pop_back();
        return bytes;
    }

    ObjectPool<PayloadBlock> blocks_;
    ObjectPool<Addends> addends_;
    std::vector<Slab<uint8_t>> slabs_;
    std::vector<uint8_t*> free_;        // of PayloadBlock::capacity each
    std::vector<uint8_t*> free_large_;  // of PayloadBlock::sum_capacity
};

}  // namespace plait::sim
