#include <plait/sim/app/command_line.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <unistd.h>

#include <fmt/format.h>

#include <plait/sim/app/arguments.hpp>
#include <plait/sim/app/campaign.hpp>
#include <plait/sim/app/catalogue.hpp>
#include <plait/sim/app/memory_estimate.hpp>
#include <plait/sim/app/plan.hpp>
#include <plait/sim/app/report.hpp>
#include <plait/sim/app/scenario.hpp>
#include <plait/sim/app/simulate.hpp>

namespace plait::sim {
namespace {

enum Exit : int { ok = 0, failed = 1, bad_input = 2, fault = 3, interrupted = 130 };

// Names and values in a message are the user's, line breaks and all.
std::string one_line(std::string message) {
    std::replace_if(
        message.begin(), message.end(), [](char letter) { return static_cast<unsigned char>(letter) < ' '; },
        ' ');
    return message;
}

int list(std::ostream& out, std::ostream& err) {
    size_t width = 0;
    const auto files = list_scenarios(scenario_folders());
    for (const auto& file : files) width = std::max(width, file.stem().string().size());
    bool all_good = true;
    for (const auto& file : files) {
        try {
            const auto variants = load_scenario(file);
            out << fmt::format("{:<{}}  {}\n", file.stem().string(), width, variants.front().description);
        } catch (const InputError& error) {
            err << one_line(error.what()) << '\n';
            all_good = false;
        }
    }
    if (files.empty()) {
        err << "found no scenarios, expected them in share/plait/scenarios or in $PLAIT_SCENARIOS\n";
        return bad_input;
    }
    return all_good ? ok : bad_input;
}

void place_firmware(const Arguments& arguments, Scenario& scenario) {
    if (!arguments.image.empty()) scenario.firmware_image = arguments.image;
    if (arguments.firmware == "native") set_firmware(scenario, FirmwarePlace::native);
    if (arguments.firmware == "riscv" || arguments.command == Command::profile ||
        arguments.command == Command::calibrate)
        set_firmware(scenario, FirmwarePlace::riscv);
}

std::vector<Scenario> load(const Arguments& arguments, const std::string& name) {
    auto variants = load_scenario(find_scenario(name, scenario_folders()));
    for (auto& scenario : variants) {
        if (arguments.seed) scenario.seed = *arguments.seed;
        place_firmware(arguments, scenario);
        if (const auto refusal = refuse_for_memory(scenario, available_memory_bytes()))
            throw InputError(*refusal);
        check_firmware(scenario);
    }
    return variants;
}

std::vector<Scenario> load(const Arguments& arguments) { return load(arguments, arguments.scenario); }

int check(const Arguments& arguments, std::ostream& out) {
    for (const auto& scenario : load(arguments)) {
        const Plan plan = make_plan(scenario);
        out << fmt::format(
            "{}{}{}: {}, {} nodes x {} GPUs, {} planes, seed {}, payload {}, about {:.2f} GiB\n",
            scenario.name, scenario.variant.empty() ? "" : " / ", scenario.variant,
            name_of(scenario.workload), scenario.topology.nodes, scenario.topology.gpus_per_node,
            scenario.topology.planes, scenario.seed, name_of(scenario.payload),
            static_cast<double>(estimate_memory(scenario).total_bytes()) / (1024.0 * 1024.0 * 1024.0));
        for (const auto& phase : plan.phases) {
            out << fmt::format("  {}: floor {:.1f} us ({}), with perfect spreading {:.1f} us; {} packets\n",
                               phase.name, phase.floor_us,
                               phase.hottest_link.empty() ? "nothing to move" : phase.hottest_link,
                               phase.floor_best_us, phase.packets);
        }
    }
    return ok;
}

// Finds out before the run, not after it, that the report cannot be written.
void check_writable(const std::string& file) {
    if (file.empty()) return;
    const bool existed = std::filesystem::exists(file);
    if (!std::ofstream(file, std::ios::app))
        throw InputError(fmt::format("--json {}: found no way to write it, expected a writable file", file));
    if (!existed) std::filesystem::remove(file);
}

// Firmware stopped, or engines differ: why, and the state of the core.
int tell_fault(const RunOutcome& outcome, std::ostream& err) {
    err << outcome.fault;
    return Exit::fault;
}

// Runs a scenario's variants with the firmware image: take(scenario, outcome) gets what came of each.
template <class Take>
int run_image(const Arguments& arguments, const std::string& name, std::ostream& err, Take take) {
    const bool profile = arguments.command == Command::profile;
    for (const auto& scenario : load(arguments, name)) {
        const Plan plan = make_plan(scenario);
        Progress progress(stderr, isatty(STDERR_FILENO) != 0, scenario.name);
        const RunOutcome outcome = simulate(scenario, {.plan = &plan, .profile = profile}, progress);
        if (!outcome.fault.empty()) return tell_fault(outcome, err);
        take(scenario, outcome);
        if (outcome.interrupted) return interrupted;
    }
    return ok;
}

int profile(const Arguments& arguments, std::ostream& out, std::ostream& err) {
    catch_interrupts();
    check_writable(arguments.folded_file);
    std::string folded;
    const auto show = [&](const Scenario& scenario, const RunOutcome& outcome) {
        out << profile_text(scenario, outcome);
        folded += outcome.profile.folded;
    };
    if (const int exit = run_image(arguments, arguments.scenario, err, show); exit != ok) return exit;
    if (!arguments.folded_file.empty()) std::ofstream(arguments.folded_file, std::ios::trunc) << folded;
    return ok;
}

int calibrate(const Arguments& arguments, std::ostream& out, std::ostream& err) {
    catch_interrupts();
    CostSamples samples;
    const auto add = [&](const Scenario&, const RunOutcome& outcome) { samples += outcome.firmware.samples; };
    for (const auto& name : arguments.scenarios) {
        if (const int exit = run_image(arguments, name, err, add); exit != ok) return exit;
    }
    out << calibration_text(samples);
    return ok;
}

int run(const Arguments& arguments, std::ostream& out, std::ostream& err) {
    catch_interrupts();  // before loading, which takes a while for much routing
    const auto variants = load(arguments);
    check_writable(arguments.json_file);
    Report report;
    report.variants = variants.size();
    // All input is read before anything is run.
    for (const auto& scenario : variants) report.runs.push_back({scenario, make_plan(scenario), {}});

    const bool shows_progress = !arguments.quiet && isatty(STDERR_FILENO) != 0;
    size_t done = 0;
    for (auto& entry : report.runs) {
        Progress progress(stderr, shows_progress,
                          entry.scenario.variant.empty() ? entry.scenario.name : entry.scenario.variant);
        if (progress.interrupted()) entry.outcome.interrupted = true;
        else entry.outcome = simulate(entry.scenario, RunOptions{&entry.plan}, progress);
        ++done;
        if (entry.outcome.interrupted || !entry.outcome.fault.empty()) break;
    }
    report.runs.erase(report.runs.begin() + static_cast<std::ptrdiff_t>(done), report.runs.end());

    if (!arguments.quiet) out << to_text(report, true) << std::flush;
    if (!arguments.json_file.empty()) {
        std::ofstream json(arguments.json_file, std::ios::trunc);
        json << to_json(report).dump(2) << '\n' << std::flush;
        if (!json) {
            err << fmt::format("{}: the report could not be written\n", arguments.json_file);
            return failed;
        }
    }
    if (report.interrupted()) return interrupted;
    for (const auto& entry : report.runs) {
        if (entry.outcome.fault.empty()) continue;
        return tell_fault(entry.outcome, err);
    }
    if (!report.succeeded()) {
        for (const auto& entry : report.runs) {
            for (const auto& error : entry.outcome.errors) {
                if (arguments.quiet) err << error << '\n';
            }
        }
        return failed;
    }
    return ok;
}

}  // namespace

int run_command_line(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
    try {
        const auto arguments = parse_arguments(argc, argv, out);
        if (!arguments) return ok;
        if (arguments->command == Command::list) return list(out, err);
        if (arguments->command == Command::campaign) return run_campaign(arguments->campaign, out);
        if (arguments->command == Command::calibrate) return calibrate(*arguments, out, err);
        if (arguments->command == Command::profile) return profile(*arguments, out, err);
        return arguments->command == Command::check ? check(*arguments, out) : run(*arguments, out, err);
    } catch (const InputError& error) {
        err << one_line(error.what()) << '\n';
        return bad_input;
    } catch (const std::exception& error) {
        err << fmt::format("plait: {}\n", error.what());
        return failed;
    }
}

}  // namespace plait::sim
