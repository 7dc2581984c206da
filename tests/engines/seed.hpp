#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace plait::engines::test {

/// The seed of a random test: PLAIT_SEED if it is set, else the test's own.
inline uint64_t seed_or(uint64_t own) {
    const char* const text = std::getenv("PLAIT_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 0) : own;
}

inline std::string seed_message(uint64_t seed) { return "PLAIT_SEED=" + std::to_string(seed); }

}  // namespace plait::engines::test
