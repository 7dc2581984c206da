#pragma once
// What a Driver owns.

#include <array>
#include <memory>
#include <new>
#include <optional>
#include <plait/driver.hpp>
#include <string>
#include <variant>
#include <vector>

#include "admin_channel.hpp"
#include "device.hpp"
#include "rings.hpp"

namespace plait {

using Queue = std::variant<RequestRing, CompletionRing>;

inline Memory& memory_of(Queue& queue) noexcept {
    auto* requests = std::get_if<RequestRing>(&queue);
    return requests != nullptr ? requests->memory() : std::get_if<CompletionRing>(&queue)->memory();
}

class Driver::Implementation {
  public:
    Implementation(DeviceLink& link, const DriverOptions& options) : device(link, options) {}
    ~Implementation();
    Implementation(const Implementation&) = delete;
    Implementation& operator=(const Implementation&) = delete;

    Result<void> bring_up();
    Result<std::uint32_t> create_queue(regmap::QueueKind kind, std::uint32_t log2_entries,
                                       std::uint32_t completion_queue);
    /// AdminChannel::execute, and no_memory.
    Result<regmap::Completion> execute(const regmap::AdminRequest& request);
    /// nullptr: no such queue, or not of this kind.
    [[nodiscard]] RequestRing* request_ring(std::uint32_t number) const;
    [[nodiscard]] CompletionRing* completion_ring(std::uint32_t number) const;
    /// Takes completions and frees the entries of their requests.
    std::size_t take(std::uint32_t number, CompletionRing& ring, std::span<regmap::Completion> completions);
    template <class Record>
    Result<void> post(std::uint32_t number, regmap::QueueKind kind, std::span<const Record> requests);

    Device device;
    DeviceInfo info;
    std::unique_ptr<AdminChannel> admin;
    std::array<std::unique_ptr<Queue>, regmap::max_queues>
        queues{};  ///< By number; 0 is the administration's.
    std::array<bool, regmap::max_queues>
        in_doubt{};  ///< Numbers of queues that a command given up may have made.
    std::vector<Memory>
        doubtful_memory;  ///< What commands that were given up named: the device may use it until reset.
    bool is_up = false;

  private:
    Result<void> read_info();
    /// Resets the device; true when it uses no memory any more.
    bool has_let_go() noexcept;
};

/// Runs `body`; a failed allocation of host memory becomes no_memory.
template <class Body>
auto guarded(Body body) -> decltype(body()) {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return Error{Status::no_memory, "out of memory"};
    }
}

}  // namespace plait
