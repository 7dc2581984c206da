// Dispatch and combine: the host program of each rank, which is what a framework would run.

#include <fmt/format.h>

#include <algorithm>

#include "ep_memory.hpp"

namespace plait::sim {
namespace {

struct EpRun {
    explicit EpRun(World& w) : world(w), meter(w) {
        for (uint32_t number = 0; number < w.scenario.ep.micro_batches; ++number)
            batches.push_back(std::make_unique<EpBatch>(w, number));
    }
    EpInputs& add_inputs(const EpBatch& batch, uint32_t rank) {
        return *inputs.emplace_back(std::make_unique<EpInputs>(batch, rank));
    }
    World& world;
    PhaseMeter meter;
    WorldBootstrap::Board board;
    std::vector<std::unique_ptr<EpBatch>> batches;
    std::vector<std::unique_ptr<EpInputs>> inputs;  // of all ranks
    size_t first_phase = 0;                         // of those that are going on, one a micro-batch
};

class EpProgram {
  public:
    EpProgram(EpRun& run, uint32_t rank)
        : run_(run),
          world_(run.world),
          rank_(rank),
          link_(world_.kernel, world_.cluster.device(rank)),
          bootstrap_(world_, run.board, rank, world_.scenario.ranks()) {
        const auto& absent = world_.scenario.ep.absent_ranks;
        is_absent_ = std::find(absent.begin(), absent.end(), rank) != absent.end();
        if (is_absent_) world_.blame(rank);
        world_.links[rank] = &link_;
    }
    ~EpProgram() { world_.links[rank_] = nullptr; }  // also when it is killed
    EpProgram(const EpProgram&) = delete;
    EpProgram& operator=(const EpProgram&) = delete;

    void operator()() {
        try {
            set_up();
            for (uint32_t repetition = 0; repetition < world_.scenario.ep.repeat; ++repetition) {
                phase("dispatch", repetition, [&](uint32_t batch) { return dispatch(batch, repetition); });
                phase("combine", repetition, [&](uint32_t batch) { return combine(batch); });
            }
            world_.barrier.wait();
            drain();
        } catch (const sc_core::sc_unwind_exception&) {
            throw;  // the run ends before the program
        } catch (const std::exception& failure) {
            world_.error(fmt::format("rank {}: {}", rank_, failure.what()));
            world_.barrier.leave();
        }
        keep_alive_until_end();
    }

  private:
    template <class T>
    static T need(Result<T> result, const char* what) {
        if (!result) throw std::runtime_error(fmt::format("{}: {}", what, result.error().message));
        if constexpr (!std::is_void_v<T>) return std::move(result.value());
    }

    void set_up() {
        const Scenario& scenario = world_.scenario;
        driver_ = need(Driver::open(link_), "open");
        need(driver_->set_qp_time_limit_us(scenario.transport.qp_time_limit_us), "time limit");
        EpConfig config;
        config.ranks_per_node = scenario.topology.gpus_per_node;
        config.experts = scenario.ep.experts;
        config.topk = scenario.ep.topk;
        config.hidden = scenario.ep.hidden;
        config.max_tokens = max_tokens_of(scenario);
        config.mode = scenario.ep.mode;
        config.dispatch_format = scenario.ep.dispatch_format;
        config.combine_format = scenario.ep.combine_format;
        config.partial_format = scenario.ep.partial_format;
        config.encode_dispatch = scenario.ep.encode_dispatch;
        config.encode_combine = scenario.ep.encode_combine;
        config.entry_policy = scenario.ep.entry_policy;
        config.handles = std::max(1U, scenario.ep.micro_batches);
        config.mtu_bytes = static_cast<uint16_t>(scenario.scale_out.mtu_bytes);
        config.window_packets = static_cast<uint16_t>(scenario.transport.window_packets);
        config.entropy_values = static_cast<uint16_t>(scenario.transport.entropy_values);
        config.spray_policy = scenario.transport.spray;
        group_ = need(EpGroup::create(*driver_, config, bootstrap_), "group");
        for (const auto& batch : run_.batches)
            memories_.push_back(
                std::make_unique<EpMemory>(world_, *batch, run_.add_inputs(*batch, rank_), rank_, *driver_));
        handles_.resize(run_.batches.size());
    }

    // All micro-batches at once: every call is posted, then all are waited for.
    template <class Post>
    void phase(const char* name, uint32_t repetition, Post&& post) {
        world_.barrier.wait([&] { begin_phase(name, repetition); });
        std::vector<std::optional<EpCall>> calls;
        for (uint32_t batch = 0; batch < memories_.size() && !is_absent_; ++batch)
            calls.push_back(posted(post(batch), name));
        for (uint32_t batch = 0; batch < calls.size(); ++batch) {
            if (!calls[batch]) continue;
            const EpCompletion completion =
                need(calls[batch]->wait(std::uint64_t{world_.scenario.ep.timeout_us} * 2000), name);
            end_call(batch, completion, name[0] == 'd');
        }
        world_.barrier.wait([&] { end_phase(); });
    }

