// Multicast sets keep their contract, by the C++ engine and by plait_forward, and the two agree.

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "../../engines/seed.hpp"
#include "agreement.hpp"
#include "forward_backends.hpp"

namespace plait::contract {
namespace {

using regmap::Status;

template <typename Forward>
class ForwardContract : public testing::Test {
  protected:
    ForwardAnswer run(const ForwardRow& row) { return forward_.run(std::span(&row, 1)).front(); }

    Forward forward_;
};

using Backends = testing::Types<ForwardReference, ForwardRtl>;
TYPED_TEST_SUITE(ForwardContract, Backends);

TYPED_TEST(ForwardContract, EachTargetHasItsIndex) {
    EXPECT_EQ(this->run({0b1010'0001, 8, 5, 3, {70, 80, 90, 99}}),
              (ForwardAnswer{.targets = 0b1010'0001,
                             .indices = {70, 0, 0, 0, 0, 80, 0, 90},
                             .copies = 3,
                             .includes_own = true,
                             .remote = 0b1000'0001}));
    EXPECT_EQ(this->run({0b0010, 4, 0, 1, {7}}),
              (ForwardAnswer{.targets = 0b0010, .indices = {0, 7}, .copies = 1, .remote = 0b0010}));
}

TYPED_TEST(ForwardContract, RefusesWhatDoesNotFitTheNode) {
    const ForwardAnswer refused{.status = Status::invalid_parameter};
    EXPECT_EQ(this->run({0b0011, 4, 0, 2, {1, 2}}).status, Status::ok);
    EXPECT_EQ(this->run({0b10001, 4, 0, 2, {1, 2}}), refused) << "target beyond the node";
    EXPECT_EQ(this->run({0b0111, 4, 0, 2, {1, 2}}), refused) << "too few indices";
    EXPECT_EQ(this->run({0b0001, 4, 0, 2, {1, 2}}), refused) << "too many indices";
    EXPECT_EQ(this->run({0b0011, 4, 0, 255, {1, 2}}), refused) << "too many indices";
    EXPECT_EQ(this->run({0, 4, 0, 0, {}}), refused) << "no target";
    EXPECT_EQ(this->run({0b0011, 4, 4, 2, {1, 2}}), refused) << "own rank beyond the node";
    EXPECT_EQ(this->run({0b0011, 4, 255, 2, {1, 2}}), refused) << "own rank beyond the node";
    EXPECT_EQ(this->run({0b0011, 0, 0, 2, {1, 2}}), refused) << "no node";
    EXPECT_EQ(this->run({0b0011, 9, 0, 2, {1, 2}}), refused) << "larger than any node";
    EXPECT_EQ(this->run({0b0011, 255, 0, 2, {1, 2}}), refused) << "larger than any node";
}

void expect_agreement(const std::vector<ForwardRow>& rows, ForwardRtl& rtl, Stalls stalls = {}) {
    const std::vector<ForwardAnswer> answers = rtl.run(rows, stalls);
    for (size_t i = 0; i < rows.size(); ++i)
        ASSERT_EQ(answers[i], ForwardReference::run(rows[i]))
            << "targets " << int{rows[i].targets} << " node " << int{rows[i].node_size} << " own "
            << int{rows[i].own_rank} << " indices " << int{rows[i].index_count};
}

// Every mask, with every size of node, own rank and number of indices about the limits.
TEST(ForwardAgreement, AllRows) {
    ForwardRtl rtl;
    for (uint32_t targets = 0; targets < 256; ++targets) {
        std::vector<ForwardRow> rows;
        for (uint8_t node = 0; node <= 10; ++node)
            for (uint8_t own = 0; own <= 10; ++own)
                for (uint8_t count = 0; count <= 10; ++count)
                    rows.push_back(
                        {static_cast<uint8_t>(targets), node, own, count, {11, 12, 13, 14, 15, 16, 17, 18}});
        expect_agreement(rows, rtl);
        if (testing::Test::HasFatalFailure()) return;
    }
}

void agree_at_random(uint64_t transactions) {
    const uint64_t seed = engines::test::seed_or(53);
    SCOPED_TRACE(engines::test::seed_message(seed));
    std::mt19937_64 random(seed);
    const auto byte = [&] { return static_cast<uint8_t>(random()); };
    ForwardRtl rtl(seed);
    for (uint64_t done = 0; done < transactions && !testing::Test::HasFatalFailure(); done += 200) {
        std::vector<ForwardRow> rows(200);
        for (ForwardRow& row : rows) {
            row = {byte(), static_cast<uint8_t>(1 + random() % 8), static_cast<uint8_t>(random() % 8), 0, {}};
            if (random() % 4) row.targets = static_cast<uint8_t>(row.targets & ((1u << row.node_size) - 1));
            row.index_count = random() % 8 ? static_cast<uint8_t>(std::popcount(row.targets)) : byte();
            if (random() % 16 == 0) row.node_size = byte();
            if (random() % 16 == 0) row.own_rank = byte();
            for (uint32_t& index : row.indices) index = static_cast<uint32_t>(random());
        }
        expect_agreement(rows, rtl, random_stalls(random));
    }
}

TEST(ForwardAgreement, RandomRowsUnderRandomStalls) { agree_at_random(20'000); }
TEST(ForwardAgreement, AMillionRandomRows) { agree_at_random(1'000'000); }

TEST(ForwardRate, OneRowACycle) {
    constexpr uint64_t latency_cycles = 1;
    const std::vector<ForwardRow> rows(5'000, {0xFF, 8, 3, 8, {1, 2, 3, 4, 5, 6, 7, 8}});
    ForwardRtl rtl;
    const uint64_t before = rtl.cycles();
    rtl.run(rows);
    EXPECT_EQ(rtl.cycles() - before, rows.size() + latency_cycles);
}

}  // namespace
}  // namespace plait::contract
