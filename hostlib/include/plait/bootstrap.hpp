#pragma once
// The out-of-band channel of a job: how ranks tell each other what they need before the fabric carries
// anything.

#include <cstddef>
#include <cstdint>
#include <plait/result.hpp>
#include <span>
#include <vector>

namespace plait {

/// Given by the user: MPI, a key-value store, sockets, the simulator's own. Used only while a group is
/// created.
class Bootstrap {
  public:
    virtual ~Bootstrap() = default;

    /// This process's rank, 0 .. ranks() - 1.
    [[nodiscard]] virtual std::uint32_t rank() const = 0;

    [[nodiscard]] virtual std::uint32_t ranks() const = 0;

    /// Collective: every rank calls it with equally many bytes and gets those of all ranks, in rank order
    /// (ranks() * mine.size() bytes). Error: not all ranks came within `timeout_ns` of the link's clock, or
    /// the channel broke; it must not wait longer than that.
    virtual Result<std::vector<std::byte>> all_gather(std::span<const std::byte> mine,
                                                      std::uint64_t timeout_ns) = 0;
};

}  // namespace plait
