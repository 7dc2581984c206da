#include <plait/sim/models/firmware_cores.hpp>

namespace plait::sim {

FirmwareCores::FirmwareCores(sc_core::sc_module_name module_name, const EventQueue& queue,
                             const CoreParameters& parameters)
    : sc_module(module_name),
      queue_(queue),
      cores_(parameters.cores),
      cycle_ps_(static_cast<uint64_t>(1000.0 / parameters.clock_ghz + 0.5)) {
    costs_.fill(parameters.costs.other);
    const auto set = [this](Work work, uint32_t cost) { costs_[static_cast<size_t>(work)] = cost; };
    set(Work::data_received, parameters.costs.data_received);
    set(Work::data_sent, parameters.costs.data_sent);
    set(Work::acknowledgement, parameters.costs.acknowledgement);
    set(Work::credit, 0);
}

void FirmwareCores::report(DeviceStatistics& statistics) const {
    statistics.work = work_;
    for (const Server& core : cores_) {
        statistics.core_busy_ps += core.busy_ps();
        statistics.core_busy_max_ps = std::max(statistics.core_busy_max_ps, core.busy_ps());
    }
}

}  // namespace plait::sim
