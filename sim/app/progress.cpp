#include <plait/sim/app/progress.hpp>

#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

namespace plait::sim {
namespace {

volatile std::sig_atomic_t interrupt_seen = 0;

void on_interrupt(int) {
    interrupt_seen = 1;
    std::signal(SIGINT, SIG_DFL);
}

}  // namespace

Progress::Progress(std::FILE* stream, bool enabled, std::string title)
    : stream_(stream), enabled_(enabled), title_(std::move(title)) {}

Progress::~Progress() {
    if (!enabled_ || drawn_permille_ == UINT64_MAX) return;
    fmt::print(stream_, "\r\x1b[K");
    std::fflush(stream_);
}

void Progress::update(uint64_t done, uint64_t total, uint64_t simulated_ps) {
    if (!enabled_) return;
    const double share =
        total == 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    const auto permille = static_cast<uint64_t>(share * 1000);
    if (permille == drawn_permille_) return;
    drawn_permille_ = permille;
    constexpr size_t width = 40;
    const size_t filled = static_cast<size_t>(permille) * width / 1000;
    fmt::print(stream_, "\r{} [{:#<{}}{:.<{}}] {:5.1f} %  {:.1f} us simulated\x1b[K", title_, "", filled, "",
               width - filled, static_cast<double>(permille) / 10, static_cast<double>(simulated_ps) / 1e6);
    std::fflush(stream_);
}

bool Progress::interrupted() const { return interrupt_seen != 0; }

void catch_interrupts() { std::signal(SIGINT, on_interrupt); }

void clear_interrupt() { interrupt_seen = 0; }

}  // namespace plait::sim
