#include <plait/sim/app/plan.hpp>

#include <algorithm>
#include <iterator>
#include <numeric>

#include <fmt/format.h>

#include <plait/sim/app/ep_reference.hpp>
#include <plait/sim/app/framing.hpp>
#include <plait/sim/app/scenario_sections.hpp>

namespace plait::sim {
namespace {

using Links = std::vector<uint64_t>;

double scale_out_bytes_per_us(const Scenario& scenario) {
    return scenario.topology.planes * scenario.scale_out.rate_gbps * 125.0;
}

double scale_up_bytes_per_us(const Scenario& scenario) {
    return scenario.scale_up.rate_gbytes_per_s * 1000.0;
}

uint64_t total(const Links& links) { return std::accumulate(links.begin(), links.end(), uint64_t{0}); }

double mean_of_busiest_node(const Links& links, uint32_t devices_per_node) {
    uint64_t most = 0;
    for (size_t first = 0; first < links.size(); first += devices_per_node) {
        const auto begin = links.begin() + static_cast<std::ptrdiff_t>(first);
        most = std::max(most, std::accumulate(begin, begin + devices_per_node, uint64_t{0}));
    }
    return static_cast<double>(most) / devices_per_node;
}

double hottest(const Links& links) {
    return links.empty() ? 0 : static_cast<double>(*std::max_element(links.begin(), links.end()));
}

void set_floor(const Scenario& scenario, PhasePlan& phase) {
    struct Kind {
        const char* name;
        const Links& links;
        double rate;  // bytes a microsecond
    };
    const double scale_out = scale_out_bytes_per_us(scenario);
    const double scale_up = scale_up_bytes_per_us(scenario);
    const double host = scenario.host_interface.rate_gbytes_per_s * 1000.0;
    const Kind kinds[] = {{"scale_out_transmit", phase.loads.scale_out_transmit, scale_out},
                          {"scale_out_receive", phase.loads.scale_out_receive, scale_out},
                          {"scale_up_transmit", phase.loads.scale_up_transmit, scale_up},
                          {"scale_up_receive", phase.loads.scale_up_receive, scale_up},
                          {"host_read", phase.loads.host_read, host},
                          {"host_write", phase.loads.host_write, host}};
    for (const auto& [name, links, rate] : kinds) {
        const double time_us = hottest(links) / rate;
        if (time_us <= phase.floor_us) continue;
        phase.floor_us = time_us;
        phase.hottest_link =
            fmt::format("{} of device {}", name,
                        std::distance(links.begin(), std::max_element(links.begin(), links.end())));
    }
    phase.scale_out_bytes = total(phase.loads.scale_out_transmit);
    phase.scale_up_bytes = total(phase.loads.scale_up_transmit);
}

// Perfect spreading: the ends that no policy can move (`fixed`: what a source sends in dispatch and hears in
// combine) stay as they are; what a node takes in (or gives back) and its fewest scale-up copies divide
// evenly over its devices.
double best_floor_us(const Scenario& scenario, const Links& fixed, const Links& movable,
                     const Links& fewest_copies) {
    const uint32_t size = scenario.topology.gpus_per_node;
    return std::max({hottest(fixed) / scale_out_bytes_per_us(scenario),
                     mean_of_busiest_node(movable, size) / scale_out_bytes_per_us(scenario),
                     mean_of_busiest_node(fewest_copies, size) / scale_up_bytes_per_us(scenario)});
}

struct PublishedTimes {
    uint32_t ranks;
    double dispatch_us;
    double combine_us;
};
constexpr std::array<PublishedTimes, 6> low_latency_published{
    {{8, 77, 114}, {16, 118, 195}, {32, 155, 273}, {64, 173, 314}, {128, 192, 369}, {256, 194, 360}}};

// What the packets of a dispatched row read of it. One that is encoded on its way reads the elements of its
// codes, and all of them for its scales.
uint64_t bytes_read_of_row(const Scenario& scenario) {
    const EpWorkload& ep = scenario.ep;
    const uint32_t row_bytes = dispatch_row_bytes(ep);
    if (!ep.encode_dispatch) return row_bytes;
    uint64_t elements = 0;
    for (uint32_t offset = 0; offset < row_bytes; offset += scenario.scale_out.mtu_bytes) {
        const uint32_t length = std::min(scenario.scale_out.mtu_bytes, row_bytes - offset);
        const auto [first, last] = engines::elements_behind(ep.dispatch_format, ep.hidden, offset, length);
        elements += last - first;
    }
    return 2 * elements;
}

// Sums up dispatch and combine of one routing, row by row.
class EpPlanner {
  public:
    EpPlanner(const Scenario& scenario, const EpShape& shape)
        : scenario_(scenario),
          shape_(shape),
          mtu_(scenario.scale_out.mtu_bytes),
          dispatch_bytes_(dispatch_row_bytes(scenario.ep)),
          dispatch_read_bytes_(bytes_read_of_row(scenario)),
          output_bytes_(firmware::encoded_bytes(
              scenario.ep.encode_combine ? regmap::RowFormat::bf16 : scenario.ep.combine_format,
              scenario.ep.hidden)),
          group_(combine_group(scenario)),
          mode_(scenario.ep.mode),
          dispatch_copies_(shape.ranks),
          combine_copies_(shape.ranks) {
        for (auto* phase : {&dispatch_, &combine_}) phase->loads = LinkLoads(shape.ranks);
        for (uint32_t part = 0; part < group_.parts; ++part) {
            partial_ += partial_size(firmware::partial_bytes(group_, part));
            const uint32_t elements = firmware::part_length(group_, part);
            const uint32_t bytes = firmware::encoded_bytes(scenario.ep.combine_format, elements);
            contribution_ += scale_up_size(mode_, bytes, bytes, 0);
        }
        dispatch_.name = "dispatch";
        combine_.name = "combine";
    }

