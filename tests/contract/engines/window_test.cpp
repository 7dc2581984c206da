// The receive windows keep their contract, over the C++ engine and as plait_rx_window, and the two agree.

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "agreement.hpp"
#include "window_backends.hpp"

namespace plait::contract {
namespace {

using engines::psn_add;
using engines::psn_mask;
using engines::Verdict;
using regmap::Status;
using regmap::WindowOpcode;

template <typename Windows>
class WindowContract : public testing::Test {
  protected:
    WindowAnswer run(WindowOpcode opcode, uint32_t qp, uint32_t psn, uint16_t window_packets = 0) {
        const WindowCommand command{opcode, qp, psn, window_packets};
        return windows_.run(std::span(&command, 1)).front();
    }
    WindowAnswer open(uint32_t qp, uint32_t psn, uint16_t window_packets) {
        return run(WindowOpcode::open, qp, psn, window_packets);
    }
    WindowAnswer receive(uint32_t qp, uint32_t psn) { return run(WindowOpcode::receive, qp, psn); }
    WindowAnswer refuse(uint32_t qp, uint32_t psn) { return run(WindowOpcode::refuse, qp, psn); }
    WindowAnswer read(uint32_t qp, uint32_t psn) { return run(WindowOpcode::read, qp, psn); }
    WindowAnswer close(uint32_t qp) { return run(WindowOpcode::close, qp, 0); }

