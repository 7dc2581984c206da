// Shared by the tests of the program.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include <plait/sim/app/scenario.hpp>
#include <plait/sim/app/simulate.hpp>

namespace plait::sim::test {

inline uint64_t seed_of_run() {
    const char* text = std::getenv("PLAIT_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 0) : 20240607;
}

/// A folder of its own that is gone when the test is.
class TemporaryFolder {
  public:
    TemporaryFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "plait-app-XXXXXX").string();
        if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
        path_ = pattern;
    }
    ~TemporaryFolder() { std::filesystem::remove_all(path_); }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    std::filesystem::path write(const std::string& name, std::string_view bytes) const {
        std::ofstream(path_ / name, std::ios::binary) << bytes;
        return path_ / name;
    }
    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

/// The bytes of an .npy file of version 1.0 with this header dictionary.
inline std::string npy(const std::string& dictionary, std::string_view data) {
    std::string header = dictionary;
    while ((10 + header.size() + 1) % 64 != 0) header += ' ';
    header += '\n';
    std::string bytes("\x93NUMPY\x01\x00", 8);
    bytes += static_cast<char>(header.size() & 0xff);
    bytes += static_cast<char>(header.size() >> 8);
    return bytes + header + std::string(data);
}

inline std::string npy(const std::string& dtype, const std::string& shape, std::string_view data) {
    return npy("{'descr': '" + dtype + "', 'fortran_order': False, 'shape': (" + shape + "), }", data);
}

template <class Value>
std::string raw(const std::vector<Value>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value)};
}

/// The message of the InputError that `action` must throw: one line.
inline std::string refusal(const std::function<void()>& action) {
    try {
        action();
    } catch (const InputError& error) {
        const std::string message = error.what();
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
        return message;
    }
    ADD_FAILURE() << "nothing was refused";
    return {};
}

/// What the simulate() of these tests does. It is not the simulator's: see simulate_double.cpp.
inline std::function<RunOutcome(const Scenario&, const RunOptions&, Progress&)> simulate_double;

/// An outcome as if every planned phase had ended, right, after `slowdown` times its floor.
inline RunOutcome perfect_outcome(const Scenario& scenario, const Plan& plan, double slowdown) {
    RunOutcome outcome;
    outcome.complete = true;
    for (const auto& phase : plan.phases) {
        PhaseOutcome measured;
        measured.name = phase.name;
        measured.micro_batch = phase.micro_batch;
        measured.complete = measured.verified = true;
        measured.start_ps = outcome.simulated_ps;
        measured.time_ps = static_cast<uint64_t>(phase.floor_us * slowdown * 1e6);
        measured.scale_out_bytes = phase.scale_out_bytes;
        measured.scale_up_bytes = phase.scale_up_bytes;
        measured.packets = phase.packets;
        outcome.simulated_ps += measured.time_ps;
        outcome.phases.push_back(measured);
    }
    for (const auto& flow : plan.flows) {
        outcome.flows.push_back({true, flow.bytes * 20 * (1 + flow.source) / scenario.topology.planes});
    }
    return outcome;
}

}  // namespace plait::sim::test
