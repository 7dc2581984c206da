#pragma once
// The ICRC of packets, once by the C++ engine and once Verilated.

#include <Vplait_icrc.h>

#include <algorithm>
#include <array>
#include <ostream>
#include <plait/engines/icrc.hpp>
#include <plait/regmap.hpp>
#include <vector>

#include "verilated_block.hpp"

namespace plait::contract {

/// From the first byte of the IP header to the last pad byte.
using IcrcPacket = std::vector<uint8_t>;

struct IcrcAnswer {
    regmap::Status status = regmap::Status::ok;
    uint32_t icrc = 0;

    bool operator==(const IcrcAnswer&) const = default;
    friend std::ostream& operator<<(std::ostream& out, const IcrcAnswer& answer) {
        return out << "status " << static_cast<int>(answer.status) << std::hex << " icrc " << answer.icrc
                   << std::dec;
    }
};

struct IcrcBeat {
    static constexpr size_t max_bytes = 64;

    std::array<uint8_t, max_bytes> data{};
    uint8_t bytes = 0;
    bool last = false;
};

class IcrcReference {
  public:
    std::vector<IcrcAnswer> run(const std::vector<IcrcPacket>& packets) {
        std::vector<IcrcAnswer> answers;
        for (const IcrcPacket& packet : packets)
            answers.push_back({regmap::Status::ok, engines::icrc(packet)});
        return answers;
    }
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

class IcrcRtl {
  public:
    explicit IcrcRtl(uint64_t seed = 1) : block_(seed) {}

    std::vector<IcrcAnswer> run(const std::vector<IcrcPacket>& packets, Stalls stalls = {}) {
        std::vector<IcrcBeat> beats;
        for (const IcrcPacket& packet : packets) append(beats, packet);
        return block_.run(beats, packets.size(), stalls);
    }

    /// Behind the packet's end there are ones, which must not matter.
    static void append(std::vector<IcrcBeat>& beats, const IcrcPacket& packet) {
        for (size_t first = 0; first < packet.size(); first += IcrcBeat::max_bytes) {
            IcrcBeat& beat = beats.emplace_back();
            beat.bytes = static_cast<uint8_t>(std::min(IcrcBeat::max_bytes, packet.size() - first));
            beat.last = first + beat.bytes == packet.size();
            beat.data.fill(0xFF);
            std::copy_n(packet.begin() + static_cast<std::ptrdiff_t>(first), beat.bytes, beat.data.begin());
        }
    }

    VerilatedBlock<IcrcPorts>& block() { return block_; }

  private:
    VerilatedBlock<IcrcPorts> block_;
};

}  // namespace plait::contract
