// Permutation, all-to-all and incast: each flow is one queue pair that sends messages.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <plait/requests.hpp>
#include <plait/sim/app/world.hpp>
#include <plait/sim/fabric/random.hpp>

namespace plait::sim {
namespace {

// Bytes of a flow at any offset, as fast as memory: every 4 KiB are a hashed window of a seeded pool.
class FlowPattern {
  public:
    static constexpr uint64_t block = 4096;

    explicit FlowPattern(uint64_t seed) : seed_(seed), pool_(pool_bytes + block) {
        Random random(seed, "flow pattern");
        for (size_t i = 0; i < pool_.size(); i += sizeof(uint64_t)) {
            const uint64_t word = random.next();
            std::memcpy(&pool_[i], &word, sizeof(word));
        }
    }

    template <class Visitor>
    void for_each_window(uint32_t flow, uint64_t offset, size_t length, Visitor&& visit) const {
        for (size_t done = 0; done < length;) {
            const uint64_t at = offset + done;
            const size_t part = std::min<size_t>(length - done, block - at % block);
            const uint64_t start = hash_combine(hash_combine(seed_, flow), at / block) % pool_bytes;
            visit(done, std::span<const std::byte>(&pool_[start + at % block], part));
            done += part;
        }
    }

  private:
    static constexpr size_t pool_bytes = size_t{1} << 20;
    uint64_t seed_;
    std::vector<std::byte> pool_;
};

// One flow: memory at both ends and what became of it.
struct FlowState {
    World* world = nullptr;
    const FlowPattern* pattern = nullptr;
    uint32_t number = 0;
    Flow flow;
    std::vector<uint64_t> received;  // bytes of each message
    uint64_t verified_bytes = 0;
    // What the ends tell each other before the start.
    std::vector<Qp> source_qps, destination_qps;
    RemoteBuffer target;

    static void produce(void* object, uint64_t offset, std::span<std::byte> out) {
        const auto& self = *static_cast<FlowState*>(object);
        self.pattern->for_each_window(self.number, offset, out.size(),
                                      [&](size_t at, std::span<const std::byte> part) {
                                          std::memcpy(out.data() + at, part.data(), part.size());
                                      });
    }

    static void check(void* object, uint64_t offset, std::span<const std::byte> in) {
        static_cast<FlowState*>(object)->check(offset, in);
    }

    void check(uint64_t offset, std::span<const std::byte> in) {
        bool right = true;
        pattern->for_each_window(number, offset, in.size(), [&](size_t at, std::span<const std::byte> part) {
            right = right && std::memcmp(in.data() + at, part.data(), part.size()) == 0;
        });
        const uint64_t message = offset / flow.message_bytes;
        received[message] += in.size();
        if (!right)
            world->error(fmt::format("flow {} ({} -> {}): wrong bytes at {}", number, flow.source,
                                     flow.destination, offset));
        else if (received[message] > flow.bytes_of_message(message))
            world->error(fmt::format("flow {}: message {} placed twice", number, message));
        else verified_bytes += in.size();
        world->placed(in.size());
    }

    bool all_received() const {
        for (uint64_t message = 0; message < flow.messages(); ++message) {
            if (received[message] != flow.bytes_of_message(message)) return false;
        }
        return true;
    }
};

struct FlowRun {
    FlowRun(World& w) : world(w), pattern(w.scenario.seed), meter(w) {}
    World& world;
    FlowPattern pattern;
    PhaseMeter meter;
    std::vector<FlowState> flows;
    uint64_t start_ps = 0;
};

constexpr uint32_t ahead = 3;  // messages posted on a queue pair and not yet completed
constexpr uint64_t slice_ns = 1'000'000;

template <class T>
T need(Result<T> result, const char* what) {
    if (!result) throw std::runtime_error(fmt::format("{}: {}", what, result.error().message));
    if constexpr (!std::is_void_v<T>) return std::move(result.value());
}

// The sending or receiving end of a flow in its host program.
struct FlowEnd {
    FlowState* flow = nullptr;
    bool sends = false;
    std::vector<uint32_t> queues;       // send or receive queues
    std::vector<uint32_t> outstanding;  // requests on each
    uint32_t key = 0;
    uint64_t address = 0;
    uint64_t posted = 0;
    uint64_t completed = 0;

    bool uses_receives() const { return flow->world->scenario.flows.operation != FlowOperation::write; }
    uint64_t expected() const { return sends || uses_receives() ? flow->flow.messages() : 0; }