    Windows windows_;
};

using Backends = testing::Types<WindowReference, WindowRtl>;
TYPED_TEST_SUITE(WindowContract, Backends);

TYPED_TEST(WindowContract, TheFirstCommandAfterResetWorks) {
    EXPECT_EQ(this->open(1023, 0xFFFFFF, 512).status, Status::ok);
    EXPECT_EQ(this->receive(1023, 0xFFFFFF).verdict.cumulative_psn, 0u);
}

TYPED_TEST(WindowContract, ResetLeavesAllClosed) {
    for (uint32_t qp = 0; qp < window_queue_pairs; ++qp)
        EXPECT_EQ(this->receive(qp, 0), WindowAnswer{.status = Status::invalid_qp}) << qp;
}

TYPED_TEST(WindowContract, InOrderAcrossTheWrap) {
    ASSERT_EQ(this->open(5, 0xFFFFFE, 64).status, Status::ok);
    for (uint32_t psn : {0xFFFFFEu, 0xFFFFFFu, 0u, 1u}) {
        const WindowAnswer answer = this->receive(5, psn);
        EXPECT_EQ(answer.verdict.verdict, Verdict::accept);
        EXPECT_EQ(answer.verdict.cumulative_psn, psn_add(psn, 1));
        EXPECT_EQ(answer.highest, psn_add(psn, 1));
        EXPECT_TRUE(answer.verdict.advanced);
        EXPECT_FALSE(answer.verdict.hole);
    }
    const WindowAnswer again = this->receive(5, 0xFFFFFF);
    EXPECT_EQ(again.verdict.verdict, Verdict::duplicate);
    EXPECT_FALSE(again.verdict.advanced);
}

TYPED_TEST(WindowContract, AFilledGapMovesOverAllThatWaits) {
    for (const uint16_t size : std::array<uint16_t, 4>{64, 128, 256, 512}) {
        for (uint32_t first : {0u, 100u, 511u, 0xFFFFFFu}) {
            ASSERT_EQ(this->open(7, first, size).status, Status::ok);
            for (uint32_t i = size - 1u; i > 0; --i) {
                const WindowAnswer answer = this->receive(7, psn_add(first, i));
                ASSERT_EQ(answer.verdict.verdict, Verdict::accept);
                ASSERT_EQ(answer.verdict.cumulative_psn, first);
                ASSERT_TRUE(answer.verdict.hole);
            }
            EXPECT_EQ(this->receive(7, psn_add(first, size)).verdict.verdict, Verdict::out_of_window);
            const WindowAnswer filled = this->receive(7, first);
            EXPECT_TRUE(filled.verdict.advanced);
            EXPECT_FALSE(filled.verdict.hole);
            EXPECT_EQ(filled.verdict.cumulative_psn, psn_add(first, size));
            EXPECT_EQ(this->receive(7, psn_add(first, size + 1u)).verdict.verdict, Verdict::accept);
            ASSERT_EQ(this->close(7).status, Status::ok);
        }
    }
}

TYPED_TEST(WindowContract, TheRingIsEmptyWhereTheWindowPassed) {
    this->open(0, 0, 64);
    for (uint32_t round = 0; round < 20; ++round) {
        const uint32_t base = round * 63;
        for (uint32_t i : {2u, 5u, 1u, 0u})
            ASSERT_EQ(this->receive(0, base + i).verdict.verdict, Verdict::accept);
        ASSERT_EQ(this->read(0, base).bitmap[0], 0b100111u);
        for (uint32_t i : {4u, 3u}) ASSERT_EQ(this->receive(0, base + i).verdict.verdict, Verdict::accept);
        for (uint32_t i = 6; i < 63; ++i)
            ASSERT_EQ(this->receive(0, base + i).verdict.verdict, Verdict::accept);
    }
}

TYPED_TEST(WindowContract, HalfTheSpaceAheadIsADuplicate) {
    this->open(3, 0x123456, 512);
    EXPECT_EQ(this->receive(3, psn_add(0x123456, 0x7FFFFF)).verdict.verdict, Verdict::out_of_window);
    EXPECT_EQ(this->receive(3, psn_add(0x123456, 0x800000)).verdict.verdict, Verdict::duplicate);
}

TYPED_TEST(WindowContract, ARefusedPacketNeverCame) {
    this->open(2, 10, 64);
    for (uint32_t psn : {11u, 12u, 14u}) this->receive(2, psn);
    EXPECT_EQ(this->receive(2, 10).verdict.cumulative_psn, 13u);
    const WindowAnswer back = this->refuse(2, 10);
    EXPECT_EQ(back.status, Status::ok);
    EXPECT_EQ(back.verdict.cumulative_psn, 10u);
    EXPECT_EQ(back.highest, 15u);
    EXPECT_EQ(this->read(2, 10).bitmap[0], 0b10110u);
    EXPECT_EQ(this->refuse(2, 10).status, Status::invalid_state) << "once";
    EXPECT_EQ(this->receive(2, 20).verdict.verdict, Verdict::accept);
    EXPECT_EQ(this->receive(2, 11).verdict.verdict, Verdict::duplicate);
    EXPECT_EQ(this->refuse(2, 14).status, Status::invalid_state) << "not the last one";
    EXPECT_EQ(this->refuse(2, 20).highest, 15u);
}

TYPED_TEST(WindowContract, RefusedCommandsChangeNothing) {
    this->open(1, 1000, 64);
    this->receive(1, 1002);
    const WindowAnswer before = this->read(1, 1000);
    const auto refused = [&](Status status, WindowCommand command) {
        EXPECT_EQ(this->windows_.run(std::span(&command, 1)).front(), WindowAnswer{.status = status});
        EXPECT_EQ(this->read(1, 1000), before);
    };
    refused(Status::invalid_opcode, {static_cast<WindowOpcode>(5), 1, 1000, 64});
    refused(Status::invalid_opcode, {static_cast<WindowOpcode>(255), 1, 1000, 64});
    refused(Status::invalid_state, {WindowOpcode::open, 1, 7, 64});
    refused(Status::invalid_state, {WindowOpcode::refuse, 1, 1001, 0});
    refused(Status::invalid_parameter, {WindowOpcode::read, 1, 1000 + (1 << 22), 0});
    refused(Status::invalid_parameter, {WindowOpcode::read, 1, psn_add(999, uint32_t{0} - (1 << 22)), 0});
    for (WindowOpcode opcode : {WindowOpcode::receive, WindowOpcode::refuse, WindowOpcode::read,
                                WindowOpcode::open, WindowOpcode::close}) {
        refused(Status::invalid_qp, {opcode, window_queue_pairs + 1, 1000, 64});
        refused(Status::invalid_qp, {opcode, 0xFFFFFF, 1000, 64});
        if (opcode != WindowOpcode::open) refused(Status::invalid_qp, {opcode, 2, 1000, 64});
    }
    for (const uint16_t size : std::array<uint16_t, 9>{0, 1, 32, 63, 65, 96, 1024, 0x8000, 0x8040}) {
        refused(Status::invalid_parameter, {WindowOpcode::open, 2, 1000, size});
        EXPECT_EQ(this->receive(2, 1000).status, Status::invalid_qp);
    }
}

TYPED_TEST(WindowContract, QueuePairsDoNotMeet) {
    for (uint32_t qp = 0; qp < window_queue_pairs; ++qp)
        this->open(qp, qp * 100, static_cast<uint16_t>(64u << qp % 4));
    for (uint32_t step = 1; step < 4; ++step)
        for (uint32_t qp = 0; qp < window_queue_pairs; ++qp)
            ASSERT_EQ(this->receive(qp, qp * 100 + step).verdict.cumulative_psn, qp * 100);
    this->close(500);
    for (uint32_t qp = 0; qp < window_queue_pairs; ++qp) {
        if (qp == 500) continue;
        ASSERT_EQ(this->receive(qp, qp * 100).verdict.cumulative_psn, qp * 100 + 4);
    }
}

// Commands that meet every part of the engine, made while the reference carries them out.
class RandomCommands {
  public:
    explicit RandomCommands(uint64_t seed) : random_(seed) {}

