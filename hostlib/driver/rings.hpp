#pragma once
// Rings in shared memory, seen from the host. Indices run freely modulo 2^16, which every ring's length
// divides.

#include <cstring>
#include <optional>
#include <plait/barrier.hpp>
#include <plait/device_link.hpp>
#include <plait/result.hpp>
#include <utility>

namespace plait {

/// Shared memory that is given back at the end.
class Memory {
  public:
    /// no_memory when the link has none left.
    static Result<Memory> allocate(DeviceLink& link, std::size_t length_bytes) {
        const std::optional<SharedMemory> memory = link.allocate(length_bytes);
        if (!memory)
            return Error{Status::no_memory,
                         "no shared memory left, " + std::to_string(length_bytes) + " bytes asked for"};
        return Memory(link, *memory);
    }
    Memory(Memory&& other) noexcept : link_(std::exchange(other.link_, nullptr)), memory_(other.memory_) {}
    Memory& operator=(Memory&& other) noexcept {
        std::swap(link_, other.link_);
        std::swap(memory_, other.memory_);
        return *this;
    }
    ~Memory() {
        // The analyser takes the method for the C function.
        if (link_ != nullptr) link_->free(memory_);  // NOLINT(clang-analyzer-unix.Malloc)
    }

    /// The device may still use it: it stays the link's.
    void leave() { link_ = nullptr; }

    [[nodiscard]] std::byte* host() const { return memory_.host; }
    [[nodiscard]] std::uint64_t device_address() const { return memory_.device_address; }

  private:
    Memory(DeviceLink& link, const SharedMemory& memory) : link_(&link), memory_(memory) {}
    DeviceLink* link_;
    SharedMemory memory_;
};

/// Requests on their way to the device.
class RequestRing {
  public:
    RequestRing(Memory memory, regmap::QueueKind kind, std::size_t record_bytes, std::uint32_t log2_entries)
        : memory_(std::move(memory)),
          kind_(kind),
          record_bytes_(record_bytes),
          entries_(std::uint32_t{1} << log2_entries) {}

    [[nodiscard]] Memory& memory() { return memory_; }
    [[nodiscard]] regmap::QueueKind kind() const { return kind_; }
    [[nodiscard]] std::uint32_t free_entries() const { return entries_ - in_use(); }
    [[nodiscard]] std::uint16_t produced() const { return produced_; }

    /// Needs a free entry.
    void push(const void* record) {
        std::memcpy(memory_.host() + (produced_ & (entries_ - 1)) * record_bytes_, record, record_bytes_);
        ++produced_;
    }

    /// Entries up to and including `request_index` are free. Completions of concurrent requests may come in
    /// any order: an index already freed changes nothing, and neither does one that was never posted.
    void free_through(std::uint16_t request_index) {
        const auto count = static_cast<std::uint16_t>(request_index + 1 - freed_);
        if (count <= in_use()) freed_ = static_cast<std::uint16_t>(freed_ + count);
    }

  private:
    [[nodiscard]] std::uint16_t in_use() const { return static_cast<std::uint16_t>(produced_ - freed_); }

    Memory memory_;
    regmap::QueueKind kind_;
    std::size_t record_bytes_;
    std::uint32_t entries_;
    std::uint16_t produced_ = 0;
    std::uint16_t freed_ = 0;
};

/// Completions written by the device.
class CompletionRing {
  public:
    CompletionRing(Memory memory, std::uint32_t log2_entries)
        : memory_(std::move(memory)), log2_entries_(log2_entries) {}

    [[nodiscard]] Memory& memory() { return memory_; }
    [[nodiscard]] std::uint16_t consumed() const { return consumed_; }

    [[nodiscard]] bool has_new() const {
        const std::uint8_t round = (consumed_ >> log2_entries_ & 1) == 0 ? 1 : 0;
        return (load_phase(entry() + offsetof(regmap::Completion, phase)) & 1) == round;
    }

    /// Copies the next one out, once; false when there is none.
    bool take(regmap::Completion& completion) {
        if (!has_new()) return false;
        acquire_after_phase();
        std::memcpy(&completion, entry(), sizeof completion);
        ++consumed_;
        return true;
    }

  private:
    [[nodiscard]] std::byte* entry() const {
        const std::size_t index = consumed_ & ((std::size_t{1} << log2_entries_) - 1);
        return memory_.host() + index * sizeof(regmap::Completion);
    }

    Memory memory_;
    std::uint32_t log2_entries_;
    std::uint16_t consumed_ = 0;
};

}  // namespace plait
