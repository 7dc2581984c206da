#pragma once
// The device side of the contract with the real Registers, Queues, Admin and MemoryTable, over a scripted
// HAL, transport and EP. Nothing happens by itself: step() delivers the oldest fetch.

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <plait/firmware/admin.hpp>
#include <plait/firmware/arena.hpp>
#include <plait/firmware/commands.hpp>
#include <plait/firmware/memory_table.hpp>
#include <plait/firmware/queues.hpp>
#include <plait/firmware/registers.hpp>
#include <vector>

namespace plait::contract_test {

using namespace firmware;

/// Host memory is one block of device addresses from `base` on.
struct FakeHal {
    static constexpr std::uint64_t base = 0x4000'0000;
    struct Fetch {
        FetchTag tag;
        Segment segment;
    };

    std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(1U << 20);
    std::deque<Fetch> fetches;
    std::vector<Segment> fetch_log;
    std::vector<std::uint32_t> interrupts;
    std::uint32_t interrupts_waiting = 0;
    std::uint32_t ports_up = 0xf;
    std::uint64_t writes_outside = 0;
    bool is_reachable = true;  ///< Host memory as such.

    [[nodiscard]] bool port_up(std::uint8_t plane) const { return (ports_up >> plane & 1) != 0; }
    void fetch(FetchTag tag, Segment segment) {
        fetches.push_back({tag, segment});
        fetch_log.push_back(segment);
    }
    void write(std::uint64_t address, std::span<const std::uint8_t> bytes) {
        if (is_memory(address, bytes.size()))
            std::memcpy(&memory[address - base], bytes.data(), bytes.size());
        else ++writes_outside;
    }
    void interrupt(std::uint32_t bits) {
        interrupts.push_back(bits);
        ++interrupts_waiting;
    }

    [[nodiscard]] bool is_memory(std::uint64_t address, std::uint64_t length) const {
        return is_reachable && address >= base && length <= memory.size() &&
               address - base <= memory.size() - length;
    }
    template <class Record>
    void store(std::uint64_t address, const Record& record) {
        std::memcpy(&memory.at(address - base), &record, sizeof record);
    }
    template <class Record>
    [[nodiscard]] Record load(std::uint64_t address) const {
        Record record;
        std::memcpy(&record, &memory.at(address - base), sizeof record);
        return record;
    }
};

template <class Request>
struct Taken {
    std::uint32_t owner;
    Request request;
    std::uint16_t index;
};

/// Takes work requests and, unless `hold`, completes the signalled ones at once.
template <class Context>
struct FakeTransport {
    struct Made {
        Status status;
        std::uint32_t qpn;
        std::uint32_t first_psn;
    };
    explicit FakeTransport(Context& c) : context(c) {}

    Made create_qp(const AdminRequest& request) {
        if (refuse != Status::ok) return {refuse, 0, 0};
        const auto qpn = static_cast<std::uint32_t>(qps.size() + 1);
        qps[qpn] = request;
        return {Status::ok, qpn, 1000 + qpn};
    }
    Status connect_qp(const AdminRequest& request) {
        if (!qps.contains(request.object)) return Status::invalid_qp;
        connected.push_back(request);
        return Status::ok;
    }
    Status destroy_qp(std::uint32_t qpn) { return qps.erase(qpn) == 1 ? Status::ok : Status::invalid_qp; }

    [[nodiscard]] std::uint32_t submit_room(std::uint32_t) const { return room; }
    [[nodiscard]] std::uint32_t receive_room(std::uint32_t) const { return room; }
    void submit(std::uint32_t qpn, const regmap::WorkRequest& request, std::uint16_t index) {
        sent.push_back({qpn, request, index});
        if (room != unlimited) --room;
        if (!hold && (request.flags & 1) != 0) complete_send(sent.back(), Status::ok);
    }
    void post_receive(std::uint32_t qpn, const regmap::ReceiveRequest& request, std::uint16_t index) {
        received.push_back({qpn, request, index});
        if (room != unlimited) --room;
    }
    void queue_overflow(std::uint32_t qpn) {
        overflowed.push_back(qpn);
        if (flush_on_overflow != 0) context.queues().complete(flush_on_overflow, {});
    }

