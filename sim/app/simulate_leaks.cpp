// What is left behind when all calls have ended.

#include <fmt/format.h>

#include <plait/sim/app/firmware_place.hpp>
#include <plait/sim/app/world.hpp>

namespace plait::sim {
namespace {

struct Findings {
    uint32_t device;
    std::vector<std::string>& lines;

    void expect_none(uint64_t count, const char* what) {
        if (count != 0) lines.push_back(fmt::format("device {} still holds {} {}", device, count, what));
    }
};

// What a handle counts while its call goes on.
void inspect(const firmware::EpHandle& handle, Findings& findings) {
    using firmware::HandleState;
    const bool idle = handle.state == HandleState::free || handle.state == HandleState::dispatched;
    findings.expect_none(idle ? 0 : 1, "call in progress");
    findings.expect_none(handle.messages_in_flight, "messages of a handle");
    findings.expect_none(handle.table_messages, "messages that read a handle's tables");
    findings.expect_none(handle.fetches_left, "fetches of a handle");
    findings.expect_none(handle.local_in_flight, "rows of a handle on their way in the node");
    findings.expect_none(handle.pulls_leaving, "contributions of a handle on their way");
}

void inspect(const firmware::QueuePair& pair, Findings& findings) {
    if (pair.state != firmware::QpState::connected) return;
    findings.expect_none(pair.message_tail - pair.message_head, "messages in the window of a queue pair");
    findings.expect_none(pair.in_flight_bytes, "bytes in flight of a queue pair");
}

template <class Firmware>
void inspect(Firmware& code, Findings& findings) {
    findings.expect_none(code.ep().accumulators_in_use(), "accumulators");
    findings.expect_none(code.ep().partials_in_use(), "parts owed");
    for (const firmware::EpGroup& group : code.ep().groups())
        for (const firmware::EpHandle& handle : group.handles) inspect(handle, findings);
    for (uint32_t qpn = 1; qpn < code.config().max_qps; ++qpn)
        if (const firmware::QueuePair* pair = code.transport().queue_pair(qpn)) inspect(*pair, findings);
}

void inspect(DeviceModel& device, Findings& findings) {
    findings.expect_none(device.packet_memory().live(), "buffers of packet memory");
    findings.expect_none(device.reduce_engine().in_use(), "accumulators of the reduce engine");
    look_at(device.firmware(), [&findings](auto& code) { inspect(code, findings); });
}

}  // namespace

std::vector<std::string> World::leaks() {
    std::vector<std::string> lines;
    bool any_dead = false;
    for (uint32_t number = 0; number < cluster.devices(); ++number) {
        Findings findings{number, lines};
        DeviceModel& device = cluster.device(number);
        if (device.is_dead()) any_dead = true;
        else inspect(device, findings);
    }
    // A device that died keeps what it held.
    const size_t blocks = any_dead ? 0 : cluster.pools().payload.live();
    if (blocks != 0) lines.push_back(fmt::format("{} blocks of payload are still held", blocks));
    return lines;
}

}  // namespace plait::sim
