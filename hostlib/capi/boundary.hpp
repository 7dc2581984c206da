#pragma once
// What stands between C and C++: no exception gets out, no struct of another age gets in unchecked.

#include <plait/plait.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <plait/result.hpp>
#include <string>

namespace plait::capi {

/// Keeps the message for plait_last_error(); the status for C.
plait_status report(Status status, const char* message) noexcept;
inline plait_status report(const Error& error) noexcept {
    return report(error.status, error.message.c_str());
}

/// Runs `body`, which gives a Result<void>; whatever comes out of it becomes a status.
template <class Body>
plait_status guard(Body body) noexcept {
    try {
        const Result<void> result = body();
        return result ? PLAIT_STATUS_OK : report(result.error());
    } catch (const std::bad_alloc&) {
        return report(Status::no_memory, "the host has no memory left");
    } catch (const std::exception& exception) {
        return report(Status::aborted, exception.what());
    } catch (...) {
        return report(Status::aborted, "a function of the caller threw");
    }
}

inline Error null_error(const char* name) {
    return {Status::invalid_parameter, std::string(name) + " is null"};
}

inline Result<void> check_pointer(const char* name, const void* pointer) {
    if (pointer == nullptr) return null_error(name);
    return {};
}

/// The head of a struct of the caller, and what lies behind the `known_bytes` that this library knows.
Result<void> check_head(const char* name, const void* given, std::size_t known_bytes);

/// A struct of the caller, completed with `defaults`.
template <class Struct>
Result<Struct> read_struct(const char* name, const Struct* given, const Struct& defaults) {
    if (auto checked = check_head(name, given, sizeof(Struct)); !checked) return checked.error();
    Struct known = defaults;
    std::memcpy(&known, given, std::min<std::size_t>(given->struct_size, sizeof(Struct)));
    return known;
}

/// As much of `value` as the caller's struct has room for; check_head() has passed it.
template <class Struct>
void write_struct(Struct* given, Struct value) {
    value.struct_size = given->struct_size;
    value.version = given->version;
    std::memcpy(given, &value, std::min<std::size_t>(given->struct_size, sizeof(Struct)));
}

}  // namespace plait::capi
