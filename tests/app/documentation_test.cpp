// The two documents name every key there is.
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include <nlohmann/json.hpp>

#include <plait/sim/app/report.hpp>

#include "app_test.hpp"

namespace plait::sim {
namespace {

std::string read_document(const std::string& name) {
    std::ifstream stream(std::filesystem::path(DOCS_FOLDER) / name);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// A scenario with an unknown key in a table is answered with all the keys of that table.
std::set<std::string> keys_of(const std::string& text) {
    const std::string message = test::refusal([&] { (void)parse_scenario(text, "s.toml"); });
    const auto list = message.find("expected one of ");
    EXPECT_NE(list, std::string::npos) << message;
    std::set<std::string> keys;
    const std::regex word("[a-z_]+");
    const std::string names = list == std::string::npos ? "" : message.substr(list + 16);
    for (std::sregex_iterator i(names.begin(), names.end(), word), end; i != end; ++i) keys.insert(i->str());
    return keys;
}

TEST(Documentation, ScenariosNamesEveryKey) {
    const std::string document = read_document("scenarios.md");
    const std::string workload = "workload = { kind = \"permutation\" }\n";
    std::vector<std::string> texts;
    for (const char* table :
         {"topology", "scale_out", "scale_up", "host_interface", "device", "transport", "limits"}) {
        texts.push_back(workload + "[" + table + "]\nzzzzzzzzzzzzzzzzzzzzzzzzzzzz = 1\n");
    }
    texts.push_back(workload + "zzzzzzzzzzzzzzzzzzzzzzzzzzzz = 1\n");
    texts.push_back(workload +
                    "[[fault]]\nat_us = 1\nwhat = \"reordering\"\nrate = 0\ndelay_ns = "
                    "1\nzzzzzzzzzzzzzzzzzzzzzzzz = 1\n");
    texts.push_back(workload +
                    "[[fault]]\nat_us = 1\nwhat = \"link_flap\"\nlinks = 1\ndown_us = 1\nup_us = "
                    "1\nzzzzzzzzzzzzzzzzzzz = 1\n");
    texts.push_back(
        workload +
        "[[fault]]\nat_us = 1\nwhat = \"lose_nth\"\nsource = 0\ndestination = 1\nzzzzzzzzzzzzzzzzzzz = 1\n");
    texts.push_back(workload +
                    "[[fault]]\nat_us = 1\nwhat = \"link_down\"\nleaf = 0\nspine = 1\nplane = "
                    "1\nzzzzzzzzzzzzzzzzzzz = 1\n");
    texts.push_back(
        "[workload]\nkind = \"ep\"\n[[fault]]\nat_us = 1\nwhat = \"host_stops\"\ndevice = 1\nfor_us = 1\n"
        "zzzzzzzzzzzzzzzzzzz = 1\n");
    for (const char* kind : {"permutation", "alltoall", "incast"}) {
        texts.push_back("[workload]\nkind = \"" + std::string(kind) + "\"\nzzzzzzzzzzzzzzzzzzzzzzzz = 1\n");
    }
    texts.push_back("[workload]\nkind = \"ep\"\nrouting = \"a.npy\"\nzzzzzzzzzzzzzzzzzzzzzzzz = 1\n");
    for (const auto& text : texts) {
        const auto keys = keys_of(text);
        EXPECT_GE(keys.size(), 2U) << text;
        for (const auto& key : keys) {
            const bool named = document.find('`' + key + '`') != std::string::npos ||
                               document.find("[" + key + "]") != std::string::npos;
            EXPECT_TRUE(named) << key;
        }
    }
}

void check_keys(const nlohmann::ordered_json& json, const std::string& document) {
    for (const auto& [key, value] : json.items()) {
        const bool named = !json.is_object() || document.find('`' + key + '`') != std::string::npos;
        EXPECT_TRUE(named) << key;
        if (value.is_structured()) check_keys(value, document);
    }
}

TEST(Documentation, ReportNamesEveryKey) {
    const std::string document = read_document("report.md");
    for (const char* workload : {"{ kind = \"ep\", tokens = 4 }", "{ kind = \"permutation\" }"}) {
        RunReport run{parse_scenario("workload = " + std::string(workload), "s.toml").front(), {}, {}};
        run.plan = make_plan(run.scenario);
        run.outcome = test::perfect_outcome(run.scenario, run.plan, 1);
        run.outcome.timeline_bin_ps = 1'000'000;
        run.outcome.timeline_bytes = {1};
        check_keys(to_json(Report{1, {run}}), document);
    }
}

}  // namespace
}  // namespace plait::sim
