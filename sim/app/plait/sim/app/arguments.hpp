// What the user asked for on the command line.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include <plait/sim/app/campaign.hpp>

namespace plait::sim {

enum class Command { list, check, run, profile, calibrate, campaign };

struct Arguments {
    Command command = Command::list;
    std::vector<std::string> scenarios;  ///< Of `calibrate`.
    std::string scenario;                ///< Name or path, as written; of `check`, `run` and `profile`.
    std::optional<uint64_t> seed;        ///< Instead of the scenario's own.
    std::string firmware;                ///< Of `run`: instead of the scenario's own.
    std::string image;                   ///< Of `run`, `profile` and `calibrate`: likewise.
    std::string folded_file;             ///< Of `profile`: empty: no stacks are wanted.
    std::string json_file;               ///< Empty: no JSON is wanted.
    bool quiet = false;
    CampaignOptions campaign;  ///< Of `campaign`.
};

/// Nothing when help was asked for, which is then on `out`. Throws InputError, one line that says what was
/// found and what was expected, for everything that is no command line of `plait`.
std::optional<Arguments> parse_arguments(int argc, const char* const* argv, std::ostream& out);

}  // namespace plait::sim
