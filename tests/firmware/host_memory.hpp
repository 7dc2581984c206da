#pragma once
// A host's memory as bytes, and what its device may do with it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <plait/firmware/firmware.hpp>
#include <vector>

namespace plait::mesh_test {

class HostMemory {
  public:
    using Segment = firmware::Segment;
    static constexpr std::uint64_t base = 0x1000'0000;

    /// `number` is that of the device, for messages.
    explicit HostMemory(std::uint32_t number) : number_(number) {}

    [[nodiscard]] std::uint32_t number() const { return number_; }

    std::uint64_t allocate(std::size_t bytes) {
        const std::size_t begin = (memory_.size() + 255) / 256 * 256;
        memory_.resize(begin + bytes);
        return base + begin;
    }
    std::uint8_t* bytes(std::uint64_t address, std::size_t length) {
        const bool fits =
            address >= base && length <= memory_.size() && address - base <= memory_.size() - length;
        if (!fits)
            ADD_FAILURE() << "device " << number_ << " leaves host memory: " << address << " + " << length;
        return fits ? memory_.data() + (address - base) : nullptr;
    }
    template <class T>
    T load(std::uint64_t address) {
        T value{};
        if (const std::uint8_t* from = bytes(address, sizeof(T))) std::memcpy(&value, from, sizeof(T));
        return value;
    }
    template <class T>
    void store(std::uint64_t address, const T& value) {
        if (std::uint8_t* to = bytes(address, sizeof(T))) std::memcpy(to, &value, sizeof(T));
    }

    /// From now on the device must not read this range.
    void forbid(std::uint64_t address, std::size_t length) {
        if (length != 0) forbidden_.push_back({address, static_cast<std::uint32_t>(length)});
    }
    void allow_all() { forbidden_.clear(); }
    /// Rows may only be placed in ranges named here.
    void allow_place(std::uint64_t address, std::size_t length) {
        if (length != 0) placeable_.push_back({address, static_cast<std::uint32_t>(length)});
    }

    /// None of the segment is forbidden.
    [[nodiscard]] bool may_read(const Segment& segment) const {
        return std::none_of(forbidden_.begin(), forbidden_.end(), [&](const Segment& range) {
            return segment.address + segment.length > range.address &&
                   range.address + range.length > segment.address;
        });
    }
    /// The segment lies in a range where rows may be placed.
    [[nodiscard]] bool may_place(const Segment& segment) const {
        return std::any_of(placeable_.begin(), placeable_.end(), [&](const Segment& range) {
            return segment.address >= range.address &&
                   segment.address + segment.length <= range.address + range.length;
        });
    }

  private:
    std::uint32_t number_;
    std::vector<std::uint8_t> memory_;
    std::vector<Segment> forbidden_;
    std::vector<Segment> placeable_;
};

}  // namespace plait::mesh_test
