#pragma once
// A DeviceLink to a device that runs the real firmware side of the contract
// (tests/firmware/contract_device.hpp), in a little time of its own: register writes are posted and arrive
// 400 ns later, reads take 800 ns.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <plait/device_link.hpp>
#include <set>

#include "../firmware/contract_device.hpp"

namespace plait::contract_test {

class FakeDevice : public DeviceLink {
  public:
    static constexpr std::uint64_t one_way_ns = 400;

    explicit FakeDevice(const DeviceConfig& config = DeviceConfig{.device_number = 5}) : device(config) {
        device.hal().memory.resize(memory_bytes);
    }

    std::uint32_t read_register(std::uint32_t offset) override {
        ++reads;
        advance(now + one_way_ns);
        const auto forced = forced_reads.find(offset);
        std::uint32_t value = forced != forced_reads.end() ? forced->second : device.registers().read(offset);
        if (removed) value = ~0U;
        advance(now + one_way_ns);
        return value;
    }

    void write_register(std::uint32_t offset, std::uint32_t value) override {
        writes.push_back({offset, value});
        at(now + one_way_ns, [this, offset, value] {
            if (!removed && !deaf) device.registers().write(offset, value);
        });
    }

    std::optional<SharedMemory> allocate(std::size_t length_bytes) override {
        const std::size_t begin = (allocated + 4095) / 4096 * 4096 + misalign;
        if (length_bytes > memory_bytes || begin > memory_bytes - length_bytes) return std::nullopt;
        allocated = begin + length_bytes;
        live.insert(FakeHal::base + begin);
        return SharedMemory{reinterpret_cast<std::byte*>(&device.hal().memory[begin]), FakeHal::base + begin,
                            length_bytes};
    }

    void free(const SharedMemory& memory) override { bad_frees += 1 - live.erase(memory.device_address); }

    bool wait_interrupt(std::uint64_t timeout_ns) override {
        const std::uint64_t deadline = now + timeout_ns;
        for (;;) {
            if (removed && notices_removal) return false;
            if (device.hal().interrupts_waiting != 0) {
                device.hal().interrupts_waiting = 0;
                return true;
            }
            const std::uint64_t next =
                events_.empty() ? deadline : std::min(deadline, events_.begin()->first);
            advance(next);
            if (next == deadline && device.hal().interrupts_waiting == 0) return false;
        }
    }

    [[nodiscard]] std::uint64_t now_ns() const override { return now; }

    /// Something that happens at a time.
    void at(std::uint64_t time_ns, std::function<void()> what) { events_.emplace(time_ns, std::move(what)); }

    /// Time goes by, and the device does what it has to do.
    void advance(std::uint64_t until_ns) {
        while (!events_.empty() && events_.begin()->first <= until_ns) {
            const auto event = events_.begin();
            now = std::max(now, event->first);
            const std::function<void()> what = std::move(event->second);
            events_.erase(event);
            what();
            if (!removed) device.run();
        }
        now = std::max(now, until_ns);
    }
    void settle() { advance(now + 10 * one_way_ns); }

    ContractDevice device;
    std::uint64_t now = 1'000'000;
    std::map<std::uint32_t, std::uint32_t> forced_reads;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> writes;
    std::uint64_t reads = 0;
    bool removed = false;
    bool notices_removal = true;  ///< A wait ends when the device goes.
    bool deaf = false;            ///< Register writes are lost.
    std::size_t misalign = 0;
    std::set<std::uint64_t> live;  ///< Allocations.
    std::uint64_t bad_frees = 0;
    static constexpr std::size_t memory_bytes = 16U << 20;
    std::size_t allocated = 0;

  private:
    std::multimap<std::uint64_t, std::function<void()>>
        events_;  ///< Equal times in the order they were given.
};

}  // namespace plait::contract_test
