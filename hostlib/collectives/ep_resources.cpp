#include "ep_resources.hpp"

#include <algorithm>

#include "ep_config.hpp"

namespace plait {
namespace {

// A handle has one call and one release in flight at most: the queue never fills up before the device is
// behind.
constexpr std::uint32_t queue_log2_entries = 6;

}  // namespace

EpResources::EpResources(Driver& driver, const EpConfig& config, std::uint32_t rank, std::uint32_t ranks)
    : driver_(driver), config_(config), rank_(rank), ranks_(ranks), pairs_(ranks) {}

EpResources::~EpResources() {
    // A device that does not answer keeps its objects until reset; there is nobody left to tell.
    if (has_group_) (void)driver_.destroy_group(group_);
    for (const PairAddress& pair : pairs_)
        if (pair.qpn != 0) (void)driver_.destroy_qp(pair.qpn);
    if (collective_queue_ != 0) (void)driver_.destroy_queue(collective_queue_);
    if (completion_queue_ != 0) (void)driver_.destroy_queue(completion_queue_);
}

Result<std::vector<PairAddress>> EpResources::prepare() {
    if (auto created = create_queues(); !created) return created.error();
    auto results =
        RegisteredMemory::allocate(driver_, result_stride_bytes() * config_.handles, access_local_write);
    if (!results) return results.error();
    results_ = std::move(results.value());
    if (auto created = create_pairs(); !created) return created.error();
    return pairs_;
}

Result<void> EpResources::create_queues() {
    auto completion_queue = driver_.create_completion_queue(queue_log2_entries);
    if (!completion_queue) return completion_queue.error();
    completion_queue_ = completion_queue.value();
    auto collective_queue = driver_.create_collective_queue(completion_queue_, queue_log2_entries);
    if (!collective_queue) return collective_queue.error();
    collective_queue_ = collective_queue.value();
    return {};
}

Result<void> EpResources::create_pairs() {
    QpOptions options;
    options.mtu_bytes = config_.mtu_bytes;
    options.window_packets = config_.window_packets;
    options.entropy_values = config_.entropy_values;
    options.spray_policy = config_.spray_policy;
    for (std::uint32_t peer = 0; peer < ranks_; ++peer) {
        if (is_own_node(peer)) continue;
        auto pair = driver_.create_qp(options);
        if (!pair)
            return Error{pair.status(),
                         "queue pair to rank " + std::to_string(peer) + ": " + pair.error().message};
        pairs_[peer] = {.qpn = pair.value().qpn, .first_psn = pair.value().first_psn};
    }
    return {};
}

Result<void> EpResources::connect(std::span<const PairAddress> towards_us, std::uint32_t first_device) {
    for (std::uint32_t peer = 0; peer < ranks_; ++peer) {
        if (is_own_node(peer)) continue;
        const PeerAddress address{.device = first_device + peer,
                                  .qpn = towards_us[peer].qpn,
                                  .first_psn = towards_us[peer].first_psn};
        if (auto connected = driver_.connect_qp(pairs_[peer].qpn, address); !connected)
            return Error{connected.status(),
                         "queue pair to rank " + std::to_string(peer) + ": " + connected.error().message};
    }
    std::vector<std::uint32_t> qpns(ranks_);
    std::transform(pairs_.begin(), pairs_.end(), qpns.begin(),
                   [](const PairAddress& pair) { return pair.qpn; });
    auto group =
        driver_.create_group(group_parameters(config_, rank_, ranks_, first_device), qpns, collective_queue_);
    if (!group) return group.error();
    group_ = group.value();
    has_group_ = true;
    return {};
}

std::size_t EpResources::result_stride_bytes() const {
    const std::size_t by_expert = config_.mode == EpMode::low_latency ? config_.experts : 0;
    const std::size_t counts = config_.experts / ranks_ + ranks_ + by_expert;
    const std::size_t bytes = sizeof(regmap::EpResult) + counts * sizeof(std::uint32_t);
    return (bytes + 63) / 64 * 64;  // no two handles share a cache line
}

regmap::MemoryRange EpResources::result_range(std::uint32_t handle) const {
    const BufferView all = results_.view();
    return {.address = all.device_address + handle * result_stride_bytes(), .key = all.key, .reserved = 0};
}

std::span<const std::byte> EpResources::result_bytes(std::uint32_t handle) const {
    return results_.bytes().subspan(handle * result_stride_bytes(), result_stride_bytes());
}

void EpResources::clear_result(std::uint32_t handle) {
    std::ranges::fill(results_.bytes().subspan(handle * result_stride_bytes(), result_stride_bytes()),
                      std::byte{0});
}

}  // namespace plait
