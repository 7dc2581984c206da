#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

namespace plait::engines {

/// One counter: what has been placed, and the releases that wait for more. Owned by the table's owner.
struct OrderCounter {
    uint64_t placed = 0;
    uint32_t first_waiting = 0;
};

/// One place for a waiting release. Owned by the table's owner.
struct OrderRelease {
    uint64_t required = 0;
    uint64_t tag = 0;
    uint32_t next = 0;
};

enum class ReleaseStatus : uint8_t {
    fired,            ///< everything required is already placed: act now; the table keeps nothing
    waiting,          ///< kept; place() reports the tag when the counter gets there
    refused_full,     ///< no place left for a waiting release; nothing kept
    refused_counter,  ///< no such counter; nothing kept
};

enum class PlaceStatus : uint8_t {
    placed,
    refused_counter,   ///< no such counter; nothing counted
    refused_overflow,  ///< the count would pass 2^64 - 1; nothing counted
};

/// Receiver-side ordering: counters of what has been placed (packets or bytes, as the owner decides), and
/// releases (flags, immediates, completions) that wait until a counter reaches what they require.
///
/// Releases of one counter fire in order of requirement, equal ones in order of arrival. Works on the owner's
/// memory, which must outlive it; the pool of waiting releases is shared by all counters.
class OrderTable {
  public:
    /// Takes over both arrays and starts anew, all counts zero. More than 2^32 - 2 entries of either are left
    /// unused.
    constexpr void configure(std::span<OrderCounter> counters, std::span<OrderRelease> pool) {
        counters_ = counters.first(usable(counters.size()));
        pool_ = pool.first(usable(pool.size()));
        for (OrderCounter& counter : counters_) counter = {0, none};
        for (size_t i = 0; i < pool_.size(); ++i)
            pool_[i].next = i + 1 < pool_.size() ? static_cast<uint32_t>(i + 1) : none;
        free_ = pool_.empty() ? none : 0;
        waiting_ = 0;
    }

    /// Counts `amount` more and calls `fired(tag)` for each release that this satisfies. A release has left
    /// the table when its tag is reported, so `fired` may use the table.
    template <typename Fired>
    constexpr PlaceStatus place(uint32_t counter, uint64_t amount, Fired&& fired) {
        if (counter >= counters_.size()) return PlaceStatus::refused_counter;
        OrderCounter& entry = counters_[counter];
        if (amount > std::numeric_limits<uint64_t>::max() - entry.placed)
            return PlaceStatus::refused_overflow;
        entry.placed += amount;
        while (entry.first_waiting != none && pool_[entry.first_waiting].required <= entry.placed)
            fired(take_first(entry));
        return PlaceStatus::placed;
    }

    /// Asks to release `tag` once `counter` has reached `required`.
    constexpr ReleaseStatus release(uint32_t counter, uint64_t required, uint64_t tag) {
        if (counter >= counters_.size()) return ReleaseStatus::refused_counter;
        OrderCounter& entry = counters_[counter];
        if (entry.placed >= required) return ReleaseStatus::fired;
        if (free_ == none) return ReleaseStatus::refused_full;
        const uint32_t taken = std::exchange(free_, pool_[free_].next);
        uint32_t* link = &entry.first_waiting;
        while (*link != none && pool_[*link].required <= required) link = &pool_[*link].next;
        pool_[taken] = {required, tag, *link};
        *link = taken;
        ++waiting_;
        return ReleaseStatus::waiting;
    }

    /// Sets the count back to zero and drops what waits for it, reporting each dropped tag to `dropped(tag)`.
    /// False if there is no such counter.
    template <typename Dropped>
    constexpr bool reset(uint32_t counter, Dropped&& dropped) {
        if (counter >= counters_.size()) return false;
        OrderCounter& entry = counters_[counter];
        entry.placed = 0;
        while (entry.first_waiting != none) dropped(take_first(entry));
        return true;
    }

    /// The count; 0 if there is no such counter.
    constexpr uint64_t placed(uint32_t counter) const {
        return counter < counters_.size() ? counters_[counter].placed : 0;
    }

    /// Releases waiting now, over all counters.
    constexpr uint32_t waiting() const { return waiting_; }

  private:
    static constexpr uint32_t none = UINT32_MAX;

    static constexpr size_t usable(size_t entries) { return entries < none ? entries : none - 1; }

    constexpr uint64_t take_first(OrderCounter& entry) {
        const uint32_t taken = entry.first_waiting;
        entry.first_waiting = pool_[taken].next;
        pool_[taken].next = std::exchange(free_, taken);
        --waiting_;
        return pool_[taken].tag;
    }

    std::span<OrderCounter> counters_;
    std::span<OrderRelease> pool_;
    uint32_t free_ = none;
    uint32_t waiting_ = 0;
};

}  // namespace plait::engines
