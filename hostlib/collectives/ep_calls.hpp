#pragma once
// Calls of a group: handles, requests in flight, their completions.

#include <deque>
#include <memory>
#include <optional>
#include <plait/ep.hpp>
#include <string>
#include <vector>

#include "ep_resources.hpp"

namespace plait {

/// What an EpCall looks at. `calls` is null once the call has an outcome.
struct EpCallState {
    EpCalls* calls = nullptr;
    std::uint64_t user_data = 0;
    regmap::EpOpcode opcode = regmap::EpOpcode::dispatch;
    EpHandle handle;
    std::uint32_t row_limit = 0;  ///< received_rows of the result cannot exceed it.
    std::uint32_t expert_alignment = 1;
    std::optional<Result<EpCompletion>> outcome;
};

/// The collective queue of one group. Handles are chosen by the order of calls alone, never by when they
/// complete, so that every rank chooses the same.
class EpCalls {
  public:
    explicit EpCalls(std::unique_ptr<EpResources> resources);
    ~EpCalls();
    EpCalls(const EpCalls&) = delete;
    EpCalls& operator=(const EpCalls&) = delete;

    Result<EpCall> dispatch(const DispatchArguments& arguments);
    Result<EpCall> combine(const CombineArguments& arguments);
    Result<void> release(EpHandle handle);

    /// Takes what completions there are. Error: the device is gone or stopped; every call in flight has ended
    /// with it.
    Result<void> progress();

    /// Progress until `call` has an outcome, or `timeout_ns` has gone by.
    Result<void> wait_for(const EpCallState& call, std::uint64_t timeout_ns);

    [[nodiscard]] const std::optional<Error>& asynchronous_error() const { return asynchronous_error_; }
    [[nodiscard]] RankMask& failed_ranks() { return failed_ranks_; }
    [[nodiscard]] const EpResources& resources() const { return *resources_; }

  private:
    /// What the host knows of a handle.
    struct Slot {
        bool taken = false;
        std::uint64_t generation = 0;
        std::uint32_t tokens = 0;
        std::uint32_t received_rows = 0;
        bool routed = false;                ///< The device keeps a routing for it.
        Status last_status = Status::ok;    ///< Of its latest call.
        std::shared_ptr<EpCallState> call;  ///< In flight.
    };
    /// A request on its way that nobody waits for; `refusal` is as good an end as ok.
    struct Errand {
        std::uint64_t user_data = 0;
        Status refusal = Status::ok;
    };

    Result<Slot*> find_idle(const EpHandle& handle);
    Result<Slot*> find_routed(const EpHandle& handle, regmap::EpOpcode opcode);
    Result<void> send(regmap::EpRequest request, Status refusal);
    [[nodiscard]] std::optional<std::uint32_t> next_free() const;
    Result<EpCall> post(regmap::EpRequest request, const EpHandle& handle, std::uint32_t row_limit);
    void on_completions(std::span<const regmap::Completion> completions);
    void on_completion(const regmap::Completion& completion);
    [[nodiscard]] bool has_result(const EpCallState& call, Status status) const;
    Result<EpCompletion> read_result(const EpCallState& call, Status status) const;
    void finish(Slot& slot, Result<EpCompletion> outcome);
    Error stop(Error error);
    void note(Error error);

    std::unique_ptr<EpResources> resources_;
    std::vector<Slot> slots_;
    std::deque<Errand> errands_;
    std::uint32_t last_chosen_;
    std::uint64_t next_user_data_ = 1;
    RankMask failed_ranks_;
    std::optional<Error> asynchronous_error_;
    std::optional<Error> stopped_;
};

}  // namespace plait
