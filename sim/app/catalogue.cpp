#include <plait/sim/app/catalogue.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>

#include <fmt/format.h>

#include <plait/sim/app/scenario.hpp>
#include <plait/sim/app/table_reader.hpp>

namespace plait::sim {

namespace fs = std::filesystem;

namespace {

// Of the installation or build folder that the program is part of.
fs::path shared_folder() {
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    return error ? fs::path() : program.parent_path().parent_path() / "share" / "plait";
}

}  // namespace

std::vector<fs::path> scenario_folders() {
    std::vector<fs::path> candidates;
    if (const char* folder = std::getenv("PLAIT_SCENARIOS"); folder != nullptr && *folder != '\0')
        candidates.emplace_back(folder);
    std::error_code error;
    candidates.push_back(shared_folder() / "scenarios");
    std::erase_if(candidates, [&](const fs::path& folder) { return !fs::is_directory(folder, error); });
    return candidates;
}

std::vector<fs::path> list_scenarios(const std::vector<fs::path>& folders) {
    std::map<std::string, fs::path> found;
    std::error_code error;
    for (const auto& folder : folders) {
        for (const auto& entry : fs::directory_iterator(folder, error)) {
            if (entry.is_regular_file(error) && entry.path().extension() == ".toml") {
                found.try_emplace(entry.path().stem().string(), entry.path());
            }
        }
    }
    std::vector<fs::path> files;
    for (auto& [name, file] : found) files.push_back(std::move(file));
    return files;
}

fs::path find_scenario(const std::string& name_or_path, const std::vector<fs::path>& folders) {
    if (name_or_path.ends_with(".toml") || name_or_path.find('/') != std::string::npos) return name_or_path;
    std::vector<std::string> names;
    for (const auto& file : list_scenarios(folders)) {
        if (file.stem() == name_or_path) return file;
        names.push_back(file.stem().string());
    }
    const auto meant = nearest(name_or_path, names);
    throw InputError(fmt::format(
        "{}: found no scenario of this name, {}", name_or_path,
        meant.empty() ? std::string("expected one that `plait list` shows, or the path of a .toml file")
                      : fmt::format("did you mean \"{}\"? (`plait list` shows all)", meant)));
}

fs::path find_firmware_image(const std::string& name_or_path) {
    if (name_or_path.ends_with(".elf")) return name_or_path;
    return shared_folder() / "firmware" / (name_or_path + ".elf");
}

}  // namespace plait::sim
