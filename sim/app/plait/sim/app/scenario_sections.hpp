// The parts of a scenario file that depend on the others: workload and faults.
#pragma once

#include <plait/firmware/ep_group.hpp>
#include <plait/sim/app/scenario.hpp>
#include <plait/sim/app/table_reader.hpp>

namespace plait::sim {

/// Reads `[workload]` into scenario.workload and ep or flows; the topology must have been read. Throws
/// InputError.
void read_workload(TableReader table, Scenario& scenario);

/// Reads one `[[fault]]` into scenario.faults, in no order; topology and seed must have been read. Throws
/// InputError.
void read_fault(TableReader& table, Scenario& scenario);

/// How the devices of an EP scenario cut the rows of a combine; no parts when they cannot.
firmware::EpGroup combine_group(const Scenario& scenario);

}  // namespace plait::sim
