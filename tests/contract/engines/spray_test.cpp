// The spray selectors keep their contract, over the C++ engine and as plait_spray, and the two agree.

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "agreement.hpp"
#include "spray_backends.hpp"

namespace plait::contract {
namespace {

using engines::SprayConfig;
using engines::SprayPolicy;
using regmap::SprayOpcode;
using regmap::Status;

template <typename Sprays>
class SprayContract : public testing::Test {
  protected:
    static constexpr SprayConfig four_planes{SprayPolicy::spray, 4, 32, 5, 3};
    static constexpr uint16_t packet_bytes = 4096;

    SprayAnswer run(const SprayCommand& command) { return sprays_.run(std::span(&command, 1)).front(); }
    SprayAnswer configure(uint32_t qp, const SprayConfig& config) {
        return run({.opcode = SprayOpcode::configure, .qp = qp, .config = config});
    }
    SprayAnswer credit(uint8_t plane, uint16_t bytes) {
        return run({.opcode = SprayOpcode::credit, .bytes = bytes, .plane = plane});
    }
    void credit_all(uint32_t packets) {
        for (uint8_t plane = 0; plane < regmap::max_planes; ++plane)
            for (uint32_t i = 0; i < packets; ++i) credit(plane, packet_bytes);
    }
    SprayAnswer choose(uint32_t qp, uint8_t up = 0xFF) {
        return run({.opcode = SprayOpcode::choose, .qp = qp, .up = up, .bytes = packet_bytes});
    }
    SprayAnswer value(SprayOpcode opcode, uint32_t qp, uint32_t index, bool flag = false) {
        return run({.opcode = opcode, .qp = qp, .index = static_cast<uint8_t>(index), .flag = flag});
    }
    SprayAnswer plane(SprayOpcode opcode, uint32_t qp, uint8_t number, bool flag = false) {
        return run({.opcode = opcode, .qp = qp, .plane = number, .flag = flag});
    }

