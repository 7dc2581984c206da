#pragma once
// A device that keeps to the contract of registers.toml and records.toml and no more: it carries
// administration commands out at once and keeps the requests of the collective queue until the test answers
// them.

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <plait/device_link.hpp>
#include <plait/regmap.hpp>
#include <set>
#include <span>
#include <stdexcept>
#include <vector>

namespace plait::testing {

class ScriptedDevice : public DeviceLink {
  public:
    struct Pair {
        regmap::AdminRequest created;
        std::uint32_t first_psn = 0;
        std::uint32_t peer_device = 0;
        std::uint32_t peer_qpn = 0;
        std::uint32_t peer_psn = 0;
    };
    /// A request of the collective queue as it was posted.
    struct Posted {
        regmap::EpRequest request;
        std::uint32_t queue = 0;
        std::uint16_t index = 0;
    };

    explicit ScriptedDevice(std::uint32_t device_number = 0) : device_number_(device_number) {}

    // The script.
    bool removed = false;
    std::uint32_t limit_qps = 1024;
    std::size_t memory_limit_bytes = std::size_t{1} << 30;  ///< Of one allocation.
    /// Answers a command with this status instead of carrying it out, unless ok.
    std::function<Status(const regmap::AdminRequest&)> refuse = [](const regmap::AdminRequest&) {
        return Status::ok;
    };
    /// Called when the host waits and no interrupt is due.
    std::function<void()> when_waiting = [] {};
    std::deque<Posted> posted;
    std::map<std::uint32_t, Pair> pairs;
    regmap::GroupParameters group{};
    std::vector<std::uint32_t> group_qpns;

    /// Queues, pairs, keys, groups the driver has made and not destroyed, without those of the driver itself.
    [[nodiscard]] std::size_t objects() const {
        return queues_.size() + pairs.size() + regions_.size() + groups_.size();
    }
    [[nodiscard]] std::size_t allocations() const { return memory_.size(); }

    /// Ends the oldest posted request: writes result and counts if asked to, then the completion.
    void answer(Status status, const regmap::EpResult* result = nullptr,
                const std::vector<std::uint32_t>& counts = {}) {
        answer_one(0, status, result, counts);
    }

    /// The same for the n-th.
    void answer_one(std::size_t n, Status status, const regmap::EpResult* result = nullptr,
                    const std::vector<std::uint32_t>& counts = {}) {
        const Posted request = posted.at(n);
        posted.erase(posted.begin() + static_cast<std::ptrdiff_t>(n));
        if (result != nullptr) {
            std::vector<std::byte> bytes(sizeof *result + counts.size() * sizeof(std::uint32_t));
            std::memcpy(bytes.data(), result, sizeof *result);
            if (!counts.empty())
                std::memcpy(bytes.data() + sizeof *result, counts.data(),
                            counts.size() * sizeof(std::uint32_t));
            write_memory(request.request.result.address, bytes);
        }
        regmap::Completion completion;
        completion.user_data = request.request.user_data;
        completion.object = 1;
        completion.request_index = request.index;
        completion.opcode = static_cast<std::uint8_t>(request.request.opcode);
        completion.status = status;
        complete(request.queue, completion);
    }

    /// Writes any completion to the completion queue of `queue`.
    void complete(std::uint32_t queue, regmap::Completion completion) {
        completion.queue = queue;
        write_completion(queues_.at(queues_.at(queue).completion_queue), completion);
    }

    /// Reads memory by device address, as the device would.
    template <class Record>
    Record read(std::uint64_t address) {
        Record record;
        std::memcpy(&record, at(address, sizeof record), sizeof record);
        return record;
    }

    // DeviceLink.
    std::uint32_t read_register(std::uint32_t offset) override {
        using namespace regmap;
        if (removed) return 0xffff'ffff;
        switch (offset) {
            case reg::magic_offset: return reg::magic_reset_value;
            case reg::regmap_version_offset: return regmap_version;
            case reg::state_offset: return reg::state_ready_mask | (enabled_ ? reg::state_enabled_mask : 0);
            case reg::planes_offset: return 4;
            case reg::port_state_offset: return 0xf;
            case reg::device_number_offset: return device_number_;
            case reg::interrupt_status_offset: return interrupt_status_;
            case reg::limit_qps_offset: return limit_qps;
            case reg::limit_memory_regions_offset: return 1024;
            case reg::limit_groups_offset: return 4;
            default: break;
        }
        const auto known = registers_.find(offset);
        return known == registers_.end() ? 0 : known->second;
    }

