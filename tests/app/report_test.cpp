#include <plait/sim/app/report.hpp>

#include "app_test.hpp"

namespace plait::sim {
namespace {

Report report_of(const std::string& text, double slowdown = 1.25) {
    Report report;
    const auto variants = parse_scenario(text, "case.toml");
    report.variants = variants.size();
    for (const auto& scenario : variants) {
        Plan plan = make_plan(scenario);
        RunOutcome outcome = test::perfect_outcome(scenario, plan, slowdown);
        report.runs.push_back({scenario, std::move(plan), std::move(outcome)});
    }
    return report;
}

constexpr const char* ep_text = "seed = 7\n[workload]\nkind = \"ep\"\ntokens = 64\n";

TEST(Report, HasEveryDocumentedKey) {
    const auto json = to_json(report_of(ep_text));
    for (const char* key :
         {"report_version", "scenario", "description", "complete", "verified", "interrupted", "seed",
          "payload", "firmware", "engines", "topology", "phases", "runs"}) {
        EXPECT_TRUE(json.contains(key)) << key;
    }
    ASSERT_EQ(json["phases"].size(), 2U);
    for (const char* key : {"variant",
                            "name",
                            "micro_batch",
                            "repetition",
                            "complete",
                            "verified",
                            "start_us",
                            "time_us",
                            "floor_us",
                            "floor_best_us",
                            "hottest_link",
                            "efficiency",
                            "goodput_gbytes_per_s",
                            "scale_out_bytes_per_gpu",
                            "scale_up_bytes_per_gpu",
                            "scale_out_bytes_per_gpu_with_duplicates",
                            "saved_by_duplicate_removal",
                            "packets",
                            "retransmitted",
                            "out_of_order_max",
                            "latency_ns",
                            "published_us",
                            "non_finite",
                            "noise"}) {
        EXPECT_TRUE(json["phases"][0].contains(key)) << key;
    }
    for (const char* key : {"variant",         "complete",       "verified",       "errors",
                            "simulated_us",    "workload",       "mode",           "entry_policy",
                            "dispatch_format", "combine_format", "partial_format", "encode_dispatch",
                            "encode_combine",  "biases",         "tokens",         "spray",
                            "high_water",      "firmware_work",  "drops",          "counters"}) {
        EXPECT_TRUE(json["runs"][0].contains(key)) << key;
    }
}

TEST(Report, DerivesItsFigures) {
    const Report report = report_of(ep_text);
    const auto json = to_json(report);
    const auto& dispatch = json["phases"][0];
    const PhasePlan& plan = report.runs[0].plan.phases[0];
    EXPECT_EQ(dispatch["name"], "dispatch");
    EXPECT_NEAR(dispatch["efficiency"].get<double>(), 0.8, 1e-4);
    EXPECT_NEAR(dispatch["time_us"].get<double>(), 1.25 * plan.floor_us, 1e-3);
    const double payload_gbytes = static_cast<double>(plan.rows) * 7392 / 16 / 1e9;
    EXPECT_NEAR(dispatch["goodput_gbytes_per_s"].get<double>(), payload_gbytes / (1.25e-6 * plan.floor_us),
                2e-3);
    EXPECT_NEAR(dispatch["scale_out_bytes_per_gpu"].get<double>(),
                static_cast<double>(plan.scale_out_bytes) / 16, 1e-3);
    EXPECT_TRUE(dispatch["published_us"].is_null());
    EXPECT_EQ(json["seed"], 7);
    EXPECT_EQ(json["complete"], true);
    EXPECT_EQ(json["verified"], true);
}

TEST(Report, VirtualPayloadIsNeverVerifiedAndSaysSoFirst) {
    const Report report = report_of("payload = \"virtual\"\nworkload = { kind = \"permutation\" }\n");
    EXPECT_TRUE(report.succeeded());
    EXPECT_EQ(to_json(report)["verified"], false);
    EXPECT_EQ(to_json(report)["phases"][0]["verified"], false);
    const std::string text = to_text(report, false);
    EXPECT_LT(text.find("The payload is virtual"), text.find("phase"));
}

TEST(Report, OneWrongPhaseSpoilsIt) {
    Report report = report_of(ep_text);
    report.runs[0].outcome.phases[1].verified = false;
    EXPECT_FALSE(report.succeeded());
    EXPECT_EQ(to_json(report)["verified"], false);
    EXPECT_EQ(to_json(report)["complete"], true);
    EXPECT_NE(to_text(report, false).find("WRONG"), std::string::npos);
}

TEST(Report, ARunWithoutPhasesOrWithErrorsHasNotSucceeded) {
    Report report = report_of(ep_text);
    report.runs[0].outcome.errors.push_back("rank 3: timeout");
    EXPECT_FALSE(report.succeeded());
    EXPECT_NE(to_text(report, false).find("error: rank 3: timeout"), std::string::npos);
    report = report_of(ep_text);
    report.runs[0].outcome.phases.clear();
    EXPECT_FALSE(report.succeeded());
}

TEST(Report, AMissingVariantLeavesItIncomplete) {
    Report report = report_of(
        "workload = { kind = \"permutation\" }\n[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\n");
    EXPECT_TRUE(report.complete());
    report.runs.pop_back();
    report.runs[0].outcome.interrupted = true;
    EXPECT_EQ(to_json(report)["complete"], false);
    EXPECT_EQ(to_json(report)["interrupted"], true);
    EXPECT_NE(to_text(report, false).find("INCOMPLETE"), std::string::npos);
}

TEST(Report, AnIncompletePhaseHasNoEfficiency) {
    Report report = report_of(ep_text);
    report.runs[0].outcome.complete = false;
    report.runs[0].outcome.phases[0].complete = false;
    EXPECT_EQ(to_json(report)["phases"][0]["efficiency"], 0.0);
    EXPECT_EQ(to_json(report)["phases"][0]["goodput_gbytes_per_s"], 0.0);
}

TEST(Report, FlowsAreSummedUpAndTheVictimStandsApart) {
    Report report = report_of(
        "[workload]\nkind = \"incast\"\nsenders = 2\nvictim = { source = 5, destination = 6, bytes = 100 "
        "}\n");
    report.runs[0].outcome.flows = {{true, 3'000'000}, {true, 5'000'000}, {true, 1'000'000}};
    auto flows = to_json(report)["runs"][0]["flows"];
    EXPECT_EQ(flows["count"], 2);
    EXPECT_EQ(flows["time_us_min"], 3.0);
    EXPECT_EQ(flows["time_us_mean"], 4.0);
    EXPECT_EQ(flows["time_us_max"], 5.0);
    EXPECT_EQ(flows["victim_time_us"], 1.0);
    report.runs[0].outcome.flows = {{false, 0}, {true, 5'000'000}};
    flows = to_json(report)["runs"][0]["flows"];
    EXPECT_EQ(flows["complete"], 1);
    EXPECT_EQ(flows["time_us_min"], 5.0);
    EXPECT_TRUE(flows["victim_time_us"].is_null());
}

TEST(Report, TheTimelineIsARate) {
    Report report = report_of("workload = { kind = \"permutation\" }\n");
    report.runs[0].outcome.timeline_bin_ps = 100'000'000;
    report.runs[0].outcome.timeline_bytes = {16 * 5'000'000, 0};  // 5 MB a GPU in 100 us = 50 GB/s
    const auto timeline = to_json(report)["runs"][0]["timeline"];
    EXPECT_EQ(timeline["bin_us"], 100.0);
    EXPECT_EQ(timeline["goodput_gbytes_per_s"], (std::vector<double>{50.0, 0.0}));
}

TEST(Report, JsonHoldsNoWallClock) {
    Report report = report_of(ep_text);
    const std::string before = to_json(report).dump();
    report.runs[0].outcome.wall_seconds = 12.5;
    report.runs[0].outcome.delivered_packets = 12345;
    EXPECT_EQ(to_json(report).dump(), before);
    EXPECT_NE(to_text(report, true).find("12.5 s"), std::string::npos);
    EXPECT_EQ(to_text(report, false).find("12.5 s"), std::string::npos);
}

TEST(Report, AnUnplannedPhaseIsAProgrammingError) {
    Report report = report_of(ep_text);
    report.runs[0].outcome.phases[0].name = "reduce";
    EXPECT_THROW((void)to_json(report), std::logic_error);
}

}  // namespace
}  // namespace plait::sim
