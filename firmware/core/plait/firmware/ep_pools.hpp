#pragma once
// Finite pools of the EP engine: accumulators of the reduce engine, and the parts that entry devices owe to
// sources.

#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// Accumulators `first` .. `first + jobs.size() - 1` of the reduce engine and what sum each makes, and
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
            jobs_[i] =
                AccumulatorJob{.round = jobs_[i].round, .slot = i + 1 < jobs.size() ? i + 1 : no_index};
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
    /// Is this one of the sums that are being made here? None that is over has its name, see SumName.
    [[nodiscard]] bool has(std::uint32_t sum) const {
        const std::uint32_t accumulator = SumName::accumulator(sum);
        return accumulator >= first_ && accumulator - first_ < jobs_.size() &&
               jobs_[accumulator - first_].use != AccumulatorUse::free && name(accumulator - first_) == sum;
    }
    /// It may be asked for this sum soon: the job is brought into the cache.
    void expect(std::uint32_t sum) const {
        const std::uint32_t i = index(sum);
        if (i < jobs_.size()) __builtin_prefetch(&jobs_[i]);
    }
    /// Only of one that it has.
    [[nodiscard]] AccumulatorJob& job(std::uint32_t sum) { return jobs_[index(sum)]; }

    /// Only when there is room. Answers the sum's name.
    std::uint32_t take(const AccumulatorJob& job) {
        const std::uint32_t i = free_;
        const auto round = static_cast<std::uint8_t>(jobs_[i].round + 1);
        free_ = jobs_[i].slot;
        --available_;
        jobs_[i] = job;
        jobs_[i].round = round;
        contributions_ += job.contributions;
        room_ -= job.room;
        return name(i);
    }

    /// Only one that it has.
    void give_back(std::uint32_t sum) {
        const std::uint32_t i = index(sum);
        contributions_ -= jobs_[i].contributions;
        room_ += jobs_[i].room;
        jobs_[i] = AccumulatorJob{.round = jobs_[i].round, .slot = free_};
        free_ = i;
        ++available_;
    }

    /// Every sum that is being made; the visitor may give it back.
    template <class Visitor>
    void for_each(Visitor&& visitor) {
        for (std::uint32_t i = 0; i < jobs_.size(); ++i) {
            if (jobs_[i].use != AccumulatorUse::free) visitor(name(i), jobs_[i]);
        }
    }

    /// Gives back the sums of one handle; the visitor sees each before.
    template <class Visitor>
    void give_back_all(std::uint8_t group, std::uint8_t handle, Visitor&& visitor) {
        for_each([&](std::uint32_t sum, const AccumulatorJob& job) {
            if (job.group != group || job.handle != handle) return;
            visitor(sum, job);
            give_back(sum);
        });
    }

  private:
    [[nodiscard]] std::uint32_t name(std::uint32_t i) const {
        return SumName::of(first_ + i, jobs_[i].round);
    }
    [[nodiscard]] std::uint32_t index(std::uint32_t sum) const { return SumName::accumulator(sum) - first_; }

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
