// The flows of the workloads that are not EP.
#pragma once

#include <cstdint>
#include <vector>

#include <plait/sim/app/scenario.hpp>

namespace plait::sim {

/// `bytes` from one device to another in messages of message_bytes, the last one shorter. A flow of 0 bytes
/// is one message of 0 bytes.
struct Flow {
    uint32_t source = 0;
    uint32_t destination = 0;
    uint64_t bytes = 0;
    uint64_t message_bytes = 0;
    bool is_victim = false;

    uint64_t messages() const { return bytes == 0 ? 1 : (bytes + message_bytes - 1) / message_bytes; }
    uint64_t bytes_of_message(uint64_t number) const {
        return number + 1 < messages() ? message_bytes : bytes - (messages() - 1) * message_bytes;
    }
};

/// All flows of the scenario, in a defined order: they start at the same time.
/// permutation: every device sends to one other and hears from one other, in another node if there is one
/// (drawn with the seed, or `shift`). alltoall: every device to every other, each starting with its
/// successor. incast: `senders` devices after the receiver, in order, and the victim's flow.
std::vector<Flow> flows_of(const Scenario& scenario);

}  // namespace plait::sim
