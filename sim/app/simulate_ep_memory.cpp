#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ep_memory.hpp"

namespace plait::sim {
namespace {

template <class T>
T need(Result<T> result, const char* what) {
    if (!result) throw std::runtime_error(fmt::format("{}: {}", what, result.error().message));
    return std::move(result.value());
}

}  // namespace

EpMemory::EpMemory(World& world, const EpBatch& batch, EpInputs& inputs, uint32_t rank, Driver& driver)
    : world_(world),
      batch_(batch),
      inputs_(inputs),
      rank_(rank),
      driver_(driver),
      expected_(batch.expected[rank]),
      tokens_(batch.routing.tokens(rank)),
      combined_bytes_(combined_row_bytes(world.scenario.ep)),
      is_expert_major_(world.scenario.ep.mode == regmap::EpMode::low_latency),
      capacity_(static_cast<uint32_t>(is_expert_major_ ? expected_.rows.size() : batch.routing.first.back())),
      row_bytes_arrived_(expected_.rows.size()),
      combined_bytes_arrived_(tokens_) {
    const uint32_t topk = batch.routing.topk;
    x_ = map(uint64_t{tokens_} * batch.x.code_bytes(), inputs.x(), {});
    x_scales_ = map(uint64_t{tokens_} * batch.x.scale_bytes(), inputs.x_scales(), {});
    outputs_ = map(expected_.rows.size() * uint64_t{batch.outputs.code_bytes()}, inputs.outputs(), {});
    output_scales_ =
        map(expected_.rows.size() * uint64_t{batch.outputs.scale_bytes()}, inputs.output_scales(), {});
    for (uint32_t number = 0; number < world.scenario.ep.biases; ++number)
        bias_[number] = map(uint64_t{tokens_} * combined_bytes_, inputs.bias(number), {});
    recv_x_ =
        map(uint64_t{capacity_} * batch.dispatched.code_bytes(), {},
            {[](void* o, uint64_t at, std::span<const std::byte> in) { self(o).check_x(at, in); }, this});
    recv_x_scales_ = map(
        uint64_t{capacity_} * batch.dispatched.scale_bytes(), {},
        {[](void* o, uint64_t at, std::span<const std::byte> in) { self(o).check_scales(at, in); }, this});
    combined_ = map(
        uint64_t{tokens_} * combined_bytes_, {},
        {[](void* o, uint64_t at, std::span<const std::byte> in) { self(o).check_combined(at, in); }, this});
    fill_topk();
    if (capacity_ == 0) return;
    recv_source_ =
        need(RegisteredMemory::allocate(driver, size_t{capacity_} * sizeof(uint64_t), access_local_write),
             "memory");
    if (is_expert_major_) return;
    recv_topk_idx_ = need(
        RegisteredMemory::allocate(driver, size_t{capacity_} * topk * sizeof(int64_t), access_local_write),
        "memory");
    recv_topk_weights_ =
        need(RegisteredMemory::allocate(driver, size_t{capacity_} * topk * sizeof(float), access_local_write),
             "memory");
}

BufferView EpMemory::map(uint64_t length, ReadHandler read, WriteHandler write) {
    if (length == 0) return {};
    const uint64_t address = world_.cluster.device(rank_).host_memory().map(length, read, write);
    const uint32_t access = write.check != nullptr ? access_local_write : 0;
    return {address, length, need(driver_.register_memory(address, length, access), "register memory")};
}

void EpMemory::fill_topk() {
    const uint32_t topk = batch_.routing.topk;
    if (tokens_ == 0) return;
    topk_idx_ =
        need(RegisteredMemory::allocate(driver_, size_t{tokens_} * topk * sizeof(int64_t), 0), "memory");
    topk_weights_ =
        need(RegisteredMemory::allocate(driver_, size_t{tokens_} * topk * sizeof(float), 0), "memory");
    const auto experts = elements<int64_t>(topk_idx_.bytes());
    const auto weights = elements<float>(topk_weights_.bytes());
    for (uint32_t token = 0; token < tokens_; ++token) {
        std::copy_n(batch_.routing.experts_of(rank_, token).begin(), topk, experts.begin() + token * topk);
        std::copy_n(batch_.routing.weights_of(rank_, token).begin(), topk, weights.begin() + token * topk);
    }
}

DispatchArguments EpMemory::dispatch_arguments(std::optional<EpHandle> cached) const {
    DispatchArguments arguments;
    arguments.tokens = tokens_;
    arguments.receive_capacity = capacity_;
    arguments.timeout_us = world_.scenario.ep.timeout_us;
    arguments.x = x_;
    arguments.x_scales = x_scales_;
    arguments.topk_idx = topk_idx_.view();
    if (!world_.scenario.ep.weights_at_combine) arguments.topk_weights = topk_weights_.view();
    arguments.recv_x = recv_x_;
    arguments.recv_x_scales = recv_x_scales_;
    arguments.recv_topk_idx = recv_topk_idx_.view();
    arguments.recv_topk_weights = recv_topk_weights_.view();
    arguments.recv_source = recv_source_.view();
    arguments.cached = cached;
    return arguments;
}

CombineArguments EpMemory::combine_arguments(EpHandle handle) const {
    return {.handle = handle,
            .timeout_us = world_.scenario.ep.timeout_us,
            .x = outputs_,
            .x_scales = output_scales_,
            .topk_weights = world_.scenario.ep.weights_at_combine ? topk_weights_.view() : BufferView{},
            .combined_x = combined_,
            .bias = bias_};
}

RankMask EpMemory::dead_ranks() const {
    RankMask dead;
    for (uint32_t number = 0; number < world_.cluster.devices(); ++number)
        dead[number] = world_.cluster.device(number).is_dead();
    return dead;
}

}  // namespace plait::sim