    // Where the next message goes. A receiver must know it, so that its buffers are right; where there is
    // none, the queue pair with the least to do takes it.
    size_t next_queue() const {
        if (uses_receives()) return posted % queues.size();
        return static_cast<size_t>(std::min_element(outstanding.begin(), outstanding.end()) -
                                   outstanding.begin());
    }
};

class FlowProgram {
  public:
    FlowProgram(FlowRun& run, uint32_t rank)
        : run_(run), world_(run.world), rank_(rank), link_(world_.kernel, world_.cluster.device(rank)) {}

    void operator()() {
        try {
            set_up();
            world_.barrier.wait();
            connect();
            world_.barrier.wait([this] {
                run_.start_ps = Kernel::now_ps();
                run_.meter.begin();
            });
            transfer();
        } catch (const sc_core::sc_unwind_exception&) {
            throw;  // the run ends before the program
        } catch (const std::exception& failure) {
            world_.error(fmt::format("device {}: {}", rank_, failure.what()));
            world_.barrier.leave();
            return;
        }
        world_.barrier.wait([this] { finish(); });
    }

  private:
    void set_up() {
        driver_ = need(Driver::open(link_), "open");
        need(driver_->set_qp_time_limit_us(world_.scenario.transport.qp_time_limit_us), "time limit");
        completion_queue_ = need(driver_->create_completion_queue(12), "completion queue");
        for (FlowState& flow : run_.flows) {
            if (flow.flow.source == rank_) add_source(flow);
            if (flow.flow.destination == rank_) add_destination(flow);
        }
    }

    QpOptions options() const {
        const auto& transport = world_.scenario.transport;
        QpOptions options;
        options.mtu_bytes = static_cast<uint16_t>(world_.scenario.scale_out.mtu_bytes);
        options.window_packets = static_cast<uint16_t>(transport.window_packets);
        options.entropy_values = static_cast<uint16_t>(transport.entropy_values);
        options.spray_policy = transport.spray;
        return options;
    }

    void add_source(FlowState& flow) {
        FlowEnd end;
        end.flow = &flow;
        end.sends = true;
        const uint64_t length = std::max<uint64_t>(flow.flow.bytes, 1);
        end.address =
            world_.cluster.device(rank_).host_memory().map(length, {&FlowState::produce, &flow}, {});
        end.key = need(driver_->register_memory(end.address, length, 0), "register source");
        for (uint32_t i = 0; i < world_.scenario.flows.qps_per_flow; ++i) {
            QpOptions qp = options();
            qp.send_queue = need(driver_->create_send_queue(completion_queue_, 6), "send queue");
            end.queues.push_back(qp.send_queue);
            flow.source_qps.push_back(need(driver_->create_qp(qp), "queue pair"));
        }
        ends_.push_back(std::move(end));
    }

    void add_destination(FlowState& flow) {
        FlowEnd end;
        end.flow = &flow;
        const uint64_t length = std::max<uint64_t>(flow.flow.bytes, 1);
        end.address = world_.cluster.device(rank_).host_memory().map(length, {}, {&FlowState::check, &flow});
        end.key =
            need(driver_->register_memory(end.address, length, access_local_write | access_remote_write),
                 "register destination");
        flow.target = {end.address, end.key};
        for (uint32_t i = 0; i < world_.scenario.flows.qps_per_flow; ++i) {
            QpOptions qp = options();
            if (end.uses_receives()) {
                qp.receive_queue = need(driver_->create_receive_queue(completion_queue_, 6), "receive queue");
                end.queues.push_back(qp.receive_queue);
            }
            flow.destination_qps.push_back(need(driver_->create_qp(qp), "queue pair"));
        }
        ends_.push_back(std::move(end));
    }

    void connect() {
        for (const FlowEnd& end : ends_) {
            const FlowState& flow = *end.flow;
            // The other end's program has given up: its device is gone, and the run has that error already.
            if (flow.source_qps.size() != flow.destination_qps.size())
                throw std::runtime_error(
                    fmt::format("flow {}: the other end has no queue pairs", flow.number));
            for (size_t i = 0; i < flow.source_qps.size(); ++i) {
                const Qp& own = end.sends ? flow.source_qps[i] : flow.destination_qps[i];
                const Qp& peer = end.sends ? flow.destination_qps[i] : flow.source_qps[i];
                const uint32_t device = end.sends ? flow.flow.destination : flow.flow.source;
                need(driver_->connect_qp(own.qpn, {device, peer.qpn, peer.first_psn}), "connect");
            }
        }
    }

    bool done() const {
        return std::all_of(ends_.begin(), ends_.end(),
                           [](const FlowEnd& end) { return end.completed == end.expected(); });
    }

