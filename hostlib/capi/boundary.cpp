#include "boundary.hpp"

#include <array>
#include <cstdint>

namespace plait::capi {
namespace {

thread_local std::array<char, 512> last_error{};

constexpr std::size_t head_bytes = 2 * sizeof(std::uint32_t);

}  // namespace

plait_status report(Status status, const char* message) noexcept {
    const std::size_t length = std::min(std::strlen(message), last_error.size() - 1);
    std::memcpy(last_error.data(), message, length);
    last_error[length] = '\0';
    return static_cast<plait_status>(status);
}

Result<void> check_head(const char* name, const void* given, std::size_t known_bytes) {
    if (given == nullptr) return null_error(name);
    std::uint32_t struct_size = 0;
    std::uint32_t version = 0;
    std::memcpy(&struct_size, given, sizeof struct_size);
    if (struct_size < head_bytes || struct_size > PLAIT_MAX_STRUCT_BYTES)
        return Error{Status::invalid_length,
                     std::string(name) + ": struct_size is " + std::to_string(struct_size) + ", expected " +
                         std::to_string(head_bytes) + " .. " + std::to_string(PLAIT_MAX_STRUCT_BYTES)};
    const auto* bytes = static_cast<const std::byte*>(given);
    std::memcpy(&version, bytes + sizeof struct_size, sizeof version);
    if (version != PLAIT_VERSION)
        return Error{Status::version_mismatch, std::string(name) + ": version is " + std::to_string(version) +
                                                   ", expected " + std::to_string(PLAIT_VERSION)};
    for (std::size_t at = known_bytes; at < struct_size; ++at)
        if (bytes[at] != std::byte{0})
            return Error{Status::invalid_parameter, std::string(name) + ": byte " + std::to_string(at) +
                                                        " is set, beyond the " + std::to_string(known_bytes) +
                                                        " that are known"};
    return {};
}

}  // namespace plait::capi

const char* plait_status_string(plait_status status) {
    if (status > UINT8_MAX) return "unknown";
    return plait::regmap::name(static_cast<plait::Status>(status));
}

const char* plait_last_error(void) { return plait::capi::last_error.data(); }
