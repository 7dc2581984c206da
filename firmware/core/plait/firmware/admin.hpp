#pragma once
// The administration queue: commands that make and destroy objects, one after the other.

#include <bit>
#include <cstdint>
#include <optional>
#include <plait/firmware/arena.hpp>
#include <plait/firmware/memory_table.hpp>
#include <plait/firmware/queues.hpp>
#include <plait/regmap.hpp>

namespace plait::firmware {

using regmap::AdminOpcode;
using regmap::AdminRequest;

/// Needs of its Context: config(), queues(), memory_table(), transport() (create_qp, connect_qp, destroy_qp)
/// and
///   void ep().create_group(const AdminRequest&, command_id): answers through complete(), at once or later;
///   Status ep().destroy_group(group).
/// A queue pair's and a group's queues are attached here once it exists, and detached once it does not.
template <class Context>
class Admin {
  public:
    Admin(Context& context, Arena&) : context_(context) {}

    /// Forgets the command under way; nothing completes it.
    void reset() { pending_.reset(); }

    /// Commands taken now: the next one starts when the one before it is complete.
    [[nodiscard]] std::uint32_t submit_room() const { return pending_ ? 0 : 1; }

    /// A command as it was copied out of its ring. Exactly one completion follows; with a status other than
    /// ok nothing was done.
    void submit(const AdminRequest& request, std::uint16_t request_index) {
        pending_ = Pending{request, request_index};
        const Outcome outcome = run(request);
        if (!outcome.later) finish(outcome);
    }

    /// Answer of ep().create_group: the group's number, or why there is none. Ignored when no such command
    /// waits.
    void complete(std::uint32_t command_id, std::uint32_t object, Status status) {
        if (!pending_ || pending_->request.opcode != AdminOpcode::create_group ||
            pending_->request.command_id != command_id)
            return;
        if (status == Status::ok)
            status = context_.queues().attach(pending_->request.send_queue, {OwnerKind::group, object});
        finish({.status = status, .object = status == Status::ok ? object : 0});
    }

  private:
    struct Pending {
        AdminRequest request;
        std::uint16_t index = 0;
    };

    struct Outcome {
        Status status = Status::ok;
        std::uint32_t object = 0;
        std::optional<std::uint32_t> immediate{};
        bool later = false;
    };

    static Outcome failed(Status status) { return {.status = status}; }

    Outcome run(const AdminRequest& request) {
        if (!is_known(request.opcode)) return failed(Status::invalid_opcode);
        if (!has_only_its_fields(request)) return failed(Status::invalid_parameter);
        switch (request.opcode) {
            case AdminOpcode::create_queue: return create_queue(request);
            case AdminOpcode::destroy_queue:
                return {context_.queues().destroy(request.object), request.object};
            case AdminOpcode::create_qp: return create_qp(request);
            case AdminOpcode::connect_qp: return connect_qp(request);
            case AdminOpcode::destroy_qp: return destroy_qp(request);
            case AdminOpcode::register_memory: return register_memory(request);
            case AdminOpcode::deregister_memory:
                return {context_.memory_table().deregister(request.object), request.object};
            case AdminOpcode::create_group: return create_group(request);
            case AdminOpcode::destroy_group: return destroy_group(request);
        }
        return failed(Status::invalid_opcode);
    }

    /// Fields that a command does not name are zero (records.toml).
    static bool has_only_its_fields(const AdminRequest& request) {
        AdminRequest only;
        only.opcode = request.opcode;
        only.command_id = request.command_id;
        switch (request.opcode) {
            case AdminOpcode::create_queue:
                only.object = request.object;
                only.kind = request.kind;
                only.log2_entries = request.log2_entries;
                only.address = request.address;
                only.completion_queue = request.completion_queue;
                break;
            case AdminOpcode::create_qp:
                only.transport = request.transport;
                only.spray_policy = request.spray_policy;
                only.mtu_bytes = request.mtu_bytes;
                only.window_packets = request.window_packets;
                only.entropy_values = request.entropy_values;
                only.send_queue = request.send_queue;
                only.receive_queue = request.receive_queue;
                break;
            case AdminOpcode::connect_qp:
                only.object = request.object;
                only.peer_device = request.peer_device;
                only.peer_qpn = request.peer_qpn;
                only.peer_psn = request.peer_psn;
                break;
            case AdminOpcode::register_memory:
                only.address = request.address;
                only.length = request.length;
                only.access = request.access;
                break;
            case AdminOpcode::create_group:
                only.address = request.address;
                only.length = request.length;
                only.send_queue = request.send_queue;
                break;
            default: only.object = request.object; break;
        }
        return only == request;
    }

