#include <plait/sim/app/framing.hpp>

#include <algorithm>

namespace plait::sim {

using firmware::Packet;
using regmap::Opcode;

WireSize scale_out_size(Packet packet, uint64_t payload_bytes, uint32_t mtu_bytes) {
    WireSize size;
    uint64_t left = payload_bytes;
    do {
        packet.payload_bytes = static_cast<uint16_t>(std::min<uint64_t>(left, mtu_bytes));
        left -= packet.payload_bytes;
        size.bytes += firmware::frame_bytes(packet) + ethernet_framing_bytes;
        ++size.packets;
        if (packet.opcode == Opcode::mp_ep_row && packet.row.index_count != 0) packet.row.choice_count = 0;
    } while (left > 0);
    return size;
}

WireSize row_size(regmap::EpMode mode, uint32_t row_bytes, uint32_t mtu_bytes, uint32_t targets,
                  uint32_t choices) {
    Packet packet;
    packet.opcode = Opcode::mp_ep_row;
    packet.row.targets = static_cast<uint8_t>((1U << targets) - 1);
    packet.row.index_count = static_cast<uint8_t>(mode == regmap::EpMode::normal ? targets : 0);
    packet.row.choice_count = static_cast<uint8_t>(choices);
    return scale_out_size(packet, row_bytes, mtu_bytes);
}

WireSize partial_size(uint32_t part_bytes) {
    Packet packet;
    packet.opcode = Opcode::mp_ep_partial;
    return scale_out_size(packet, part_bytes, part_bytes);
}

WireSize scale_up_size(regmap::EpMode mode, uint32_t row_bytes, uint32_t part_bytes, uint32_t choices) {
    const uint64_t frames = (row_bytes + part_bytes - 1) / part_bytes;
    const uint64_t with_choices = mode == regmap::EpMode::normal ? 1 : frames;
    return {row_bytes + frames * regmap::ScaleUp::size_bytes +
                with_choices * choices * regmap::MpEpChoice::size_bytes,
            frames};
}

}  // namespace plait::sim
