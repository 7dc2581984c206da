#pragma once
// Work requests, filled in. They hold addresses only: the memory stays the caller's and unchanged until the
// completion.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <plait/result.hpp>
#include <span>
#include <string>

namespace plait {

/// Bits of WorkRequest.flags.
using regmap::request_inline;
using regmap::request_signalled;

/// Bits of a memory registration's access. Reading by the own device is always allowed.
using regmap::access_local_write;
using regmap::access_remote_atomic;
using regmap::access_remote_read;
using regmap::access_remote_write;

/// Registered memory of the own device.
struct LocalBuffer {
    std::uint64_t device_address = 0;
    std::uint32_t length_bytes = 0;
    std::uint32_t key = 0;  ///< Not looked at when length_bytes is 0.
};

/// Registered memory of the peer, as the peer calls it.
struct RemoteBuffer {
    std::uint64_t device_address = 0;
    std::uint32_t key = 0;
};

/// `local` into the peer's next receive request. Signalled.
inline regmap::WorkRequest make_send(const LocalBuffer& local, std::uint64_t user_data) {
    regmap::WorkRequest request;
    request.opcode = regmap::WorkOpcode::send;
    request.flags = request_signalled;
    request.user_data = user_data;
    request.local_address = local.device_address;
    request.local_key = local.key;
    request.length = local.length_bytes;
    return request;
}

/// `local` into the peer's memory. Signalled.
inline regmap::WorkRequest make_write(const LocalBuffer& local, const RemoteBuffer& remote,
                                      std::uint64_t user_data) {
    regmap::WorkRequest request = make_send(local, user_data);
    request.opcode = regmap::WorkOpcode::write;
    request.remote_address = remote.device_address;
    request.remote_key = remote.key;
    return request;
}

/// The same request with immediate data. Other opcodes than send and write are left as they are.
inline regmap::WorkRequest with_immediate(regmap::WorkRequest request, std::uint32_t immediate) {
    if (request.opcode == regmap::WorkOpcode::send) request.opcode = regmap::WorkOpcode::send_immediate;
    if (request.opcode == regmap::WorkOpcode::write) request.opcode = regmap::WorkOpcode::write_immediate;
    request.immediate = immediate;
    return request;
}

/// The same request without a completion on success. Its ring entry becomes free with a later completion of
/// its queue.
inline regmap::WorkRequest unsignalled(regmap::WorkRequest request) {
    request.flags = static_cast<std::uint8_t>(request.flags & ~request_signalled);
    return request;
}

/// The same request with a copy of `payload` in place of local memory. invalid_length: more than
/// inline_bytes.
inline Result<regmap::WorkRequest> with_inline(regmap::WorkRequest request,
                                               std::span<const std::byte> payload) {
    if (payload.size() > regmap::inline_bytes)
        return Error{Status::invalid_length, "inline payload of " + std::to_string(payload.size()) +
                                                 " bytes, expected at most " +
                                                 std::to_string(regmap::inline_bytes)};
    request.flags = static_cast<std::uint8_t>(request.flags | request_inline);
    request.inline_length = static_cast<std::uint16_t>(payload.size());
    request.length = static_cast<std::uint32_t>(payload.size());
    request.local_address = 0;
    request.local_key = 0;
    std::fill(std::begin(request.inline_data), std::end(request.inline_data), std::uint8_t{0});
    if (!payload.empty()) std::memcpy(request.inline_data, payload.data(), payload.size());
    return request;
}

/// `local` for the next message that consumes a receive request.
inline regmap::ReceiveRequest make_receive(const LocalBuffer& local, std::uint64_t user_data) {
    regmap::ReceiveRequest request;
    request.user_data = user_data;
    request.address = local.device_address;
    request.key = local.key;
    request.length = local.length_bytes;
    return request;
}

}  // namespace plait