    void transfer() {
        for (FlowEnd& end : ends_) post(end);
        std::array<regmap::Completion, 64> completions;
        while (!done()) {
            const Result<size_t> count = driver_->wait(completion_queue_, completions, slice_ns);
            if (!count) {
                if (count.status() == Status::timeout)
                    continue;  // the world's time limit ends a run that hangs
                throw std::runtime_error(count.error().message);
            }
            for (size_t i = 0; i < count.value(); ++i) take(completions[i]);
            for (FlowEnd& end : ends_) post(end);
        }
    }

    void take(const regmap::Completion& completion) {
        FlowEnd& end = ends_.at(completion.user_data);
        ++end.completed;
        const auto queue =
            std::find(end.queues.begin(), end.queues.end(), completion.queue) - end.queues.begin();
        --end.outstanding.at(static_cast<size_t>(queue));
        if (completion.status != Status::ok) {
            throw std::runtime_error(fmt::format("flow {}: message {} ended as {}", end.flow->number,
                                                 end.completed - 1, regmap::name(completion.status)));
        }
        if (end.sends && end.completed == end.expected()) {
            FlowOutcome& outcome = world_.outcome.flows[end.flow->number];
            outcome.complete = true;
            outcome.time_ps = Kernel::now_ps() - run_.start_ps;
        }
    }

    void post(FlowEnd& end) {
        end.outstanding.resize(end.queues.size());
        while (end.posted < end.expected() && end.outstanding[end.next_queue()] < ahead) {
            const size_t queue = end.next_queue();
            const Flow& flow = end.flow->flow;
            const uint64_t offset = end.posted * flow.message_bytes;
            const LocalBuffer local{end.address + offset,
                                    static_cast<uint32_t>(flow.bytes_of_message(end.posted)), end.key};
            const auto user_data = static_cast<uint64_t>(&end - ends_.data());
            if (!end.sends)
                need(driver_->post_receive(end.queues[queue], make_receive(local, user_data)), "receive");
            else need(driver_->post_send(end.queues[queue], request(end, local, offset, user_data)), "send");
            ++end.outstanding[queue];
            ++end.posted;
        }
    }

    regmap::WorkRequest request(const FlowEnd& end, const LocalBuffer& local, uint64_t offset,
                                uint64_t user_data) const {
        const RemoteBuffer remote{end.flow->target.device_address + offset, end.flow->target.key};
        switch (world_.scenario.flows.operation) {
            case FlowOperation::send: return make_send(local, user_data);
            case FlowOperation::write_immediate:
                return with_immediate(make_write(local, remote, user_data),
                                      static_cast<uint32_t>(end.posted));
            case FlowOperation::write: break;
        }
        return make_write(local, remote, user_data);
    }

    void finish() {
        PhaseOutcome& phase = world_.outcome.phases.front();
        run_.meter.end(phase);
        world_.outcome.simulated_ps = Kernel::now_ps();
        phase.complete = phase.verified = true;
        for (FlowState& flow : run_.flows) {
            phase.complete = phase.complete && world_.outcome.flows[flow.number].complete;
            phase.time_ps = std::max(phase.time_ps, world_.outcome.flows[flow.number].time_ps);
            phase.verified =
                phase.verified && (world_.scenario.payload == PayloadMode::virtual_ || flow.all_received());
        }
        phase.start_ps = run_.start_ps;
        phase.verified = phase.verified && world_.errors() == 0;
    }

    FlowRun& run_;
    World& world_;
    uint32_t rank_;
    SimLink link_;
    std::unique_ptr<Driver> driver_;
    uint32_t completion_queue_ = 0;
    std::vector<FlowEnd> ends_;
};

}  // namespace

void spawn_flows(World& world) {
    auto run = std::make_shared<FlowRun>(world);
    const std::vector<Flow>& flows = world.plan.flows;
    run->flows.resize(flows.size());
    world.outcome.flows.resize(flows.size());
    for (uint32_t number = 0; number < flows.size(); ++number) {
        FlowState& flow = run->flows[number];
        flow.world = &world;
        flow.pattern = &run->pattern;
        flow.number = number;
        flow.flow = flows[number];
        flow.received.resize(flows[number].messages());
        world.expect(flows[number].bytes);
    }
    constexpr uint64_t timeline_bin_ps = 100'000'000;  // 100 us
    world.outcome.timeline_bin_ps = timeline_bin_ps;
    world.outcome.phases.emplace_back().name = world.plan.phases.front().name;
    for (uint32_t rank = 0; rank < world.scenario.ranks(); ++rank) {
        world.programs.spawn(fmt::format("host{}", rank), [run, rank] { FlowProgram(*run, rank)(); });
    }
}

}  // namespace plait::sim
