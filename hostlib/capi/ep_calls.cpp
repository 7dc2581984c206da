// Handles and calls.
#include "boundary.hpp"
#include "ep.hpp"
#include "ep_convert.hpp"

namespace plait::capi {
namespace {

constexpr plait_ep_routing no_routing = PLAIT_EP_ROUTING_INIT;
constexpr plait_ep_dispatch_args default_dispatch = PLAIT_EP_DISPATCH_ARGS_INIT;
constexpr plait_ep_combine_args default_combine = PLAIT_EP_COMBINE_ARGS_INIT;

Result<std::shared_ptr<EpGroup>> group_of(const plait_ep_handle* handle) {
    if (handle == nullptr) return null_error("handle");
    if (auto group = handle->group.lock()) return group;
    return Error{Status::invalid_group, "handle: its group was destroyed"};
}

/// Gives back what the handle's dispatch took on the device.
Result<void> let_go(EpGroup& group, plait_ep_handle& handle) {
    if (!handle.dispatched) return {};
    auto released = group.release(*handle.dispatched);
    if (released) handle.dispatched.reset();
    return released;
}

bool is_gone(Status status) { return status == Status::device_removed || status == Status::device_fatal; }

}  // namespace
}  // namespace plait::capi

using namespace plait::capi;
using plait::Error;
using plait::Result;
using plait::Status;

plait_status plait_ep_handle_init(plait_ep_group* group, const plait_ep_routing* routing,
                                  plait_ep_handle** handle) {
    return guard([&]() -> Result<void> {
        if (auto checked = check_pointer("group", group); !checked) return checked;
        if (auto checked = check_pointer("handle", handle); !checked) return checked;
        auto given = read_struct("routing", routing, no_routing);
        if (!given) return given.error();
        *handle = new plait_ep_handle{group->group, given.value(), std::nullopt};
        return {};
    });
}

plait_status plait_ep_handle_update(plait_ep_handle* handle, const plait_ep_routing* routing) {
    return guard([&]() -> Result<void> {
        auto group = group_of(handle);
        if (!group) return group.error();
        auto given = read_struct("routing", routing, no_routing);
        if (!given) return given.error();
        if (auto released = let_go(*group.value(), *handle); !released) return released;
        handle->routing = given.value();
        return {};
    });
}

plait_status plait_ep_handle_destroy(plait_ep_handle* handle) {
    return guard([&]() -> Result<void> {
        if (auto checked = check_pointer("handle", handle); !checked) return checked;
        if (auto group = handle->group.lock())
            if (auto released = let_go(*group, *handle); !released && !is_gone(released.status()))
                return released;
        delete handle;
        return {};
    });
}

plait_status plait_ep_dispatch(plait_ep_handle* handle, const plait_ep_dispatch_args* arguments,
                               plait_ep_call** call) {
    return guard([&]() -> Result<void> {
        auto group = group_of(handle);
        if (!group) return group.error();
        if (auto checked = check_pointer("call", call); !checked) return checked;
        auto given = read_struct("arguments", arguments, default_dispatch);
        if (!given) return given.error();
        plait::DispatchArguments dispatch = arguments_of(given.value(), handle->routing);
        if (group.value()->config().mode == plait::EpMode::low_latency) {
            if (auto released = let_go(*group.value(), *handle); !released) return released;
        }
        dispatch.cached = handle->dispatched;
        auto made = std::make_unique<plait_ep_call>();  // first: what is posted cannot be taken back
        auto posted = group.value()->dispatch(dispatch);
        if (!posted) return posted.error();
        handle->dispatched = posted.value().handle();
        made->call = std::move(posted.value());
        *call = made.release();
        return {};
    });
}

plait_status plait_ep_combine(plait_ep_handle* handle, const plait_ep_combine_args* arguments,
                              plait_ep_call** call) {
    return guard([&]() -> Result<void> {
        auto group = group_of(handle);
        if (!group) return group.error();
        if (auto checked = check_pointer("call", call); !checked) return checked;
        auto given = read_struct("arguments", arguments, default_combine);
        if (!given) return given.error();
        if (!handle->dispatched)
            return Error{Status::invalid_handle, "handle: nothing was dispatched with its routing yet"};
        plait::CombineArguments combine;
        combine.handle = *handle->dispatched;
        combine.timeout_us = given.value().timeout_us;
        combine.x = view_of(given.value().x);
        combine.x_scales = view_of(given.value().x_scales);
        combine.combined_x = view_of(given.value().combined_x);
        combine.topk_weights = view_of(given.value().topk_weights);
        combine.bias = {view_of(given.value().bias0), view_of(given.value().bias1)};
        auto made = std::make_unique<plait_ep_call>();
        auto posted = group.value()->combine(combine);
        if (!posted) return posted.error();
        made->call = std::move(posted.value());
        *call = made.release();
        return {};
    });
}

plait_status plait_ep_poll(plait_ep_call* call, int* done) {
    return guard([&]() -> Result<void> {
        if (auto checked = check_pointer("call", call); !checked) return checked;
        if (auto checked = check_pointer("done", done); !checked) return checked;
        auto ended = call->call->poll();
        if (!ended) return ended.error();
        *done = ended.value() ? 1 : 0;
        return {};
    });
}

plait_status plait_ep_complete(plait_ep_call* call, uint64_t timeout_ns, plait_ep_completion* completion) {
    return guard([&]() -> Result<void> {
        if (auto checked = check_pointer("call", call); !checked) return checked;
        if (auto checked = check_head("completion", completion, sizeof *completion); !checked) return checked;
        if (!call->completion) {
            auto ended = call->call->wait(timeout_ns);
            if (!ended) return ended.error();
            call->completion = std::move(ended.value());
        }
        write_struct(completion, completion_of(*call->completion));
        return {};
    });
}

plait_status plait_ep_call_destroy(plait_ep_call* call) {
    return guard([&]() -> Result<void> {
        if (auto checked = check_pointer("call", call); !checked) return checked;
        delete call;
        return {};
    });
}
