#include <plait/sim/models/firmware_cores.hpp>

#include <algorithm>

namespace plait::sim {

FirmwareCores::FirmwareCores(sc_core::sc_module_name module_name, const EventQueue& queue,
                             const CoreParameters& parameters)
    : sc_module(module_name),
      queue_(queue),
      measured_(parameters.costs_are_measured),
      cores_(parameters.cores),
      instruction_ps_(
          static_cast<uint64_t>(1000.0 * parameters.cycles_per_instruction / parameters.clock_ghz + 0.5)),
      core_(cores_.data()),
      samples_(measured_ ? std::make_unique<CostSamples>() : nullptr) {
    if (measured_) costs_ = {.instructions = {}, .each = {}};
    else costs_ = parameters.costs;
}

void FirmwareCores::count_messages(const uint32_t& counter) {
    constexpr auto message = static_cast<size_t>(WorkPart::message);
    const bool costs_something =
        std::ranges::any_of(costs_.each, [](const auto& parts) { return parts[message] != 0; });
    if (measured_ || costs_something) counter_ = &counter;
}

void FirmwareCores::report(DeviceStatistics& statistics) const {
    statistics.work = work_;
    for (const Server& core : cores_) {
        statistics.core_busy_ps += core.busy_ps();
        statistics.core_busy_max_ps = std::max(statistics.core_busy_max_ps, core.busy_ps());
    }
}

}  // namespace plait::sim
