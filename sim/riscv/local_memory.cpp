#include <plait/sim/riscv/local_memory.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include <plait/sim/models/page_memory.hpp>

namespace plait::sim {
namespace {

// Far from everything that the system puts somewhere by itself; each device has its own 4 GiB.
constexpr uint64_t first_place = 0x2000'0000'0000;
constexpr uint64_t place_bytes = 1ULL << 32;
constexpr uint64_t places = 4096;

constexpr std::byte untouched{0xa5};

std::byte* take_place(uint64_t length_bytes) {
    for (uint64_t place = 0; length_bytes <= place_bytes && place < places; ++place) {
        void* const address = reinterpret_cast<void*>(first_place + place * place_bytes);
        void* const memory = mmap(address, length_bytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (memory == address) return static_cast<std::byte*>(memory);
    }
    throw std::bad_alloc();
}

}  // namespace

LocalMemory::LocalMemory(Processor& processor, const firmware::DeviceConfig& config) : processor_(processor) {
    uint64_t used = stack_guard_bytes;
    const auto room = [&used](uint64_t bytes) {
        const uint64_t at = used;
        used += whole_pages(bytes);
        return at;
    };
    const uint64_t memory_bytes = port::Firmware::memory_bytes(config);
    const uint64_t stack = room(regmap::firmware_stack_bytes);
    const uint64_t port = room(sizeof(regmap::ProcessorPort) + sizeof config);
    const uint64_t events = room(uint64_t{regmap::event_slots} * regmap::event_slot_bytes);
    const uint64_t commands = room(regmap::command_ring_bytes);
    const uint64_t state = room(sizeof(port::ImageState));
    const uint64_t memory = room(memory_bytes);
    base_ = take_place(used);
    pages_ = {base_ + stack_guard_bytes, used - stack_guard_bytes};
    stack_ = {base_ + stack, regmap::firmware_stack_bytes};
    std::fill(stack_.begin(), stack_.end(), untouched);
    port_ = ::new (base_ + port) regmap::ProcessorPort;
    const auto* const copy = ::new (port_ + 1) firmware::DeviceConfig(config);
    const auto address = [this](uint64_t offset) { return reinterpret_cast<uint64_t>(base_ + offset); };
    port_->regmap_version = regmap::regmap_version;
    port_->configuration = reinterpret_cast<uint64_t>(copy);
    port_->events = address(events);
    port_->commands = port_->command_next = port_->command_done = address(commands);
    port_->registers = register_base;
    port_->state = address(state);
    port_->memory = address(memory);
    port_->memory_bytes = memory_bytes;
    port_->stack_end = address(stack + regmap::firmware_stack_bytes);
    if (!processor_.map(pages_)) {
        munmap(base_, used);
        throw std::bad_alloc();
    }
}

LocalMemory::~LocalMemory() {
    processor_.unmap(pages_);
    munmap(base_, stack_guard_bytes + pages_.size());
}

uint64_t LocalMemory::stack_used_bytes() const {
    const auto deepest =
        std::find_if(stack_.begin(), stack_.end(), [](std::byte byte) { return byte != untouched; });
    return static_cast<uint64_t>(stack_.end() - deepest);
}

}  // namespace plait::sim
