// What is posted to the host behind placements waits for them: the placement counters say when they have
// left.
#pragma once

#include <cstdint>

#include <plait/sim/fabric/event_queue.hpp>
#include <plait/sim/models/engine_blocks.hpp>
#include <plait/sim/models/order_engine.hpp>
#include <plait/sim/models/pools.hpp>

namespace plait::sim {

/// Of a device that has the placement counters as a block; elsewhere the channel's order is enough. Releases
/// happen in the order they were asked for.
class ReleaseOrder {
  public:
    /// Called when the next release happens, with the time from which on it holds.
    struct Sink {
        void (*released)(void* object, uint64_t time_ps) = nullptr;
        void* object = nullptr;
    };

    /// Queue and blocks outlive it.
    ReleaseOrder(EventQueue& queue, EngineBlocks& blocks, uint64_t cycle_ps, Sink sink)
        : queue_(queue), blocks_(blocks), sink_(sink), timer_(cycle_ps) {}

    /// One more placement, which has left the device at `end_ps`.
    void placement(uint64_t end_ps);
    /// One more release, behind all placements so far. It may happen during the call.
    void release();
    /// Nothing happens any more.
    void cut();

  private:
    static void placed(void* object, uint64_t argument);

    OrderAnswer run(const OrderCommand& command);
    void ask();
    void happened();

    EventQueue& queue_;
    EngineBlocks& blocks_;
    const Sink sink_;
    EngineTimer timer_;
    OrderEngine engine_;
    Ring<uint64_t> required_;  // placements before each release that has not happened yet
    uint64_t placements_ = 0;
    uint64_t happened_ = 0;
    uint64_t answered_ps_ = 0;
    bool cut_ = false;
};

}  // namespace plait::sim
