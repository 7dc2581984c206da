// Where scenarios and firmware images lie.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace plait::sim {

/// Folders that are searched, in order: $PLAIT_SCENARIOS, share/plait/scenarios of the installation or build
/// folder the program is part of. Only those that exist.
std::vector<std::filesystem::path> scenario_folders();

/// All scenario files of these folders, by name; the first folder that has a name wins.
std::vector<std::filesystem::path> list_scenarios(const std::vector<std::filesystem::path>& folders);

/// The file of a scenario given by name or path. Throws InputError that names the nearest one.
std::filesystem::path find_scenario(const std::string& name_or_path,
                                    const std::vector<std::filesystem::path>& folders);

/// The file of a firmware image given by name or path: names are those of share/plait/firmware, beside the
/// program's folder.
std::filesystem::path find_firmware_image(const std::string& name_or_path);

}  // namespace plait::sim
