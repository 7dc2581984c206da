#include <plait/sim/app/command_line.hpp>

#include <algorithm>
#include <csignal>
#include <sstream>

#include <nlohmann/json.hpp>

#include <plait/sim/app/memory_estimate.hpp>

#include "app_test.hpp"

namespace plait::sim {
namespace {

constexpr const char* permutation = "description = \"a test\"\nworkload = { kind = \"permutation\" }\n";

class CommandLine : public testing::Test {
  protected:
    void SetUp() override {
        clear_interrupt();
        test::simulate_double = [this](const Scenario& scenario, const RunOptions& options, Progress&) {
            ++runs_;
            last_seed_ = scenario.seed;
            return test::perfect_outcome(scenario, *options.plan, 1.1);
        };
    }
    void TearDown() override {
        test::simulate_double = nullptr;
        clear_interrupt();
        std::signal(SIGINT, SIG_DFL);
    }

    int call(std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), "plait");
        std::vector<const char*> pointers;
        for (const auto& argument : arguments) pointers.push_back(argument.c_str());
        std::ostringstream out, err;
        const int status = run_command_line(static_cast<int>(pointers.size()), pointers.data(), out, err);
        out_ = out.str();
        err_ = err.str();
        return status;
    }
    std::string file(const std::string& name) const { return (folder_.path() / name).string(); }
    nlohmann::json json(const std::string& name) const {
        std::ifstream stream(folder_.path() / name);
        return nlohmann::json::parse(stream);
    }

    test::TemporaryFolder folder_;
    std::string out_, err_;
    int runs_ = 0;
    uint64_t last_seed_ = 0;
};

TEST_F(CommandLine, ListsWhatWeShip) {
    EXPECT_EQ(call({"list"}), 0);
    for (const char* name : {"ep8 ", "ep64-full ", "plane-down ", "lossy "})
        EXPECT_NE(out_.find(name), std::string::npos) << name;
    EXPECT_EQ(err_, "");
}

TEST_F(CommandLine, RunsWritesTheReportAndAnswersZero) {
    folder_.write("a.toml", permutation);
    EXPECT_EQ(call({"run", file("a.toml"), "--json", file("a.json")}), 0) << err_;
    EXPECT_EQ(runs_, 1);
    EXPECT_NE(out_.find("Every byte was checked"), std::string::npos);
    EXPECT_EQ(json("a.json")["complete"], true);
    EXPECT_EQ(json("a.json")["scenario"], "a");
}

TEST_F(CommandLine, QuietSaysNothing) {
    folder_.write("a.toml", permutation);
    EXPECT_EQ(call({"run", file("a.toml"), "--quiet"}), 0);
    EXPECT_EQ(out_ + err_, "");
}

TEST_F(CommandLine, SeedReplacesTheScenariosOwn) {
    folder_.write("a.toml", permutation);
    EXPECT_EQ(call({"run", file("a.toml"), "--quiet", "--seed", "42", "--json", file("a.json")}), 0);
    EXPECT_EQ(last_seed_, 42U);
    EXPECT_EQ(json("a.json")["seed"], 42);
}

TEST_F(CommandLine, RunsEveryVariant) {
    folder_.write("a.toml", std::string(permutation) +
                                "[[variant]]\nname = \"x\"\n[[variant]]\nname = \"y\"\nseed = 3\n");
    EXPECT_EQ(call({"run", file("a.toml"), "--json", file("a.json")}), 0);
    EXPECT_EQ(runs_, 2);
    EXPECT_EQ(json("a.json")["phases"].size(), 2U);
    EXPECT_EQ(json("a.json")["phases"][1]["variant"], "y");
}

TEST_F(CommandLine, CheckRunsNothing) {
    folder_.write("a.toml", permutation);
    EXPECT_EQ(call({"check", file("a.toml")}), 0);
    EXPECT_EQ(runs_, 0);
    EXPECT_NE(out_.find("floor"), std::string::npos);
}

TEST_F(CommandLine, BadInputAnswersTwoWithOneLineAndRunsNothing) {
    folder_.write("bad.toml", "sed = 1\nworkload = { kind = \"permutation\" }\n");
    folder_.write("short.toml", "[workload]\nkind = \"ep\"\nrouting = \"short.npy\"\n");
    folder_.write("short.npy", test::npy("|u1", "16, 3, 8", std::string(384, '\0')));
    folder_.write("good.toml", permutation);
    const std::vector<std::vector<std::string>> calls{
        {"run", file("bad.toml")},
        {"check", file("bad.toml")},
        {"run", file("short.toml")},
        {"check", file("short.toml")},
        {"run", file("missing.toml")},
        {"run", "no-such-scenario"},
        {"run", file("good.toml"), "--json", file("none/a.json")}};
    for (const auto& arguments : calls) {
        EXPECT_EQ(call(arguments), 2) << arguments[1];
        EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
        EXPECT_EQ(out_, "");
    }
    EXPECT_EQ(runs_, 0);
}

