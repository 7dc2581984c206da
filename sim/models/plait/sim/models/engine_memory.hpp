// State of the engines of queue pairs, in pages of its own: a processor can be given access to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <plait/engines/spray.hpp>
#include <plait/firmware/receive_pipe.hpp>
#include <plait/sim/models/page_memory.hpp>

namespace plait::sim {

/// Of `queue_pairs` queue pairs.
class EngineMemory {
  public:
    explicit EngineMemory(size_t queue_pairs)
        : pages_(whole_pages(queue_pairs * (sizeof(firmware::ReceiveQp) + sizeof(engines::SpraySelector)))) {
        auto* const sprays = reinterpret_cast<engines::SpraySelector*>(pages_.span().data());
        auto* const windows = reinterpret_cast<firmware::ReceiveQp*>(sprays + queue_pairs);
        static_assert(alignof(engines::SpraySelector) >= alignof(firmware::ReceiveQp));
        std::uninitialized_default_construct_n(windows, queue_pairs);
        std::uninitialized_default_construct_n(sprays, queue_pairs);
        windows_ = {windows, queue_pairs};
        sprays_ = {sprays, queue_pairs};
    }

    std::span<firmware::ReceiveQp> windows() { return windows_; }
    std::span<engines::SpraySelector> sprays() { return sprays_; }
    std::span<std::byte> pages() { return pages_.span(); }

  private:
    PageMemory pages_;
    std::span<firmware::ReceiveQp> windows_;
    std::span<engines::SpraySelector> sprays_;
};

}  // namespace plait::sim