    void complete_send(const Taken<regmap::WorkRequest>& taken, Status status) {
        regmap::Completion completion;
        completion.user_data = taken.request.user_data;
        completion.object = taken.owner;
        completion.length = taken.request.length;
        completion.request_index = taken.index;
        completion.opcode = static_cast<std::uint8_t>(taken.request.opcode);
        completion.status = status;
        context.queues().complete(qps.at(taken.owner).send_queue, completion);
    }

    static constexpr std::uint32_t unlimited = ~0U;
    Context& context;
    std::map<std::uint32_t, AdminRequest> qps;
    std::vector<AdminRequest> connected;
    std::vector<Taken<regmap::WorkRequest>> sent;
    std::vector<Taken<regmap::ReceiveRequest>> received;
    std::vector<std::uint32_t> overflowed;
    std::uint32_t room = unlimited;
    std::uint32_t flush_on_overflow = 0;  ///< Queue that one more completion is written for.
    Status refuse = Status::ok;
    bool hold = false;
};

template <class Context>
struct FakeEp {
    explicit FakeEp(Context& c) : context(c) {}

    void create_group(const AdminRequest& request, std::uint32_t command_id) {
        created.push_back(request);
        if (!hold) context.admin().complete(command_id, group_number, answer);
    }
    Status destroy_group(std::uint32_t group) {
        destroyed.push_back(group);
        return group == group_number ? Status::ok : Status::invalid_group;
    }
    [[nodiscard]] std::uint32_t submit_room(std::uint32_t) const { return 2; }
    void submit(std::uint32_t group, const regmap::EpRequest& request, std::uint16_t index) {
        submitted.push_back({group, request, index});
    }

    static constexpr std::uint32_t group_number = 3;
    Context& context;
    std::vector<AdminRequest> created;
    std::vector<std::uint32_t> destroyed;
    std::vector<Taken<regmap::EpRequest>> submitted;
    Status answer = Status::ok;
    bool hold = false;
};

class ContractDevice {
  public:
    explicit ContractDevice(const DeviceConfig& config = {})
        : config_(config), memory_table_(*this, arena_) {}

    FakeHal& hal() { return hal_; }
    const DeviceConfig& config() const { return config_; }
    MemoryTable<ContractDevice>& memory_table() { return memory_table_; }
    Queues<ContractDevice>& queues() { return queues_; }
    Registers<ContractDevice>& registers() { return registers_; }
    Admin<ContractDevice>& admin() { return admin_; }
    FakeTransport<ContractDevice>& transport() { return transport_; }
    FakeEp<ContractDevice>& ep() { return ep_; }
    void reset() {
        ++resets;
        memory_table_.reset();
        queues_.reset();
        admin_.reset();
        transport_.qps.clear();
    }

    /// Delivers the oldest fetch; false when there is none.
    bool step() {
        if (hal_.fetches.empty()) return false;
        const FakeHal::Fetch fetch = hal_.fetches.front();
        hal_.fetches.pop_front();
        if (!hal_.is_memory(fetch.segment.address, fetch.segment.length))
            queues_.on_fetched(fetch.tag.label, Status::out_of_range, {});
        else
            queues_.on_fetched(fetch.tag.label, Status::ok,
                               {&hal_.memory[fetch.segment.address - FakeHal::base], fetch.segment.length});
        return true;
    }
    void run() {
        while (step()) {
        }
    }

    int resets = 0;