TEST_F(CommandLine, BadArgumentsAnswerTwoWithOneLineThatNamesThem) {
    folder_.write("a.toml", permutation);
    const std::string good = file("a.toml");
    struct Case {
        std::vector<std::string> arguments;
        std::vector<std::string> words;
    };
    const std::vector<Case> cases{
        {{}, {"plait: found no command", "list, check, run, profile, calibrate or campaign"}},
        {{""}, {"found \"\"", "list, check, run, profile, calibrate or campaign"}},
        {{"walk"}, {"found \"walk\"", "list, check, run, profile, calibrate or campaign"}},
        {{"chek"}, {"found \"chek\"", "did you mean \"check\"?"}},
        {{"--seed", "1", "run", good}, {"plait: found \"--seed\""}},
        {{"list", "list"}, {"plait list: found \"list\"", "expected `plait list`"}},
        {{"run"}, {"plait run: SCENARIO", "expected `plait run SCENARIO"}},
        {{"run", ""}, {"empty SCENARIO"}},
        {{"run", good, "more"}, {"plait run: found \"more\"", "expected `plait run SCENARIO"}},
        {{"run", good, "--sed", "1"}, {"found \"--sed\"", "did you mean \"--seed\"?"}},
        {{"run", good, "--sed=1"}, {"found \"--sed=1\"", "did you mean \"--seed\"?"}},
        {{"check", good, "--json", "x"}, {"plait check: found \"--json\"", "expected `plait check SCENARIO"}},
        {{"run", good, "--seed"}, {"plait run: --seed", "missing"}},
        {{"run", good, "--seed", "1", "--seed", "2"}, {"--seed", "received 2"}},
        {{"run", good, "--seed", "many"}, {"--seed: found \"many\"", "an integer from 0 to"}},
        {{"run", good, "--seed", ""}, {"--seed: found \"\"", "an integer from 0 to"}},
        {{"run", good, "--seed", "-1"}, {"--seed: found \"-1\"", "an integer from 0 to"}},
        {{"run", good, "--seed", "1.5"}, {"--seed: found \"1.5\"", "an integer from 0 to"}},
        {{"run", good, "--seed", "9223372036854775808"}, {"--seed", "to 9223372036854775807"}},
        {{"run", good, "--json"}, {"plait run: --json", "missing"}},
        {{"run", good, "--json", ""}, {"--json: found \"\"", "expected a file"}},
        {{"run", good, "--json", "--quiet"}, {"--json: found \"--quiet\"", "expected a file"}},
        {{"run", good, "--quiet=3"}, {"quiet"}},
        {{"run", "no\nsuch"}, {"no such", "`plait list`"}}};
    for (const auto& [arguments, words] : cases) {
        const std::string shown = testing::PrintToString(arguments);
        EXPECT_EQ(call(arguments), 2) << shown;
        EXPECT_EQ(out_, "") << shown;
        EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
        for (const auto& word : words) EXPECT_NE(err_.find(word), std::string::npos) << word << '\n' << err_;
    }
    EXPECT_EQ(runs_, 0);
    for (const std::vector<std::string>& help : {std::vector<std::string>{"--help"}, {"run", "--help"}}) {
        EXPECT_EQ(call(help), 0);
        EXPECT_NE(out_.find("Usage: plait"), std::string::npos) << out_;
        EXPECT_EQ(err_, "");
    }
}

TEST_F(CommandLine, AWrongResultAnswersOne) {
    folder_.write("a.toml", permutation);
    test::simulate_double = [](const Scenario& scenario, const RunOptions& options, Progress&) {
        auto outcome = test::perfect_outcome(scenario, *options.plan, 1);
        outcome.phases[0].verified = false;
        outcome.errors.push_back("device 4: byte 100 of message 3 is wrong");
        return outcome;
    };
    EXPECT_EQ(call({"run", file("a.toml"), "--json", file("a.json")}), 1);
    EXPECT_EQ(json("a.json")["verified"], false);
    EXPECT_EQ(call({"run", file("a.toml"), "--quiet"}), 1);
    EXPECT_EQ(err_, "device 4: byte 100 of message 3 is wrong\n");
}

