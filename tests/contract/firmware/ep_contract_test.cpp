// EP calls: a row that enters the node is forwarded to its targets, and its contributions return as one sum.
#include "contract_device.hpp"

namespace plait::sim::testing {
namespace {

using firmware::Opcode;
using firmware::Packet;
using regmap::DropReason;
using regmap::EpControlKind;
using regmap::NackReason;
using regmap::ScaleUpKind;
using regmap::Status;

// Ranks 0, 1 are node 0 and 2, 3 node 1. Rank 0 is under test, rank 2 has one token, for a rank of each
// device of node 0.
class EpContract : public Contract {
  protected:
    static constexpr uint32_t hidden = 128;
    static constexpr uint32_t row_bytes = hidden * 2;  // BF16: one packet
    static constexpr uint32_t token = 6;
    static constexpr uint16_t one = 0x3f80;
    static constexpr uint16_t two = 0x4000;
    static constexpr uint16_t three = 0x4040;

    EpContract()
        : to_2_(connect(2, false)),
          to_3_(connect(3, false)),
          memory_(allocate(16 * 4096)),
          key_(register_memory(memory_, regmap::access_local_write)) {
        for (Connection* connection : {&to_2_, &to_3_}) acknowledge_all(*connection);
        create_group();
    }

    // The peer acknowledges each packet by itself.
    void acknowledge_all(const Connection& connection) {
        script(connection.peer).packet = [this, &connection](const firmware::PacketEvent& event) {
            if (!firmware::is_data(event.packet.opcode)) return;
            Packet ack = ack_of(connection, event.window.cumulative_psn);
            ack.psn = event.packet.psn;
            ack.plane = ack.ack.plane = event.packet.plane;
            ack.ack.entropy = event.packet.entropy;
            send(connection, ack);
        };
    }

    void create_group() {
        regmap::GroupParameters parameters;
        parameters.ranks = 4;
        parameters.ranks_per_node = 2;
        parameters.experts = 4;
        parameters.topk = 2;
        parameters.hidden = hidden;
        parameters.max_tokens = 8;
        parameters.dispatch_format = parameters.combine_format = parameters.partial_format =
            regmap::RowFormat::bf16;
        parameters.mode = regmap::EpMode::normal;
        parameters.handles = 1;
        parameters.mtu_bytes = mtu;
        const SharedMemory described = allocate(4096);
        store(described, parameters);
        const std::array<uint32_t, 4> queue_pairs{0, 0, to_2_.qpn, to_3_.qpn};
        store(described, queue_pairs, sizeof parameters);
        regmap::AdminRequest request;
        request.opcode = regmap::AdminOpcode::create_group;
        request.address = described.device_address;
        request.length = sizeof parameters + sizeof queue_pairs;
        request.send_queue = collective_queue;
        EXPECT_EQ(admin(request).status, Status::ok);
    }

    regmap::MemoryRange range(uint64_t offset) const { return {memory_.device_address + offset, key_, 0}; }

    // Rank 0 brings no token and expects rows of others.
    void post_dispatch() {
        regmap::EpRequest request;
        request.opcode = regmap::EpOpcode::dispatch;
        request.user_data = 100;
        request.timeout_us = 10'000;
        request.receive_capacity = 8;
        request.recv_x = range(received_rows);
        request.recv_topk_idx = range(received_experts);
        request.recv_topk_weights = range(received_weights);
        request.recv_source = range(received_sources);
        request.result = range(result);
        post(collectives_, collective_queue, request);
        run_for_us(50);
    }

    void post_combine() {
        for (uint32_t i = 0; i < hidden; ++i) store(memory_, one, outputs + 2 * i);
        regmap::EpRequest request;
        request.opcode = regmap::EpOpcode::combine;
        request.user_data = 200;
        request.timeout_us = 10'000;
        request.x = range(outputs);
        request.result = range(result);
        post(collectives_, collective_queue, request);
        run_for_us(50);
    }

