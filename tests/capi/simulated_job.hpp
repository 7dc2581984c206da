#pragma once
// Ranks on simulated devices with the real firmware, each with a link and a bootstrap for C. A process can
// run one.

#include <plait/plait.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <plait/c_link.hpp>
#include <plait/firmware/firmware.hpp>
#include <plait/sim/bridge/kernel.hpp>
#include <plait/sim/bridge/sim_link.hpp>
#include <plait/sim/models/cluster.hpp>
#include <plait/sim/models/native_firmware.hpp>
#include <vector>

namespace plait::sim::testing {

constexpr uint32_t ranks = 4;

/// Two nodes of two ranks.
class SimulatedJob {
  public:
    using Program =
        std::function<void(uint32_t rank, const plait_link& link, const plait_bootstrap& bootstrap)>;

    /// Runs the program of every rank to its end; false when one did not come to it.
    bool run(const Program& program) {
        std::array<Member, ranks> members;
        for (uint32_t rank = 0; rank < ranks; ++rank) {
            members[rank] = {this, rank};
            programs_.spawn("rank", [this, &program, &members, rank] {
                SimLink device_link(kernel_, cluster_.device(rank));
                plait_bootstrap bootstrap = PLAIT_BOOTSTRAP_INIT;
                bootstrap.context = &members[rank];
                bootstrap.rank = rank;
                bootstrap.ranks = ranks;
                bootstrap.all_gather = &SimulatedJob::gather;
                program(rank, make_c_link(device_link), bootstrap);
            });
        }
        sc_core::sc_start();
        return programs_.running() == 0;
    }

  private:
    struct Member {
        SimulatedJob* job = nullptr;
        uint32_t rank = 0;
        uint32_t round = 0;
    };

    static ClusterParameters parameters() {
        ClusterParameters parameters;
        parameters.fabric.devices = ranks;
        parameters.fabric.devices_per_node = 2;
        parameters.device.firmware.max_groups = 1;
        parameters.device.firmware.max_qps = 16;
        return parameters;
    }

    static plait_status gather(void* context, const void* mine, uint64_t length_bytes, void* all, uint64_t) {
        auto& member = *static_cast<Member*>(context);
        auto& given = member.job->rounds_[member.round++];
        const auto* bytes = static_cast<const std::byte*>(mine);
        given[member.rank].assign(bytes, bytes + length_bytes);
        while (given.size() < ranks) Kernel::sleep(1000);
        auto* out = static_cast<std::byte*>(all);
        for (const auto& [rank, part] : given) out = std::copy(part.begin(), part.end(), out);
        return PLAIT_STATUS_OK;
    }

    Cluster cluster_{"cluster", parameters(), make_native_firmware<firmware::Firmware>};
    Kernel kernel_{"kernel", cluster_.queue()};
    HostPrograms programs_{"programs", kernel_};
    std::map<uint32_t, std::map<uint32_t, std::vector<std::byte>>> rounds_;  ///< What each rank gave.
};

}  // namespace plait::sim::testing
