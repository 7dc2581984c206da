#include "contract_device.hpp"

#include <gtest/gtest.h>

namespace plait::contract_test {
namespace {

using regmap::Completion;
using regmap::EpRequest;
using regmap::ReceiveRequest;
using regmap::WorkRequest;

/// Queues: 1 completion, 2 send (of QP 1), 3 receive (of QP 1), each of 16 entries.
struct QueuesTest : testing::Test {
    static constexpr std::uint64_t completions = ContractHost::rings;
    static constexpr std::uint64_t sends = ContractHost::rings + 0x1000;
    static constexpr std::uint64_t receives = ContractHost::rings + 0x2000;
    static constexpr std::uint32_t qpn = 1;

    void SetUp() override {
        host.enable();
        ASSERT_EQ(host.command(ContractHost::queue(1, QueueKind::completion, 4, completions)).status,
                  Status::ok);
        ASSERT_EQ(host.command(ContractHost::queue(2, QueueKind::send, 4, sends, 1)).status, Status::ok);
        ASSERT_EQ(host.command(ContractHost::queue(3, QueueKind::receive, 4, receives, 1)).status,
                  Status::ok);
        ASSERT_EQ(host.command(ContractHost::qp(2, 3)).object, qpn);
        device.hal().fetch_log.clear();
        host.write(regmap::reg::interrupt_status_offset, interrupt_all);
        host.write(regmap::reg::interrupt_status_offset, interrupt_all);  // the first one announced more
        device.hal().interrupts.clear();
    }

    /// Writes `count` signalled requests, user_data = their index, and rings.
    void send(unsigned count) {
        for (unsigned i = 0; i < count; ++i, ++posted) {
            WorkRequest request;
            request.opcode = regmap::WorkOpcode::write;
            request.flags = 1;
            request.user_data = posted;
            device.hal().store(sends + (posted % 16U) * sizeof request, request);
        }
        host.doorbell(2, posted);
    }
    [[nodiscard]] Completion completion(unsigned index) const {
        return const_cast<ContractDevice&>(device).hal().load<Completion>(completions +
                                                                          (index % 16) * sizeof(Completion));
    }

