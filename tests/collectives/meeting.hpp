#pragma once
// A bootstrap between threads of the test.

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <plait/bootstrap.hpp>
#include <vector>

namespace plait::testing {

/// Where the ranks of one job meet. A rank that has left is waited for by nobody: the others time out at
/// once.
class Meeting {
  public:
    explicit Meeting(std::uint32_t ranks) : given_(ranks) {}

    [[nodiscard]] std::uint32_t ranks() const { return static_cast<std::uint32_t>(given_.size()); }

    Result<std::vector<std::byte>> gather(std::uint32_t rank, std::span<const std::byte> mine) {
        std::unique_lock lock(mutex_);
        given_[rank].assign(mine.begin(), mine.end());
        const std::uint64_t round = round_;
        if (++arrived_ == given_.size()) {
            arrived_ = 0;
            ++round_;
            all_.clear();
            for (const auto& part : given_) all_.insert(all_.end(), part.begin(), part.end());
            changed_.notify_all();
        } else {
            changed_.wait(lock, [&] { return round_ != round || absent_; });
            if (round_ == round) return Error{Status::timeout, "a rank did not come"};
        }
        return all_;
    }

    void leave() {
        const std::scoped_lock lock(mutex_);
        absent_ = true;
        changed_.notify_all();
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::vector<std::byte>> given_;
    std::vector<std::byte> all_;
    std::size_t arrived_ = 0;
    std::uint64_t round_ = 0;
    bool absent_ = false;
};

class ThreadBootstrap : public Bootstrap {
  public:
    ThreadBootstrap(Meeting& meeting, std::uint32_t rank) : meeting_(meeting), rank_(rank) {}
    [[nodiscard]] std::uint32_t rank() const override { return rank_; }
    [[nodiscard]] std::uint32_t ranks() const override { return meeting_.ranks(); }
    Result<std::vector<std::byte>> all_gather(std::span<const std::byte> mine, std::uint64_t) override {
        return meeting_.gather(rank_, mine);
    }

  private:
    Meeting& meeting_;
    const std::uint32_t rank_;
};

}  // namespace plait::testing
