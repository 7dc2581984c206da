#pragma once
// How an EP group is made: its parameters and queue pairs are fetched, checked, and its tables carved.

#include <algorithm>
#include <cstring>
#include <plait/firmware/ep_group.hpp>
#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// `Core` is Ep<Context>.
template <class Core>
class EpSetup {
  public:
    explicit EpSetup(Core& core) : core_(core) {}

    /// `groups` and their table memory, group_memory_bytes each, stay the caller's.
    void start(std::span<EpGroup> groups, std::span<std::byte> memory) {
        groups_ = groups;
        memory_ = memory;
        creating_ = false;
        for (std::uint32_t i = 0; i < groups_.size(); ++i) {
            groups_[i] = EpGroup{};
            groups_[i].number = static_cast<std::uint8_t>(i);
        }
    }

    /// Answers through admin().complete(): limit_exceeded (groups, table memory, or a parameter),
    /// invalid_parameter, invalid_length, invalid_qp (a rank's queue pair is not connected to it): nothing
    /// was made.
    void create_group(const regmap::AdminRequest& request, std::uint32_t command_id) {
        creating_ = true;
        create_queue_ = request.send_queue;
        create_command_ = command_id;
        core_.hal().fetch(FetchTag{FetchOwner::ep, Core::create_label},
                          Segment{request.address, static_cast<std::uint32_t>(request.length)});
    }

    /// They have come.
    void group_parameters(regmap::Status status, std::span<const std::uint8_t> bytes) {
        if (!creating_) return;
        creating_ = false;
        std::uint32_t number = 0;
        while (number < groups_.size() && !is_available(groups_[number])) ++number;
        if (status == regmap::Status::ok && number == groups_.size()) status = regmap::Status::limit_exceeded;
        if (status == regmap::Status::ok) status = make(groups_[number], bytes);
        core_.context().admin().complete(create_command_, number, status);
    }

  private:
    /// A group that was destroyed is not used again while something in the device still names its tables.
    [[nodiscard]] bool is_available(const EpGroup& group) const {
        if (group.active) return false;
        if (core_.holds_accumulators(group.number)) return false;
        return std::all_of(group.handles.begin(), group.handles.end(), [](const EpHandle& handle) {
            return handle.messages_in_flight == 0 && handle.fetches_left == 0 && handle.local_in_flight == 0;
        });
    }

    /// Packets that may always be under way to each peer, fewer when there are many: a peer's rows come in
    /// bursts, and what they meet would outlast a window of one packet many times over.
    [[nodiscard]] static std::uint32_t window_floor(const EpGroup& group) {
        const std::uint32_t remote = group.parameters.ranks - group.parameters.ranks_per_node;
        return std::clamp(512U / std::max(1U, remote), 1U, 8U);
    }

    regmap::Status make(EpGroup& group, std::span<const std::uint8_t> bytes) {
        regmap::GroupParameters parameters;
        if (bytes.size() < sizeof(parameters)) return regmap::Status::invalid_length;
        std::memcpy(&parameters, bytes.data(), sizeof(parameters));
        if (const regmap::Status status = check_parameters(parameters, core_.context().config());
            status != regmap::Status::ok)
            return status;
        const auto qpns = bytes.subspan(sizeof(parameters));
        if (qpns.size() != parameters.ranks * sizeof(std::uint32_t)) return regmap::Status::invalid_length;
        const std::size_t size = core_.context().config().group_memory_bytes;
        const regmap::Status status = make_group(group, parameters, core_.context().config(),
                                                 memory_.subspan(group.number * size, size));
        if (status != regmap::Status::ok) return status;
        for (std::uint32_t rank = 0; rank < parameters.ranks; ++rank) {
            std::memcpy(&group.qpn[rank], qpns.data() + rank * sizeof(std::uint32_t), sizeof(std::uint32_t));
            if (!group.is_local(rank) && !is_connected(group, rank)) return regmap::Status::invalid_qp;
        }
        for (std::uint32_t rank = 0; rank < parameters.ranks; ++rank) {
            if (!group.is_local(rank))
                core_.context().transport().set_window_floor(group.qpn[rank], window_floor(group));
        }
        group.queue = create_queue_;
        group.active = true;
        return regmap::Status::ok;
    }

    [[nodiscard]] bool is_connected(const EpGroup& group, std::uint32_t rank) const {
        const auto& transport = core_.context().transport();
        const std::uint32_t qpn = group.qpn[rank];
        return transport.is_usable(qpn) && transport.peer_of(qpn) == group.parameters.first_device + rank &&
               transport.queue_pair(qpn)->mtu_bytes == group.parameters.mtu_bytes;
    }

    Core& core_;
    std::span<EpGroup> groups_;
    std::span<std::byte> memory_;
    bool creating_ = false;
    std::uint32_t create_queue_ = 0;
    std::uint32_t create_command_ = 0;
};

}  // namespace plait::firmware
