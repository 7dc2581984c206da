#pragma once
// What is behind the opaque types of plait_ep.h.

#include <plait/plait.h>

#include <memory>
#include <optional>
#include <plait/ep.hpp>

#include "device.hpp"

struct plait_ep_group {
    plait_device* device;
    std::shared_ptr<plait::EpGroup> group;  ///< Handles look whether it is still there.
};

struct plait_ep_handle {
    std::weak_ptr<plait::EpGroup> group;
    plait_ep_routing routing;
    std::optional<plait::EpHandle> dispatched;  ///< Of the dispatch that carried the routing.
};

struct plait_ep_call {
    std::optional<plait::EpCall> call;              ///< Nothing only until it is posted.
    std::optional<plait::EpCompletion> completion;  ///< Holds the arrays that were given out.
};
