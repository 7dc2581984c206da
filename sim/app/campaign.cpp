#include <plait/sim/app/campaign.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <plait/sim/app/plan.hpp>
#include <plait/sim/app/progress.hpp>

namespace plait::sim {
namespace {

// A seed takes a second or two; one that does not end by itself is a hang of the program.
constexpr unsigned wall_limit_s = 300;

std::vector<std::string> run_seed(uint64_t seed) {
    const Scenario scenario = parse_scenario(campaign_scenario(seed), fmt::format("seed {}", seed)).front();
    const Plan plan = make_plan(scenario);
    Progress progress(stderr, false);
    constexpr uint64_t errors_kept = 10'000;  // most are as expected where a rank fails
    return judge(scenario, simulate(scenario, RunOptions{&plan, errors_kept}, progress));
}

// A process of its own: SystemC keeps one simulation in globals, and one that crashes is one failed seed.
class SeedProcess {
  public:
    explicit SeedProcess(uint64_t seed) : seed_(seed) {
        int ends[2];
        if (pipe(ends) != 0) throw std::runtime_error("campaign: found no pipe for a process");
        process_ = fork();
        if (process_ < 0) throw std::runtime_error("campaign: found no room for a process");
        if (process_ == 0) {
            close(ends[0]);
            answer(ends[1]);
        }
        close(ends[1]);
        from_ = ends[0];
    }
    ~SeedProcess() {
        if (process_ > 0) {
            kill(process_, SIGKILL);
            waitpid(process_, nullptr, 0);
        }
        close(from_);
    }
    SeedProcess(const SeedProcess&) = delete;
    SeedProcess& operator=(const SeedProcess&) = delete;

    uint64_t seed() const { return seed_; }
    int from() const { return from_; }

    /// Takes what it says; true when that was all.
    bool read_some() {
        char buffer[4096];
        const ssize_t count = read(from_, buffer, sizeof(buffer));
        if (count > 0) said_.append(buffer, static_cast<size_t>(count));
        return count == 0 || (count < 0 && errno != EINTR);
    }

    /// What was wrong, when it has ended.
    std::vector<std::string> verdict() {
        int status = 0;
        waitpid(process_, &status, 0);
        process_ = 0;
        std::vector<std::string> lines;
        std::istringstream stream(said_);
        for (std::string line; std::getline(stream, line);) lines.push_back(line);
        if (WIFSIGNALED(status)) {
            lines.push_back(WTERMSIG(status) == SIGALRM
                                ? fmt::format("did not end within {} s", wall_limit_s)
                                : fmt::format("the simulator ended by signal {}", WTERMSIG(status)));
        } else if (lines.empty() && WEXITSTATUS(status) != 0) {
            lines.push_back(fmt::format("the simulator ended with status {}", WEXITSTATUS(status)));
        }
        return lines;
    }

  private:
    [[noreturn]] void answer(int to) const {
        std::signal(SIGINT, SIG_IGN);  // the campaign ends it
        alarm(wall_limit_s);
        std::string lines;
        try {
            for (const auto& line : run_seed(seed_)) lines += line + '\n';
        } catch (const std::exception& error) {
            lines = fmt::format("{}\n", error.what());
        }
        size_t done = 0;
        while (done < lines.size()) {
            const ssize_t count = write(to, lines.data() + done, lines.size() - done);
            if (count <= 0) _exit(2);
            done += static_cast<size_t>(count);
        }
        _exit(lines.empty() ? 0 : 1);
    }

    uint64_t seed_;
    pid_t process_ = 0;
    int from_ = -1;
    std::string said_;
};

void print_failure(uint64_t seed, const std::vector<std::string>& lines, std::ostream& out) {
    for (const auto& line : lines) out << fmt::format("seed {}: {}\n", seed, line);
    out << fmt::format("seed {}: repeat with `plait campaign --first {} --seeds 1`\n", seed, seed)
        << std::flush;
}

}  // namespace

std::vector<std::string> judge(const Scenario& scenario, const RunOutcome& outcome) {
    const auto has = [&](FaultKind kind) {
        return std::any_of(scenario.faults.begin(), scenario.faults.end(),
                           [&](const Fault& fault) { return fault.what == kind; });
    };
    const bool dies = has(FaultKind::device_down);
    const bool is_missed = has(FaultKind::host_stops) || !scenario.ep.absent_ranks.empty();
    std::vector<std::string_view> expected;
    // A death or a stop before the first call leaves no group to call.
    if (dies || is_missed)
        expected.insert(expected.end(), {"group: bootstrap: gathered ", " ended as rank_failed "});
    if (dies)
        expected.insert(expected.end(), {"could not create the group: device_removed", "the device is gone"});
    if (is_missed)
        expected.insert(expected.end(), {" ended as timeout ", " ended as aborted ", " holds no routing"});
    std::vector<std::string> wrong;
    for (const auto& error : outcome.errors) {
        const bool is_expected = std::any_of(expected.begin(), expected.end(), [&](std::string_view words) {
            return error.find(words) != std::string::npos;
        });
        if (!is_expected) wrong.push_back(error);
    }
    if (wrong.empty() && expected.empty() && !outcome.complete) wrong.emplace_back("the run is not complete");
    return wrong;
}

int run_campaign(const CampaignOptions& options, std::ostream& out) {
    if (options.show) {
        for (uint64_t i = 0; i < options.seeds; ++i) out << campaign_scenario(options.first_seed + i) << '\n';
        return 0;
    }
    catch_interrupts();
    const Progress interrupt(stderr, false);
    const size_t jobs = options.jobs != 0 ? options.jobs : std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::unique_ptr<SeedProcess>> running;
    uint64_t started = 0;
    uint64_t right = 0;
    uint64_t failed = 0;
    while ((started < options.seeds || !running.empty()) && !interrupt.interrupted()) {
        while (started < options.seeds && running.size() < jobs)
            running.push_back(std::make_unique<SeedProcess>(options.first_seed + started++));
        std::vector<pollfd> waits;
        for (const auto& process : running) waits.push_back({process->from(), POLLIN, 0});
        if (poll(waits.data(), waits.size(), -1) <= 0) continue;
        for (size_t i = waits.size(); i-- != 0;) {
            if (waits[i].revents == 0 || !running[i]->read_some()) continue;
            const auto lines = running[i]->verdict();
            if (lines.empty()) ++right;
            else print_failure(running[i]->seed(), lines, out);
            if (!lines.empty()) ++failed;
            running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
    out << fmt::format("{} seeds from {}: {} right, {} failed\n", right + failed, options.first_seed, right,
                       failed);
    if (interrupt.interrupted()) return 130;
    return failed == 0 ? 0 : 1;
}

}  // namespace plait::sim