    Sprays sprays_;
};

using Backends = testing::Types<SprayReference, SprayRtl>;
TYPED_TEST_SUITE(SprayContract, Backends);

TYPED_TEST(SprayContract, TheFirstCommandAfterResetWorks) {
    EXPECT_EQ(this->configure(1023, this->four_planes).status, Status::ok);
    this->credit_all(1);
    EXPECT_TRUE(this->choose(1023).granted);
}

TYPED_TEST(SprayContract, ResetLeavesNothing) {
    for (uint32_t qp = 0; qp < spray_queue_pairs; ++qp)
        EXPECT_EQ(this->choose(qp), SprayAnswer{.status = Status::invalid_qp}) << qp;
    this->configure(0, this->four_planes);
    EXPECT_FALSE(this->choose(0).granted) << "no plane has credit";
}

TYPED_TEST(SprayContract, EachGrantTakesItsBytes) {
    this->configure(0, this->four_planes);
    this->configure(1, this->four_planes);
    this->credit_all(2);
    uint32_t granted = 0;
    for (uint32_t i = 0; i < 30; ++i) granted += this->choose(i % 2).granted;
    EXPECT_EQ(granted, 8U) << "two on each of four planes";
    this->credit(3, 1);
    for (uint8_t lane = 0; lane < 4; ++lane)
        while (this->plane(SprayOpcode::gone, 0, lane, true).status == Status::ok) {
        }
    const SprayAnswer answer = this->choose(0, 0b1000);
    EXPECT_TRUE(answer.granted);
    EXPECT_EQ(answer.path.plane, 3);
    EXPECT_FALSE(this->choose(0, 0b1000).granted);
    this->credit(3, this->packet_bytes - 1);
    EXPECT_FALSE(this->choose(0, 0b1000).granted) << "the packet before it took more than there was";
    this->credit(3, 1);
    EXPECT_TRUE(this->choose(0, 0b1000).granted);
}

TYPED_TEST(SprayContract, CreditEndsBelowTwoMebibytes) {
    for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(this->credit(0, 0xFFFF).status, Status::ok);
    EXPECT_EQ(this->credit(0, 32).status, Status::out_of_range);
    EXPECT_EQ(this->credit(0, 31).status, Status::ok);
    EXPECT_EQ(this->credit(0, 1).status, Status::out_of_range);
    EXPECT_EQ(this->credit(1, 0xFFFF).status, Status::ok);
}

TYPED_TEST(SprayContract, FewPacketsKeepPlanesEven) {
    this->configure(7, this->four_planes);
    this->credit_all(100);
    std::set<uint32_t> planes;
    for (uint32_t i = 0; i < 4; ++i) planes.insert(this->choose(7).path.plane);
    EXPECT_EQ(planes.size(), 4U);
    const SprayAnswer fifth = this->choose(7);
    EXPECT_EQ(fifth.due, 0b1111);
    const uint8_t others = static_cast<uint8_t>(0b1111 & ~(1U << fifth.path.plane));
    EXPECT_EQ(this->run({.opcode = SprayOpcode::due, .qp = 7, .up = 0xFF}).due, others);
    EXPECT_FALSE(this->choose(7, static_cast<uint8_t>(1U << fifth.path.plane)).due == others);
}

TYPED_TEST(SprayContract, MarkedValuesSitOutOneRotation) {
    this->configure(2, {SprayPolicy::spray, 1, 4, 1, 3});
    this->credit_all(100);
    const auto next = [&] {
        const SprayAnswer answer = this->choose(2);
        this->plane(SprayOpcode::gone, 2, 0, true);
        return answer.path.entropy_index;
    };
    const uint32_t first = next();
    this->value(SprayOpcode::acknowledged, 2, (first + 1U) % 4, true);
    EXPECT_EQ(next(), (first + 2U) % 4);
    EXPECT_EQ(next(), (first + 3U) % 4);
    EXPECT_EQ(next(), first);
    EXPECT_EQ(next(), (first + 1U) % 4);
    for (uint32_t i = 0; i < 4; ++i) this->value(SprayOpcode::acknowledged, 2, i, true);
    EXPECT_EQ(next(), (first + 2U) % 4) << "all sit out";
    EXPECT_EQ(next(), (first + 3U) % 4);
}

TYPED_TEST(SprayContract, FailedValuesAreTheLastResortInTheirOrder) {
    this->configure(2, {SprayPolicy::spray, 1, 4, 1, 200});
    this->credit_all(100);
    for (const uint32_t index : {3U, 1U, 0U, 1U}) this->value(SprayOpcode::lost, 2, index);
    EXPECT_EQ(this->choose(2).path.entropy_index, 2);
    EXPECT_EQ(this->choose(2).path.entropy_index, 2);
    EXPECT_EQ(this->value(SprayOpcode::lost, 2, 2).failed, 4U);
    EXPECT_EQ(this->choose(2).path.entropy_index, 3);
    for (const uint32_t index : {3U, 0U, 1U, 2U, 3U})
        EXPECT_EQ(this->run({.opcode = SprayOpcode::probe, .qp = 2}).path.entropy_index, index);
    EXPECT_EQ(this->value(SprayOpcode::probe_returned, 2, 0).failed, 3U);
    EXPECT_EQ(this->choose(2).path.entropy_index, 0);
    EXPECT_EQ(this->value(SprayOpcode::deny, 2, 0).failed, 3U);
    EXPECT_EQ(this->choose(2).path.entropy_index, 3);
    EXPECT_EQ(this->plane(SprayOpcode::restore, 2, 0).failed, 0U);
    EXPECT_NE(this->choose(2).path.entropy_index, 0);
    for (uint32_t i = 0; i < 4; ++i) this->value(SprayOpcode::deny, 2, i);
    EXPECT_FALSE(this->choose(2).granted);
}

TYPED_TEST(SprayContract, PlanesAreSuspectedExcludedAndRestored) {
    this->configure(3, this->four_planes);
    this->credit_all(100);
    for (uint32_t i = 0; i < 2; ++i) EXPECT_EQ(this->value(SprayOpcode::lost, 3, 2).suspect, 0);
    EXPECT_EQ(this->value(SprayOpcode::lost, 3, 6).suspect, 0b100);
    const SprayAnswer excluded = this->plane(SprayOpcode::exclude, 3, 2);
    EXPECT_EQ(excluded.usable, 0b1011);
    EXPECT_EQ(excluded.suspect, 0);
    for (uint32_t i = 0; i < 20; ++i) EXPECT_NE(this->choose(3).path.plane, 2);
    EXPECT_FALSE(this->choose(3, 0b100).granted);
    EXPECT_EQ(this->plane(SprayOpcode::restore, 3, 2).usable, 0b1111);
    EXPECT_TRUE(this->choose(3, 0b100).granted);
}

TYPED_TEST(SprayContract, RoundRobinWaitsForItsPlane) {
    this->configure(4, {SprayPolicy::round_robin, 2, 4, 1, 3});
    this->credit_all(100);
    const uint32_t first = this->choose(4).path.entropy_index;
    const uint32_t second = (first + 1) % 4;
    EXPECT_FALSE(this->choose(4, static_cast<uint8_t>(1U << first % 2)).granted);
    EXPECT_EQ(this->choose(4).path.entropy_index, second);
    this->value(SprayOpcode::lost, 4, (first + 2) % 4);
    EXPECT_EQ(this->choose(4).path.entropy_index, (first + 3) % 4);
}

TYPED_TEST(SprayContract, ASinglePathMovesWhenItFails) {
    this->configure(5, {SprayPolicy::single_path, 4, 8, 1, 3});
    this->credit_all(100);
    const engines::PathChoice path = this->choose(5).path;
    EXPECT_EQ(this->choose(5).path.entropy_index, path.entropy_index);
    EXPECT_FALSE(this->choose(5, static_cast<uint8_t>(~(1U << path.plane))).granted);
    this->value(SprayOpcode::lost, 5, path.entropy_index);
    EXPECT_EQ(this->choose(5).path.entropy_index, (path.entropy_index + 4) % 8) << "of the same plane";
    this->plane(SprayOpcode::exclude, 5, path.plane);
    EXPECT_EQ(this->choose(5).path.plane, (path.plane + 1) % 4);
}

TYPED_TEST(SprayContract, RefusedCommandsChangeNothing) {
    this->configure(1, this->four_planes);
    const SprayCommand look{.opcode = SprayOpcode::path, .qp = 1, .index = 9};
    const SprayAnswer before = this->run(look);
    const auto refused = [&](Status status, const SprayCommand& command) {
        EXPECT_EQ(this->run(command), SprayAnswer{.status = status}) << command;
        EXPECT_EQ(this->run(look), before);
    };
    refused(Status::invalid_opcode, {.opcode = static_cast<SprayOpcode>(14), .qp = 1});
    refused(Status::invalid_qp, {.opcode = SprayOpcode::due, .qp = 2, .up = 1});
    refused(Status::invalid_qp, {.opcode = SprayOpcode::due, .qp = spray_queue_pairs, .up = 1});
    refused(Status::invalid_qp,
            {.opcode = SprayOpcode::configure, .qp = spray_queue_pairs + 1, .config = this->four_planes});
    refused(Status::invalid_parameter, {.opcode = SprayOpcode::choose, .qp = 1, .up = 15});
    refused(Status::invalid_state, {.opcode = SprayOpcode::gone, .qp = 1, .plane = 1});
    for (const SprayOpcode opcode : {SprayOpcode::gone, SprayOpcode::exclude, SprayOpcode::restore})
        refused(Status::invalid_parameter, {.opcode = opcode, .qp = 1, .plane = 4});
    for (const SprayOpcode opcode : {SprayOpcode::acknowledged, SprayOpcode::lost,
                                     SprayOpcode::probe_returned, SprayOpcode::deny, SprayOpcode::path})
        refused(Status::invalid_parameter, {.opcode = opcode, .qp = 1, .index = 32});
    refused(Status::invalid_parameter, {.opcode = SprayOpcode::credit, .bytes = 1, .plane = 8});
    for (const SprayConfig& config :
         {SprayConfig{SprayPolicy::spray, 0, 8, 1, 1}, SprayConfig{SprayPolicy::spray, 9, 9, 1, 1},
          SprayConfig{SprayPolicy::spray, 4, 0, 1, 1}, SprayConfig{SprayPolicy::spray, 4, 6, 1, 1},
          SprayConfig{SprayPolicy::spray, 3, 256, 1, 1}, SprayConfig{SprayPolicy::spray, 4, 260, 1, 1},
          SprayConfig{SprayPolicy::spray, 4, 8, 1, 0}, SprayConfig{static_cast<SprayPolicy>(3), 4, 8, 1, 1}})
        refused(Status::invalid_parameter, {.opcode = SprayOpcode::configure, .qp = 1, .config = config});
}

// Every number of planes, and of values on each: their paths, and where the selectors begin.
TEST(SprayAgreement, AllShapes) {
    SprayReference reference;
    SprayRtl rtl;
    for (uint32_t planes = 1; planes <= regmap::max_planes; ++planes) {
        for (uint32_t values = planes; values <= regmap::max_entropy_values; values += planes) {
            std::vector<SprayCommand> commands;
            for (const SprayPolicy policy :
                 {SprayPolicy::spray, SprayPolicy::round_robin, SprayPolicy::single_path}) {
                commands.push_back({.opcode = SprayOpcode::configure,
                                    .config = {policy, planes, values, values * 77777, 4}});
                commands.push_back({.opcode = SprayOpcode::credit, .bytes = 400, .plane = 0});
                for (uint8_t i = 0; i < 4; ++i)
                    commands.push_back({.opcode = SprayOpcode::choose, .up = 0xFF, .bytes = 100});
                commands.push_back({.opcode = SprayOpcode::path, .index = static_cast<uint8_t>(values - 1)});
            }
            ASSERT_EQ(rtl.run(commands), reference.run(commands)) << planes << " planes, values " << values;
        }
    }
}

// Commands that meet every part of the engine, made while the reference carries them out.
class RandomCommands {
  public:
    explicit RandomCommands(uint64_t seed) : random_(seed) {}