    void add(uint32_t source, const NodeRow& row) {
        const bool leaves_node = row.node != shape_.node_of(source);
        const auto targets = static_cast<uint32_t>(row.targets.size());
        if (leaves_node) add_scale_out(source, row, targets);
        dispatch_.loads.host_read[source] += dispatch_read_bytes_;
        for (const uint32_t target : row.targets) {
            const uint64_t rows = contributions_of(row, target);
            dispatch_.loads.host_write[target] += rows * dispatch_bytes_;
            combine_.loads.host_read[target] += rows * output_bytes_;
        }
        const uint64_t copy = scale_up_size(mode_, dispatch_bytes_, mtu_, choices_of(row)).bytes;
        for (const uint32_t target : row.targets) {
            if (target == row.entry) continue;
            dispatch_.loads.scale_up_transmit[row.entry] += copy;
            dispatch_.loads.scale_up_receive[target] += copy;
            const uint64_t contributions = contributions_of(row, target) * contribution_.bytes;
            combine_.loads.scale_up_transmit[target] += contributions;
            combine_.loads.scale_up_receive[row.entry] += contributions;
        }
        // A row from elsewhere can always enter at a target; one of the own node starts where it starts.
        const bool starts_at_target =
            std::find(row.targets.begin(), row.targets.end(), source) != row.targets.end();
        const uint32_t fewest = leaves_node || starts_at_target ? targets - 1 : targets;
        dispatch_copies_[row.entry] += fewest * copy;
        combine_copies_[row.entry] += fewest * contribution_.bytes;
    }

    void add_token(uint32_t source) {
        const uint64_t row_bytes = combined_row_bytes(scenario_.ep);
        combine_.loads.host_write[source] += row_bytes;
        combine_.loads.host_read[source] += scenario_.ep.biases * row_bytes;
    }

    std::vector<PhasePlan> finish() {
        for (auto* phase : {&dispatch_, &combine_}) {
            set_floor(scenario_, *phase);
            phase->published_us = published_us(scenario_, phase->name);
        }
        dispatch_.floor_best_us = best_floor_us(scenario_, dispatch_.loads.scale_out_transmit,
                                                dispatch_.loads.scale_out_receive, dispatch_copies_);
        combine_.floor_best_us = best_floor_us(scenario_, combine_.loads.scale_out_receive,
                                               combine_.loads.scale_out_transmit, combine_copies_);
        return {std::move(dispatch_), std::move(combine_)};
    }

  private:
    uint32_t choices_of(const NodeRow& row) const {
        return mode_ == regmap::EpMode::normal ? row.choices : static_cast<uint32_t>(row.experts.size());
    }

    // In low latency each of a target's experts contributes for itself.
    uint64_t contributions_of(const NodeRow& row, uint32_t target) const {
        if (mode_ == regmap::EpMode::normal) return 1;
        return static_cast<uint64_t>(std::count_if(row.experts.begin(), row.experts.end(), [&](auto expert) {
            return shape_.rank_of(expert) == target;
        }));
    }

    void add_scale_out(uint32_t source, const NodeRow& row, uint32_t targets) {
        const WireSize wire = row_size(mode_, dispatch_bytes_, mtu_, targets, choices_of(row));
        dispatch_.loads.scale_out_transmit[source] += wire.bytes;
        dispatch_.loads.scale_out_receive[row.entry] += wire.bytes;
        dispatch_.packets += wire.packets;
        dispatch_.payload_bytes += dispatch_bytes_;
        ++dispatch_.rows;
        combine_.loads.scale_out_transmit[row.entry] += partial_.bytes;
        combine_.loads.scale_out_receive[source] += partial_.bytes;
        combine_.packets += partial_.packets;
        combine_.payload_bytes += firmware::partial_row_bytes(group_);
        ++combine_.rows;
        // One copy for each target rank instead, each with the choices that live there: the choices divide
        // among them.
        dispatch_.scale_out_bytes_with_duplicates +=
            targets * row_size(regmap::EpMode::normal, dispatch_bytes_, mtu_, 1, 0).bytes +
            uint64_t{row.choices} * regmap::MpEpChoice::size_bytes;
        combine_.scale_out_bytes_with_duplicates += targets * partial_.bytes;
    }

