#include <plait/sim/riscv/path_counts.hpp>

#include <algorithm>

#include <plait/engines/psn.hpp>

namespace plait::sim {

using firmware::Opcode;
using regmap::CommandKind;

void PathCounts::Path::add(uint64_t count) {
    ++events;
    instructions += count;
    most = std::max(most, count);
}

void PathCounts::Path::add(const Path& other) {
    events += other.events;
    instructions += other.instructions;
    most = std::max(most, other.most);
}

PathCounts::PathCounts() {
    constexpr std::array<std::string_view, kinds> names{"none",
                                                        "receive",
                                                        "receive_out_of_order",
                                                        "receive_and_acknowledge",
                                                        "send",
                                                        "ack_with_bitmap",
                                                        "ack_of_1",
                                                        "ack_of_2",
                                                        "ack_of_3",
                                                        "ack_of_4",
                                                        "ack_of_5",
                                                        "ack_of_6",
                                                        "ack_of_7",
                                                        "ack_of_8"};
    for (const std::string_view name : names) paths_.push_back({name});
}

void PathCounts::begin(const firmware::Packet& packet, bool accepted, uint32_t cumulative_psn) {
    kind_ = none;
    controls_ = 0;
    if (packet.opcode == Opcode::mp_write && accepted)
        kind_ = engines::psn_diff(cumulative_psn, packet.psn) > 0 ? receive_in_order : receive_out_of_order;
    if (packet.opcode == Opcode::mp_ack && packet.ack.reason == regmap::NackReason::none)
        kind_ = packet.ack.bitmap_words == 0 ? ack_in_order : ack_with_bitmap;
}

// A completion, a refusal, requests that are fetched since there is room: none of these is plain.
void PathCounts::given(CommandKind kind) {
    if (kind != CommandKind::place && kind != CommandKind::send && kind != CommandKind::set_timer &&
        kind != CommandKind::skip)
        kind_ = none;
}

void PathCounts::sent_data(Opcode opcode, uint64_t instructions) {
    if (opcode < Opcode::mp_ep_row) paths_[send_new].add(instructions);
}

void PathCounts::end(uint64_t instructions, uint64_t confirmed) {
    if (kind_ == none) return;
    const bool is_data = kind_ < send_new;
    if (!is_data && (controls_ != 0 || confirmed == 0 || confirmed > max_confirmed)) return;
    size_t path = is_data && controls_ != 0 ? receive_acknowledged : kind_;
    if (kind_ == ack_in_order) path += confirmed - 1;
    paths_[path].add(instructions);
}

}  // namespace plait::sim
