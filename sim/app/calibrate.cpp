// A table of costs out of what handlers were measured to take.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <plait/sim/app/report.hpp>

namespace plait::sim {
namespace {

constexpr size_t terms = CostSamples::terms;
using Vector = std::array<double, terms>;
using Matrix = std::array<Vector, terms>;

// Gauss-Jordan elimination with pivots from the diagonal, of a matrix that has no negative eigenvalues. A
// term that follows from others gets 0.
Vector solve(Matrix a, Vector b, const std::array<bool, terms>& is_used) {
    constexpr double nothing = 1e-9;  // of what was there
    Vector before{};
    for (size_t i = 0; i < terms; ++i) before[i] = a[i][i];
    std::array<bool, terms> is_done{};
    for (;;) {
        size_t pivot = terms;
        for (size_t i = 0; i < terms; ++i) {
            if (!is_used[i] || is_done[i] || a[i][i] <= nothing * before[i]) continue;
            if (pivot == terms || a[i][i] / before[i] > a[pivot][pivot] / before[pivot]) pivot = i;
        }
        if (pivot == terms) break;
        is_done[pivot] = true;
        for (size_t row = 0; row < terms; ++row) {
            if (row == pivot) continue;
            const double factor = a[row][pivot] / a[pivot][pivot];
            for (size_t i = 0; i < terms; ++i) a[row][i] -= factor * a[pivot][i];
            b[row] -= factor * b[pivot];
        }
    }
    Vector x{};
    for (size_t i = 0; i < terms; ++i)
        if (is_done[i]) x[i] = b[i] / a[i][i];
    return x;
}

// Without the term that is most below zero, until none is.
Vector fit(const CostSamples::Sums& sums) {
    Matrix products{};
    Vector instructions{};
    for (size_t i = 0; i < terms; ++i) {
        for (size_t k = 0; k < terms; ++k) products[i][k] = static_cast<double>(sums.products[i][k]);
        instructions[i] = static_cast<double>(sums.instructions[i]);
    }
    std::array<bool, terms> is_used;
    is_used.fill(true);
    for (;;) {
        const Vector costs = solve(products, instructions, is_used);
        const auto least = std::min_element(costs.begin(), costs.end());
        if (*least >= 0) return costs;
        is_used[static_cast<size_t>(least - costs.begin())] = false;
    }
}

}  // namespace

HandlerCosts fit_costs(const CostSamples& samples) {
    HandlerCosts costs{.instructions = {}, .each = {}};
    for (size_t kind = 0; kind < work_kinds; ++kind) {
        const CostSamples::Sums& sums = samples.of(static_cast<Work>(kind));
        const uint64_t events = sums.products[0][0];
        if (events == 0) continue;
        const Vector fitted = fit(sums);
        double rest = static_cast<double>(sums.instructions[0]);
        for (size_t part = 0; part < work_parts; ++part) {
            costs.each[kind][part] = static_cast<uint32_t>(std::lround(fitted[part + 1]));
            rest -= static_cast<double>(costs.each[kind][part] * sums.products[0][part + 1]);
        }
        const double mean = rest / static_cast<double>(events);  // what rounding has left
        costs.instructions[kind] = static_cast<uint32_t>(std::lround(std::max(mean, 0.0)));
    }
    return costs;
}

std::string calibration_text(const CostSamples& samples) {
    const HandlerCosts costs = fit_costs(samples);
    std::string text = "[device.instructions]\n";
    std::string each;
    for (size_t kind = 0; kind < work_kinds; ++kind) {
        const auto work = static_cast<Work>(kind);
        if (samples.of(work).products[0][0] == 0) continue;
        text += fmt::format("{} = {}\n", work_name(work), costs.instructions[kind]);
        std::string parts;
        for (size_t part = 0; part < work_parts; ++part) {
            if (costs.each[kind][part] != 0)
                parts += fmt::format("{}{} = {}", parts.empty() ? "" : ", ",
                                     work_part_name(static_cast<WorkPart>(part)), costs.each[kind][part]);
        }
        if (!parts.empty()) each += fmt::format("{} = {{ {} }}\n", work_name(work), parts);
    }
    if (!each.empty()) text += "[device.instructions.each]\n" + each;
    return text;
}

}  // namespace plait::sim
