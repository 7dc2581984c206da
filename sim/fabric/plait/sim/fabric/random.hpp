// Seeded randomness for the simulator: hashing, named streams, and ties between simultaneous events.
#pragma once

#include <cstdint>
#include <string_view>

namespace plait::sim {

// The finaliser of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
// OOPSLA 2014).
constexpr uint64_t mix64(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
}

constexpr uint64_t golden_gamma = 0x9e3779b97f4a7c15ULL;

constexpr uint64_t hash_combine(uint64_t seed, uint64_t value) {
    return mix64((seed ^ value) + golden_gamma);
}

// FNV-1a, so that a stream can be named in words.
constexpr uint64_t hash_name(std::string_view name) {
    uint64_t hash = 0xcbf29ce484222325ULL;
    for (const char letter : name) {
        hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
    }
    return hash;
}

// The rank of an event among those of the same instant. `source` names who makes the event, `count` how many
// it has made: no source is systematically first, and the same seed gives the same order.
constexpr uint32_t tie_break(uint64_t seed, uint64_t source, uint64_t count) {
    return static_cast<uint32_t>(mix64(seed + source * 0xd1342543de82ef95ULL + count * golden_gamma) >> 32);
}

// A value in [0, bound) from a uniform 32-bit value. `bound` must not be 0.
constexpr uint32_t scale_to(uint32_t value, uint32_t bound) {
    return static_cast<uint32_t>((static_cast<uint64_t>(value) * bound) >> 32);
}

// A counter-based stream: value n is a hash of (seed, stream, n). Streams of one seed are independent of each
// other, so that drawing from one never shifts another.
class Random {
  public:
    constexpr explicit Random(uint64_t seed, uint64_t stream = 0) : key_(hash_combine(mix64(seed), stream)) {}
    constexpr Random(uint64_t seed, std::string_view stream) : Random(seed, hash_name(stream)) {}

    constexpr uint64_t next() { return mix64(key_ + ++counter_ * golden_gamma); }

    // Unbiased value in [0, bound). `bound` must not be 0.
    constexpr uint64_t uniform(uint64_t bound) {
        const uint64_t rejected = (0 - bound) % bound;  // 2^64 mod bound: the values that would make a bias
        uint64_t value = next();
        while (value < rejected) {
            value = next();
        }
        return value % bound;
    }

    // Uniform in [0, 1) with 53 random bits.
    constexpr double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

    // True with the given probability. Draws one value whatever the probability is.
    constexpr bool bernoulli(double probability) { return unit() < probability; }

  private:
    uint64_t key_;
    uint64_t counter_ = 0;
};

}  // namespace plait::sim
