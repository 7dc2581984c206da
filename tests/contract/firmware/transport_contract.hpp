// A queue pair of the firmware under test, memory behind a key, and what a peer does with it.
#pragma once

#include <set>
#include <utility>

#include "contract_device.hpp"

namespace plait::sim::testing {

using firmware::Opcode;
using firmware::Packet;
using regmap::DropReason;
using regmap::NackReason;
using regmap::Status;

class TransportContract : public Contract {
  protected:
    TransportContract()
        : connection_(connect(2, true)),
          memory_(allocate(16 * 4096)),
          key_(register_memory(memory_, regmap::access_local_write | regmap::access_remote_write)) {}

    /// One whole message that writes `bytes` at `offset` of the memory, as the peer's packet number `psn`
    /// from its first one on.
    void write(uint32_t psn, uint64_t offset, const std::vector<uint8_t>& bytes, bool asks_for_ack = true) {
        Packet packet = write_packet_of(psn);
        packet.message_bytes = static_cast<uint32_t>(bytes.size());
        packet.address = memory_.device_address + offset;
        packet.ack_request = asks_for_ack;
        send(connection_, packet, bytes);
        run_for_us(20);
    }
    Packet write_packet_of(uint32_t psn) const {
        Packet packet = packet_of(connection_, Opcode::mp_write);
        packet.psn = engines::psn_add(peer_psn, psn);
        packet.message_number = psn;
        packet.remote_key = key_;
        packet.address = memory_.device_address;
        return packet;
    }
    std::vector<uint8_t> placed(uint64_t offset, size_t bytes) const {
        const auto* const first = reinterpret_cast<const uint8_t*>(memory_.host) + offset;
        return {first, first + bytes};
    }
    std::vector<Packet> acks() { return got(2, Opcode::mp_ack); }
    std::vector<Packet> data() { return got(2, Opcode::mp_write); }

    /// Device 0 writes so many packets' worth to the peer, as one message.
    void post_write(uint64_t user_data, uint32_t packets) {
        regmap::WorkRequest request;
        request.opcode = regmap::WorkOpcode::write;
        request.flags = regmap::request_signalled;
        request.user_data = user_data;
        request.local_address = memory_.device_address;
        request.local_key = key_;
        request.length = packets * mtu;
        request.remote_address = 0x5000'0000;
        request.remote_key = 0x1234;
        post(sends_, send_queue, request);
    }
    uint32_t sent_psn(uint32_t number) const { return engines::psn_add(connection_.first_psn, number); }
    void acknowledge(uint32_t before) { send(connection_, ack_of(connection_, sent_psn(before))); }
    /// The peer refuses that packet; those before it have arrived.
    void refuse(uint32_t number, NackReason reason) {
        Packet nack = ack_of(connection_, sent_psn(number));
        nack.psn = sent_psn(number);
        nack.ack.reason = reason;
        send(connection_, nack);
    }
    /// From now on the peer acknowledges what comes, each packet by itself, but loses the first copy of some.
    void acknowledge_all_but(std::set<uint32_t> lost) {
        script(2).packet = [this, lost = std::move(lost)](const firmware::PacketEvent& event) mutable {
            const uint32_t number = engines::psn_add(event.packet.psn, 0U - connection_.first_psn);
            if (!firmware::is_data(event.packet.opcode) || lost.erase(number) != 0) return;
            received_.insert(number);
            uint32_t next = 0;
            while (received_.contains(next)) ++next;
            Packet ack = ack_of(connection_, sent_psn(next));
            ack.plane = event.packet.plane;
            ack.psn = event.packet.psn;
            ack.ack.plane = event.packet.plane;
            ack.ack.entropy = event.packet.entropy;
            ack.ack.bitmap_base = sent_psn(next);
            for (const uint32_t above : received_)
                if (above > next && above - next < 64) ack.ack.bitmap[0] |= uint64_t{1} << (above - next);
            ack.ack.bitmap_words = ack.ack.bitmap[0] != 0 ? 1 : 0;
            send(connection_, ack);
        };
    }
    std::vector<std::pair<uint64_t, Status>> completed() {
        std::vector<std::pair<uint64_t, Status>> found;
        for (const regmap::Completion& completion : completions())
            found.emplace_back(completion.user_data, completion.status);
        return found;
    }
    /// How often each packet of device 0 came to the peer's port, by its place from the first one on.
    std::map<uint32_t, unsigned> copies() {
        std::map<uint32_t, unsigned> found;
        for (const Packet& packet : data()) ++found[engines::psn_add(packet.psn, 0U - connection_.first_psn)];
        return found;
    }

    using Completed = std::vector<std::pair<uint64_t, Status>>;
    inline static const std::vector<uint8_t> some{1, 2, 3, 4, 5, 6, 7, 8};

    Connection connection_;
    SharedMemory memory_;
    uint32_t key_;
    std::set<uint32_t> received_;  // by the peer
};

}  // namespace plait::sim::testing
