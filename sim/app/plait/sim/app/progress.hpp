// A progress bar on a terminal, and Ctrl-C.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace plait::sim {

/// Draws on `stream` when `enabled`; otherwise only carries the question whether to stop.
class Progress {
  public:
    Progress(std::FILE* stream, bool enabled, std::string title = {});
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    /// `done` of `total` units of work, at this simulated time. Cheap when nothing visible has changed.
    void update(uint64_t done, uint64_t total, uint64_t simulated_ps);

    /// The user wants the run to end now.
    bool interrupted() const;

  private:
    std::FILE* stream_;
    bool enabled_;
    std::string title_;
    uint64_t drawn_permille_ = UINT64_MAX;
};

/// From now on the first Ctrl-C (SIGINT) makes Progress::interrupted() true; a second one ends the program.
void catch_interrupts();
/// Forgets a Ctrl-C, for the next run in the same process.
void clear_interrupt();

}  // namespace plait::sim