    Outcome create_queue(const AdminRequest& request) {
        const Status status = context_.queues().create(request.object, request.kind, request.log2_entries,
                                                       request.address, request.completion_queue);
        return {status, status == Status::ok ? request.object : 0};
    }

    Outcome create_qp(const AdminRequest& request) {
        const std::uint32_t planes = context_.config().planes;
        const bool is_valid =
            is_known(request.transport) && is_known(request.spray_policy) &&
            std::has_single_bit(request.mtu_bytes) && request.mtu_bytes >= regmap::min_mtu_bytes &&
            request.mtu_bytes <= regmap::max_mtu_bytes && std::has_single_bit(request.window_packets) &&
            request.window_packets >= regmap::min_window_packets &&
            request.window_packets <= regmap::max_window_packets && request.entropy_values != 0 &&
            request.entropy_values <= regmap::max_entropy_values && request.entropy_values % planes == 0;
        if (!is_valid) return failed(Status::invalid_parameter);
        if (const Status status = queue_for_qp(request.send_queue, QueueKind::send); status != Status::ok)
            return failed(status);
        if (const Status status = queue_for_qp(request.receive_queue, QueueKind::receive);
            status != Status::ok)
            return failed(status);
        const auto made = context_.transport().create_qp(request);
        if (made.status != Status::ok) return failed(made.status);
        const QueueOwner owner{OwnerKind::qp, made.qpn};
        if (request.send_queue != 0) context_.queues().attach(request.send_queue, owner);
        if (request.receive_queue != 0) context_.queues().attach(request.receive_queue, owner);
        return {.status = Status::ok, .object = made.qpn, .immediate = made.first_psn};
    }

    /// 0 is no queue: a queue pair without receives, or one that only a group uses.
    [[nodiscard]] Status queue_for_qp(std::uint32_t queue, QueueKind kind) const {
        return queue == 0 ? Status::ok : context_.queues().attachable(queue, kind, {});
    }

    Outcome connect_qp(const AdminRequest& request) {
        constexpr std::uint32_t largest = 0xff'ffff;  // QPN and PSN have 24 bits in the BTH
        if (request.peer_qpn == 0 || request.peer_qpn > largest || request.peer_psn > largest)
            return failed(Status::invalid_parameter);
        return {context_.transport().connect_qp(request), request.object};
    }

    Outcome destroy_qp(const AdminRequest& request) {
        const Status status = context_.transport().destroy_qp(request.object);
        if (status == Status::ok) context_.queues().detach_all({OwnerKind::qp, request.object});
        return {status, request.object};
    }

    Outcome register_memory(const AdminRequest& request) {
        const Registration made =
            context_.memory_table().register_region(request.address, request.length, request.access);
        return {made.status, made.key};
    }

    Outcome create_group(const AdminRequest& request) {
        constexpr std::uint64_t per_rank = sizeof(std::uint32_t);
        const std::uint64_t qpns = request.length - sizeof(regmap::GroupParameters);  // wraps when too short
        if (qpns == 0 || qpns > regmap::max_ranks * per_rank || qpns % per_rank != 0)
            return failed(Status::invalid_length);
        const Status status = context_.queues().attachable(request.send_queue, QueueKind::collective, {});
        if (status != Status::ok) return failed(status);
        context_.ep().create_group(request, request.command_id);
        return {.later = true};
    }

    Outcome destroy_group(const AdminRequest& request) {
        const Status status = context_.ep().destroy_group(request.object);
        if (status == Status::ok) context_.queues().detach_all({OwnerKind::group, request.object});
        return {status, request.object};
    }

    void finish(const Outcome& outcome) {
        regmap::Completion completion;
        completion.user_data = pending_->request.command_id;
        completion.object = outcome.object;
        completion.immediate = outcome.immediate.value_or(0);
        completion.flags = outcome.immediate ? 1 : 0;
        completion.request_index = pending_->index;
        completion.opcode = static_cast<std::uint8_t>(pending_->request.opcode);
        completion.status = outcome.status;
        pending_.reset();
        context_.queues().complete(Queues<Context>::admin_queue, completion);
        context_.queues().resume(Queues<Context>::admin_queue);
    }

    Context& context_;
    std::optional<Pending> pending_;
};

}  // namespace plait::firmware
