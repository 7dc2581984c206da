#pragma once
// Parts on their way back from the entry device to the source.

#include <plait/firmware/ep_gather.hpp>
#include <plait/firmware/ep_pools.hpp>

namespace plait::firmware {

/// `Core` is Ep<Context>.
template <class Core>
class EpPartials {
  public:
    static constexpr std::uint32_t slot_count = 1024;

    explicit EpPartials(Core& core) : core_(core) {}

    /// Starts anew with `slots`, at most slot_count, which stay the caller's. Buffers in them are given back.
    void reset(std::span<PartialSlot> slots) {
        for (PartialSlot& slot : slots) {
            if (slot.buffer != 0) core_.hal().release(slot.buffer);
        }
        pool_ = PartialPool(slots);
        waiting_first_ = waiting_count_ = 0;
    }

    [[nodiscard]] bool has_room() const { return !pool_.empty(); }
    [[nodiscard]] std::uint32_t in_use() const { return pool_.in_use(); }

    /// A part will be owed. Only with room.
    std::uint32_t take(const PartialSlot& slot) { return pool_.take(slot); }

    void give_back(std::uint32_t slot) {
        if (pool_[slot].buffer != 0) core_.hal().release(pool_[slot].buffer);
        pool_.give_back(slot);
    }

    /// The part of `job` is summed up: off it goes, or it waits for room in its queue pair. The buffer is
    /// this function's.
    void send(EpGroup& group, EpHandle& handle, const AccumulatorJob& job, BufferId buffer) {
        pool_[job.slot].buffer = buffer;
        pool_[job.slot].missing = job.missing;
        const EpTag tag{EpMessageKind::partial, group.number, core_.handle_number(group, handle),
                        handle.operation, job.slot};
        if (!try_send(group, handle, tag)) waiting_[waiting_count_++ % waiting_.size()] = tag.pack();
    }

    /// Parts that found no room, oldest first: tried again, and given up when their call is over or their
    /// source has gone.
    void retry() {
        // One that was the last of its call ends it, which tries again as well.
        for (std::uint32_t left = waiting_count_ - waiting_first_;
             left != 0 && waiting_first_ != waiting_count_; --left) {
            const EpTag tag = EpTag::unpack(waiting_[waiting_first_++ % waiting_.size()]);
            EpGroup& group = core_.group(tag.group);
            if (!try_send(group, group.handles[tag.handle], tag))
                waiting_[waiting_count_++ % waiting_.size()] = tag.pack();
        }
    }

    void build(const EpGroup& group, const EpTag& tag, std::uint32_t offset, Packet& packet,
               Payload& payload) {
        const PartialSlot& slot = pool_[tag.index];
        packet.partial = PartialHeader{.group = group.number,
                                       .handle = tag.handle,
                                       .operation = tag.operation,
                                       .token = slot.token,
                                       .node = static_cast<std::uint16_t>(group.node),
                                       .missing = slot.missing,
                                       .first_element = slot.part * group.part_elements};
        payload.buffer = slot.buffer;
        payload.buffer_offset = offset;
        // Acknowledgements may be gathered as long as more parts follow; the last one lets all buffers go.
        const PeerState& source = group.handles[tag.handle].peer[slot.source];
        if (source.entry_row >= source.rows_via_me) packet.ack_request = true;
    }

    /// The transport is done with it: it is acknowledged, or its source has gone. Its call may be over, which
    /// does not wait for that.
    void done(EpGroup& group, EpHandle& handle, const EpTag& tag) {
        const std::uint32_t source = pool_[tag.index].source;
        give_back(tag.index);
        if (is_current(handle, tag)) core_.combine().gather().partial_done(group, handle, source);
    }

  private:
    /// False: no room now.
    bool try_send(EpGroup& group, EpHandle& handle, const EpTag& tag) {
        const PartialSlot& slot = pool_[tag.index];
        const bool is_owed = is_current(handle, tag);
        const bool is_wanted = is_owed && !group.has_failed(slot.source);
        if (is_wanted && !core_.enqueue(group, handle, slot.source, Opcode::mp_ep_partial, tag.pack(),
                                        partial_bytes(group, slot.part)))
            return false;
        if (is_owed) core_.combine().gather().partial_left(group, handle);
        if (!is_wanted) done(group, handle, tag);
        return true;
    }

    [[nodiscard]] static bool is_current(const EpHandle& handle, const EpTag& tag) {
        return handle.state == HandleState::combining && handle.operation == tag.operation;
    }

    Core& core_;
    PartialPool pool_;
    std::array<std::uint64_t, slot_count> waiting_{};
    std::uint32_t waiting_first_ = 0;
    std::uint32_t waiting_count_ = 0;
};

}  // namespace plait::firmware