    const Scenario& scenario_;
    EpShape shape_;
    uint32_t mtu_;
    uint32_t dispatch_bytes_;
    uint64_t dispatch_read_bytes_;
    uint64_t output_bytes_;
    firmware::EpGroup group_;  // its rows
    regmap::EpMode mode_;
    WireSize partial_;
    WireSize contribution_;
    Links dispatch_copies_;
    Links combine_copies_;
    PhasePlan dispatch_;
    PhasePlan combine_;
};

}  // namespace

uint32_t dispatch_row_bytes(const EpWorkload& ep) {
    return firmware::encoded_bytes(ep.dispatch_format, ep.hidden);
}

uint32_t combined_row_bytes(const EpWorkload& ep) { return 2 * ep.hidden; }

const PhasePlan* Plan::phase(std::string_view name, uint32_t micro_batch) const {
    for (const auto& phase : phases) {
        if (phase.name == name && phase.micro_batch == micro_batch) return &phase;
    }
    return nullptr;
}

std::vector<PhasePlan> plan_ep(const Scenario& scenario, const Routing& routing,
                               uint32_t micro_batch_number) {
    const EpShape shape = shape_of(scenario);
    EpPlanner planner(scenario, shape);
    for (uint32_t source = 0; source < shape.ranks; ++source) {
        EntryChooser chooser(shape, scenario.ep.entry_policy, source, routing);
        for (uint32_t token = 0; token < routing.tokens(source); ++token) {
            for (const auto& row : chooser.next(routing.experts_of(source, token))) planner.add(source, row);
            planner.add_token(source);
        }
    }
    auto phases = planner.finish();
    for (auto& phase : phases) phase.micro_batch = micro_batch_number;
    return phases;
}

PhasePlan plan_flows(const Scenario& scenario, const std::vector<Flow>& flows) {
    PhasePlan phase;
    phase.name = "transfer";
    phase.loads = LinkLoads(scenario.ranks());
    firmware::Packet packet;
    switch (scenario.flows.operation) {
        case FlowOperation::write: packet.opcode = regmap::Opcode::mp_write; break;
        case FlowOperation::write_immediate: packet.opcode = regmap::Opcode::mp_write_immediate; break;
        case FlowOperation::send: packet.opcode = regmap::Opcode::mp_send; break;
    }
    const uint32_t mtu = scenario.scale_out.mtu_bytes;
    for (const auto& flow : flows) {
        const uint64_t messages = flow.messages();
        const WireSize full = scale_out_size(packet, flow.bytes_of_message(0), mtu);
        const WireSize last = scale_out_size(packet, flow.bytes_of_message(messages - 1), mtu);
        const uint64_t bytes = full.bytes * (messages - 1) + last.bytes;
        phase.loads.scale_out_transmit[flow.source] += bytes;
        phase.loads.scale_out_receive[flow.destination] += bytes;
        phase.packets += full.packets * (messages - 1) + last.packets;
        phase.payload_bytes += flow.bytes;
        phase.rows += messages;
    }
    set_floor(scenario, phase);
    phase.floor_best_us = phase.floor_us;
    phase.scale_out_bytes_with_duplicates = phase.scale_out_bytes;
    return phase;
}

Plan make_plan(const Scenario& scenario) {
    Plan plan;
    if (scenario.workload != WorkloadKind::ep) {
        plan.flows = flows_of(scenario);
        plan.phases.push_back(plan_flows(scenario, plan.flows));
        return plan;
    }
    plan.routing = load_routing(scenario);
    for (uint32_t number = 0; number < scenario.ep.micro_batches; ++number) {
        auto phases =
            plan_ep(scenario, micro_batch(*plan.routing, number, scenario.ep.micro_batches), number);
        std::move(phases.begin(), phases.end(), std::back_inserter(plan.phases));
    }
    return plan;
}

// DeepSeek's published figures, hidden 7168, top-8, FP8 out, BF16 back. Low latency: 128 tokens a rank.
// Normal: 4096, top-4 groups.
std::optional<double> published_us(const Scenario& scenario, std::string_view phase) {
    const EpWorkload& ep = scenario.ep;
    const bool low_latency = ep.mode == regmap::EpMode::low_latency;
    if (scenario.workload != WorkloadKind::ep || scenario.topology.gpus_per_node != 8 ||
        ep.tokens != (low_latency ? 128 : 4096) || ep.hidden != 7168 || ep.topk != 8 || ep.experts != 256 ||
        ep.dispatch_format != regmap::RowFormat::e4m3_f32 || ep.partial_format != regmap::RowFormat::bf16 ||
        ep.micro_batches != 1) {
        return std::nullopt;
    }
    if (low_latency) {
        for (const auto& [ranks, dispatch_us, combine_us] : low_latency_published) {
            if (scenario.ranks() == ranks) return phase == "dispatch" ? dispatch_us : combine_us;
        }
        return std::nullopt;
    }
    if (phase == "dispatch") {
        if (scenario.ranks() == 16) return 1400.0;
        if (scenario.ranks() == 32) return 1880.0;
        if (scenario.ranks() == 64) return 2370.0;
    }
    if (phase == "combine" && scenario.ranks() == 64) return 4680.0;
    return std::nullopt;
}

}  // namespace plait::sim
