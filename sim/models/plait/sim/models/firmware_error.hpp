// A command of firmware that makes no sense.
#pragma once

#include <stdexcept>

namespace plait::sim {

/// Firmware ordered what its device cannot do, and it was not done. what() is one line. What runs the
/// firmware stops it; of native firmware, which is this program's own, the run ends.
class FirmwareError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace plait::sim
