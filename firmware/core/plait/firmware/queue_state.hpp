#pragma once
// What the device remembers of a queue in host memory.

#include <cstdint>
#include <plait/regmap.hpp>

namespace plait::firmware {

using regmap::QueueKind;

/// Who takes a queue's requests.
enum class OwnerKind : std::uint8_t { none, qp, group, admin };
struct QueueOwner {
    OwnerKind kind = OwnerKind::none;
    std::uint32_t number = 0;
    friend constexpr bool operator==(const QueueOwner&, const QueueOwner&) = default;
};

constexpr std::uint16_t distance(std::uint16_t from, std::uint16_t to) {
    return static_cast<std::uint16_t>(to - from);
}

/// Indices run freely modulo 2^16, which every ring's length divides.
struct Queue {
    std::uint64_t address = 0;
    QueueOwner owner;
    std::uint32_t completion_queue = 0;
    std::uint32_t users = 0;       ///< Of a completion queue: queues that complete to it.
    std::uint32_t generation = 0;  ///< Tells fetches of earlier lives apart; never reset.
    std::uint16_t produced = 0;    ///< Requests posted; completions written.
    std::uint16_t consumed = 0;    ///< Requests handed over; completions the driver has read.
    std::uint16_t promised = 0;    ///< Completions that collective requests under way will write.
    std::uint16_t record_bytes = 0;
    std::uint8_t fetching = 0;  ///< Records of the fetch under way.
    std::uint8_t log2_entries = 0;
    QueueKind kind = QueueKind::send;
    bool used = false;
    bool busy = false;        ///< A fetch is under way or its records are being handed over.
    bool overflowed = false;  ///< The owner was told that a completion was lost.
    bool starved = false;     ///< A collective queue waits for a free entry of this completion queue.

    [[nodiscard]] constexpr std::uint32_t entries() const { return std::uint32_t{1} << log2_entries; }
    [[nodiscard]] constexpr std::uint64_t record_address(std::uint16_t index) const {
        return address + std::uint64_t{index & (entries() - 1)} * record_bytes;
    }
};

constexpr std::uint16_t record_bytes(QueueKind kind) {
    switch (kind) {
        case QueueKind::send: return sizeof(regmap::WorkRequest);
        case QueueKind::receive: return sizeof(regmap::ReceiveRequest);
        case QueueKind::completion: return sizeof(regmap::Completion);
        case QueueKind::collective: return sizeof(regmap::EpRequest);
    }
    return 0;
}

constexpr bool is_ring(std::uint64_t address, std::uint8_t log2_entries, std::uint32_t record) {
    const std::uint64_t bytes = std::uint64_t{record} << log2_entries;
    return address % record == 0 && address + (bytes - 1) >= address;
}

/// Entries of a completion queue that are neither unread nor promised.
constexpr std::uint32_t free_entries(const Queue& ring) {
    return ring.entries() - distance(ring.consumed, ring.produced) - ring.promised;
}

}  // namespace plait::firmware
