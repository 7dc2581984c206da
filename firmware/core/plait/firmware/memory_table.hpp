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
          slot_mask_((std::uint64_t{1} << slot_bits_) - 1),
          regions_(context.config().max_memory_regions),
          slots_(arena.make<Slot>(std::size_t{1} << slot_bits_)) {
        if (slots_.empty()) {  // no memory: there are no regions
            slots_ = {&nothing_, 1};
            slot_mask_ = regions_ = 0;
        }
        reset();
    }

    /// Forgets every registration. Keys given before stay invalid.
    void reset() {
        free_head_ = free_tail_ = no_slot;
        for (std::uint32_t i = 0; i < slots_.size(); ++i) {
            if (is_used(i)) slots_[i].key ^= unused;
            else if (slots_[i].key == 0) slots_[i].key = i ^ unused;
        }
        for (std::uint32_t i = 0; i < regions_; ++i) append_free(i);
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
        free_head_ = slot.access_or_next;
        if (free_head_ == no_slot) free_tail_ = no_slot;
        const std::uint32_t last_generation = ~std::uint32_t{0} >> slot_bits_;
        const std::uint32_t latest = slot.key >> slot_bits_;
        const std::uint32_t generation = latest == last_generation ? 1 : latest + 1;
        slot = {.address = address,
                .length = length,
                .writable_length = (access & regmap::access_remote_write) != 0 ? length : 0,
                .key = generation << slot_bits_ | index,
                .access_or_next = access};
        return {Status::ok, slot.key};
    }

    /// invalid_key when there is no such registration (any more).
    Status deregister(std::uint32_t key) {
        const Slot* slot = find(key);
        if (slot == nullptr) return Status::invalid_key;
        const auto index = static_cast<std::uint32_t>(slot - slots_.data());
        slots_[index].key ^= unused;
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
        if ((slot->access_or_next & access_bits) != access_bits) return Status::access_denied;
        // Offsets, not ends: an end may lie beyond 2^64. That of an address before the range is larger than
        // any in it.
        const std::uint64_t offset = address - slot->address;
        return length <= slot->length && offset <= slot->length - length ? Status::ok : Status::out_of_range;
    }

    /// The same for what a peer writes, of `length` not 0.
    [[nodiscard]] bool may_write(std::uint64_t key, std::uint64_t address, std::uint64_t length) const {
        const Slot& slot = slots_[key & slot_mask_];
        return slot.key == key && length <= slot.writable_length &&
               address - slot.address <= slot.writable_length - length;
    }

  private:
    static constexpr std::uint32_t no_slot = ~std::uint32_t{0};

    struct Slot {
        std::uint64_t address = 0;
        std::uint64_t length = 0;
        std::uint64_t writable_length = 0;  ///< Of these, by peers: all or none.
        std::uint32_t key = 0;  ///< In use, or the latest one, as of another slot: no key leads here.
        std::uint32_t access_or_next = 0;  ///< Of the next free slot, while this one is free.
    };
    static_assert(sizeof(Slot) == 32);

    /// In the key of a free slot this bit of its number is wrong.
    static constexpr std::uint32_t unused = 1;

    [[nodiscard]] bool is_used(std::uint32_t index) const {
        return slots_[index].key != 0 && (slots_[index].key & slot_mask_) == index;
    }

    [[nodiscard]] const Slot* find(std::uint32_t key) const {
        const Slot& slot = slots_[key & slot_mask_];
        return slot.key == key ? &slot : nullptr;
    }

    void append_free(std::uint32_t index) {
        slots_[index].access_or_next = no_slot;
        if (free_tail_ == no_slot) free_head_ = index;
        else slots_[free_tail_].access_or_next = index;
        free_tail_ = index;
    }

    std::uint32_t slot_bits_;
    std::uint64_t slot_mask_;
    std::uint32_t regions_;
    Slot nothing_;
    std::span<Slot> slots_;  ///< A power of two: more than regions, maybe.
    std::uint32_t free_head_ = no_slot;
    std::uint32_t free_tail_ = no_slot;
};

}  // namespace plait::firmware
