#include <plait/sim/app/arguments.hpp>

#include <charconv>
#include <limits>
#include <ostream>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <plait/sim/app/scenario.hpp>
#include <plait/sim/app/table_reader.hpp>

namespace plait::sim {
namespace {

struct Usage {
    const CLI::App* command;
    std::string name;
    std::string expected;
};

// Words that `command` does not know are left to refuse_unknown(), which knows what may have been meant.
Usage add_command(CLI::App& app, const std::string& name, const std::string& arguments,
                  const std::string& description) {
    auto* command = app.add_subcommand(name, description);
    command->allow_extras();
    return {command, "plait " + name, fmt::format("`plait {}{}`", name, arguments)};
}

[[noreturn]] void refuse(const Usage& usage, const std::string& found) {
    throw InputError(fmt::format("{}: {}, expected {}", usage.name, found, usage.expected));
}

void refuse_unknown(const Usage& usage) {
    const auto words = usage.command->remaining();
    if (words.empty()) return;
    const std::string& word = words.front();
    std::vector<std::string> known;
    if (word.starts_with('-')) {
        for (const auto* option : usage.command->get_options()) known.push_back(option->get_name());
    } else {
        for (const auto* command : usage.command->get_subcommands({})) known.push_back(command->get_name());
    }
    const auto meant = nearest(word.substr(0, word.find('=')), known);
    if (meant.empty()) refuse(usage, fmt::format("found \"{}\"", word));
    throw InputError(fmt::format("{}: found \"{}\", did you mean \"{}\"?", usage.name, word, meant));
}

// TOML's integers are signed, so a scenario's seed has the same limit.
constexpr uint64_t highest_seed = std::numeric_limits<int64_t>::max();

uint64_t parse_number(const Usage& usage, const char* option, std::string_view text, uint64_t highest) {
    uint64_t number = 0;
    const auto* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || rest != end || number > highest) {
        throw InputError(fmt::format("{} {}: found \"{}\", expected an integer from 0 to {}", usage.name,
                                     option, text, highest));
    }
    return number;
}

}  // namespace

std::optional<Arguments> parse_arguments(int argc, const char* const* argv, std::ostream& out) {
    CLI::App app{"Plait: simulates clusters whose GPUs have a communication co-processor."};
    app.name("plait");
    app.allow_extras();
    app.require_subcommand(0, 1);
    const Usage whole{&app, "plait",
                      "list, check, run, profile, calibrate or campaign (`plait --help` shows more)"};
    const Usage usages[] = {
        add_command(app, "list", "", "Show the scenarios that can be run by name."),
        add_command(app, "check", " SCENARIO [--seed N]",
                    "Check a scenario and its input; show its floors and memory. Runs nothing."),
        add_command(app, "run",
                    " SCENARIO [--seed N] [--firmware PLACE] [--image IMAGE] [--json FILE] [--quiet]",
                    "Run a scenario."),
        add_command(app, "profile", " SCENARIO [--seed N] [--image IMAGE] [--folded FILE]",
                    "Run a scenario with the firmware image; show where its instructions go."),
        add_command(
            app, "calibrate", " SCENARIO... [--image IMAGE]",
            "Run scenarios with the firmware image; print what its kinds of work take, for scenarios."),
        add_command(app, "campaign", " [--seeds N] [--first SEED] [--jobs N] [--show]",
                    "Run random small clusters with random faults, one for each seed.")};

    Arguments arguments;
    std::string seed;
    for (const char* name : {"check", "run", "profile"}) {
        auto* command = app.get_subcommand(name);
        command->add_option("SCENARIO", arguments.scenario, "Name, or path of a .toml file.")->required();
        command->add_option("--seed", seed, "Instead of the scenario's seed.")->type_name("N");
    }
    auto* run = app.get_subcommand("run");
    run->add_option("--firmware", arguments.firmware, "native or riscv, instead of the scenario's.")
        ->type_name("PLACE");
    auto* profile = app.get_subcommand("profile");
    auto* calibrate = app.get_subcommand("calibrate");
    calibrate->add_option("SCENARIO", arguments.scenarios, "Names, or paths of .toml files.")->required();
    for (auto* command : {run, profile, calibrate})
        command->add_option("--image", arguments.image, "Name or path of the firmware image.")
            ->type_name("IMAGE");
    profile->add_option("--folded", arguments.folded_file, "Write stacks there, for flame graphs.")
        ->type_name("FILE");
    run->add_option("--json", arguments.json_file, "Write the report there as JSON.")->type_name("FILE");
    run->add_flag("--quiet", arguments.quiet, "No table and no progress bar: the exit status tells.")
        ->disable_flag_override();

    auto* campaign = app.get_subcommand("campaign");
    std::string seeds = "20";
    std::string first = "1";
    std::string jobs = "0";
    campaign->add_option("--seeds", seeds, "How many, one after the other (20).")->type_name("N");
    campaign->add_option("--first", first, "The first one (1).")->type_name("SEED");
    campaign->add_option("--jobs", jobs, "Processes at once (as many as cores).")->type_name("N");
    campaign->add_flag("--show", arguments.campaign.show, "Print the scenarios; run nothing.")
        ->disable_flag_override();

    const auto chosen = [&]() -> const Usage& {
        for (const auto& usage : usages) {
            if (usage.command->parsed()) return usage;
        }
        return whole;
    };
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() != 0) refuse(chosen(), error.what());
        app.exit(error, out, out);
        return std::nullopt;
    }
    refuse_unknown(whole);
    const Usage& usage = chosen();
    if (&usage == &whole) refuse(whole, "found no command");
    refuse_unknown(usage);
    if (app.got_subcommand("list")) return arguments;
    if (app.got_subcommand("campaign")) {
        constexpr uint64_t most_seeds = 1'000'000'000;
        constexpr uint64_t most_jobs = 1024;
        arguments.command = Command::campaign;
        arguments.campaign.seeds = parse_number(usage, "--seeds", seeds, most_seeds);
        arguments.campaign.first_seed = parse_number(usage, "--first", first, highest_seed);
        arguments.campaign.jobs = static_cast<uint32_t>(parse_number(usage, "--jobs", jobs, most_jobs));
        return arguments;
    }
    if (app.got_subcommand("calibrate")) {
        arguments.command = Command::calibrate;
        return arguments;
    }
    arguments.command = app.got_subcommand("check") ? Command::check
                        : app.got_subcommand("run") ? Command::run
                                                    : Command::profile;
    if (!arguments.firmware.empty() && arguments.firmware != "native" && arguments.firmware != "riscv")
        refuse(usage, fmt::format("found --firmware \"{}\"", arguments.firmware));
    if (arguments.scenario.empty()) refuse(usage, "found an empty SCENARIO");
    if (usage.command->count("--seed") != 0)
        arguments.seed = parse_number(usage, "--seed", seed, highest_seed);
    // An option that follows `--json` is what was forgotten, not a file.
    if (arguments.command == Command::run && run->count("--json") != 0 &&
        (arguments.json_file.empty() || arguments.json_file.starts_with('-'))) {
        throw InputError(
            fmt::format("{} --json: found \"{}\", expected a file", usage.name, arguments.json_file));
    }
    return arguments;
}

}  // namespace plait::sim