    SprayCommand next(const SprayReference& sprays) {
        // Few queue pairs, so that they meet in the pipeline; now and then any, also one that does not exist.
        const uint32_t qp = below(50) ? below(4) * 300 : below(1100);
        if (qp >= spray_queue_pairs || sprays.queue_pair(qp).config.planes == 0 || below(400) == 0)
            return below(8) ? configure(qp) : any(qp);
        const SprayReference::QueuePair& pair = sprays.queue_pair(qp);
        // By periods: much that goes wrong, or little.
        const uint32_t trouble = made_++ / 700 % 3 * 6;
        if (below(20) < trouble) return feedback(qp, pair);
        switch (below(10)) {
            case 0: return {.opcode = SprayOpcode::credit, .bytes = below16(0x8000), .plane = below8(8)};
            case 1:
            case 2:
            case 3:
            case 4: {
                uint32_t plane = below(pair.config.planes);
                if (pair.in_flight[plane] == 0 && below(8)) plane = busiest(pair);
                return {.opcode = SprayOpcode::gone,
                        .qp = qp,
                        .plane = static_cast<uint8_t>(plane),
                        .flag = below(4) != 0};
            }
            case 5: return {.opcode = SprayOpcode::due, .qp = qp, .up = up()};
            default:
                return {.opcode = SprayOpcode::choose,
                        .qp = qp,
                        .up = up(),
                        .bytes = static_cast<uint16_t>(below(3) ? 4200 : below(0x2000))};
        }
    }