    ContractDevice device;
    ContractHost host{device};
    std::uint16_t posted = 0;
};

TEST_F(QueuesTest, requests_arrive_in_order_and_complete) {
    send(3);
    ASSERT_EQ(device.hal().fetch_log.size(), 1U);
    EXPECT_EQ(device.hal().fetch_log[0].address, sends);
    EXPECT_EQ(device.hal().fetch_log[0].length, 3 * sizeof(WorkRequest));
    device.run();
    ASSERT_EQ(device.transport().sent.size(), 3U);
    for (unsigned i = 0; i < 3; ++i) {
        EXPECT_EQ(device.transport().sent[i].request.user_data, i);
        EXPECT_EQ(device.transport().sent[i].index, i);
        EXPECT_EQ(device.transport().sent[i].owner, qpn);
        EXPECT_EQ(completion(i).user_data, i);
        EXPECT_EQ(completion(i).queue, 2U);
        EXPECT_EQ(completion(i).phase, 1);
        EXPECT_EQ(completion(i).request_index, i);
    }
    EXPECT_EQ(completion(3), Completion{});
    EXPECT_EQ(device.hal().interrupts, std::vector<std::uint32_t>{interrupt_completion});
}

TEST_F(QueuesTest, the_ring_wraps_and_the_phase_flips) {
    for (unsigned round = 0; round < 5000; ++round) {  // more than 2^16 requests
        send(14);
        device.run();
        ASSERT_EQ(device.transport().sent.size(), 14U);
        for (unsigned i = 0; i < 14; ++i) {
            const unsigned index = round * 14 + i;
            const Completion found = completion(index);
            ASSERT_EQ(found.user_data, index % 65536U);
            ASSERT_EQ(found.phase, index / 16 % 2 == 0 ? 1 : 0) << index;
        }
        device.transport().sent.clear();
        host.doorbell(1, (round + 1) * 14 % 65536U);
    }
    for (const Segment& segment : device.hal().fetch_log) {
        ASSERT_GE(segment.address, sends);
        ASSERT_LE(segment.address + segment.length, sends + 16 * sizeof(WorkRequest))
            << "across the ring's end";
    }
    EXPECT_EQ(device.queues().statistics().lost_completions, 0U);
    EXPECT_EQ(device.queues().statistics().refused_doorbells, 0U);
}

TEST_F(QueuesTest, a_batch_is_at_most_4096_bytes_and_one_is_under_way) {
    ASSERT_EQ(
        host.command(ContractHost::queue(4, QueueKind::completion, 10, ContractHost::rings + 0x40000)).status,
        Status::ok);
    ASSERT_EQ(
        host.command(ContractHost::queue(5, QueueKind::send, 8, ContractHost::rings + 0x20000, 4)).status,
        Status::ok);
    ASSERT_EQ(host.command(ContractHost::qp(5)).status, Status::ok);
    device.hal().fetch_log.clear();
    host.doorbell(5, 40);
    host.doorbell(5, 70);
    ASSERT_EQ(device.hal().fetches.size(), 1U);
    EXPECT_EQ(device.hal().fetches[0].segment.length, 4096U);
    device.run();
    ASSERT_EQ(device.hal().fetch_log.size(), 3U);
    EXPECT_EQ(device.hal().fetch_log[2].length, 6 * sizeof(WorkRequest));
    EXPECT_EQ(device.transport().sent.size(), 70U);
}

TEST_F(QueuesTest, an_owner_without_room_is_not_given_more) {
    device.transport().room = 2;
    send(5);
    EXPECT_EQ(device.hal().fetches.at(0).segment.length, 2 * sizeof(WorkRequest));
    device.run();
    EXPECT_EQ(device.transport().sent.size(), 2U);
    device.queues().resume(2);
    EXPECT_TRUE(device.hal().fetches.empty());
    device.transport().room = 2;
    device.queues().resume(2);
    device.transport().room = 1;  // taken by something else while the fetch was under way
    device.run();
    EXPECT_EQ(device.transport().sent.size(), 3U);
    device.transport().room = device.transport().unlimited;
    device.queues().resume(2);
    device.queues().resume(2);
    EXPECT_EQ(device.hal().fetches.size(), 1U);
    device.run();
    ASSERT_EQ(device.transport().sent.size(), 5U);
    for (unsigned i = 0; i < 5; ++i) EXPECT_EQ(device.transport().sent[i].request.user_data, i);
}

TEST_F(QueuesTest, receives_go_to_the_receiver) {
    ReceiveRequest request;
    request.user_data = 77;
    request.length = 4096;
    device.hal().store(receives, request);
    host.doorbell(3, 1);
    device.run();
    ASSERT_EQ(device.transport().received.size(), 1U);
    EXPECT_EQ(device.transport().received[0].request, request);
    EXPECT_EQ(device.transport().received[0].owner, qpn);
}

TEST_F(QueuesTest, impossible_doorbells_are_counted_and_ignored) {
    const auto refused = [&] { return device.queues().statistics().refused_doorbells; };
    host.doorbell(2, 17);
    EXPECT_EQ(refused(), 1U) << "more than the ring holds";
    host.doorbell(2, 0x10001);
    EXPECT_EQ(refused(), 2U) << "beyond 16 bits";
    host.doorbell(900, 1);
    EXPECT_EQ(refused(), 3U) << "no such queue";
    host.doorbell(1, 1);
    EXPECT_EQ(refused(), 4U) << "completions never written were consumed";
    EXPECT_TRUE(device.hal().fetches.empty());
    send(3);
    host.doorbell(2, 2);
    EXPECT_EQ(refused(), 5U) << "backwards";
    device.run();
    EXPECT_EQ(device.transport().sent.size(), 3U);
    host.doorbell(1, 4);
    EXPECT_EQ(refused(), 6U);
    host.doorbell(1, 3);
    EXPECT_EQ(refused(), 6U);
}

TEST_F(QueuesTest, a_full_completion_queue_is_never_overwritten) {
    send(16);
    device.run();
    send(2);
    device.run();
    for (unsigned i = 0; i < 16; ++i) {
        EXPECT_EQ(completion(i).user_data, i);
        EXPECT_EQ(completion(i).phase, 1);
    }
    EXPECT_EQ(device.queues().statistics().lost_completions, 2U);
    EXPECT_EQ(device.transport().overflowed, std::vector<std::uint32_t>{qpn}) << "told once";
}

TEST_F(QueuesTest, flushing_in_answer_to_an_overflow_does_not_recurse) {
    device.transport().flush_on_overflow = 2;
    send(16);
    device.run();
    send(1);
    device.run();
    EXPECT_EQ(device.queues().statistics().lost_completions, 2U);
    EXPECT_EQ(device.transport().overflowed.size(), 1U);
}

TEST_F(QueuesTest, a_ring_that_cannot_be_read_stops_the_device) {
    ASSERT_EQ(host.command(ContractHost::queue(4, QueueKind::send, 4, 0x1000, 1)).status, Status::ok);
    ASSERT_EQ(host.command(ContractHost::qp(4)).status, Status::ok);
    host.doorbell(4, 1);
    device.run();
    EXPECT_TRUE(device.registers().is_fatal());
    EXPECT_TRUE(device.transport().sent.empty());
    send(1);
    EXPECT_TRUE(device.hal().fetches.empty());
}

TEST_F(QueuesTest, a_short_answer_stops_the_device) {
    send(2);
    const std::vector<std::uint8_t> bytes(sizeof(WorkRequest));
    device.queues().on_fetched(device.hal().fetches[0].tag.label, Status::ok, bytes);
    EXPECT_TRUE(device.registers().is_fatal());
    EXPECT_TRUE(device.transport().sent.empty());
}

TEST_F(QueuesTest, answers_to_fetches_of_an_earlier_life_are_ignored) {
    send(2);
    ASSERT_EQ(host.read(regmap::reg::state_offset) & regmap::reg::state_enabled_mask,
              regmap::reg::state_enabled_mask);
    const FakeHal::Fetch stale = device.hal().fetches[0];
    const std::vector<std::uint8_t> bytes(stale.segment.length);
    device.queues().detach(2);
    ASSERT_EQ(device.queues().attach(2, {OwnerKind::qp, qpn}), Status::ok);
    device.queues().on_fetched(stale.tag.label, Status::ok, bytes);
    EXPECT_TRUE(device.transport().sent.empty());
    send(2);  // as many as the stale answer holds
    device.hal().fetches.pop_front();
    device.queues().on_fetched(stale.tag.label, Status::ok, bytes);
    EXPECT_TRUE(device.transport().sent.empty());
    device.run();
    ASSERT_EQ(device.transport().sent.size(), 2U) << "what was posted before the detach is dropped";
    EXPECT_EQ(device.transport().sent[0].request.user_data, 2U);
    EXPECT_FALSE(device.registers().is_fatal());
    send(1);
    const FakeHal::Fetch before_reset = device.hal().fetches.back();
    host.write(regmap::reg::control_offset, regmap::reg::control_reset_mask);
    host.enable();
    device.queues().on_fetched(before_reset.tag.label, Status::ok, bytes);
    EXPECT_EQ(device.transport().sent.size(), 2U);
    EXPECT_FALSE(device.registers().is_fatal());
}

TEST_F(QueuesTest, creation_is_checked) {
    auto& queues = device.queues();
    const auto create = [&](std::uint32_t number, int kind, std::uint8_t log2, std::uint64_t address,
                            std::uint32_t completion_queue) {
        return queues.create(number, static_cast<QueueKind>(kind), log2, address, completion_queue);
    };
    const std::uint64_t ring = ContractHost::rings + 0x8000;
    EXPECT_EQ(create(0, 0, 4, ring, 1), Status::invalid_queue);
    EXPECT_EQ(create(1024, 0, 4, ring, 1), Status::invalid_queue);
    EXPECT_EQ(create(~0U, 0, 4, ring, 1), Status::invalid_queue);
    EXPECT_EQ(create(2, 0, 4, ring, 1), Status::invalid_state);
    EXPECT_EQ(create(9, 4, 4, ring, 1), Status::invalid_parameter);
    EXPECT_EQ(create(9, 255, 4, ring, 1), Status::invalid_parameter);
    EXPECT_EQ(create(9, 0, 3, ring, 1), Status::invalid_parameter);
    EXPECT_EQ(create(9, 0, 16, ring, 1), Status::invalid_parameter);
    EXPECT_EQ(create(9, 0, 255, ring, 1), Status::invalid_parameter);
    EXPECT_EQ(create(9, 0, 4, ring + 64, 1), Status::invalid_parameter);
    EXPECT_EQ(create(9, 0, 4, ~std::uint64_t{0} << 7, 1), Status::invalid_parameter)
        << "leaves the address space";
    EXPECT_EQ(create(9, 0, 4, ring, 2), Status::invalid_queue) << "not a completion queue";
    EXPECT_EQ(create(9, 0, 4, ring, 0), Status::invalid_queue);
    EXPECT_EQ(create(9, 0, 4, ring, 1024), Status::invalid_queue);
    EXPECT_EQ(create(9, 0, 4, ring, ~0U), Status::invalid_queue);
    EXPECT_EQ(create(9, 2, 4, ring, 1), Status::invalid_parameter);
    EXPECT_EQ(queues.destroy(9), Status::invalid_queue) << "nothing was made";
    EXPECT_EQ(create(1023, 0, 15, ring, 1), Status::ok);
}

TEST_F(QueuesTest, what_is_used_is_not_destroyed) {
    auto& queues = device.queues();
    EXPECT_EQ(queues.destroy(0), Status::invalid_queue);
    EXPECT_EQ(queues.destroy(1024), Status::invalid_queue);
    EXPECT_EQ(queues.destroy(1), Status::invalid_state);
    EXPECT_EQ(queues.destroy(2), Status::invalid_state);
    queues.detach_all({OwnerKind::qp, qpn});
    EXPECT_EQ(queues.destroy(2), Status::ok);
    EXPECT_EQ(queues.destroy(2), Status::invalid_queue);
    EXPECT_EQ(queues.destroy(1), Status::invalid_state);
    EXPECT_EQ(queues.destroy(3), Status::ok);
    EXPECT_EQ(queues.destroy(1), Status::ok);
    queues.complete(2, {});
    queues.complete(1024, {});
    EXPECT_EQ(queues.statistics().lost_completions, 2U);
}

TEST_F(QueuesTest, owners_are_exclusive_and_of_the_right_kind) {
    auto& queues = device.queues();
    EXPECT_EQ(queues.attach(2, {OwnerKind::qp, qpn}), Status::ok) << "again";
    EXPECT_EQ(queues.attach(2, {OwnerKind::qp, 9}), Status::invalid_state);
    EXPECT_EQ(queues.attach(2, {OwnerKind::group, 9}), Status::invalid_queue);
    EXPECT_EQ(queues.attach(1, {OwnerKind::qp, 9}), Status::invalid_queue);
    EXPECT_EQ(queues.attach(0, {OwnerKind::qp, 9}), Status::invalid_queue);
    EXPECT_EQ(queues.attach(0, {OwnerKind::admin, 0}), Status::invalid_queue);
    EXPECT_EQ(queues.attach(99, {OwnerKind::qp, 9}), Status::invalid_queue);
    EXPECT_EQ(queues.attach(4096, {OwnerKind::qp, 9}), Status::invalid_queue);
}

TEST_F(QueuesTest, a_collective_queue_feeds_its_group) {
    const std::uint64_t ring = ContractHost::rings + 0x10000;
    ASSERT_EQ(device.queues().create(4, QueueKind::collective, 4, ring, 1), Status::ok);
    for (unsigned i = 0; i < 3; ++i) {
        EpRequest request;
        request.user_data = i;
        device.hal().store(ring + i * sizeof request, request);
    }
    host.doorbell(4, 3);
    EXPECT_TRUE(device.hal().fetches.empty()) << "nobody takes them yet";
    ASSERT_EQ(device.queues().attach(4, {OwnerKind::group, 3}), Status::ok);
    device.run();
    ASSERT_EQ(device.ep().submitted.size(), 3U);
    EXPECT_EQ(device.hal().fetch_log.at(0).length, 2 * sizeof(EpRequest)) << "the room EP has";
    for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(device.ep().submitted[i].request.user_data, i);
}

/// A host that does not read its completions: no collective request is taken whose completion would be lost.
struct UnreadCompletionsTest : QueuesTest {
    static constexpr std::uint64_t calls = ContractHost::rings + 0x10000;

