// A C++ program of a user: a layout, and a device that is not there. Exit status 0: all as expected.
#include <array>
#include <cstdio>
#include <plait/c_link.hpp>
#include <plait/driver.hpp>
#include <plait/ep_layout.hpp>

namespace {

/// Reads as a device that is gone.
class NoDevice final : public plait::DeviceLink {
  public:
    std::uint32_t read_register(std::uint32_t) override { return 0xffff'ffff; }
    void write_register(std::uint32_t, std::uint32_t) override {}
    std::optional<plait::SharedMemory> allocate(std::size_t) override { return std::nullopt; }
    void free(const plait::SharedMemory&) override {}
    bool wait_interrupt(std::uint64_t timeout_ns) override {
        time_ns_ += timeout_ns;
        return false;
    }
    [[nodiscard]] std::uint64_t now_ns() const override { return time_ns_; }

  private:
    std::uint64_t time_ns_ = 0;
};

}  // namespace

int main() {
    const std::array<std::int64_t, 4> ids = {0, 1, 3, -1};  // token 0 twice on rank 0, token 1 on rank 1
    const auto layout = plait::get_dispatch_layout(ids, 2, 2, 4, 2, 2);
    if (!layout || layout.value().tokens_per_expert != std::vector<std::uint32_t>{1, 1, 0, 1}) return 1;

    NoDevice link;
    const auto driver = plait::Driver::open(link);
    std::printf("%s: %s\n", plait::regmap::name(driver.status()),
                driver ? "" : driver.error().message.c_str());
    const plait_link c_link = plait::make_c_link(link);
    plait_device* device = nullptr;
    return driver.status() == plait::Status::device_removed &&
                   plait_device_open(&c_link, nullptr, &device) == PLAIT_STATUS_DEVICE_REMOVED
               ? 0
               : 1;
}
