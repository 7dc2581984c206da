#include <plait/sim/app/scenario.hpp>

#include <cctype>
#include <ostream>
#include <string>

#include <plait/sim/app/catalogue.hpp>
#include <plait/sim/app/plan.hpp>

#include "app_test.hpp"

namespace plait::sim {
namespace {

using test::refusal;

Scenario parse_one(std::string_view text) {
    auto variants = parse_scenario(text, "case.toml");
    EXPECT_EQ(variants.size(), 1U);
    return std::move(variants.front());
}

TEST(Scenario, DefaultsAreTheReferenceDevice) {
    const Scenario scenario = parse_one("workload = { kind = \"permutation\" }");
    EXPECT_EQ(scenario.topology.planes, 4U);
    EXPECT_EQ(scenario.scale_out.rate_gbps, 100);
    EXPECT_EQ(scenario.scale_out.mtu_bytes, 4096U);
    EXPECT_EQ(scenario.scale_out.leaf_down_ports, 16U);
    EXPECT_EQ(scenario.scale_out.leaf_up_ports, 16U);
    EXPECT_EQ(scenario.scale_out.switch_latency_ns, 400U);
    EXPECT_EQ(scenario.scale_out.cable_ns, 50U);
    EXPECT_EQ(scenario.scale_out.ecn_threshold_bytes, 65536U);
    EXPECT_EQ(scenario.scale_out.buffer_bytes, 262144U);
    EXPECT_EQ(scenario.scale_up.rate_gbytes_per_s, 160);
    EXPECT_EQ(scenario.scale_up.latency_ns, 300U);
    EXPECT_EQ(scenario.host_interface.rate_gbytes_per_s, 200);
    EXPECT_EQ(scenario.host_interface.latency_ns, 400U);
    EXPECT_EQ(scenario.device.firmware_cores, 16U);
    EXPECT_EQ(scenario.device.reduce_units, 4U);
    EXPECT_EQ(scenario.device.encode_units, 4U);
    EXPECT_EQ(scenario.device.packet_memory_bytes, 8U << 20);
    EXPECT_EQ(scenario.transport.window_packets, 512U);
    EXPECT_EQ(scenario.transport.base_rtt_ns, 5500U);
    EXPECT_EQ(scenario.flows.qps_per_flow, 8U);
    EXPECT_EQ(scenario.payload, PayloadMode::real);
    EXPECT_EQ(scenario.seed, 1U);
}

TEST(Scenario, EveryWorkloadKeyIsRead) {
    const Scenario scenario = parse_one(R"(
seed = 9
payload = "virtual"
[topology]
nodes = 4
gpus_per_node = 4
planes = 2
[transport]
spray = "round_robin"
[workload]
kind = "ep"
tokens = 77
hidden = 2880
experts = 64
topk = 4
dispatch_format = "e5m2_ue8m0"
combine_format = "logfmt10"
partial_format = "f32"
encode_dispatch = true
encode_combine = true
biases = 2
entry_policy = "target"
routing = "skewed"
idle_ranks = [3, 1]
repeat = 3
cached = true
micro_batches = 2
timeout_us = 50
)");
    EXPECT_EQ(scenario.seed, 9U);
    EXPECT_EQ(scenario.payload, PayloadMode::virtual_);
    EXPECT_EQ(scenario.ranks(), 16U);
    EXPECT_EQ(scenario.transport.spray, regmap::SprayPolicy::round_robin);
    EXPECT_EQ(scenario.workload, WorkloadKind::ep);
    EXPECT_EQ(scenario.ep.tokens, 77U);
    EXPECT_EQ(scenario.ep.hidden, 2880U);
    EXPECT_EQ(scenario.ep.experts, 64U);
    EXPECT_EQ(scenario.ep.topk, 4U);
    EXPECT_EQ(scenario.ep.dispatch_format, regmap::RowFormat::e5m2_ue8m0);
    EXPECT_EQ(scenario.ep.combine_format, regmap::RowFormat::logfmt10);
    EXPECT_EQ(scenario.ep.partial_format, regmap::RowFormat::f32);
    EXPECT_TRUE(scenario.ep.encode_dispatch && scenario.ep.encode_combine && scenario.ep.biases == 2);
    EXPECT_EQ(scenario.ep.entry_policy, regmap::EntryPolicy::target);
    EXPECT_EQ(scenario.ep.routing, RoutingKind::skewed);
    EXPECT_EQ(scenario.ep.idle_ranks, (std::vector<uint32_t>{1, 3}));
    EXPECT_EQ(scenario.ep.repeat, 3U);
    EXPECT_TRUE(scenario.ep.cached);
    EXPECT_EQ(scenario.ep.micro_batches, 2U);
    EXPECT_EQ(scenario.ep.timeout_us, 50U);
}

TEST(Scenario, FaultsAreInOrderOfTime) {
    const Scenario scenario = parse_one(R"(
workload = { kind = "permutation" }
fault = [ { at_us = 20, what = "plane_up", plane = 3 },
          { at_us = 0.5, what = "link_down", device = 5, plane = 1, silent = true },
          { at_us = 3, what = "link_down", leaf = 0, spine = 7, plane = 1 },
          { at_us = 4, what = "reordering", rate = 0.1, delay_ns = 2000 },
          { at_us = 5, what = "lose_nth", source = 1, destination = 2, nth = 40 } ]
)");
    ASSERT_EQ(scenario.faults.size(), 5U);
    EXPECT_EQ(scenario.faults[0].at_ns, 500U);
    EXPECT_EQ(scenario.faults[0].device, 5U);
    EXPECT_TRUE(scenario.faults[0].silent);
    EXPECT_FALSE(scenario.faults[0].between_switches);
    EXPECT_TRUE(scenario.faults[1].between_switches);
    EXPECT_EQ(scenario.faults[1].spine, 7U);
    EXPECT_EQ(scenario.faults[2].delay_ns, 2000U);
    EXPECT_EQ(scenario.faults[3].nth, 40U);
    EXPECT_EQ(scenario.faults[4].what, FaultKind::plane_up);
}

TEST(Scenario, VariantsReplaceOnlyWhatTheyName) {
    const auto variants = parse_scenario(R"(
seed = 4
[workload]
kind = "ep"
tokens = 10
[[variant]]
name = "a"
[[variant]]
name = "b"
seed = 5
workload = { entry_policy = "target" }
)",
                                         "case.toml");
    ASSERT_EQ(variants.size(), 2U);
    EXPECT_EQ(variants[0].variant, "a");
    EXPECT_EQ(variants[0].seed, 4U);
    EXPECT_EQ(variants[0].ep.entry_policy, regmap::EntryPolicy::balanced);
    EXPECT_EQ(variants[1].seed, 5U);
    EXPECT_EQ(variants[1].ep.entry_policy, regmap::EntryPolicy::target);
    EXPECT_EQ(variants[1].ep.tokens, 10U);
}

struct BadScenario {
    const char* text;
    const char* expected;  // the whole message
};

// What a failing case shows of itself: its text, not the addresses in it.
void PrintTo(const BadScenario& bad, std::ostream* stream) { *stream << testing::PrintToString(bad.text); }

// The key at fault and the number of the case, such as topology_nodes_0.
std::string name_of_case(const testing::TestParamInfo<BadScenario>& info) {
    std::string message = info.param.expected;
    message.erase(0, message.find(": ") + 2);
    std::string name = message.substr(0, message.find(": "));
    for (char& letter : name)
        if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
    return name + "_" + std::to_string(info.index);
}

class BadScenarios : public testing::TestWithParam<BadScenario> {};

TEST_P(BadScenarios, GetOneClearLine) {
    EXPECT_EQ(refusal([&] { (void)parse_scenario(GetParam().text, "case.toml"); }), GetParam().expected);
}

#define PERMUTATION "workload = { kind = \"permutation\" }\n"

INSTANTIATE_TEST_SUITE_P(
    Keys, BadScenarios,
    testing::Values(
        BadScenario{"", "case.toml:1: workload: found nothing, expected a table that says what to run"},
        BadScenario{PERMUTATION "sed = 1\n", "case.toml:2: sed: unknown key, did you mean \"seed\"?"},
        BadScenario{"[topology]\nnodes = 2\nplains = 4\n" PERMUTATION,
                    "case.toml:3: topology.plains: unknown key, did you mean \"planes\"?"},
        BadScenario{
            PERMUTATION "[wxyz]\n",
            "case.toml:2: wxyz: unknown key, expected one of description, device, engines, fault, firmware, "
            "host_interface, limits, "
            "payload, scale_out, scale_up, seed, topology, transport, variant, workload"},
        BadScenario{"[workload]\nkind = \"ep\"\ntokns = 3\n",
                    "case.toml:3: workload.tokns: unknown key, did you mean \"tokens\"?"},
        BadScenario{"[workload]\nkind = \"permutation\"\ntokens = 3\n",
                    "case.toml:3: workload.tokens: unknown key, expected one of bytes_per_flow, kind, "
                    "message_bytes, operation, qps_per_flow, shift"},
        BadScenario{"a = \n",
                    "case.toml:1: not TOML: Error while parsing key-value pair: expected value, saw '\\n'"},
        BadScenario{PERMUTATION "[[variant]]\nname = \"a\"\nseeds = 3\n",
                    "case.toml:4: seeds: unknown key, did you mean \"seed\"?"},
        BadScenario{PERMUTATION "[[variant]]\nseed = 3\n",
                    "case.toml:2: variant[0].name: found nothing, expected text"},
        BadScenario{
            PERMUTATION "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"a\"\n",
            "case.toml:5: variant[1].name: found string 'a', expected a name that no other variant has"}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Types, BadScenarios,
    testing::Values(
        BadScenario{
            PERMUTATION "seed = \"one\"\n",
            "case.toml:2: seed: found string 'one', expected an integer from 0 to 9223372036854775807"},
        BadScenario{
            PERMUTATION "seed = 1.0\n",
            "case.toml:2: seed: found floating-point 1.0, expected an integer from 0 to 9223372036854775807"},
        BadScenario{PERMUTATION "seed = -1\n",
                    "case.toml:2: seed: found integer -1, expected an integer from 0 to 9223372036854775807"},
        BadScenario{PERMUTATION "topology = 3\n", "case.toml:2: topology: found integer 3, expected a table"},
        BadScenario{PERMUTATION "fault = 3\n",
                    "case.toml:2: fault: found integer 3, expected an array of tables"},
        BadScenario{PERMUTATION "payload = \"imaginary\"\n",
                    "case.toml:2: payload: found string 'imaginary', expected one of \"real\", \"virtual\""},
        BadScenario{PERMUTATION "payload = true\n",
                    "case.toml:2: payload: found boolean true, expected one of \"real\", \"virtual\""},
        BadScenario{PERMUTATION "firmware = \"arm\"\n",
                    "case.toml:2: firmware: found string 'arm', expected one of \"native\", \"riscv\""},
        BadScenario{PERMUTATION "[scale_out]\nloss = nan\n",
                    "case.toml:3: scale_out.loss: found floating-point nan, expected a number from 0 to 1"},
        BadScenario{PERMUTATION "[scale_out]\nloss = \"much\"\n",
                    "case.toml:3: scale_out.loss: found string 'much', expected a number from 0 to 1"},
        BadScenario{PERMUTATION "[scale_out]\nloss = 1.5\n",
                    "case.toml:3: scale_out.loss: found floating-point 1.5, expected a number from 0 to 1"},
        BadScenario{"[workload]\nkind = \"ep\"\ncached = 1\n",
                    "case.toml:3: workload.cached: found integer 1, expected true or false"},
        BadScenario{"[workload]\nkind = \"ep\"\nidle_ranks = [1, 99]\n",
                    "case.toml:3: workload.idle_ranks: found integer 99 in the list, expected a list of "
                    "integers from 0 to 15"}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Topologies, BadScenarios,
    testing::Values(
        BadScenario{PERMUTATION "[topology]\nnodes = 0\n",
                    "case.toml:3: topology.nodes: found integer 0, expected an integer from 1 to 2048"},
        BadScenario{PERMUTATION "[topology]\ngpus_per_node = 9\n",
                    "case.toml:3: topology.gpus_per_node: found integer 9, expected an integer from 1 to 8"},
        BadScenario{PERMUTATION "[topology]\nplanes = 9\n",
                    "case.toml:3: topology.planes: found integer 9, expected an integer from 1 to 8"},
        BadScenario{
            PERMUTATION "[topology]\nplanes = 3\n",
            "case.toml: transport.entropy_values: 128 values on 3 planes, expected a multiple of the planes"},
        BadScenario{
            PERMUTATION "[scale_out]\nmtu_bytes = 1500\n",
            "case.toml:3: scale_out.mtu_bytes: found integer 1500, expected a power of two from 256 to 4096"},
        BadScenario{PERMUTATION "[scale_out]\nleaf_down_ports = 12\n",
                    "case.toml:3: scale_out.leaf_down_ports: 12 ports hold no whole nodes, expected a "
                    "multiple of gpus_per_node = 8"},
        BadScenario{
            PERMUTATION "[topology]\nnodes = 8\n[scale_out]\nspine_ports = 3\n",
            "case.toml:5: scale_out.spine_ports: 64 devices take 4 leaves, expected at most spine_ports = 3"},
        BadScenario{PERMUTATION "[transport]\nwindow_packets = 100\n",
                    "case.toml:3: transport.window_packets: found integer 100, expected a power of two from "
                    "64 to 512"},
        BadScenario{PERMUTATION "[topology]\nnodes = 1\ngpus_per_node = 1\n",
                    "case.toml:1: workload.kind: one device has nobody to send to, expected a topology of 2 "
                    "devices or more"}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Workloads, BadScenarios,
    testing::Values(
        BadScenario{"[workload]\n",
                    "case.toml:1: workload.kind: found nothing, expected one of \"ep\", \"permutation\", "
                    "\"alltoall\", \"incast\""},
        BadScenario{
            "[workload]\nkind = \"ep\"\nexperts = 100\n",
            "case.toml:3: workload.experts: 100 experts on 16 ranks, expected a multiple of the ranks"},
        BadScenario{
            "[topology]\nnodes = 64\n[workload]\nkind = \"ep\"\nexperts = 512\n",
            "case.toml:4: workload.kind: an EP group of 512 ranks, expected at most 256: see topology.nodes"},
        BadScenario{"[workload]\nkind = \"ep\"\nhidden = 200\n",
                    "case.toml:3: workload.hidden: found integer 200, expected a multiple of 64"},
        BadScenario{"[workload]\nkind = \"ep\"\npartial_format = \"fp8\"\n",
                    "case.toml:3: workload.partial_format: found string 'fp8', expected one of \"bf16\", "
                    "\"e4m3_f32\", \"e4m3_ue8m0\", \"e5m2_f32\", \"e5m2_ue8m0\", \"logfmt8\", \"logfmt10\", "
                    "\"f32\""},
        BadScenario{
            "[workload]\nkind = \"ep\"\ndispatch_format = \"f32\"\n",
            "case.toml:3: workload.dispatch_format: found string 'f32', expected BF16 or less, for the "
            "experts: f32 is for sums"},
        BadScenario{"[workload]\nkind = \"ep\"\nencode_combine = true\n",
                    "case.toml:3: workload.encode_combine: nothing to encode, expected a combine_format that "
                    "is neither \"bf16\" nor \"f32\""},
        BadScenario{
            "[scale_out]\nmtu_bytes = 256\n[workload]\nkind = \"ep\"\nhidden = 128\n"
            "combine_format = \"f32\"\npartial_format = \"logfmt8\"\n",
            "case.toml:7: workload.partial_format: contributions \"f32\" and partial rows \"logfmt8\" "
            "come in blocks of 128 elements, expected scale_out.mtu_bytes and "
            "device.accumulator_elements that hold one"},
        BadScenario{"[workload]\nkind = \"ep\"\nexperts = 16\ntopk = 17\n",
                    "case.toml:4: workload.topk: found integer 17, expected an integer from 1 to 16"},
        BadScenario{"[topology]\nnodes = 1\n[workload]\nkind = \"ep\"\nexperts = 8\ntopk = 9\n",
                    "case.toml:6: workload.topk: found integer 9, expected at most experts = 8"},
        BadScenario{"[workload]\nkind = \"ep\"\nrouting = \"lowest\"\n",
                    "case.toml:3: workload.routing: found string 'lowest', expected an .npy file, "
                    "\"uniform\", \"grouped\" or \"skewed\""},
        BadScenario{"[workload]\nkind = \"ep\"\nmode = \"low_latency\"\ncached = true\nrepeat = 2\n",
                    "case.toml:4: workload.cached: low latency has no cached dispatch, expected false"},
        BadScenario{
            "[workload]\nkind = \"ep\"\nweights_at = \"combine\"\n",
            "case.toml:3: workload.weights_at: only a low-latency combine is weighted, expected mode = "
            "\"low_latency\""},
        BadScenario{"[workload]\nkind = \"ep\"\ncached = true\n",
                    "case.toml:3: workload.cached: no dispatch would use the handle again, expected repeat "
                    "of 2 or more"},
        BadScenario{"[workload]\nkind = \"incast\"\nsenders = 16\n",
                    "case.toml:3: workload.senders: found integer 16, expected an integer from 1 to 15"},
        BadScenario{"[workload]\nkind = \"incast\"\nvictim = { source = 1, destination = 0 }\n",
                    "case.toml:3: workload.victim.destination: found integer 0, expected another device than "
                    "the receiver and the "
                    "victim's source"},
        BadScenario{"[workload]\nkind = \"alltoall\"\nmessage_bytes = 2147483648\n",
                    "case.toml:3: workload.message_bytes: found integer 2147483648, expected an integer from "
                    "1 to 2147483647"}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Faults, BadScenarios,
    testing::Values(
        BadScenario{PERMUTATION "[[fault]]\nwhat = \"plane_down\"\nplane = 0\n",
                    "case.toml:2: fault[0].at_us: found nothing, expected a number from 0 to 3600000000"},
        BadScenario{PERMUTATION "[[fault]]\nat_us = 1\nwhat = \"plane_down\"\n",
                    "case.toml:2: fault[0].plane: found nothing, expected an integer from 0 to 3"},
        BadScenario{PERMUTATION "[[fault]]\nat_us = 1\nwhat = \"plane_down\"\nplane = 4\n",
                    "case.toml:5: fault[0].plane: found integer 4, expected an integer from 0 to 3"},
        BadScenario{PERMUTATION "[[fault]]\nat_us = 1\nwhat = \"plane_down\"\nplane = 1\ndevice = 2\n",
                    "case.toml:6: fault[0].device: unknown key, expected one of at_us, plane, silent, what"},
        BadScenario{PERMUTATION
                    "[[fault]]\nat_us = 1\nwhat = \"link_down\"\nleaf = 1\nspine = 2\nplane = 0\n",
                    "case.toml:5: fault[0].leaf: found integer 1, expected an integer from 0 to 0"},
        BadScenario{PERMUTATION "[[fault]]\nat_us = 1\nwhat = \"loss\"\nrate = 2\n",
                    "case.toml:5: fault[0].rate: found integer 2, expected a number from 0 to 1"}),
    name_of_case);

TEST(Scenario, FilesThatAreNoScenariosAreNamed) {
    const test::TemporaryFolder folder;
    EXPECT_NE(refusal([&] {
                  (void)load_scenario(folder.path() / "none.toml");
              }).find("none.toml: found no such file"),
              std::string::npos);
    EXPECT_NE(refusal([&] { (void)load_scenario(folder.path()); }).find("found no such file"),
              std::string::npos);
    const auto large = folder.write("large.toml", std::string((1 << 20) + 1, '\n'));
    EXPECT_NE(
        refusal([&] { (void)load_scenario(large); }).find("found 1048577 bytes, expected at most 1048576"),
        std::string::npos);
}

TEST(Scenario, EveryOneWeShipIsGoodAndCanBePlanned) {
    const auto files = list_scenarios({SCENARIO_FOLDER});
    std::string names;
    for (const auto& file : files) {
        SCOPED_TRACE(file.string());
        names += file.stem().string() + ' ';
        for (const auto& scenario : load_scenario(file)) {
            EXPECT_FALSE(scenario.description.empty());
            const Plan plan = make_plan(scenario);
            ASSERT_FALSE(plan.phases.empty());
            for (const auto& phase : plan.phases) EXPECT_GT(phase.floor_us, 0);
        }
    }
    EXPECT_EQ(names,
              "alltoall decode256 decode64 ep16 ep32 ep32-formats ep64 ep64-accumulators ep64-decode "
              "ep64-full ep64-full-formats ep64-policies ep8 ep8-riscv ep8-rtl incast incast-trimming "
              "lossy permutation plane-down ");
}

TEST(Scenario, PlaneDownLastsAtLeastSixMilliseconds) {
    for (const auto& scenario : load_scenario(std::filesystem::path(SCENARIO_FOLDER) / "plane-down.toml")) {
        EXPECT_GT(make_plan(scenario).phases.front().floor_us, 6000);
        ASSERT_EQ(scenario.faults.size(), 2U);
        EXPECT_EQ(scenario.faults[0].at_ns, 2'000'000U);
        EXPECT_EQ(scenario.faults[1].at_ns, 4'000'000U);
    }
}

TEST(Catalogue, NamesAndPathsAreFoundAndTheNearestNameIsOffered) {
    EXPECT_EQ(find_scenario("ep64", {SCENARIO_FOLDER}), std::filesystem::path(SCENARIO_FOLDER) / "ep64.toml");
    EXPECT_EQ(find_scenario("some/where.toml", {SCENARIO_FOLDER}), "some/where.toml");
    EXPECT_NE(refusal([] {
                  (void)find_scenario("permuation", {SCENARIO_FOLDER});
              }).find("did you mean \"permutation\"?"),
              std::string::npos);
    EXPECT_NE(refusal([] { (void)find_scenario("xyzzy-plugh", {SCENARIO_FOLDER}); }).find("plait list"),
              std::string::npos);
}

TEST(Catalogue, TheFirstFolderWins) {
    const test::TemporaryFolder folder;
    const auto own = folder.write("ep64.toml", "");
    EXPECT_EQ(find_scenario("ep64", {folder.path(), SCENARIO_FOLDER}), own);
}

}  // namespace
}  // namespace plait::sim