    void write_register(std::uint32_t offset, std::uint32_t value) override {
        using namespace regmap;
        if (removed) return;
        if (offset == reg::control_offset) {
            if ((value & reg::control_reset_mask) != 0) reset();
            if ((value & reg::control_enable_mask) != 0) enable();
        } else if (offset == reg::interrupt_status_offset) {
            interrupt_status_ &= ~value;
        } else if (offset >= reg::doorbell_offset) {
            on_doorbell((offset - reg::doorbell_offset) / reg::doorbell_stride,
                        static_cast<std::uint16_t>(value));
        } else {
            registers_[offset] = value;
        }
    }

    std::optional<SharedMemory> allocate(std::size_t length_bytes) override {
        if (length_bytes > memory_limit_bytes) return std::nullopt;
        const std::size_t rounded = (length_bytes + 4095) / 4096 * 4096;
        auto* host = static_cast<std::byte*>(std::aligned_alloc(4096, rounded));
        std::memset(host, 0, rounded);
        const SharedMemory memory{host, next_address_, length_bytes};
        memory_.emplace(next_address_, Block{{host, &std::free}, length_bytes});
        next_address_ += rounded + 4096;
        return memory;
    }

    void free(const SharedMemory& memory) override { memory_.erase(memory.device_address); }

    bool wait_interrupt(std::uint64_t timeout_ns) override {
        if (removed) return false;
        if (!take_interrupt()) {
            when_waiting();
            if (!take_interrupt()) {
                now_ns_ += timeout_ns;
                return false;
            }
        }
        return !removed;
    }

    [[nodiscard]] std::uint64_t now_ns() const override { return now_ns_; }
    void pass_time(std::uint64_t time_ns) { now_ns_ += time_ns; }

  private:
    struct Block {
        std::unique_ptr<std::byte, decltype(&std::free)> host;
        std::size_t length_bytes;
    };
    struct Queue {
        std::uint64_t address = 0;
        std::uint32_t record_bytes = 0;
        std::uint32_t log2_entries = 0;
        std::uint32_t completion_queue = 0;
        std::uint16_t next = 0;  // request to take, or completion to write

        [[nodiscard]] std::uint64_t place() const {
            return address + std::uint64_t{next & ((1U << log2_entries) - 1)} * record_bytes;
        }
    };

    std::byte* at(std::uint64_t address, std::size_t length_bytes) {
        auto block = memory_.upper_bound(address);
        if (block == memory_.begin()) throw std::out_of_range("device address");
        --block;
        if (address - block->first + length_bytes > block->second.length_bytes)
            throw std::out_of_range("device address");
        return block->second.host.get() + (address - block->first);
    }

    void write_memory(std::uint64_t address, std::span<const std::byte> bytes) {
        std::memcpy(at(address, bytes.size()), bytes.data(), bytes.size());
    }

    void write_completion(Queue& ring, regmap::Completion completion) {
        completion.phase = ((ring.next >> ring.log2_entries) & 1) == 0 ? 1 : 0;
        write_memory(ring.place(), std::as_bytes(std::span(&completion, 1)));
        ++ring.next;
        interrupt_status_ |= 1;
        interrupt_due_ = true;
    }

    bool take_interrupt() { return std::exchange(interrupt_due_, false); }

    void reset() {
        queues_.clear();
        pairs.clear();
        regions_.clear();
        groups_.clear();
        posted.clear();
        enabled_ = false;
        interrupt_due_ = false;
        interrupt_status_ = 0;
    }

    void enable() {
        using namespace regmap;
        const auto address = [&](std::uint32_t low, std::uint32_t high) {
            return std::uint64_t{registers_[high]} << 32 | registers_[low];
        };
        const std::uint32_t log2_entries = registers_[reg::admin_log2_entries_offset];
        admin_ = {address(reg::admin_queue_low_offset, reg::admin_queue_high_offset), sizeof(AdminRequest),
                  log2_entries};
        admin_completions_ = {address(reg::admin_completion_low_offset, reg::admin_completion_high_offset),
                              sizeof(Completion), log2_entries};
        enabled_ = true;
    }

