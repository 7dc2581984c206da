#pragma once
// What the ranks of a group tell each other through the bootstrap while it is created.

#include <array>
#include <cstdint>
#include <cstring>
#include <plait/bootstrap.hpp>
#include <plait/ep.hpp>
#include <span>
#include <string>
#include <vector>

namespace plait {

/// What all ranks must agree on, and how far this one has come. Fixed-width words, so that it means the same
/// everywhere.
struct GroupIdentity {
    std::uint32_t regmap_version = 0;
    std::uint32_t status = 0;  ///< Not ok: this rank cannot take part.
    std::uint32_t device_number = 0;
    std::array<std::uint32_t, 15> parameters{};  ///< In the order of `parameter_names`.
};

/// A queue pair of one rank towards another; {0, 0} for ranks of the own node.
struct PairAddress {
    std::uint32_t qpn = 0;
    std::uint32_t first_psn = 0;
};

GroupIdentity identity_of(const EpConfig& config, std::uint32_t device_number, Status status);

/// Checks the identities of all ranks. The same error on every rank, naming rank and field; a rank that could
/// not take part comes first.
Result<void> check_identities(std::span<const GroupIdentity> identities);

/// Error of the first rank whose status is not ok.
Result<void> check_statuses(std::span<const std::uint32_t> statuses);

/// `mine.size()` records of every rank, in rank order. Refuses an answer of another size.
template <class Record>
Result<std::vector<Record>> gather(Bootstrap& bootstrap, std::span<const Record> mine,
                                   std::uint64_t timeout_ns) {
    auto bytes = bootstrap.all_gather(std::as_bytes(mine), timeout_ns);
    if (!bytes) return Error{bytes.status(), "bootstrap: " + bytes.error().message};
    const std::size_t expected = mine.size_bytes() * bootstrap.ranks();
    if (bytes.value().size() != expected)
        return Error{Status::invalid_length, "bootstrap: gathered " + std::to_string(bytes.value().size()) +
                                                 " bytes, expected " + std::to_string(expected)};
    std::vector<Record> records(mine.size() * bootstrap.ranks());
    if (expected != 0) std::memcpy(records.data(), bytes.value().data(), expected);
    return records;
}

}  // namespace plait
