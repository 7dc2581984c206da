#pragma once
// Registered memory: keys, their ranges and what they allow. Every address that a host or a packet names
// passes check().

#include <bit>
#include <cstdint>
#include <plait/firmware/arena.hpp>
#include <plait/regmap.hpp>
#include <span>

namespace plait::firmware {

using regmap::Status;

inline constexpr std::uint32_t access_all = regmap::access_local_write | regmap::access_remote_write |
                                            regmap::access_remote_read | regmap::access_remote_atomic;

/// A new registration; `key` means something only with Status::ok.
struct Registration {
    Status status = Status::ok;
    std::uint32_t key = 0;
};

/// A key is a slot number below and the slot's generation above, so that a key outlived by its registration
/// is refused until the generation (16 bits at least for up to 65536 regions) comes round. Slots are reused
/// in the order they became free, which puts that off as long as possible. No key is 0.
template <class Context>
class MemoryTable {
  public:
    MemoryTable(Context& context, Arena& arena)
        : slot_bits_(
              static_cast<std::uint32_t>(std::bit_width((context.config().max_memory_regions - 1) | 1U))),
          slots_(arena.make<Slot>(context.config().max_memory_regions)) {
        reset();
    }

    /// Forgets every registration. Keys given before stay invalid.
    void reset() {
        free_head_ = free_tail_ = no_slot;
        for (std::uint32_t i = 0; i < slots_.size(); ++i) {
            slots_[i].used = false;
            append_free(i);
        }
    }

    /// Registers `length` bytes (not 0) at `address` for `access`. invalid_length, out_of_range (the range
    /// leaves the address space), invalid_parameter (unknown access bits), limit_exceeded (no slot): nothing
    /// changed.
    Registration register_region(std::uint64_t address, std::uint64_t length, std::uint32_t access) {
        if (length == 0) return {Status::invalid_length};
        if (address + (length - 1) < address) return {Status::out_of_range};
        if ((access & ~access_all) != 0) return {Status::invalid_parameter};
        if (free_head_ == no_slot) return {Status::limit_exceeded};
        const std::uint32_t index = free_head_;
        Slot& slot = slots_[index];
        free_head_ = slot.next_free;
        if (free_head_ == no_slot) free_tail_ = no_slot;
        const std::uint32_t last_generation = ~std::uint32_t{0} >> slot_bits_;
        slot = {.address = address,
                .length = length,
                .access = access,
                .generation = slot.generation == last_generation ? 1 : slot.generation + 1,
                .next_free = no_slot,
                .used = true};
        return {Status::ok, slot.generation << slot_bits_ | index};
    }

    /// invalid_key when there is no such registration (any more).
    Status deregister(std::uint32_t key) {
        const Slot* slot = find(key);
        if (slot == nullptr) return Status::invalid_key;
        const auto index = static_cast<std::uint32_t>(slot - slots_.data());
        slots_[index].used = false;
        append_free(index);
        return Status::ok;
    }

    /// May `length` bytes at `address` be used under `key` for all of `access_bits` (0: read by the own
    /// device)? Nothing is asked for a length of 0. Otherwise ok, invalid_key, access_denied or out_of_range.
    [[nodiscard]] Status check(std::uint32_t key, std::uint64_t address, std::uint64_t length,
                               std::uint32_t access_bits) const {
        if (length == 0) return Status::ok;
        const Slot* slot = find(key);
        if (slot == nullptr) return Status::invalid_key;
        if ((slot->access & access_bits) != access_bits) return Status::access_denied;
        // Offsets, not ends: an end may lie beyond 2^64.
        if (address < slot->address) return Status::out_of_range;
        const std::uint64_t offset = address - slot->address;
        return offset < slot->length && length <= slot->length - offset ? Status::ok : Status::out_of_range;
    }

  private:
    static constexpr std::uint32_t no_slot = ~std::uint32_t{0};

    struct Slot {
        std::uint64_t address = 0;
        std::uint64_t length = 0;
        std::uint32_t access = 0;
        std::uint32_t generation = 0;  ///< Of the latest registration; 0 before the first.
        std::uint32_t next_free = no_slot;
        bool used = false;
    };

    [[nodiscard]] const Slot* find(std::uint32_t key) const {
        const std::uint32_t index = key & ((std::uint32_t{1} << slot_bits_) - 1);
        if (index >= slots_.size()) return nullptr;
        const Slot& slot = slots_[index];
        return slot.used && slot.generation == key >> slot_bits_ ? &slot : nullptr;
    }

    void append_free(std::uint32_t index) {
        slots_[index].next_free = no_slot;
        if (free_tail_ == no_slot) free_head_ = index;
        else slots_[free_tail_].next_free = index;
        free_tail_ = index;
    }

    std::uint32_t slot_bits_;
    std::span<Slot> slots_;
    std::uint32_t free_head_ = no_slot;
    std::uint32_t free_tail_ = no_slot;
};

}  // namespace plait::firmware
