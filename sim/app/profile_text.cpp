#include <fmt/format.h>

#include <algorithm>

#include <plait/sim/app/report.hpp>

namespace plait::sim {
namespace {

constexpr size_t functions_shown = 40;

double share(uint64_t part, uint64_t all) {
    return all == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(all);
}

double mean(uint64_t instructions, uint64_t calls) {
    return calls == 0 ? 0 : static_cast<double>(instructions) / static_cast<double>(calls);
}

}  // namespace

std::string profile_text(const Scenario& scenario, const RunOutcome& outcome) {
    const FirmwareProfile& profile = outcome.profile;
    uint64_t all = 0;
    for (const auto& event : profile.events) all += event.total;
    std::string text = fmt::format("{}{}{}: {} instructions\n\n", scenario.name,
                                   scenario.variant.empty() ? "" : " / ", scenario.variant, all);
    text += "  instructions   share      events      each  event\n";
    for (const auto& event : profile.events)
        text += fmt::format("{:>14}  {:>4.1f} %  {:>10}  {:>8.1f}  {}\n", event.total,
                            share(event.total, all), event.calls, mean(event.total, event.calls), event.name);
    if (!outcome.firmware.paths.empty())
        text += "\n        events      each      most  path of a plain packet\n";
    for (const auto& path : outcome.firmware.paths)
        text += fmt::format("{:>14}  {:>8.1f}  {:>8}  {}\n", path.events,
                            mean(path.instructions, path.events), path.most, path.name);
    text += "\n          self   share       calls      each  with calls  function\n";
    const size_t shown = std::min(profile.functions.size(), functions_shown);
    for (size_t i = 0; i < shown; ++i) {
        const auto& function = profile.functions[i];
        text += fmt::format("{:>14}  {:>4.1f} %  {:>10}  {:>8.1f}  {:>8.1f} %  {}\n", function.self,
                            share(function.self, all), function.calls, mean(function.self, function.calls),
                            share(function.total, all), function.name);
    }
    return text + '\n';
}

}  // namespace plait::sim
