// What measured handlers took, kept so that a cost for each of their parts can be fitted.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <plait/sim/models/work.hpp>

namespace plait::sim {

/// Sums over all handlers of each kind of work: with x = (1, parts...) and y = instructions, those of x x^T
/// and x y. Whole numbers, so that the order of devices means nothing.
class CostSamples {
  public:
    static constexpr size_t terms = work_parts + 1;  ///< A constant, then the parts.
    using Parts = std::array<uint32_t, work_parts>;

    struct Sums {
        std::array<std::array<uint64_t, terms>, terms> products{};
        std::array<uint64_t, terms> instructions{};
    };

    void add(Work work, const Parts& parts, uint64_t instructions) {
        Sums& sums = sums_[static_cast<size_t>(work)];
        std::array<uint64_t, terms> x{1};
        std::copy(parts.begin(), parts.end(), x.begin() + 1);
        for (size_t i = 0; i < terms; ++i) {
            if (x[i] == 0) continue;
            for (size_t k = 0; k < terms; ++k) sums.products[i][k] += x[i] * x[k];
            sums.instructions[i] += x[i] * instructions;
        }
    }

    void add_size(Work work, uint32_t size, uint64_t instructions) {
        Parts parts{};
        parts[static_cast<size_t>(WorkPart::size)] = size;
        add(work, parts, instructions);
    }

    CostSamples& operator+=(const CostSamples& other) {
        for (size_t kind = 0; kind < work_kinds; ++kind) {
            for (size_t i = 0; i < terms; ++i) {
                for (size_t k = 0; k < terms; ++k)
                    sums_[kind].products[i][k] += other.sums_[kind].products[i][k];
                sums_[kind].instructions[i] += other.sums_[kind].instructions[i];
            }
        }
        return *this;
    }

    const Sums& of(Work work) const { return sums_[static_cast<size_t>(work)]; }

  private:
    std::array<Sums, work_kinds> sums_{};
};

}  // namespace plait::sim
