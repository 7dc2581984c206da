// The ICRC of packets: ports of plait_icrc.
#pragma once

#include <Vplait_icrc.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include <plait/sim/models/engine_commands.hpp>
#include <plait/sim/verilated/verilated_block.hpp>

namespace plait::sim {

struct IcrcBeat {
    static constexpr size_t max_bytes = 64;

    std::array<uint8_t, max_bytes> data{};
    uint8_t bytes = 0;
    bool last = false;
};

struct IcrcPorts {
    using Model = Vplait_icrc;
    using Command = IcrcBeat;
    using Answer = IcrcAnswer;

    static void drive(Model& model, const Command& beat) {
        for (size_t word = 0; word < IcrcBeat::max_bytes / 4; ++word) {
            const uint8_t* const bytes = &beat.data[4 * word];
            model.cmd_data_i[word] = uint32_t{bytes[0]} | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]} << 16 |
                                     uint32_t{bytes[3]} << 24;
        }
        model.cmd_bytes_i = beat.bytes;
        model.cmd_last_i = beat.last;
    }

    static Answer read(const Model& model) {
        return {static_cast<regmap::Status>(model.rsp_status_o), model.rsp_icrc_o};
    }
};

/// The beats of one packet. Behind its end there are ones, which must not matter.
inline void append(std::vector<IcrcBeat>& beats, std::span<const uint8_t> packet) {
    for (size_t first = 0; first < packet.size(); first += IcrcBeat::max_bytes) {
        IcrcBeat& beat = beats.emplace_back();
        beat.bytes = static_cast<uint8_t>(std::min(IcrcBeat::max_bytes, packet.size() - first));
        beat.last = first + beat.bytes == packet.size();
        beat.data.fill(0xFF);
        std::copy_n(packet.begin() + static_cast<std::ptrdiff_t>(first), beat.bytes, beat.data.begin());
    }
}

}  // namespace plait::sim
