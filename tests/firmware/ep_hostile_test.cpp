// A peer that lies, and frames that do not fit: counted or refused, nothing placed outside the outputs, no
// crash.

#include <tuple>

#include "ep_low_latency_job.hpp"

namespace plait::mesh_test {
namespace {

/// Any value, but often one near what would be right.
class Liar {
  public:
    explicit Liar(std::uint64_t seed) : random_(seed) {}
    std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
    std::uint32_t near(std::uint32_t right) {
        switch (below(6)) {
            case 0: return static_cast<std::uint32_t>(random_());
            case 1: return right + 1;
            case 2: return right - 1;
            default: return right;
        }
    }
    std::uint32_t number(std::uint32_t limit) {
        return below(5) == 0 ? near(limit) : static_cast<std::uint32_t>(below(std::uint64_t{limit} + 1));
    }
    std::vector<std::uint8_t> bytes(std::size_t count) {
        std::vector<std::uint8_t> made(count);
        for (std::uint8_t& byte : made) byte = static_cast<std::uint8_t>(random_());
        return made;
    }

  private:
    std::mt19937_64 random_;
};

void lie_about_row(Liar& liar, Packet& packet, std::uint32_t row_bytes, std::uint32_t mtu,
                   std::uint16_t operation) {
    packet.opcode = Opcode::mp_ep_row;
    packet.row = RowHeader{};
    packet.row.group = static_cast<std::uint8_t>(liar.near(0));
    packet.row.handle = static_cast<std::uint8_t>(liar.number(2));
    packet.row.operation = static_cast<std::uint16_t>(liar.near(operation));
    packet.row.token = liar.number(32);
    packet.row.row = liar.number(32);
    packet.row.targets = static_cast<std::uint8_t>(liar.near(static_cast<std::uint32_t>(liar.below(4))));
    for (std::uint32_t& index : packet.row.index) index = liar.number(64);
    const bool has_indices = liar.below(2) == 0;  // as in normal mode, or as in low latency
    packet.row.index_count = static_cast<std::uint8_t>(has_indices ? std::popcount(packet.row.targets) : 0);
    packet.row.choice_count = static_cast<std::uint8_t>(liar.below(20));
    for (Choice& choice : packet.row.choices) {
        choice = {static_cast<std::uint16_t>(liar.number(16)), static_cast<std::uint8_t>(liar.number(4)),
                  1.0F};
    }
    packet.message_bytes = liar.near(row_bytes);
    packet.message_offset = static_cast<std::uint32_t>(liar.below(3)) * mtu;
}

void lie_about_partial(Liar& liar, Packet& packet, const EpGroup& group, std::uint16_t operation) {
    packet.opcode = Opcode::mp_ep_partial;
    packet.partial = PartialHeader{.group = static_cast<std::uint8_t>(liar.near(0)),
                                   .handle = static_cast<std::uint8_t>(liar.number(2)),
                                   .operation = static_cast<std::uint16_t>(liar.near(operation)),
                                   .token = liar.number(32),
                                   .node = static_cast<std::uint16_t>(liar.number(2)),
                                   .missing = static_cast<std::uint8_t>(liar.below(256)),
                                   .first_element = liar.number(2) * group.part_elements};
    packet.message_bytes = liar.near(partial_bytes(group, 0));
    packet.message_offset = 0;
}

ControlHeader lie_about_control(Liar& liar, std::uint32_t hash, std::uint16_t operation) {
    ControlHeader control;
    control.group = static_cast<std::uint8_t>(liar.near(0));
    control.handle = static_cast<std::uint8_t>(liar.number(2));
    control.operation = static_cast<std::uint16_t>(liar.near(operation));
    control.kind = static_cast<regmap::EpControlKind>(liar.number(6));
    control.status = static_cast<Status>(liar.number(30));
    control.call = static_cast<std::uint8_t>(liar.number(5));
    control.value = control.kind == regmap::EpControlKind::counts ? liar.near(hash) : liar.number(40);
    return control;
}

std::vector<std::uint8_t> lie_about_counts(Liar& liar) {
    std::vector<std::uint8_t> bytes(8 + 4 * 2);
    for (std::size_t i = 0; i < bytes.size(); i += 4) {
        const std::uint32_t word = liar.number(32);
        std::memcpy(bytes.data() + i, &word, 4);
    }
    if (liar.below(8) == 0) bytes.resize(liar.below(16));
    return bytes;
}

/// A control message and what follows its header.
std::pair<ControlHeader, std::vector<std::uint8_t>> lie_about_message(Liar& liar, std::uint32_t hash,
                                                                      std::uint16_t operation) {
    ControlHeader control = lie_about_control(liar, hash, operation);
    if (control.kind != regmap::EpControlKind::abort) return {control, lie_about_counts(liar)};
    control.value = liar.near(sizeof(RankMask));
    return {control, liar.bytes(liar.near(sizeof(RankMask)) % 64)};
}

/// Delivers a packet that `liar_rank` could have sent to `victim`, in the place the window expects next.
void deliver_lie(Job& job, Liar& liar, std::uint32_t victim, std::uint32_t liar_rank,
                 std::uint16_t operation) {
    MeshDevice& device = job.mesh.device(victim);
    Packet packet;
    const EpGroup& group = device.ep().groups()[0];
    const std::uint32_t mtu = job.mesh.options().mtu_bytes;
    std::vector<std::uint8_t> data;
    switch (liar.below(3)) {
        case 0: lie_about_row(liar, packet, group.row_bytes, mtu, operation); break;
        case 1: lie_about_partial(liar, packet, group, operation); break;
        default:
            packet.opcode = Opcode::mp_ep_control;
            std::tie(packet.control, data) = lie_about_message(liar, group.hash, operation);
            packet.message_bytes = static_cast<std::uint32_t>(data.size());
            packet.message_offset = 0;
            break;
    }
    if (packet.opcode != Opcode::mp_ep_control) {
        const std::uint32_t rest =
            packet.message_bytes - std::min(packet.message_offset, packet.message_bytes);
        data = liar.bytes(std::min(rest, mtu));
    }
    packet.payload_bytes = static_cast<std::uint16_t>(data.size());
    packet.source_device = liar_rank;
    packet.destination_device = victim;
    packet.qpn = job.qpn(victim, liar_rank);
    packet.psn = device.window(packet.qpn).next_expected();
    device.packet_arrived(packet, data);
}

void deliver_frame(Job& job, Liar& liar, std::uint32_t victim, std::uint16_t operation) {
    MeshDevice& device = job.mesh.device(victim);
    const EpGroup& group = device.ep().groups()[0];
    ScaleUpHeader frame;
    frame.kind = static_cast<regmap::ScaleUpKind>(1 + liar.below(3));
    frame.group = static_cast<std::uint8_t>(liar.near(0));
    frame.handle = static_cast<std::uint8_t>(liar.number(2));
    frame.source_local = static_cast<std::uint8_t>(liar.below(2));
    frame.operation = static_cast<std::uint16_t>(liar.near(operation));
    frame.source_rank = static_cast<std::uint16_t>(liar.number(4));
    frame.token = liar.number(32);
    frame.index = liar.number(64);
    frame.offset = liar.number(2) * job.mesh.options().mtu_bytes;
    frame.length = liar.near(std::min(group.row_bytes, job.mesh.options().mtu_bytes));
    // A pull names an accumulator that its sender has: none here, so that its answer is the sender's problem
    // alone.
    frame.tag = 0xffff << 8;
    frame.choice_count = static_cast<std::uint8_t>(liar.below(20));
    std::vector<std::uint8_t> data;
    if (frame.kind == regmap::ScaleUpKind::row) {
        frame.length = std::min(frame.length, 8192U);
        data = liar.bytes(frame.length);
    } else if (frame.kind == regmap::ScaleUpKind::control) {
        std::tie(frame.control, data) = lie_about_message(liar, group.hash, operation);
    } else {
        frame.operation = static_cast<std::uint16_t>(operation + 100);  // refused, whatever else it says
    }
    device.frame_arrived(frame, data);
}

class EpHostile : public ::testing::TestWithParam<regmap::EpMode> {};

TEST_P(EpHostile, LiesAtAnyMoment) {
    const bool low_latency = GetParam() == regmap::EpMode::low_latency;
    const std::uint64_t seed = job_seed(7);
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    std::uint64_t refused = 0;
    for (std::uint64_t run = 0; run < 150; ++run) {
        SCOPED_TRACE("run " + std::to_string(run));
        Liar liar(seed * 1000 + run);
        LowLatencyJob job({.nodes = 2, .ranks_per_node = 2, .seed = seed + run},
                          {.policy = static_cast<EntryPolicy>(run % 3), .timeout_us = 2000}, GetParam());
        job.create_groups();
        const Routing routing = job.random_routing(32);
        const std::uint32_t victim = 0;
        const auto liar_rank = static_cast<std::uint32_t>(2 + liar.below(2));
        for (std::uint16_t operation = 1; operation <= 4; ++operation) {
            const bool dispatches = operation % 2 == 1;
            const std::vector<Call> calls =
                low_latency ? (dispatches ? job.expert_dispatches(routing)
                                          : job.expert_combines(routing, run % 2 == 0))
                            : (dispatches ? job.dispatch_calls(routing, 0) : job.combine_calls(routing, 0));
            job.post_all(calls);
            for (int lie = 0; lie < 40; ++lie) {
                if (liar.below(4) == 0) deliver_frame(job, liar, victim, operation);
                else deliver_lie(job, liar, victim, liar_rank, operation);
                if (liar.below(2) == 0) job.mesh.run_for(liar.below(2000));
            }
            for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
                EXPECT_TRUE(job.wait(rank, calls[rank], 20'000'000)) << "rank " << rank << " hangs";
            }
        }
        refused += job.mesh.device(victim).drops(regmap::DropReason::malformed) +
                   job.mesh.device(victim).drops(regmap::DropReason::unknown_operation);
        job.expect_nothing_left();
        if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GT(refused, 1000U);
}

INSTANTIATE_TEST_SUITE_P(Modes, EpHostile,
                         ::testing::Values(regmap::EpMode::normal, regmap::EpMode::low_latency),
                         [](const auto& mode) { return std::string(name(mode.param)); });

}  // namespace
}  // namespace plait::mesh_test
