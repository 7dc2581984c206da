#include <plait/sim/app/plan.hpp>

#include <algorithm>
#include <numeric>

#include <plait/sim/app/ep_reference.hpp>
#include <plait/sim/app/framing.hpp>

#include "app_test.hpp"

namespace plait::sim {
namespace {

// 64 GPUs, 4096 tokens each, of a recorded layer.
Scenario recorded(const std::string& layer, const std::string& policy, uint32_t nodes = 8) {
    const std::string text = "topology = { nodes = " + std::to_string(nodes) +
                             " }\n[workload]\nkind = \"ep\"\ntokens = 4096\nentry_policy = \"" + policy +
                             "\"\nrouting = \"data/" + layer + ".npy\"\n";
    return parse_scenario(text, std::filesystem::path(SCENARIO_FOLDER) / "recorded.toml").front();
}

double megabytes(uint64_t rows, double row_bytes) { return static_cast<double>(rows) * row_bytes / 1e6; }

struct Rows {
    std::vector<uint64_t> sent, entered, copies_out, copies_in;
};

// Rows that leave their node by sender and by entry, and scale-up copies of all rows, counted without any
// framing.
Rows count_rows(const Scenario& scenario) {
    const Routing routing = load_routing(scenario);
    const EpShape shape = shape_of(scenario);
    Rows rows;
    for (auto* counts : {&rows.sent, &rows.entered, &rows.copies_out, &rows.copies_in})
        counts->resize(shape.ranks);
    for (uint32_t source = 0; source < shape.ranks; ++source) {
        EntryChooser chooser(shape, scenario.ep.entry_policy, source, routing);
        for (uint32_t token = 0; token < routing.tokens(source); ++token) {
            for (const auto& row : chooser.next(routing.experts_of(source, token))) {
                if (row.node != shape.node_of(source)) {
                    ++rows.sent[source];
                    ++rows.entered[row.entry];
                }
                for (const uint32_t target : row.targets) {
                    if (target == row.entry) continue;
                    ++rows.copies_out[row.entry];
                    ++rows.copies_in[target];
                }
            }
        }
    }
    return rows;
}

uint64_t most(const std::vector<uint64_t>& counts) { return *std::max_element(counts.begin(), counts.end()); }
double mean(const std::vector<uint64_t>& counts) {
    return static_cast<double>(std::accumulate(counts.begin(), counts.end(), uint64_t{0})) /
           static_cast<double>(counts.size());
}

struct PolicyFigures {
    const char* layer;
    const char* policy;
    double hottest_receiver_mb, mean_copies_mb, hottest_copies_mb;
};

void PrintTo(const PolicyFigures& figures, std::ostream* stream) {
    *stream << figures.layer << '_' << figures.policy;
}

class RecordedRouting : public testing::TestWithParam<PolicyFigures> {};

// Figures computed from the original traces by another program (rows of 7392 bytes, no framing).
TEST_P(RecordedRouting, GivesTheKnownHotLinks) {
    const auto& expected = GetParam();
    const Rows rows = count_rows(recorded(expected.layer, expected.policy));
    EXPECT_NEAR(megabytes(most(rows.entered), 7392), expected.hottest_receiver_mb,
                0.002 * expected.hottest_receiver_mb);
    EXPECT_NEAR(mean(rows.copies_out) * 7392 / 1e6, expected.mean_copies_mb, 0.005 * expected.mean_copies_mb);
    EXPECT_NEAR(megabytes(std::max(most(rows.copies_out), most(rows.copies_in)), 7392),
                expected.hottest_copies_mb, 0.005 * expected.hottest_copies_mb);
}

INSTANTIATE_TEST_SUITE_P(Policies, RecordedRouting,
                         testing::Values(PolicyFigures{"prefill_first", "same_index", 129.8, 199.8, 288},
                                         PolicyFigures{"prefill_last", "same_index", 149.9, 199.8, 327},
                                         PolicyFigures{"prefill_first", "spread", 108.3, 199.8, 222},
                                         PolicyFigures{"prefill_last", "spread", 107.3, 199, 250},
                                         PolicyFigures{"prefill_first", "target", 111.4, 119.7, 152},
                                         PolicyFigures{"prefill_last", "target", 116.7, 119.7, 170}));

class BalancedPolicy : public testing::TestWithParam<const char*> {};

// It is to have the receivers of `spread` and the copies of `target`, nearly.
TEST_P(BalancedPolicy, HasBothGains) {
    const Rows balanced = count_rows(recorded(GetParam(), "balanced"));
    const Rows spread = count_rows(recorded(GetParam(), "spread"));
    const Rows target = count_rows(recorded(GetParam(), "target"));
    EXPECT_LE(static_cast<double>(most(balanced.entered)), 1.01 * static_cast<double>(most(spread.entered)));
    EXPECT_LE(mean(balanced.copies_out), 1.15 * mean(target.copies_out));
    EXPECT_LE(static_cast<double>(most(balanced.copies_in)),
              1.15 * static_cast<double>(most(target.copies_in)));
}

INSTANTIATE_TEST_SUITE_P(Layers, BalancedPolicy, testing::Values("prefill_first", "prefill_last"));

TEST(RecordedRoutingLast, BusiestSenderAndMean) {
    const Rows rows = count_rows(recorded("prefill_last", "spread"));
    EXPECT_EQ(most(rows.sent), 14923U);
    EXPECT_NEAR(megabytes(most(rows.sent), 7392), 110.3, 0.05);
    EXPECT_NEAR(mean(rows.sent) * 7392 / 1e6, 104.6, 0.2);
    // Combine: the same rows come back in BF16.
    EXPECT_NEAR(megabytes(most(rows.sent), 14336), 213.9, 0.05);
}

TEST(Plan, FloorsOfTheFullSizeAreTheKnownOnesPlusFraming) {
    const struct {
        const char* policy;
        double dispatch_us;
    } known[] = {{"same_index", 2997}, {"spread", 2206}, {"target", 2335}, {"balanced", 2206}};
    for (const auto& [policy, dispatch_us] : known) {
        SCOPED_TRACE(policy);
        const Plan plan = make_plan(recorded("prefill_last", policy));
        const PhasePlan& dispatch = *plan.phase("dispatch", 0);
        const PhasePlan& combine = *plan.phase("combine", 0);
        EXPECT_GT(dispatch.floor_us, 1.02 * dispatch_us);
        EXPECT_LT(dispatch.floor_us, 1.04 * dispatch_us);
        EXPECT_GT(combine.floor_us, 1.02 * 4279);
        EXPECT_LE(dispatch.floor_best_us, dispatch.floor_us);
        EXPECT_GT(dispatch.floor_best_us, 1.02 * 2206);  // the busiest sender, whatever the policy
        EXPECT_LT(dispatch.floor_best_us, 1.04 * 2206);
        EXPECT_LE(combine.floor_best_us, combine.floor_us);
        EXPECT_EQ(dispatch.rows, combine.rows);
        EXPECT_EQ(dispatch.payload_bytes, dispatch.rows * 7392);
        EXPECT_EQ(combine.payload_bytes, combine.rows * 14336);
        EXPECT_EQ(dispatch.published_us, 2370.0);
        EXPECT_EQ(combine.published_us, 4680.0);
    }
}

TEST(Plan, SavesWhatDuplicateRemovalSaves) {
    const Plan plan = make_plan(recorded("prefill_last", "spread"));
    const PhasePlan& dispatch = *plan.phase("dispatch", 0);
    // 7.51 GPUs and 3.94 nodes a token: nearly half.
    const double ratio = static_cast<double>(dispatch.scale_out_bytes) /
                         static_cast<double>(dispatch.scale_out_bytes_with_duplicates);
    EXPECT_NEAR(ratio, 3.94 / 7.51, 0.02);
}

// Published dispatch bytes a GPU on the wire. With 2 and 4 nodes the published routing takes its groups from
// all of them, which is uniform; with 8 nodes it is limited to 4, like the recorded one.
TEST(Plan, WireBytesAreNearThePublishedOnes) {
    const struct {
        uint32_t nodes;
        RoutingKind routing;
        double published_mb;
    } table[] = {{2, RoutingKind::uniform, 30.2}, {4, RoutingKind::uniform, 82}, {8, RoutingKind::file, 106}};
    for (const auto& [nodes, routing, published_mb] : table) {
        SCOPED_TRACE(nodes);
        Scenario scenario = recorded("prefill_last", "spread", nodes);
        scenario.ep.routing = routing;
        const Plan plan = make_plan(scenario);
        const double payload_mb =
            static_cast<double>(plan.phase("dispatch", 0)->payload_bytes) / (8 * nodes) / 1e6;
        EXPECT_NEAR(payload_mb, published_mb, 0.015 * published_mb);
    }
}

TEST(Plan, PublishedFiguresOnlyWhereThereIsOne) {
    EXPECT_EQ(published_us(recorded("prefill_last", "spread", 2), "dispatch"), 1400.0);
    EXPECT_EQ(published_us(recorded("prefill_last", "spread", 4), "dispatch"), 1880.0);
    EXPECT_EQ(published_us(recorded("prefill_last", "spread", 2), "combine"), std::nullopt);
    Scenario smaller = recorded("prefill_last", "spread");
    smaller.ep.tokens = 256;
    EXPECT_EQ(published_us(smaller, "dispatch"), std::nullopt);
}

// Headers of docs/wire.md added up by hand.
TEST(Framing, RowByHand) {
    // Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4; MpData 16, MpEpRow 16, index 4 a target, choice 8 each in
    // the first packet.
    const uint64_t common = 58 + 32 + 2 * 4 + 24;
    const WireSize size = row_size(regmap::EpMode::normal, 7392, 4096, 2, 3);
    EXPECT_EQ(size.packets, 2U);
    EXPECT_EQ(size.bytes, 2 * common + 3 * 8 + 7392);
}

TEST(Framing, PartialAndScaleUpByHand) {
    const WireSize partial = partial_size(2112);
    EXPECT_EQ(partial.packets, 1U);
    EXPECT_EQ(partial.bytes, 58 + 32 + 24 + 2112U);
    const WireSize copy = scale_up_size(regmap::EpMode::normal, 7392, 4096, 3);
    EXPECT_EQ(copy.packets, 2U);
    EXPECT_EQ(copy.bytes, 7392U + 2 * 32 + 3 * 8);
}

// One row from rank 1 by way of one device of the other node to two of its ranks, and back.
TEST(Plan, RowsHaveTheBytesOfTheirFormats) {
    const std::string text = R"(
topology = { nodes = 2, gpus_per_node = 4 }
[workload]
kind = "ep"
tokens = 1
experts = 8
topk = 2
hidden = 2880
entry_policy = "same_index"
dispatch_format = "e5m2_ue8m0"
combine_format = "logfmt10"
partial_format = "f32"
)";
    const Scenario scenario = parse_scenario(text, "s.toml").front();
    Routing routing;
    routing.topk = 2;
    routing.first = {0, 0, 1, 1, 1, 1, 1, 1, 1};
    routing.experts = {5, 7};
    const std::vector<PhasePlan> phases = plan_ep(scenario, routing);
    constexpr uint64_t frame = 58 + 24;  // Ethernet to ICRC, and the framing of Ethernet
    // 2880 codes and 23 scales, filled up to four bytes.
    EXPECT_EQ(phases[0].payload_bytes, 2880U + 23U);
    EXPECT_EQ(phases[0].scale_out_bytes, frame + 32 + 2 * 4 + 2 * 8 + 2904U);
    EXPECT_EQ(phases[0].scale_up_bytes, 32 + 2 * 8 + 2903U);
    // Parts of 1024 elements, as many as a packet takes of FP32: 1024, 1024 and 832.
    EXPECT_EQ(phases[1].payload_bytes, 4 * 2880U);
    EXPECT_EQ(phases[1].packets, 3U);
    EXPECT_EQ(phases[1].scale_out_bytes, 3 * (frame + 32) + 4 * 2880U);
    // 10 bits an element and four bytes a block, of a device that is not the entry itself.
    EXPECT_EQ(phases[1].scale_up_bytes, 3 * 32 + 3600U + 4 * (8 + 8 + 7));
}

TEST(Framing, PayloadIsPaddedToFourBytesAndNothingTakesAPacket) {
    firmware::Packet packet;
    packet.opcode = regmap::Opcode::mp_write;
    const uint64_t headers = 58 + 16 + 12 + 24;
    const struct {
        uint64_t payload, bytes, packets;
    } sizes[] = {{0, headers, 1},           {1, headers + 4, 1},           {4095, headers + 4096, 1},
                 {4096, headers + 4096, 1}, {4097, 2 * headers + 4100, 2}, {8192, 2 * headers + 8192, 2}};
    for (const auto& [payload, bytes, packets] : sizes) {
        const WireSize size = scale_out_size(packet, payload, 4096);
        EXPECT_EQ(size.bytes, bytes) << payload;
        EXPECT_EQ(size.packets, packets) << payload;
    }
}

Scenario flow_scenario(const std::string& workload, const std::string& more = "") {
    return parse_scenario(more + "workload = " + workload + "\n", "s.toml").front();
}

TEST(Plan, PermutationFloorByHand) {
    const Plan plan =
        make_plan(flow_scenario("{ kind = \"permutation\", bytes_per_flow = 8192, message_bytes = 8192 }"));
    ASSERT_EQ(plan.phases.size(), 1U);
    EXPECT_DOUBLE_EQ(plan.phases[0].floor_us, (8192.0 + 2 * 110) / 50000);
    EXPECT_EQ(plan.phases[0].packets, 32U);
    EXPECT_EQ(plan.phases[0].payload_bytes, 16 * 8192U);
}

TEST(Plan, IncastFloorIsTheReceivers) {
    const Plan plan =
        make_plan(flow_scenario("{ kind = \"incast\", senders = 10, receiver = 3, bytes_per_flow = 4096 }"));
    EXPECT_DOUBLE_EQ(plan.phases[0].floor_us, 10 * (4096.0 + 110) / 50000);
    EXPECT_EQ(plan.phases[0].hottest_link, "scale_out_receive of device 3");
}

TEST(Flows, PermutationIsOneAndLeavesTheNode) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
        for (const char* topology : {"{ nodes = 4, gpus_per_node = 4 }", "{ nodes = 1, gpus_per_node = 5 }",
                                     "{ nodes = 7, gpus_per_node = 1 }"}) {
            const Scenario scenario = flow_scenario(
                "{ kind = \"permutation\" }", "seed = " + std::to_string(seed) + "\ntopology = " + topology +
                                                  "\nscale_out = { leaf_down_ports = 40 }\n");
            const auto flows = flows_of(scenario);
            ASSERT_EQ(flows.size(), scenario.ranks());
            std::vector<int> heard(scenario.ranks());
            for (const auto& flow : flows) {
                ++heard[flow.destination];
                ASSERT_NE(flow.source, flow.destination);
                const uint32_t size = scenario.topology.gpus_per_node;
                if (scenario.topology.nodes > 1) {
                    ASSERT_NE(flow.source / size, flow.destination / size);
                }
            }
            EXPECT_EQ(heard, std::vector<int>(scenario.ranks(), 1));
        }
    }
}

