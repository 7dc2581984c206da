// The `plait` program but for the simulation itself.
#pragma once

#include <iosfwd>

namespace plait::sim {

/// Runs `plait list`, `plait check SCENARIO`, `plait run SCENARIO [--json FILE] [--seed N] [--quiet]` or
/// `plait campaign [--seeds N] [--first SEED] [--jobs N] [--show]`.
/// Answers the exit status: 0 everything right; 1 the run failed or its result is wrong; 2 bad input, nothing
/// was run; 130 ended by Ctrl-C.
int run_command_line(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace plait::sim