  private:
    DeviceConfig config_;
    std::vector<std::byte> storage_ = std::vector<std::byte>(1U << 20);
    Arena arena_{storage_};
    FakeHal hal_;
    MemoryTable<ContractDevice> memory_table_;
    Registers<ContractDevice> registers_{*this, arena_};
    Queues<ContractDevice> queues_{*this, arena_};
    Admin<ContractDevice> admin_{*this, arena_};
    FakeTransport<ContractDevice> transport_{*this};
    FakeEp<ContractDevice> ep_{*this};
};

/// A driver in miniature: places and rings of the administration queue, records written by hand.
class ContractHost {
  public:
    static constexpr std::uint64_t admin_requests = FakeHal::base;
    static constexpr std::uint64_t admin_completions = FakeHal::base + 0x1000;
    static constexpr std::uint64_t rings = FakeHal::base + 0x10000;  ///< Free for the test.
    static constexpr std::uint32_t admin_log2 = 3;

    explicit ContractHost(ContractDevice& device) : device_(device) {}

    void enable() {
        using namespace regmap;
        write(reg::admin_queue_low_offset, static_cast<std::uint32_t>(admin_requests));
        write(reg::admin_queue_high_offset, static_cast<std::uint32_t>(admin_requests >> 32));
        write(reg::admin_completion_low_offset, static_cast<std::uint32_t>(admin_completions));
        write(reg::admin_completion_high_offset, static_cast<std::uint32_t>(admin_completions >> 32));
        write(reg::admin_log2_entries_offset, admin_log2);
        write(reg::interrupt_enable_offset, interrupt_all);
        write(reg::control_offset, reg::control_enable_mask);
    }
    void write(std::uint32_t offset, std::uint32_t value) { device_.registers().write(offset, value); }
    [[nodiscard]] std::uint32_t read(std::uint32_t offset) { return device_.registers().read(offset); }
    void doorbell(std::uint32_t queue, std::uint32_t index) {
        write(regmap::reg::doorbell_offset + queue * regmap::reg::doorbell_stride, index);
    }

    /// Posts a command, without waiting for its completion.
    void post(AdminRequest request) {
        device_.hal().store(admin_requests + (posted_ % 8U) * sizeof request, request);
        doorbell(0, ++posted_);
    }
    /// The next completion of the administration queue; its status is what a test mostly asks for.
    [[nodiscard]] regmap::Completion completion() {
        const auto found = device_.hal().load<regmap::Completion>(admin_completions +
                                                                  (seen_ % 8U) * sizeof(regmap::Completion));
        is_new_ = found.phase == ((seen_ / 8U) % 2 == 0 ? 1 : 0);
        if (is_new_) ++seen_;
        return found;
    }
    [[nodiscard]] bool is_new() const { return is_new_; }
    regmap::Completion command(const AdminRequest& request) {
        post(request);
        device_.run();
        return completion();
    }

    static AdminRequest queue(std::uint32_t number, QueueKind kind, std::uint8_t log2_entries,
                              std::uint64_t address, std::uint32_t completion_queue = 0) {
        AdminRequest request;
        request.opcode = AdminOpcode::create_queue;
        request.object = number;
        request.kind = kind;
        request.log2_entries = log2_entries;
        request.address = address;
        request.completion_queue = completion_queue;
        return request;
    }
    static AdminRequest qp(std::uint32_t send_queue, std::uint32_t receive_queue = 0) {
        AdminRequest request;
        request.opcode = AdminOpcode::create_qp;
        request.mtu_bytes = 4096;
        request.window_packets = 512;
        request.entropy_values = 128;
        request.send_queue = send_queue;
        request.receive_queue = receive_queue;
        return request;
    }
    static AdminRequest on(AdminOpcode opcode, std::uint32_t object) {
        AdminRequest request;
        request.opcode = opcode;
        request.object = object;
        return request;
    }

  private:
    ContractDevice& device_;
    std::uint16_t posted_ = 0;
    std::uint16_t seen_ = 0;
    bool is_new_ = false;
};

}  // namespace plait::contract_test
