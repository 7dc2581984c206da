#pragma once
// What the spray selector is told and what it answers.

#include <cstdint>

namespace plait::engines {

enum class SprayPolicy : uint8_t {
    spray,  ///< any offered plane in turn, then the plane's entropy values in turn; reacts to ECN and loss
    round_robin,  ///< strict rotation over all entropy values, waits for their plane; reacts to loss only
    single_path,  ///< one entropy value until it fails
};

enum class EntropyState : uint8_t {
    good,
    skip,         ///< met congestion: sits out one rotation
    assumed_bad,  ///< lost a packet silently: out until a probe returns
    denied,       ///< forbidden by management: never used
};

struct SprayConfig {
    SprayPolicy policy = SprayPolicy::spray;
    uint32_t planes = 1;          ///< 1..8
    uint32_t entropy_values = 1;  ///< 1..256, a multiple of planes
    uint32_t seed = 0;            ///< differs by QP, so that QPs do not collide on the same paths
    uint32_t suspect_losses = 4;  ///< consecutive losses that make a plane suspect, at least 1
};

struct PathChoice {
    uint16_t entropy_index;  ///< comes back in the feedback
    uint16_t entropy;        ///< UDP source port, 0xC000..0xFFFF
    uint8_t plane;
};

/// As planes that are due: any.
inline constexpr uint32_t every_plane = ~0u;

}  // namespace plait::engines