    void on_doorbell(std::uint32_t number, std::uint16_t index) {
        if (number == 0) {
            for (; admin_.next != index; ++admin_.next)
                run(read<regmap::AdminRequest>(admin_.place()), admin_.next);
            return;
        }
        Queue& queue = queues_.at(number);
        if (queue.record_bytes != sizeof(regmap::EpRequest)) return;  // consumer index of a completion queue
        for (; queue.next != index; ++queue.next)
            posted.push_back({read<regmap::EpRequest>(queue.place()), number, queue.next});
    }

    void run(const regmap::AdminRequest& request, std::uint16_t index) {
        regmap::Completion completion;
        completion.user_data = request.command_id;
        completion.request_index = index;
        completion.opcode = static_cast<std::uint8_t>(request.opcode);
        completion.status = refuse(request);
        if (completion.status == Status::ok) carry_out(request, completion);
        write_completion(admin_completions_, completion);
    }

    void carry_out(const regmap::AdminRequest& request, regmap::Completion& completion) {
        using regmap::AdminOpcode;
        completion.object = request.object;
        switch (request.opcode) {
            case AdminOpcode::create_queue: {
                constexpr std::array<std::uint32_t, 4> record_bytes = {128, 32, 32, 256};
                queues_[request.object] = {request.address,
                                           record_bytes[static_cast<std::size_t>(request.kind)],
                                           request.log2_entries, request.completion_queue};
                break;
            }
            case AdminOpcode::destroy_queue: queues_.erase(request.object); break;
            case AdminOpcode::create_qp:
                completion.object = ++last_object_;
                completion.immediate = device_number_ * 1000 + last_object_;  // a PSN that tells who chose it
                completion.flags = 1;
                pairs[completion.object] = {.created = request, .first_psn = completion.immediate};
                break;
            case AdminOpcode::connect_qp:
                pairs.at(request.object).peer_device = request.peer_device;
                pairs.at(request.object).peer_qpn = request.peer_qpn;
                pairs.at(request.object).peer_psn = request.peer_psn;
                break;
            case AdminOpcode::destroy_qp: pairs.erase(request.object); break;
            case AdminOpcode::register_memory:
                completion.object = ++last_object_;
                regions_.insert(completion.object);
                break;
            case AdminOpcode::deregister_memory: regions_.erase(request.object); break;
            case AdminOpcode::create_group:
                group = read<regmap::GroupParameters>(request.address);
                group_qpns.clear();
                for (std::uint64_t at = sizeof group; at < request.length; at += sizeof(std::uint32_t))
                    group_qpns.push_back(read<std::uint32_t>(request.address + at));
                completion.object = ++last_object_;
                groups_.insert(completion.object);
                break;
            case AdminOpcode::destroy_group: groups_.erase(request.object); break;
        }
    }

    const std::uint32_t device_number_;
    std::map<std::uint32_t, std::uint32_t> registers_;
    std::map<std::uint64_t, Block> memory_;
    std::map<std::uint32_t, Queue> queues_;
    std::set<std::uint32_t> regions_;
    std::set<std::uint32_t> groups_;
    Queue admin_;
    Queue admin_completions_;
    std::uint64_t next_address_ = 0x1'0000'0000;
    std::uint64_t now_ns_ = 0;
    std::uint32_t last_object_ = 0;
    std::uint32_t interrupt_status_ = 0;
    bool interrupt_due_ = false;
    bool enabled_ = false;
};

/// What the device is to get for a dispatch of 3 tokens with room for 10 rows, its buffers at 0x1000, 0x2000,
/// ... with keys from 11 on; what the host chooses freely is as in `found`.
inline regmap::EpRequest expected_dispatch(const regmap::EpRequest& found) {
    regmap::EpRequest expected;
    expected.opcode = regmap::EpOpcode::dispatch;
    expected.user_data = found.user_data;
    expected.tokens = 3;
    expected.timeout_us = 500;
    expected.receive_capacity = 10;
    expected.x = {0x1000, 11, 0};
    expected.x_scales = {0x2000, 12, 0};
    expected.topk_idx = {0x3000, 13, 0};
    expected.topk_weights = {0x4000, 14, 0};
    expected.recv_x = {0x5000, 15, 0};
    expected.recv_x_scales = {0x6000, 16, 0};
    expected.recv_topk_idx = {0x7000, 17, 0};
    expected.recv_topk_weights = {0x8000, 18, 0};
    expected.recv_source = {0x9000, 19, 0};
    expected.result = found.result;
    return expected;
}

}  // namespace plait::testing
