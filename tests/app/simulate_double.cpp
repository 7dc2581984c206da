// The command line needs a simulate(); the program has the simulator's, the tests have this one.
#include "app_test.hpp"

namespace plait::sim {

void check_firmware(const Scenario&) {}

RunOutcome simulate(const Scenario& scenario, const RunOptions& options, Progress& progress) {
    return test::simulate_double(scenario, options, progress);
}

}  // namespace plait::sim
