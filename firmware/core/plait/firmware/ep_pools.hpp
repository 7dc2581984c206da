#pragma once
// Finite pools of the EP engine: accumulators of the reduce engine, and the parts that entry devices owe to
// sources.

#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// Accumulators `first` .. `first + jobs.size() - 1` of the reduce engine and what each is used for, and
/// their room: four quarters each, which a sum takes from all. `jobs` stays the caller's.
class AccumulatorPool {
  public:
    AccumulatorPool() = default;
    AccumulatorPool(std::span<AccumulatorJob> jobs, std::uint32_t first)
        : jobs_(jobs),
          first_(first),
          free_(jobs.empty() ? no_index : 0),
          available_(static_cast<std::uint32_t>(jobs.size())),
          room_(4 * available_) {
        for (std::uint32_t i = 0; i < jobs.size(); ++i) {
            jobs_[i] = AccumulatorJob{};
            jobs_[i].next_free = i + 1 < jobs.size() ? i + 1 : no_index;
        }
    }

    /// For so many sums, which together take so many quarters?
    [[nodiscard]] bool has_room(std::uint32_t sums, std::uint32_t quarters) const {
        return sums <= available_ && quarters <= room_;
    }
    [[nodiscard]] std::uint32_t in_use() const {
        return static_cast<std::uint32_t>(jobs_.size()) - available_;
    }
    /// Contributions that may wait in packet memory for the accumulators in use.
    [[nodiscard]] std::uint32_t contributions() const { return contributions_; }
    [[nodiscard]] bool owns(std::uint32_t accumulator) const {
        return accumulator >= first_ && accumulator - first_ < jobs_.size();
    }
    [[nodiscard]] AccumulatorJob& job(std::uint32_t accumulator) { return jobs_[accumulator - first_]; }

    /// Only when there is room.
    std::uint32_t take(const AccumulatorJob& job) {
        const std::uint32_t i = free_;
        free_ = jobs_[i].next_free;
        --available_;
        jobs_[i] = job;
        contributions_ += job.contributions;
        room_ -= job.room;
        return first_ + i;
    }

    void give_back(std::uint32_t accumulator) {
        const std::uint32_t i = accumulator - first_;
        contributions_ -= jobs_[i].contributions;
        room_ += jobs_[i].room;
        jobs_[i] = AccumulatorJob{};
        jobs_[i].next_free = free_;
        free_ = i;
        ++available_;
    }

    /// Every accumulator in use; the visitor may give it back.
    template <class Visitor>
    void for_each(Visitor&& visitor) {
        for (std::uint32_t i = 0; i < jobs_.size(); ++i) {
            if (jobs_[i].use != AccumulatorUse::free) visitor(first_ + i, jobs_[i]);
        }
    }

  private:
    std::span<AccumulatorJob> jobs_;
    std::uint32_t first_ = 0;
    std::uint32_t free_ = no_index;
    std::uint32_t available_ = 0;
    std::uint32_t room_ = 0;  ///< Quarters that are free.
    std::uint32_t contributions_ = 0;
};

/// Slots of parts owed to sources. `slots` stays the caller's.
class PartialPool {
  public:
    PartialPool() = default;
    explicit PartialPool(std::span<PartialSlot> slots) : slots_(slots), free_(slots.empty() ? no_index : 0) {
        for (std::uint32_t i = 0; i < slots.size(); ++i) {
            slots_[i] = PartialSlot{};
            slots_[i].next_free = i + 1 < slots.size() ? i + 1 : no_index;
        }
    }

    [[nodiscard]] bool empty() const { return free_ == no_index; }
    [[nodiscard]] std::uint32_t in_use() const { return in_use_; }

    /// Only when not empty.
    std::uint32_t take(const PartialSlot& slot) {
        const std::uint32_t i = free_;
        free_ = slots_[i].next_free;
        slots_[i] = slot;
        slots_[i].next_free = no_index;
        ++in_use_;
        return i;
    }

    void give_back(std::uint32_t i) {
        slots_[i] = PartialSlot{};
        slots_[i].next_free = free_;
        free_ = i;
        --in_use_;
    }

    PartialSlot& operator[](std::uint32_t i) { return slots_[i]; }

  private:
    std::span<PartialSlot> slots_;
    std::uint32_t free_ = no_index;
    std::uint32_t in_use_ = 0;
};

}  // namespace plait::firmware
