// Layout, groups, mask.
#include <plait/ep_layout.hpp>

#include "boundary.hpp"
#include "ep.hpp"
#include "ep_convert.hpp"

namespace plait::capi {
namespace {

constexpr plait_layout no_layout = PLAIT_LAYOUT_INIT;
constexpr plait_bootstrap no_bootstrap = PLAIT_BOOTSTRAP_INIT;
constexpr plait_ep_config default_config = PLAIT_EP_CONFIG_INIT;

/// The caller's channel as a Bootstrap.
class CBootstrap final : public Bootstrap {
  public:
    explicit CBootstrap(const plait_bootstrap& bootstrap) : bootstrap_(bootstrap) {}
    [[nodiscard]] std::uint32_t rank() const override { return bootstrap_.rank; }
    [[nodiscard]] std::uint32_t ranks() const override { return bootstrap_.ranks; }
    Result<std::vector<std::byte>> all_gather(std::span<const std::byte> mine,
                                              std::uint64_t timeout_ns) override {
        std::vector<std::byte> all(mine.size() * bootstrap_.ranks);
        const plait_status status =
            bootstrap_.all_gather(bootstrap_.context, mine.data(), mine.size(), all.data(), timeout_ns);
        if (status == PLAIT_STATUS_OK) return all;
        const std::string text = std::string("bootstrap: all_gather gave ") + plait_status_string(status);
        const auto known = static_cast<Status>(narrow<std::uint8_t>(status));
        return Error{is_known(known) ? known : Status::aborted, text};
    }

  private:
    const plait_bootstrap bootstrap_;
};

Result<void> check_bootstrap(const plait_bootstrap& bootstrap) {
    if (bootstrap.all_gather == nullptr) return null_error("bootstrap: all_gather");
    if (bootstrap.ranks <= PLAIT_MAX_RANKS) return {};
    return Error{Status::invalid_parameter, "bootstrap: ranks is " + std::to_string(bootstrap.ranks) +
                                                ", expected 1 .. " + std::to_string(PLAIT_MAX_RANKS)};
}

template <class Value>
void copy_out(const std::vector<Value>& values, Value* out) {
    if (out != nullptr) std::copy(values.begin(), values.end(), out);
}

}  // namespace
}  // namespace plait::capi

using namespace plait::capi;
using plait::Result;

plait_status plait_get_dispatch_layout(const plait_layout* layout) {
    return guard([&]() -> Result<void> {
        auto given = read_struct("layout", layout, no_layout);
        if (!given) return given.error();
        const plait_layout& l = given.value();
        const std::size_t entries = std::size_t{l.tokens} * l.topk;
        if (entries != 0 && l.topk_idx == nullptr) return null_error("layout: topk_idx");
        const auto found = plait::get_dispatch_layout(std::span(l.topk_idx, entries), l.tokens, l.topk,
                                                      l.experts, l.ranks, l.ranks_per_node);
        if (!found) return found.error();
        copy_out(found.value().tokens_per_rank, l.tokens_per_rank);
        copy_out(found.value().tokens_per_node, l.tokens_per_node);
        copy_out(found.value().tokens_per_expert, l.tokens_per_expert);
        copy_out(found.value().is_token_in_rank, l.is_token_in_rank);
        return {};
    });
}

plait_status plait_ep_group_create(plait_device* device, const plait_ep_config* config,
                                   const plait_bootstrap* bootstrap, plait_ep_group** group) {
    return guard([&]() -> Result<void> {
        if (auto checked = check_pointer("device", device); !checked) return checked;
        if (auto checked = check_pointer("group", group); !checked) return checked;
        auto channel = read_struct("bootstrap", bootstrap, no_bootstrap);
        if (!channel) return channel.error();
        if (auto checked = check_bootstrap(channel.value()); !checked) return checked;
        auto given = read_struct("config", config, default_config);
        if (!given) return given.error();
        CBootstrap exchange(channel.value());
        auto created = plait::EpGroup::create(*device->driver, config_of(given.value()), exchange);
        if (!created) return created.error();
        auto made = std::make_unique<plait_ep_group>(plait_ep_group{device, std::move(created.value())});
        ++device->users;
        *group = made.release();
        return {};
    });
}

plait_status plait_ep_group_destroy(plait_ep_group* group) {
    return guard([&]() -> Result<void> {
        if (auto checked = check_pointer("group", group); !checked) return checked;
        --group->device->users;
        delete group;
        return {};
    });
}

plait_status plait_ep_mask_query(const plait_ep_group* group, plait_rank_mask* mask) {
    return guard([&]() -> Result<void> {
        if (auto checked = check_pointer("group", group); !checked) return checked;
        if (auto checked = check_pointer("mask", mask); !checked) return checked;
        *mask = mask_of(group->group->failed_ranks());
        return {};
    });
}

plait_status plait_ep_mask_update(plait_ep_group* group, uint32_t rank, int failed) {
    return guard([&]() -> Result<void> {
        if (auto checked = check_pointer("group", group); !checked) return checked;
        return group->group->mark_failed_rank(rank, failed != 0);
    });
}

plait_status plait_ep_mask_clean(plait_ep_group* group) {
    return guard([&]() -> Result<void> {
        if (auto checked = check_pointer("group", group); !checked) return checked;
        group->group->clean_failed_ranks();
        return {};
    });
}

plait_status plait_ep_query_asynchronous_error(plait_ep_group* group, plait_status* error) {
    return guard([&]() -> Result<void> {
        if (auto checked = check_pointer("group", group); !checked) return checked;
        if (auto checked = check_pointer("error", error); !checked) return checked;
        const auto found = group->group->query_asynchronous_error();
        *error = found ? PLAIT_STATUS_OK : report(found.error());
        return {};
    });
}