  private:
    uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
    uint8_t below8(uint32_t limit) { return static_cast<uint8_t>(below(limit)); }
    uint16_t below16(uint32_t limit) { return static_cast<uint16_t>(below(limit)); }
    uint8_t up() { return below(3) ? uint8_t{0xFF} : below8(256); }

    static uint32_t busiest(const SprayReference::QueuePair& pair) {
        return static_cast<uint32_t>(std::ranges::max_element(pair.in_flight) - pair.in_flight.begin());
    }

    SprayCommand feedback(uint32_t qp, const SprayReference::QueuePair& pair) {
        SprayCommand command{.qp = qp, .plane = below8(pair.config.planes), .flag = below(2) != 0};
        command.index = static_cast<uint8_t>(below(pair.config.entropy_values));
        constexpr std::array kinds{
            SprayOpcode::acknowledged,   SprayOpcode::acknowledged, SprayOpcode::acknowledged,
            SprayOpcode::lost,           SprayOpcode::lost,         SprayOpcode::probe_returned,
            SprayOpcode::probe_returned, SprayOpcode::probe,        SprayOpcode::probe,
            SprayOpcode::path,           SprayOpcode::exclude,      SprayOpcode::restore};
        command.opcode = kinds[below(kinds.size())];
        if (command.opcode == SprayOpcode::exclude && below(3)) command.opcode = SprayOpcode::lost;
        if (below(60) == 0) command.opcode = SprayOpcode::deny;
        if (below(200) == 0) command.opcode = SprayOpcode::forget;
        return command;
    }