    WindowCommand next(const WindowReference& windows) {
        // Few queue pairs, so that they meet in the pipeline; now and then any, also one that does not exist.
        const uint32_t qp = below(16) ? below(4) * 300 : below(1100);
        if (qp >= window_queue_pairs || !windows.is_open(qp) || below(300) == 0) return any(qp);
        const engines::RxWindow& window = windows.window(qp);
        const uint32_t size = window.window_packets();
        const uint32_t expected = window.next_expected();
        switch (below(16)) {
            case 0: return {WindowOpcode::read, qp, psn_add(expected, below(2 * size) - size / 2), 0};
            case 1:
                if (below(4)) return {WindowOpcode::refuse, qp, last_, 0};
                return {WindowOpcode::receive, qp, psn_add(expected, size - 1 + below(3)), 0};
            case 2: return {WindowOpcode::receive, qp, psn_add(expected, ~below(600)), 0};
            case 3: return {WindowOpcode::receive, qp, below(psn_mask), 0};
            case 4:
            case 5: last_ = psn_add(expected, below(size)); break;
            case 6:
            case 7:
            case 8:
            case 9:
            case 10: last_ = psn_add(expected, below(12)); break;
            default: last_ = expected;
        }
        return {WindowOpcode::receive, qp, last_, 0};
    }

  private:
    uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }

    WindowCommand any(uint32_t qp) {
        const auto size = static_cast<uint16_t>(below(8) ? 64u << below(4) : below(0x10000));
        const uint32_t psn = below(2) ? below(psn_mask + 1) : psn_add(0xFFFFFF, ~below(300));
        if (below(2)) return {WindowOpcode::open, qp, psn, size};
        return {static_cast<WindowOpcode>(below(8)), qp, psn, size};
    }

    std::mt19937_64 random_;
    uint32_t last_ = 0;
};

struct Seen {
    uint64_t accepted = 0, advanced = 0, duplicate = 0, out_of_window = 0, taken_back = 0, refused = 0;

    void count(const WindowCommand& command, const WindowAnswer& answer) {
        if (answer.status != Status::ok) ++refused;
        else if (command.opcode == WindowOpcode::refuse) ++taken_back;
        else if (command.opcode != WindowOpcode::receive) return;
        else if (answer.verdict.verdict == Verdict::duplicate) ++duplicate;
        else if (answer.verdict.verdict == Verdict::out_of_window) ++out_of_window;
        else ++(answer.verdict.advanced ? advanced : accepted);
    }
    [[nodiscard]] uint64_t fewest() const {
        return std::min({accepted, advanced, duplicate, out_of_window, taken_back, refused});
    }
};

void agree_at_random(uint64_t transactions) {
    contract::agree_at_random<WindowReference, WindowRtl, RandomCommands, Seen>(50, transactions);
}

TEST(WindowAgreement, RandomCommandsUnderRandomStalls) { agree_at_random(20'000); }
TEST(WindowAgreement, AMillionRandomCommands) { agree_at_random(1'000'000); }

// Every sequence of five packets at the places where a window of 64 decides, the first before the PSNs wrap.
TEST(WindowAgreement, AllShortSequences) {
    constexpr std::array<uint32_t, 6> places{psn_mask, 0, 1, 2, 63, 64};
    constexpr uint32_t length = 5, first = 0xFFFFFE;
    WindowReference reference;
    WindowRtl rtl;
    std::array<uint32_t, length> digits{};
    for (bool more = true; more;) {
        std::vector<WindowCommand> commands{{WindowOpcode::open, 9, first, 64}};
        for (uint32_t digit : digits)
            commands.push_back({WindowOpcode::receive, 9, psn_add(first, places[digit]), 0});
        commands.push_back({WindowOpcode::read, 9, psn_add(first, psn_mask), 0});
        commands.push_back({WindowOpcode::close, 9, 0, 0});
        ASSERT_EQ(rtl.run(commands), reference.run(commands));
        more = false;
        for (uint32_t& digit : digits) {
            digit = (digit + 1) % places.size();
            if (digit != 0) {
                more = true;
                break;
            }
        }
    }
}

TEST(WindowRate, OnePacketACycle) {
    constexpr uint64_t latency_cycles = 3;
    WindowRtl rtl;
    const WindowCommand open{WindowOpcode::open, 4, 0, 512};
    rtl.run(std::span(&open, 1));
    std::vector<WindowCommand> packets;  // all of one queue pair: each needs what the one before it left
    for (uint32_t psn = 0; psn < 10'000; ++psn) packets.push_back({WindowOpcode::receive, 4, psn ^ 3, 0});
    const uint64_t before = rtl.cycles();
    const std::vector<WindowAnswer> answers = rtl.run(packets);
    EXPECT_EQ(rtl.cycles() - before, packets.size() + latency_cycles);
    EXPECT_EQ(answers.back().verdict.cumulative_psn, 10'000u);
}

}  // namespace
}  // namespace plait::contract