    firmware::ControlHeader control_of(uint16_t operation, EpControlKind kind, uint32_t value) {
        firmware::ControlHeader control;
        control.operation = operation;
        control.kind = kind;
        control.call = operation == 1 ? 1 : 3;
        control.value = value;
        return control;
    }
    void tell(const Connection& connection, const firmware::ControlHeader& control,
              const std::vector<uint8_t>& bytes) {
        Packet packet = packet_of(connection, Opcode::mp_ep_control);
        packet.psn = next_psn(connection);
        packet.message_bytes = static_cast<uint32_t>(bytes.size());
        packet.control = control;
        send(connection, packet, bytes);
        run_for_us(20);
    }
    // From rank 1, over scale-up.
    void tell_locally(const firmware::ControlHeader& control, const std::vector<uint8_t>& bytes) {
        firmware::ScaleUpHeader frame;
        frame.kind = ScaleUpKind::control;
        frame.source_local = 1;
        frame.source_rank = 1;
        frame.operation = control.operation;
        frame.control = control;
        firmware::Payload payload;
        payload.inline_bytes = bytes;
        peer(1).scale_up(1, frame, {}, payload, false);
        run_for_us(20);
    }
    uint32_t next_psn(const Connection& connection) {
        return engines::psn_add(peer_psn, sent_by_peer_[connection.peer]++);
    }

    // Every rank says what it will send to rank 0; rank 2 one row, by way of it and for its expert.
    void tell_counts() {
        const uint32_t hash = counts_from_0().value;
        const auto counts = [](uint32_t rows) {
            std::vector<uint8_t> bytes(16);  // to the receiver, by way of it, to other nodes, for its expert
            for (const size_t at : {0, 4, 8, 12}) bytes[at] = static_cast<uint8_t>(rows);
            return bytes;
        };
        tell_locally(control_of(1, EpControlKind::counts, hash), counts(0));
        tell(to_2_, control_of(1, EpControlKind::counts, hash), counts(1));
        tell(to_3_, control_of(1, EpControlKind::counts, hash), counts(0));
    }
    void tell_ready(uint16_t operation) {
        const std::vector<uint8_t> none_received(4);
        tell_locally(control_of(operation, EpControlKind::ready, 1), none_received);
        tell(to_2_, control_of(operation, EpControlKind::ready, 1), none_received);
        tell(to_3_, control_of(operation, EpControlKind::ready, 1), none_received);
    }
    firmware::ControlHeader counts_from_0() {
        for (const Packet& packet : got(2, Opcode::mp_ep_control))
            if (packet.control.kind == EpControlKind::counts) return packet.control;
        ADD_FAILURE() << "no counts were sent";
        return {};
    }

    std::vector<uint8_t> row() const {
        std::vector<uint8_t> bytes(row_bytes);
        for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 5 + 1);
        return bytes;
    }
    Packet row_packet(uint16_t operation) {
        Packet packet = packet_of(to_2_, Opcode::mp_ep_row);
        packet.psn = engines::psn_add(peer_psn, sent_by_peer_[2]);
        packet.message_bytes = row_bytes;
        packet.ack_request = true;
        packet.row = {};
        packet.row.operation = operation;
        packet.row.token = token;
        packet.row.targets = 0b11;
        packet.row.index_count = 2;
        packet.row.choice_count = 2;
        packet.row.choices[0] = {0, 0, 0.25F};
        packet.row.choices[1] = {1, 1, 0.75F};
        return packet;
    }
    void send_row() {
        send(to_2_, row_packet(1), row());
        ++sent_by_peer_[2];
        run_for_us(30);
    }
    std::vector<ScriptedFirmware::Frame> frames(ScaleUpKind kind) {
        std::vector<ScriptedFirmware::Frame> found;
        for (const auto& frame : script(1).frames)
            if (frame.header.kind == kind) found.push_back(frame);
        return found;
    }
    void dispatch_one_row() {
        post_dispatch();
        tell_counts();
        tell_ready(1);
        send_row();
    }

