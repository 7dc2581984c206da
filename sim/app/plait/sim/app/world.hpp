// The simulated world of one run: the cluster, the host programs of its ranks, and what they share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <plait/bootstrap.hpp>
#include <plait/driver.hpp>
#include <plait/ep.hpp>
#include <plait/firmware/transport_state.hpp>
#include <plait/sim/app/progress.hpp>
#include <plait/sim/app/scenario.hpp>
#include <plait/sim/app/simulate.hpp>
#include <plait/sim/bridge/kernel.hpp>
#include <plait/sim/bridge/sim_link.hpp>
#include <plait/sim/models/cluster.hpp>
#include <plait/sim/riscv/processor.hpp>

namespace plait::sim {

/// Where all host programs wait for each other. The last one to come runs `last`, while the others still
/// wait.
class Barrier {
  public:
    Barrier(Kernel& kernel, uint32_t members) : kernel_(kernel), members_(members) {}
    void wait(const std::function<void()>& last = {});
    /// A member that ends early is not waited for any more.
    void leave();

  private:
    void open();

    Kernel& kernel_;
    uint32_t members_;
    uint32_t arrived_ = 0;
    uint64_t round_ = 0;
    std::function<void()> last_;
    sc_core::sc_event opened_;
};

/// Sums over all devices since the beginning (maxima where a counter is one).
struct WorldStatistics {
    DeviceStatistics devices;
    firmware::TransportStatistics transport;
};

/// Everything a host program needs. `outcome` is filled in as the run goes on.
class World {
  public:
    /// Throws InputError when the models refuse the parameters.
    World(const Scenario& scenario, const RunOptions& options, Progress& progress, RunOutcome& outcome);

    const Scenario& scenario;
    const Plan& plan;
    Progress& progress;
    RunOutcome& outcome;
    std::shared_ptr<Processor> processor;  ///< Null: firmware is native.
    Cluster cluster;
    Kernel kernel;
    HostPrograms programs;
    Barrier barrier;

    /// The link of each rank's host program while it runs; null for programs that cannot be stopped.
    std::vector<SimLink*> links;
    /// The rank's host does nothing for so long; 0: never any more, and nobody waits for its program.
    void stop_host(uint32_t rank, uint64_t for_ns);

    /// Calls may fail because of this rank, and then name it.
    void blame(uint32_t rank) { culprits_[rank] = true; }
    const RankMask& culprits() const { return culprits_; }

    /// What living devices still hold that belongs to no call in progress, a line each. Once all calls have
    /// ended and packets have had time to arrive.
    std::vector<std::string> leaks();

    /// One line for the report; those after the first `errors_kept` are only counted.
    void error(std::string line);
    uint64_t errors_kept;
    uint64_t errors() const { return errors_; }

    /// Payload bytes that have been placed and checked.
    void placed(uint64_t bytes);
    uint64_t placed_bytes() const { return placed_bytes_; }
    /// What the run will place in all, for the progress bar.
    void expect(uint64_t bytes) { expected_bytes_ += bytes; }
    uint64_t expected_bytes() const { return expected_bytes_; }

    WorldStatistics statistics();

    /// Runs all programs to the end; false when the time limit or the user ended it.
    bool run();

  private:
    void watch();
    void engines_differ(const std::string& line);
    bool firmware_stopped() const { return processor != nullptr && processor->fault(); }

    RankMask culprits_;
    uint64_t errors_ = 0;
    uint64_t placed_bytes_ = 0;
    uint64_t expected_bytes_ = 0;
    bool cut_short_ = false;
};

/// The out-of-band channel between the host programs of a world.
class WorldBootstrap final : public Bootstrap {
  public:
    struct Board {
        std::vector<std::vector<std::byte>> contributions;
    };
    WorldBootstrap(World& world, Board& board, uint32_t rank, uint32_t ranks)
        : world_(world), board_(board), rank_(rank), ranks_(ranks) {}
    uint32_t rank() const override { return rank_; }
    uint32_t ranks() const override { return ranks_; }
    Result<std::vector<std::byte>> all_gather(std::span<const std::byte> mine, uint64_t timeout_ns) override;

  private:
    World& world_;
    Board& board_;
    uint32_t rank_;
    uint32_t ranks_;
};

/// Spawns the host programs of the scenario's workload.
void spawn_ep(World& world);
void spawn_flows(World& world);
/// Schedules the scenario's faults.
void spawn_faults(World& world);
/// Fills the figures of the whole run.
void collect(World& world);

/// A phase as it goes on: what moved between begin() and end().
class PhaseMeter {
  public:
    explicit PhaseMeter(World& world) : world_(world) {}
    void begin() { before_ = world_.statistics(); }
    /// The figures that do not depend on who took part.
    void end(PhaseOutcome& phase);

  private:
    World& world_;
    WorldStatistics before_;
};

}  // namespace plait::sim
