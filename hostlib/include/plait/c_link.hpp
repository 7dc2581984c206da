#pragma once
// A C++ DeviceLink, such as the simulator's, as the link of a C program.

#include <plait/plait.h>
#include <plait/device_link.hpp>

namespace plait {

/// `link` outlives the device that is opened over it.
plait_link make_c_link(DeviceLink& link);

}  // namespace plait