    SprayCommand configure(uint32_t qp) {
        const uint32_t planes = 1 + below(8);
        const uint32_t each = below(2) ? 1 + below(4) : 1 + below(regmap::max_entropy_values / planes);
        return {.opcode = SprayOpcode::configure,
                .qp = qp,
                .config = {static_cast<SprayPolicy>(std::max<int>(0, static_cast<int>(below(5)) - 2)), planes,
                           planes * each, static_cast<uint32_t>(random_()), 1 + below(5)}};
    }

    SprayCommand any(uint32_t qp) {
        SprayCommand command{static_cast<SprayOpcode>(below(16)),
                             qp,
                             below8(256),
                             below16(0x10000),
                             below8(10),
                             below8(256),
                             below(2) != 0};
        command.config = {static_cast<SprayPolicy>(below(4)), below(10), below(300), below(1000), below(3)};
        return command;
    }

    std::mt19937_64 random_;
    uint32_t made_ = 0;
};

struct Seen {
    uint64_t granted = 0, waited = 0, refused = 0, probed = 0, failed = 0, suspect = 0;

    void count(const SprayCommand& command, const SprayAnswer& answer) {
        if (answer.status != Status::ok) ++refused;
        else if (command.opcode == SprayOpcode::choose) ++(answer.granted ? granted : waited);
        else if (command.opcode == SprayOpcode::probe && answer.granted) ++probed;
        failed += answer.failed != 0;
        suspect += answer.suspect != 0;
    }
    [[nodiscard]] uint64_t fewest() const {
        return std::min({granted, waited, refused, probed, failed, suspect});
    }
};

void agree_at_random(uint64_t transactions) {
    contract::agree_at_random<SprayReference, SprayRtl, RandomCommands, Seen>(70, transactions);
}

TEST(SprayAgreement, RandomCommandsUnderRandomStalls) { agree_at_random(20'000); }
TEST(SprayAgreement, AMillionRandomCommands) { agree_at_random(1'000'000); }

TEST(SprayRate, OnePacketACycle) {
    constexpr uint64_t latency_cycles = 3;
    SprayRtl rtl;
    std::vector<SprayCommand> begin{
        {.opcode = SprayOpcode::configure, .config = {SprayPolicy::spray, 4, 256, 1, 4}}};
    for (uint8_t plane = 0; plane < 4; ++plane)
        begin.push_back({.opcode = SprayOpcode::credit, .bytes = 0xFFFF, .plane = plane});
    rtl.run(begin);
    std::vector<SprayCommand> packets;  // all of one queue pair: each needs what the one before it left
    for (uint32_t i = 0; i < 4000; ++i) {
        packets.push_back({.opcode = SprayOpcode::choose, .up = 0xF, .bytes = 60});
        packets.push_back(
            {.opcode = SprayOpcode::acknowledged, .index = static_cast<uint8_t>(i), .flag = i % 3 == 0});
    }
    const uint64_t before = rtl.cycles();
    const std::vector<SprayAnswer> answers = rtl.run(packets);
    EXPECT_EQ(rtl.cycles() - before, packets.size() + latency_cycles);
    for (size_t i = 0; i < answers.size(); i += 2) ASSERT_TRUE(answers[i].granted) << i;
}

TEST(SprayRate, ConfigureDrawsForEachPlane) {
    SprayRtl rtl;
    for (uint32_t planes = 1; planes <= regmap::max_planes; ++planes) {
        const SprayCommand command{.opcode = SprayOpcode::configure,
                                   .config = {SprayPolicy::spray, planes, planes, 1, 4}};
        EXPECT_EQ(rtl.ask(std::span(&command, 1)).latency, 4 + 34 * (planes + 1)) << planes;
    }
}

}  // namespace
}  // namespace plait::contract