TEST(Flows, AllToAllHasEveryPairOnce) {
    const auto flows = flows_of(flow_scenario("{ kind = \"alltoall\" }"));
    std::vector<std::pair<uint32_t, uint32_t>> pairs;
    for (const auto& flow : flows) pairs.emplace_back(flow.source, flow.destination);
    std::sort(pairs.begin(), pairs.end());
    EXPECT_EQ(std::unique(pairs.begin(), pairs.end()), pairs.end());
    EXPECT_EQ(pairs.size(), 16U * 15U);
}

TEST(Flows, MessagesAddUp) {
    for (const uint64_t bytes :
         {uint64_t{0}, uint64_t{1}, uint64_t{4095}, uint64_t{4096}, uint64_t{4097}, uint64_t{5} << 30}) {
        const Flow flow{0, 1, bytes, 4096, false};
        uint64_t sum = 0;
        for (uint64_t i = 0; i < flow.messages(); ++i) sum += flow.bytes_of_message(i);
        EXPECT_EQ(sum, bytes);
        EXPECT_EQ(flow.messages(), std::max<uint64_t>(1, (bytes + 4095) / 4096));
    }
}

TEST(Plan, MicroBatchesShareTheTokens) {
    Scenario scenario = recorded("prefill_last", "spread", 2);
    scenario.ep.tokens = 255;
    const Plan whole = make_plan(scenario);
    scenario.ep.micro_batches = 2;
    const Plan halves = make_plan(scenario);
    ASSERT_EQ(halves.phases.size(), 4U);
    EXPECT_EQ(halves.phase("dispatch", 0)->rows + halves.phase("dispatch", 1)->rows,
              whole.phase("dispatch", 0)->rows);
    EXPECT_EQ(halves.phase("combine", 2), nullptr);
}

}  // namespace
}  // namespace plait::sim
