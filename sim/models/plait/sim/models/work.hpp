// Kinds of firmware work, and what each takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace plait::sim {

/// Kinds of firmware work: the rows of the cost table.
enum class Work : uint8_t {
    data_received,
    data_sent,
    acknowledgement,  ///< An ACK, probe or port status received.
    doorbell,
    fetched,
    scale_up_received,
    scale_up_sent,  ///< Word that frames have left.
    reduced,
    credit,  ///< Free: part of data_sent.
    timer,
    port_change,
};
inline constexpr size_t work_kinds = 11;

constexpr const char* work_name(Work work) {
    constexpr const char* names[work_kinds] = {
        "data_received", "data_sent", "acknowledgement", "doorbell", "fetched",    "scale_up_received",
        "scale_up_sent", "reduced",   "credit",          "timer",    "port_change"};
    return names[static_cast<size_t>(work)];
}

/// What a handler gives or gets that it takes instructions for, besides those that each of its kind takes.
enum class WorkPart : uint8_t {
    data,  ///< A data packet given to a plane: what the handler does before data_sent begins.
    control,
    scale_up,
    timer,
    fetch,
    place,
    write,
    reference,  ///< A buffer retained or released.
    sum,        ///< A sum opened or closed, or its weights.
    addend,
    message,  ///< Of an EP call: given to the transport, or got back as done.
    size,     ///< Packets that an ACK tells of, indices and choices of a row, 8 bytes of a list that was read
              ///< or of a control message.
    record,   ///< 8 bytes of a request that was read.
};
inline constexpr size_t work_parts = 13;

/// WorkPart::size of bytes that come with an event.
constexpr uint32_t size_of_work(uint64_t bytes) { return static_cast<uint32_t>((bytes + 7) / 8); }

constexpr const char* work_part_name(WorkPart part) {
    constexpr const char* names[work_parts] = {"data",    "control", "scale_up",  "timer", "fetch",
                                               "place",   "write",   "reference", "sum",   "addend",
                                               "message", "size",    "record"};
    return names[static_cast<size_t>(part)];
}

/// Instructions of firmware by kind of work, in the order of Work: of each event, and of each of its parts.
/// The defaults are declared, not measured.
struct HandlerCosts {
    std::array<uint32_t, work_kinds> instructions{150, 200, 120, 100, 100, 100, 100, 100, 0, 100, 100};
    std::array<std::array<uint32_t, work_parts>, work_kinds> each{};
};

}  // namespace plait::sim