    void SetUp() override {
        QueuesTest::SetUp();
        ASSERT_EQ(device.queues().create(4, QueueKind::collective, 5, calls, 1), Status::ok);
        ASSERT_EQ(device.queues().attach(4, {OwnerKind::group, 3}), Status::ok);
        host.doorbell(4, 20);
        device.run();
    }
    void complete(unsigned count) {
        for (unsigned i = 0; i < count; ++i) {
            Completion made;
            made.user_data = 100 + completed++;
            device.queues().complete(4, made);
        }
    }
    unsigned completed = 0;
};

TEST_F(UnreadCompletionsTest, stop_collective_requests_until_they_are_read) {
    EXPECT_EQ(device.ep().submitted.size(), 16U);
    complete(16);
    device.run();
    EXPECT_EQ(device.ep().submitted.size(), 16U);
    for (unsigned i = 0; i < 16; ++i) EXPECT_EQ(completion(i).user_data, 100 + i);
    host.doorbell(1, 3);
    device.run();
    EXPECT_EQ(device.ep().submitted.size(), 19U);
    EXPECT_EQ(device.ep().submitted.back().index, 18U);
    complete(3);
    host.doorbell(1, 19);
    device.run();
    EXPECT_EQ(device.ep().submitted.size(), 20U);
    EXPECT_EQ(device.queues().statistics().lost_completions, 0U);
}

TEST_F(UnreadCompletionsTest, are_not_displaced_by_those_of_queue_pairs) {
    send(1);
    device.run();
    EXPECT_EQ(device.queues().statistics().lost_completions, 1U) << "all entries are promised";
    EXPECT_EQ(device.transport().overflowed, std::vector<std::uint32_t>{qpn});
    complete(16);
    for (unsigned i = 0; i < 16; ++i) EXPECT_EQ(completion(i).user_data, 100 + i);
}

TEST_F(UnreadCompletionsTest, of_a_queue_that_is_gone_free_their_entries) {
    device.queues().detach(4);
    ASSERT_EQ(device.queues().destroy(4), Status::ok);
    send(16);
    device.run();
    EXPECT_EQ(device.queues().statistics().lost_completions, 0U);
    EXPECT_EQ(completion(15).user_data, 15U);
}

}  // namespace
}  // namespace plait::contract_test