TEST_F(CommandLine, AnExceptionAnswersOne) {
    folder_.write("a.toml", permutation);
    test::simulate_double = [](const Scenario&, const RunOptions&, Progress&) -> RunOutcome {
        throw std::runtime_error("no room");
    };
    EXPECT_EQ(call({"run", file("a.toml")}), 1);
    EXPECT_EQ(err_, "plait: no room\n");
}

TEST_F(CommandLine, ControlCReportsWhatThereIsAndAnswers130) {
    folder_.write("a.toml",
                  std::string(permutation) + "[[variant]]\nname = \"x\"\n[[variant]]\nname = \"y\"\n");
    test::simulate_double = [this](const Scenario& scenario, const RunOptions& options, Progress& progress) {
        ++runs_;
        EXPECT_FALSE(progress.interrupted());
        std::raise(SIGINT);
        auto outcome = test::perfect_outcome(scenario, *options.plan, 1);
        outcome.interrupted = progress.interrupted();
        outcome.complete = outcome.phases[0].complete = !outcome.interrupted;
        return outcome;
    };
    EXPECT_EQ(call({"run", file("a.toml"), "--json", file("a.json")}), 130);
    EXPECT_EQ(runs_, 1);
    EXPECT_NE(out_.find("INCOMPLETE"), std::string::npos);
    EXPECT_EQ(json("a.json")["complete"], false);
    EXPECT_EQ(json("a.json")["interrupted"], true);
}

TEST_F(CommandLine, ControlCBeforeTheSimulationIsNoDifferent) {
    folder_.write("a.toml", permutation);
    catch_interrupts();
    std::raise(SIGINT);
    EXPECT_EQ(call({"run", file("a.toml"), "--json", file("a.json")}), 130);
    EXPECT_EQ(runs_, 0);
    EXPECT_NE(out_.find("INCOMPLETE"), std::string::npos);
    EXPECT_EQ(json("a.json")["complete"], false);
    EXPECT_EQ(json("a.json")["verified"], false);
    EXPECT_EQ(json("a.json")["interrupted"], true);
}

TEST_F(CommandLine, TooLargeAScenarioIsRefusedWithTheEstimate) {
    folder_.write("a.toml", std::string(permutation) + "limits = { memory_gib = 0.01 }\n");
    EXPECT_EQ(call({"run", file("a.toml")}), 2);
    EXPECT_NE(err_.find("takes about"), std::string::npos) << err_;
    EXPECT_NE(err_.find("expected at most 0.01 GiB: limits.memory_gib"), std::string::npos) << err_;
    EXPECT_EQ(runs_, 0);
}

TEST(MemoryEstimate, GrowsWithTheScenarioAndIsComparedWithWhatThereIs) {
    const auto estimate = [](const std::string& text) {
        return estimate_memory(parse_scenario(text, "s.toml").front()).total_bytes();
    };
    const std::string small = "topology = { nodes = 2 }\nworkload = { kind = \"ep\", tokens = 256 }\n";
    EXPECT_LT(estimate(small),
              estimate("topology = { nodes = 8 }\nworkload = { kind = \"ep\", tokens = 256 }\n"));
    EXPECT_LT(estimate(small),
              estimate("topology = { nodes = 2 }\nworkload = { kind = \"ep\", tokens = 4096 }\n"));
    EXPECT_LT(estimate("payload = \"virtual\"\n" + small), estimate(small));
    const Scenario scenario = parse_scenario(small, "s.toml").front();
    EXPECT_EQ(refuse_for_memory(scenario, uint64_t{1} << 40), std::nullopt);
    EXPECT_NE(refuse_for_memory(scenario, 1 << 20).value_or("").find("the memory available now"),
              std::string::npos);
    EXPECT_GT(available_memory_bytes(), uint64_t{1} << 20);
}

TEST(Progress, DrawsOnlyWhenEnabled) {
    for (const bool enabled : {false, true}) {
        std::FILE* stream = std::tmpfile();
        ASSERT_NE(stream, nullptr);
        {
            Progress progress(stream, enabled, "ep64");
            progress.update(1, 4, 2'000'000);
            progress.update(1, 4, 2'000'001);
            progress.update(0, 0, 3'000'000);
        }
        std::fseek(stream, 0, SEEK_END);
        const long drawn = std::ftell(stream);
        std::fclose(stream);
        EXPECT_EQ(drawn > 0, enabled);
    }
}

}  // namespace
}  // namespace plait::sim
