#pragma once
// Two connected queue pairs over the test network, and what a test posts on them.

#include "transport_network.hpp"

namespace plait::firmware::testing {

/// A connected pair of queue pairs, with memory on either side.
struct Connection {
    static constexpr std::uint64_t source = 0x1000'0000;
    static constexpr std::uint64_t target = 0x4000'0000;
    static constexpr std::uint32_t send_queue = 10;
    static constexpr std::uint32_t receive_queue = 11;

    std::uint32_t qpn_a = 0;
    std::uint32_t qpn_b = 0;
    std::uint32_t source_key = 0;
    std::uint32_t target_key = 0;
    std::uint16_t posted = 0;
    std::uint16_t received = 0;

    Connection(Network& network, std::uint64_t memory_bytes, std::uint16_t mtu = 4096,
               std::uint16_t window = 512, regmap::SprayPolicy policy = regmap::SprayPolicy::spray)
        : network_(network) {
        regmap::AdminRequest create;
        create.spray_policy = policy;
        create.mtu_bytes = mtu;
        create.window_packets = window;
        create.entropy_values = 64;
        create.send_queue = send_queue;
        create.receive_queue = receive_queue;
        const QpCreated a = network.a.transport().create_qp(create);
        const QpCreated b = network.b.transport().create_qp(create);
        EXPECT_EQ(a.status, Status::ok);
        EXPECT_EQ(b.status, Status::ok);
        qpn_a = a.qpn;
        qpn_b = b.qpn;
        EXPECT_EQ(connect(network.a, qpn_a, 1, b), Status::ok);
        EXPECT_EQ(connect(network.b, qpn_b, 0, a), Status::ok);
        source_key = network.a.add_memory(source, memory_bytes, true);
        target_key = network.b.add_memory(target, memory_bytes, false);
        network.a.host[TestDevice::ep_source] = network.a.host[source];
    }

    static Status connect(TestDevice& device, std::uint32_t qpn, std::uint32_t peer, const QpCreated& other) {
        regmap::AdminRequest request;
        request.object = qpn;
        request.peer_device = peer;
        request.peer_qpn = other.qpn;
        request.peer_psn = other.first_psn;
        return device.transport().connect_qp(request);
    }

    regmap::WorkRequest write(std::uint64_t offset, std::uint32_t length,
                              regmap::WorkOpcode opcode = regmap::WorkOpcode::write) const {
        regmap::WorkRequest request;
        request.opcode = opcode;
        request.flags = 1;
        request.user_data = posted;
        request.local_address = source + offset;
        request.local_key = source_key;
        request.length = length;
        request.remote_address = target + offset;
        request.remote_key = target_key;
        request.immediate = 0xabc00000U + posted;
        return request;
    }
    void post(const regmap::WorkRequest& request) { network_.a.transport().submit(qpn_a, request, posted++); }
    void receive(std::uint64_t offset, std::uint32_t length) {
        regmap::ReceiveRequest request;
        request.user_data = 1000U + received;
        request.address = target + offset;
        request.key = target_key;
        request.length = length;
        network_.b.transport().post_receive(qpn_b, request, received++);
    }

    std::vector<regmap::Completion>& sent() { return network_.a.completions[send_queue]; }
    std::vector<regmap::Completion>& arrived() { return network_.b.completions[receive_queue]; }

    /// Bytes [offset, offset + length) have arrived.
    bool is_intact(std::uint64_t offset, std::uint64_t length) const {
        const std::uint8_t* bytes = network_.b.at(target + offset);
        for (std::uint64_t i = 0; i < length; ++i)
            if (bytes[i] != pattern(offset + i)) return false;
        return true;
    }

  private:
    Network& network_;
};

}  // namespace plait::firmware::testing