    // Places in memory_.
    static constexpr uint64_t received_rows = 0;
    static constexpr uint64_t received_experts = 4096;
    static constexpr uint64_t received_weights = 8192;
    static constexpr uint64_t received_sources = 12288;
    static constexpr uint64_t result = 16384;
    static constexpr uint64_t outputs = 20480;

    Connection to_2_, to_3_;
    SharedMemory memory_;
    uint32_t key_;
    std::map<uint32_t, uint32_t> sent_by_peer_;
};

INSTANTIATE_TEST_SUITE_P(Places, EpContract, places(), name_of_place);

TEST_P(EpContract, ACallIsAnnouncedToEveryRank) {
    post_dispatch();
    EXPECT_EQ(counts_from_0().operation, 1);
    tell_counts();
    for (const uint32_t rank : {2U, 3U}) {
        const auto sent = got(rank, Opcode::mp_ep_control);
        EXPECT_EQ(
            std::count_if(sent.begin(), sent.end(),
                          [](const Packet& packet) { return packet.control.kind == EpControlKind::ready; }),
            1);
    }
    const auto local = frames(ScaleUpKind::control);
    EXPECT_TRUE(std::any_of(local.begin(), local.end(), [](const auto& frame) {
        return frame.header.control.kind == EpControlKind::ready;
    }));
}

TEST_P(EpContract, ARowOfACallThatIsNotKnownYetIsRefused) {
    send(to_2_, row_packet(1), row());
    run_for_us(30);
    const auto acks = got(2, Opcode::mp_ack);
    ASSERT_FALSE(acks.empty());
    EXPECT_EQ(acks.back().ack.reason, NackReason::unknown_operation);
    EXPECT_EQ(acks.back().ack.cumulative_psn, peer_psn);
    EXPECT_TRUE(frames(ScaleUpKind::row).empty());
    dispatch_one_row();
    EXPECT_EQ(got(2, Opcode::mp_ack).back().ack.reason, NackReason::none);
    EXPECT_EQ(frames(ScaleUpKind::row).size(), 1U);
}

TEST_P(EpContract, ARowIsForwardedToItsTargetsAndPlaced) {
    dispatch_one_row();
    const auto forwarded = frames(ScaleUpKind::row);
    ASSERT_EQ(forwarded.size(), 1U);
    const firmware::ScaleUpHeader& header = forwarded[0].header;
    EXPECT_EQ(header.source_local, 0);
    EXPECT_EQ(header.source_rank, 2);
    EXPECT_EQ(header.operation, 1);
    EXPECT_EQ(header.token, token);
    EXPECT_EQ(header.index, 0U);
    EXPECT_EQ(header.length, row_bytes);
    ASSERT_EQ(header.choice_count, 2);
    EXPECT_EQ(header.choices[1], (firmware::Choice{1, 1, 0.75F}));
    EXPECT_EQ(std::memcmp(memory_.host + received_rows, row().data(), row_bytes), 0);
    EXPECT_EQ(load<uint64_t>(memory_, received_sources), uint64_t{2} << 32 | token);
    EXPECT_EQ((load<std::array<int64_t, 2>>(memory_, received_experts)), (std::array<int64_t, 2>{0, -1}));
    EXPECT_EQ((load<std::array<float, 2>>(memory_, received_weights)), (std::array<float, 2>{0.25F, 0}));
    const auto done = completions();
    ASSERT_EQ(done.size(), 1U);
    EXPECT_EQ(done[0].user_data, 100U);
    EXPECT_EQ(done[0].status, Status::ok);
    EXPECT_EQ(load<regmap::EpResult>(memory_, result).received_rows, 1U);
}

TEST_P(EpContract, ARowThatWasNotAnnouncedIsRefusedAsInvalid) {
    post_dispatch();
    tell_counts();
    tell_ready(1);
    Packet packet = row_packet(1);
    packet.row.row = 1;
    send(to_2_, packet, row());
    run_for_us(30);
    EXPECT_EQ(got(2, Opcode::mp_ack).back().ack.reason, NackReason::invalid_request);
    EXPECT_TRUE(frames(ScaleUpKind::row).empty());
}

TEST_P(EpContract, ContributionsArePulledAddedAndReturnedAsOneRow) {
    dispatch_one_row();
    post_combine();
    tell_ready(2);
    EXPECT_TRUE(got(2, Opcode::mp_ep_partial).empty());
    EXPECT_TRUE(frames(ScaleUpKind::pull).empty()) << "the source has given no credit";
    tell(to_2_, control_of(2, EpControlKind::credit, 1), {});
    const auto pulls = frames(ScaleUpKind::pull);
    ASSERT_EQ(pulls.size(), 1U);
    EXPECT_EQ(pulls[0].header.source_rank, 2);
    EXPECT_EQ(pulls[0].header.index, 0U);
    EXPECT_EQ(pulls[0].header.length, hidden);
    EXPECT_TRUE(got(2, Opcode::mp_ep_partial).empty()) << "rank 1 has not contributed";

    firmware::ScaleUpHeader answer = pulls[0].header;
    answer.kind = ScaleUpKind::contribution;
    answer.source_local = 1;
    answer.length = row_bytes;
    std::vector<uint16_t> output(hidden, two);
    firmware::Payload payload;
    payload.inline_bytes = {reinterpret_cast<const uint8_t*>(output.data()), row_bytes};
    peer(1).scale_up(1, answer, {}, payload, false);
    run_for_us(30);
    const auto partials = got(2, Opcode::mp_ep_partial);
    ASSERT_EQ(partials.size(), 1U);
    EXPECT_EQ(partials[0].partial.operation, 2);
    EXPECT_EQ(partials[0].partial.token, token);
    EXPECT_EQ(partials[0].partial.node, 0);
    EXPECT_EQ(partials[0].partial.missing, 0);
    EXPECT_EQ(partials[0].partial.first_element, 0U);
    for (const auto& arrival : script(2).arrivals) {
        if (arrival.packet.opcode != Opcode::mp_ep_partial) continue;
        const auto bytes = bytes_of(2, arrival);
        ASSERT_EQ(bytes.size(), row_bytes);
        for (uint32_t i = 0; i < hidden; ++i) {
            EXPECT_EQ(bytes[2 * i], three & 0xff);
            EXPECT_EQ(bytes[2 * i + 1], three >> 8);
        }
    }
}

TEST_P(EpContract, AContributionThatIsRefusedIsMissingInTheSum) {
    dispatch_one_row();
    post_combine();
    tell_ready(2);
    tell(to_2_, control_of(2, EpControlKind::credit, 1), {});
    const auto pulls = frames(ScaleUpKind::pull);
    ASSERT_EQ(pulls.size(), 1U);
    firmware::ScaleUpHeader answer = pulls[0].header;
    answer.kind = ScaleUpKind::contribution;
    answer.source_local = 1;
    answer.status = Status::aborted;
    answer.length = 0;
    peer(1).scale_up(1, answer, {}, {}, false);
    run_for_us(30);
    const auto partials = got(2, Opcode::mp_ep_partial);
    ASSERT_EQ(partials.size(), 1U);
    EXPECT_EQ(partials[0].partial.missing, 0b10) << "the node's device 1";
}

TEST_P(EpContract, APullOfACombineThatIsNotUnderWayIsRefused) {
    dispatch_one_row();
    firmware::ScaleUpHeader pull;
    pull.kind = ScaleUpKind::pull;
    pull.source_local = 1;
    pull.source_rank = 2;
    pull.operation = 2;
    pull.length = hidden;
    pull.tag = 0x4242;
    peer(1).scale_up(1, pull, {}, {}, false);
    run_for_us(30);
    const auto answers = frames(ScaleUpKind::contribution);
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].header.status, Status::aborted);
    EXPECT_EQ(answers[0].header.tag, 0x4242U);
    EXPECT_EQ(drops(DropReason::unknown_operation), 1U);
}

}  // namespace
}  // namespace plait::sim::testing
