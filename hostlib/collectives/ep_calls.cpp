#include "ep_calls.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>

#include "ep_config.hpp"

namespace plait {
namespace {

/// The device keeps the routing of a call that ends so: combine can follow.
bool keeps_routing(Status status) { return status == Status::ok || status == Status::rank_failed; }

/// The device has begun the call, so its result says the same.
bool must_have_result(Status status) { return keeps_routing(status) || status == Status::timeout; }

/// No call can go on after these.
bool ends_everything(Status status) {
    return status == Status::device_removed || status == Status::device_fatal;
}

RankMask mask_of(const regmap::EpResult& result) {
    RankMask mask;
    for (std::size_t rank = 0; rank < mask.size(); ++rank)
        mask[rank] = ((result.failed_ranks[rank / 64] >> (rank % 64)) & 1) != 0;
    return mask;
}

std::vector<std::uint32_t> read_counts(std::span<const std::byte>& bytes, std::size_t count) {
    std::vector<std::uint32_t> counts(count);
    std::memcpy(counts.data(), bytes.data(), count * sizeof(std::uint32_t));
    bytes = bytes.subspan(count * sizeof(std::uint32_t));
    return counts;
}

std::vector<std::uint32_t> align_counts(std::vector<std::uint32_t> counts, std::uint32_t alignment) {
    for (std::uint32_t& count : counts) count = (count + alignment - 1) / alignment * alignment;
    return counts;
}

/// -1 everywhere: the device overwrites the rows that it places.
void mark_rows(const EpConfig& config, const DispatchArguments& arguments) {
    std::memset(arguments.recv_topk_idx.host, 0xff,
                std::size_t{arguments.receive_capacity} * config.topk * sizeof(std::int64_t));
}

std::string handle_text(const EpHandle& handle) { return "handle " + std::to_string(handle.number); }

}  // namespace

EpCalls::EpCalls(std::unique_ptr<EpResources> resources)
    : resources_(std::move(resources)),
      slots_(resources_->config().handles),
      last_chosen_(resources_->config().handles - 1) {}

EpCalls::~EpCalls() {
    for (const Slot& slot : slots_) {
        if (!slot.call) continue;
        slot.call->calls = nullptr;
        slot.call->outcome.emplace(
            Error{Status::aborted, "the group was destroyed while the call was in flight"});
    }
}

Result<EpCall> EpCalls::dispatch(const DispatchArguments& arguments) {
    if (auto progressed = progress(); !progressed) return progressed.error();
    EpHandle handle{resources_->group(), 0, 0};
    std::optional<std::uint32_t> cached_tokens;
    if (arguments.cached) {
        auto slot = find_routed(*arguments.cached, regmap::EpOpcode::dispatch);
        if (!slot) return slot.error();
        handle = *arguments.cached;
        cached_tokens = slot.value()->tokens;
    } else {
        const std::optional<std::uint32_t> free = next_free();
        if (!free)
            return Error{Status::limit_exceeded,
                         "all " + std::to_string(slots_.size()) +
                             " handles are taken: release one, or create the group with more"};
        handle.number = *free;
        handle.generation = slots_[*free].generation + 1;
    }
    auto request = dispatch_request(resources_->config(), arguments, cached_tokens);
    if (!request) return request.error();
    if (arguments.mark_empty_rows) mark_rows(resources_->config(), arguments);
    auto call = post(request.value(), handle, request.value().receive_capacity);
    if (!call) return call;
    call.value().state_->expert_alignment = arguments.expert_alignment;

    Slot& slot = slots_[handle.number];
    slot.taken = true;
    slot.generation = handle.generation;
    slot.tokens = arguments.tokens;
    if (!cached_tokens) {
        slot.routed = false;
        last_chosen_ = handle.number;
    }
    return call;
}

Result<EpCall> EpCalls::combine(const CombineArguments& arguments) {
    if (auto progressed = progress(); !progressed) return progressed.error();
    auto slot = find_routed(arguments.handle, regmap::EpOpcode::combine);
    if (!slot) return slot.error();
    auto request =
        combine_request(resources_->config(), arguments, slot.value()->tokens, slot.value()->received_rows);
    if (!request) return request.error();
    return post(request.value(), arguments.handle, slot.value()->tokens);
}

Result<void> EpCalls::release(EpHandle handle) {
    if (auto progressed = progress(); !progressed) return progressed;
    auto slot = find_idle(handle);
    if (!slot) return slot.error();
    regmap::EpRequest request;
    request.opcode = regmap::EpOpcode::release_handle;
    request.handle = handle.number;
    request.timeout_us = 1;  // the device refuses 0; a release waits for nobody
    // The device has nothing to release when it refused the dispatch.
    auto sent = send(request, slot.value()->routed ? Status::ok : Status::invalid_handle);
    if (sent) slot.value()->taken = false;
    return sent;
}

Result<void> EpCalls::send(regmap::EpRequest request, Status refusal) {
    request.user_data = next_user_data_;
    if (auto posted = resources_->driver().post_collective(resources_->collective_queue(), request); !posted)
        return ends_everything(posted.status()) ? stop(posted.error()) : posted.error();
    errands_.push_back({next_user_data_++, refusal});
    return {};
}

/// The slot of a handle that is taken and has no call in flight.
Result<EpCalls::Slot*> EpCalls::find_idle(const EpHandle& handle) {
    if (handle.group != resources_->group() || handle.number >= slots_.size())
        return Error{Status::invalid_handle, handle_text(handle) + " is not one of this group"};
    Slot& slot = slots_[handle.number];
    if (!slot.taken || slot.generation != handle.generation)
        return Error{Status::invalid_handle, handle_text(handle) + " is stale: it was released"};
    if (slot.call)
        return Error{Status::invalid_handle,
                     handle_text(handle) + " is in use: wait for its " +
                         (slot.call->opcode == regmap::EpOpcode::dispatch ? "dispatch" : "combine")};
    return &slot;
}

/// The slot of a handle that, besides, holds a routing. Where the last call ended differently on other ranks
/// they make this call: the device gets one that it refuses, which counts and tells them not to wait.
Result<EpCalls::Slot*> EpCalls::find_routed(const EpHandle& handle, regmap::EpOpcode opcode) {
    auto slot = find_idle(handle);
    if (!slot || slot.value()->routed) return slot;
    regmap::EpRequest refused;  // for its timeout of 0
    refused.opcode = opcode;
    refused.handle = handle.number;
    if (auto sent = send(refused, Status::invalid_parameter); !sent) return sent.error();
    return Error{Status::invalid_handle, handle_text(handle) +
                                             " holds no routing: its last call ended with " +
                                             name(slot.value()->last_status)};
}

/// The free handle that was used longest ago: the tables of late peers have the most time to be done with it.
std::optional<std::uint32_t> EpCalls::next_free() const {
    for (std::uint32_t step = 1; step <= slots_.size(); ++step) {
        const std::uint32_t number = (last_chosen_ + step) % static_cast<std::uint32_t>(slots_.size());
        if (!slots_[number].taken) return number;
    }
    return std::nullopt;
}

Result<EpCall> EpCalls::post(regmap::EpRequest request, const EpHandle& handle, std::uint32_t row_limit) {
    request.handle = handle.number;
    request.user_data = next_user_data_;
    request.result = resources_->result_range(handle.number);
    resources_->clear_result(handle.number);
    if (auto posted = resources_->driver().post_collective(resources_->collective_queue(), request); !posted)
        return ends_everything(posted.status()) ? stop(posted.error()) : posted.error();

    auto state = std::make_shared<EpCallState>();
    state->calls = this;
    state->user_data = next_user_data_++;
    state->opcode = request.opcode;
    state->handle = handle;
    state->row_limit = row_limit;
    slots_[handle.number].call = state;
    return EpCall(std::move(state));
}

Result<void> EpCalls::progress() {
    std::array<regmap::Completion, 16> batch;
    for (;;) {
        if (stopped_) return *stopped_;
        auto count = resources_->driver().poll(resources_->completion_queue(), batch);
        if (!count) return stop(count.error());
        on_completions(std::span(batch).first(count.value()));
        if (count.value() < batch.size()) return {};
    }
}

Result<void> EpCalls::wait_for(const EpCallState& call, std::uint64_t timeout_ns) {
    const std::uint64_t start_ns = resources_->driver().now_ns();
    std::array<regmap::Completion, 16> batch;
    for (;;) {
        if (auto progressed = progress(); !progressed) return progressed;
        if (call.outcome) return {};
        const std::uint64_t gone_ns = resources_->driver().now_ns() - start_ns;
        if (gone_ns >= timeout_ns)
            return Error{Status::timeout,
                         "the call has not ended within " + std::to_string(timeout_ns) + " ns"};
        auto count = resources_->driver().wait(resources_->completion_queue(), batch, timeout_ns - gone_ns);
        if (count) {
            on_completions(std::span(batch).first(count.value()));
        } else if (count.status() != Status::timeout) {
            return stop(count.error());
        }
    }
}

void EpCalls::on_completions(std::span<const regmap::Completion> completions) {
    for (const regmap::Completion& completion : completions) on_completion(completion);
}

void EpCalls::on_completion(const regmap::Completion& completion) {
    for (Slot& slot : slots_)
        if (slot.call && slot.call->user_data == completion.user_data)
            return finish(slot, read_result(*slot.call, completion.status));
    const auto errand = std::find_if(errands_.begin(), errands_.end(), [&](const Errand& one) {
        return one.user_data == completion.user_data;
    });
    if (errand == errands_.end())
        return note({Status::device_fatal,
                     "completion of an unknown call, user_data " + std::to_string(completion.user_data)});
    const bool expected = completion.status == Status::ok || completion.status == errand->refusal;
    errands_.erase(errand);
    if (!expected)
        note({completion.status, std::string("the device refused a release: ") + name(completion.status)});
}

/// A call that the device refused changes nothing, its result neither.
bool EpCalls::has_result(const EpCallState& call, Status status) const {
    regmap::EpResult result;
    std::memcpy(&result, resources_->result_bytes(call.handle.number).data(), sizeof result);
    return result.status == static_cast<std::uint32_t>(status);
}

Result<EpCompletion> EpCalls::read_result(const EpCallState& call, Status status) const {
    std::span<const std::byte> bytes = resources_->result_bytes(call.handle.number);
    regmap::EpResult result;
    std::memcpy(&result, bytes.data(), sizeof result);
    bytes = bytes.subspan(sizeof result);

    EpCompletion completion;
    completion.status = status;
    completion.handle = call.handle;
    if (!has_result(call, status)) {
        if (!must_have_result(status)) return completion;  // refused before it began
        return Error{Status::device_fatal,
                     std::string("the result does not say ") + name(status) + " as its completion does"};
    }
    if (keeps_routing(status) && result.received_rows > call.row_limit)
        return Error{Status::device_fatal, "the result counts " + std::to_string(result.received_rows) +
                                               " rows, at most " + std::to_string(call.row_limit) +
                                               " were possible"};
    completion.received_rows = result.received_rows;
    completion.missing_rows = result.missing_rows;
    completion.non_finite = result.non_finite;
    completion.failed_ranks = mask_of(result);
    if (call.opcode == regmap::EpOpcode::dispatch) {
        completion.rows_per_local_expert =
            read_counts(bytes, resources_->config().experts / resources_->ranks());
        completion.rows_per_source = read_counts(bytes, resources_->ranks());
        if (resources_->config().mode == EpMode::low_latency)
            completion.rows_per_source_and_expert = read_counts(bytes, resources_->config().experts);
        const std::uint64_t most =
            std::uint64_t{resources_->ranks()} * resources_->config().max_tokens * resources_->config().topk;
        for (const std::uint32_t count : completion.rows_per_local_expert)
            if (count > most)
                return Error{Status::device_fatal, "the result counts " + std::to_string(count) +
                                                       " rows of an expert, at most " + std::to_string(most) +
                                                       " were possible"};
        completion.aligned_rows_per_local_expert =
            align_counts(completion.rows_per_local_expert, call.expert_alignment);
    }
    return completion;
}

void EpCalls::finish(Slot& slot, Result<EpCompletion> outcome) {
    const std::shared_ptr<EpCallState> call = std::move(slot.call);
    slot.call = nullptr;
    const Status status = outcome ? outcome.value().status : outcome.status();
    slot.last_status = status;
    if (outcome && keeps_routing(status)) {
        slot.routed = true;
        if (call->opcode == regmap::EpOpcode::dispatch) slot.received_rows = outcome.value().received_rows;
    } else if (!outcome || has_result(*call, status)) {
        slot.routed = false;
    }
    if (outcome) {
        failed_ranks_ |= outcome.value().failed_ranks;
    } else {
        note(outcome.error());
    }
    call->calls = nullptr;
    call->outcome = std::move(outcome);
}

/// The device serves nobody any more: every call in flight ends with the reason.
Error EpCalls::stop(Error error) {
    if (!stopped_) stopped_ = error;
    note(error);
    for (Slot& slot : slots_)
        if (slot.call) finish(slot, error);
    return error;
}

void EpCalls::note(Error error) {
    if (!asynchronous_error_) asynchronous_error_ = std::move(error);
}

}  // namespace plait
