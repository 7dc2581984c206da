#pragma once
// Commands over the administration queue, one at a time.

#include <memory>

#include "device.hpp"
#include "rings.hpp"

namespace plait {

class AdminChannel {
  public:
    /// The rings; the device is not told yet.
    static Result<std::unique_ptr<AdminChannel>> create(Device& device);

    /// Describes the rings to the device and enables it.
    Result<void> enable();

    /// Carries a command out. Its completion, if that says ok. Errors: the completion's status; timeout: no
    /// answer in time, the command may or may not be carried out later; queue_full: the ring is full of such
    /// commands; and what Device knows.
    Result<regmap::Completion> execute(regmap::AdminRequest request);

    /// The device may still use the rings.
    void leave_memory();

  private:
    AdminChannel(Device& device, RequestRing requests, CompletionRing completions)
        : device_(device), requests_(std::move(requests)), completions_(std::move(completions)) {}

    /// Takes completions until the one of `command_id`; others are of commands given up before.
    bool find(std::uint32_t command_id, regmap::Completion& completion);

    Device& device_;
    RequestRing requests_;
    CompletionRing completions_;
    std::uint32_t next_command_id_ = 0;
};

}  // namespace plait
