#include <plait/ep.hpp>

#include "ep_calls.hpp"
#include "ep_config.hpp"
#include "ep_limits.hpp"

namespace plait {
namespace {

/// Exchanges what must agree. Every rank takes part, also one that cannot go on: the others learn of it at
/// once.
Result<std::uint32_t> agree(Bootstrap& bootstrap, const EpConfig& config, Driver& driver,
                            const Result<void>& mine) {
    const auto device = driver.device_number();
    const Status status = !mine ? mine.status() : device.status();
    const GroupIdentity identity = identity_of(config, device ? device.value() : 0, status);
    auto all = gather<GroupIdentity>(bootstrap, std::span(&identity, 1), config.bootstrap_timeout_ns);
    if (!mine) return mine.error();
    if (!device) return device.error();
    if (!all) return all.error();
    if (auto checked = check_identities(all.value()); !checked) return checked.error();
    return all.value()[0].device_number;
}

/// Tells the others whether this rank has come through a step, and learns whether they have.
Result<void> agree_on_step(Bootstrap& bootstrap, std::uint64_t timeout_ns, const Result<void>& mine) {
    const auto status = static_cast<std::uint32_t>(mine.status());
    auto all = gather<std::uint32_t>(bootstrap, std::span(&status, 1), timeout_ns);
    if (!mine) return mine;
    if (!all) return all.error();
    return check_statuses(all.value());
}

/// Exchanges the queue pairs' addresses: those of every rank towards this one.
Result<std::vector<PairAddress>> exchange_pairs(Bootstrap& bootstrap, const EpConfig& config,
                                                Result<std::vector<PairAddress>> mine) {
    const Result<void> prepared = mine ? Result<void>() : Result<void>(mine.error());
    if (auto all_prepared = agree_on_step(bootstrap, config.bootstrap_timeout_ns, prepared); !all_prepared)
        return all_prepared.error();
    auto all = gather<PairAddress>(bootstrap, mine.value(), config.bootstrap_timeout_ns);
    if (!all) return all.error();
    std::vector<PairAddress> towards_us(bootstrap.ranks());
    for (std::size_t rank = 0; rank < towards_us.size(); ++rank)
        towards_us[rank] = all.value()[rank * towards_us.size() + bootstrap.rank()];
    return towards_us;
}

}  // namespace

Result<std::unique_ptr<EpGroup>> EpGroup::create(Driver& driver, const EpConfig& config,
                                                 Bootstrap& bootstrap) {
    const std::uint32_t ranks = bootstrap.ranks();
    const std::uint32_t rank = bootstrap.rank();
    if (rank >= ranks)
        return Error{Status::invalid_parameter, "bootstrap: rank is " + std::to_string(rank) + " of " +
                                                    std::to_string(ranks) + " ranks"};
    Result<void> checked = check_config(config, ranks);
    if (checked) checked = check_device(config, ranks, driver.info());
    auto first_device = agree(bootstrap, config, driver, checked);
    if (!first_device) return first_device.error();

    auto resources = std::make_unique<EpResources>(driver, config, rank, ranks);
    auto towards_us = exchange_pairs(bootstrap, config, resources->prepare());
    if (!towards_us) return towards_us.error();
    const auto connected = resources->connect(towards_us.value(), first_device.value());
    if (auto all_connected = agree_on_step(bootstrap, config.bootstrap_timeout_ns, connected); !all_connected)
        return all_connected.error();
    return std::unique_ptr<EpGroup>(new EpGroup(std::make_unique<EpCalls>(std::move(resources))));
}

EpGroup::EpGroup(std::unique_ptr<EpCalls> calls) : calls_(std::move(calls)) {}
EpGroup::~EpGroup() = default;

Result<EpCall> EpGroup::dispatch(const DispatchArguments& arguments) { return calls_->dispatch(arguments); }
Result<EpCall> EpGroup::combine(const CombineArguments& arguments) { return calls_->combine(arguments); }
Result<void> EpGroup::release(EpHandle handle) { return calls_->release(handle); }

const RankMask& EpGroup::failed_ranks() const { return calls_->failed_ranks(); }

Result<void> EpGroup::mark_failed_rank(std::uint32_t rank, bool failed) {
    if (auto checked = check_range("rank", rank, 0, ranks() - 1); !checked) return checked;
    calls_->failed_ranks()[rank] = failed;
    return {};
}

void EpGroup::clean_failed_ranks() { calls_->failed_ranks().reset(); }

std::uint32_t EpGroup::rank() const { return calls_->resources().rank(); }
std::uint32_t EpGroup::ranks() const { return calls_->resources().ranks(); }
const EpConfig& EpGroup::config() const { return calls_->resources().config(); }

Result<void> EpGroup::query_asynchronous_error() {
    (void)calls_->progress();  // what it finds is noted
    if (calls_->asynchronous_error()) return *calls_->asynchronous_error();
    return {};
}

Result<bool> EpCall::poll() {
    if (!state_->outcome) (void)state_->calls->progress();  // a failure becomes the outcome
    if (!state_->outcome) return false;
    if (!*state_->outcome) return state_->outcome->error();
    return true;
}

Result<EpCompletion> EpCall::wait(std::uint64_t timeout_ns) {
    if (!state_->outcome)
        if (auto waited = state_->calls->wait_for(*state_, timeout_ns); !state_->outcome)
            return waited.error();
    return *state_->outcome;
}

EpHandle EpCall::handle() const { return state_->handle; }

}  // namespace plait