    // A call on a handle that an earlier failure has left without a routing ends there.
    std::optional<EpCall> posted(Result<EpCall> call, const char* name) {
        if (!call && call.status() == Status::invalid_handle) {
            world_.error(fmt::format("rank {}: {} not made: {}", rank_, name, call.error().message));
            return std::nullopt;
        }
        return need(std::move(call), name);
    }

    Result<EpCall> dispatch(uint32_t batch, uint32_t repetition) {
        const bool cached = world_.scenario.ep.cached && repetition != 0;
        if (repetition != 0 && !cached) need(group_->release(*handles_[batch]), "release");
        auto call =
            group_->dispatch(memories_[batch]->dispatch_arguments(cached ? handles_[batch] : std::nullopt));
        if (call) handles_[batch] = call.value().handle();
        return call;
    }

    Result<EpCall> combine(uint32_t batch) {
        return group_->combine(memories_[batch]->combine_arguments(*handles_[batch]));
    }

    void begin_phase(const char* name, uint32_t repetition) {
        auto& phases = world_.outcome.phases;
        run_.first_phase = phases.size();
        for (uint32_t batch = 0; batch < run_.batches.size(); ++batch) {
            PhaseOutcome phase;
            phase.name = name;
            phase.micro_batch = batch;
            phase.repetition = repetition;
            phase.start_ps = Kernel::now_ps();
            phase.verified = true;
            phases.push_back(phase);
        }
        run_.meter.begin();
    }

    void end_call(uint32_t batch, const EpCompletion& completion, bool is_dispatch) {
        PhaseOutcome& phase = world_.outcome.phases[run_.first_phase + batch];
        phase.time_ps = std::max(phase.time_ps, Kernel::now_ps() - phase.start_ps);
        const bool right = is_dispatch ? memories_[batch]->check_dispatch(completion)
                                       : memories_[batch]->check_combine(completion);
        phase.verified = phase.verified && right;
        phase.non_finite += completion.non_finite;
        memories_[batch]->take_error(phase);
    }

    void end_phase() {
        for (uint32_t batch = 0; batch < run_.batches.size(); ++batch) {
            PhaseOutcome& phase = world_.outcome.phases[run_.first_phase + batch];
            run_.meter.end(phase);
            phase.complete = phase.verified;
        }
        world_.outcome.simulated_ps = Kernel::now_ps();
    }

    // The last acknowledgements arrive, where packets are lost after some time-outs; then nobody may hold
    // anything any more.
    void drain() {
        world_.barrier.wait([this] {
            constexpr uint64_t quiet_ns = 100'000;
            constexpr uint32_t longest = 200;
            std::vector<std::string> leaks;
            for (uint32_t waited = 0; waited < longest; ++waited) {
                Kernel::sleep(quiet_ns);
                leaks = world_.leaks();
                if (leaks.empty()) return;
            }
            for (std::string& leak : leaks) world_.error("after the last call: " + leak);
        });
    }

    // Peers may still need this device: nobody closes before all are done. No stop keeps it from closing
    // then.
    void keep_alive_until_end() {
        sc_core::wait(sc_core::SC_ZERO_TIME);
        world_.links[rank_] = nullptr;
        link_.stop_until(0);
    }

    EpRun& run_;
    World& world_;
    uint32_t rank_;
    bool is_absent_ = false;
    SimLink link_;
    WorldBootstrap bootstrap_;
    std::unique_ptr<Driver> driver_;
    std::vector<std::unique_ptr<EpMemory>> memories_;  // before the group ends: its calls use them
    std::unique_ptr<EpGroup> group_;
    std::vector<std::optional<EpHandle>> handles_;
};

uint64_t bytes_to_place(const EpRun& run) {
    const EpWorkload& ep = run.world.scenario.ep;
    uint64_t bytes = 0;
    for (const auto& batch : run.batches) {
        for (const ExpectedReceive& rank : batch->expected)
            bytes += uint64_t{rank.received_rows} * dispatch_row_bytes(ep);
        bytes += batch->routing.first.back() * combined_row_bytes(ep);
    }
    return bytes * ep.repeat;
}

}  // namespace

void spawn_ep(World& world) {
    auto run = std::make_shared<EpRun>(world);
    world.expect(bytes_to_place(*run));
    constexpr uint64_t timeline_bin_ps = 50'000'000;  // 50 us
    world.outcome.timeline_bin_ps = timeline_bin_ps;
    for (uint32_t rank = 0; rank < world.scenario.ranks(); ++rank) {
        world.programs.spawn(fmt::format("rank{}", rank), [run, rank] { EpProgram(*run, rank)(); });
    }
}

}  // namespace plait::sim
