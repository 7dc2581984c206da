#include <plait/sim/models/firmware_cores.hpp>

namespace plait::sim {

FirmwareCores::FirmwareCores(sc_core::sc_module_name module_name, const EventQueue& queue,
                             const CoreParameters& parameters)
    : sc_module(module_name),
      queue_(queue),
      measured_(parameters.costs_are_measured),
      cores_(parameters.cores),
      instruction_ps_(
          static_cast<uint64_t>(1000.0 * parameters.cycles_per_instruction / parameters.clock_ghz + 0.5)),
      core_(cores_.data()) {
    if (!measured_) costs_ = parameters.costs.instructions;
}

void FirmwareCores::report(DeviceStatistics& statistics) const {
    statistics.work = work_;
    for (const Server& core : cores_) {
        statistics.core_busy_ps += core.busy_ps();
        statistics.core_busy_max_ps = std::max(statistics.core_busy_max_ps, core.busy_ps());
    }
}

}  // namespace plait::sim
