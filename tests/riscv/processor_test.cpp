#include <plait/sim/riscv/processor.hpp>

#include <gtest/gtest.h>

#include <plait/sim/riscv/local_memory.hpp>

namespace plait::sim {
namespace {

class Counted : public testing::Test {
  protected:
    Counted() { processor_.start(context_); }

    uint64_t instructions(uint32_t rounds) {
        regmap::ProcessorPort& port = memory_.port();
        reinterpret_cast<regmap::FirmwareEvent*>(port.events)->number = rounds;
        ++port.event_produced;
        processor_.serve(context_);
        return processor_.instructions();
    }

    Processor processor_{FirmwareImage::load(PLAIT_COUNTED_IMAGE), 1'000'000};
    LocalMemory memory_{processor_, {}};
    FirmwareContext context_{"device 0", &memory_.port(), memory_.stack(), memory_.pages(), {}, nullptr};
};

TEST_F(Counted, InstructionsNotBytes) {
    const uint64_t one = instructions(1);
    for (const uint32_t rounds : {2U, 3U, 10U, 1000U, 100'000U})
        EXPECT_EQ(instructions(rounds), one + 5ULL * (rounds - 1)) << rounds;
}

TEST_F(Counted, RepeatablyWhateverRanBefore) {
    const uint64_t first = instructions(17);
    (void)instructions(5);
    EXPECT_EQ(instructions(17), first);
}

TEST_F(Counted, AddsUp) {
    const uint64_t before = processor_.total_instructions();
    const uint64_t both = instructions(3) + instructions(4);
    EXPECT_EQ(processor_.total_instructions(), before + both);
}

TEST_F(Counted, TheWatchdogEndsWhatDoesNotEnd) {
    EXPECT_FALSE(processor_.fault());
    (void)instructions(300'000);
    ASSERT_TRUE(processor_.fault());
    EXPECT_NE(processor_.fault()->summary.find("no end after"), std::string::npos);
    EXPECT_NE(processor_.fault()->summary.find("plait_serve+"), std::string::npos);
}

TEST_F(Counted, KnowsHowDeepTheStackWas) {
    (void)instructions(1);
    EXPECT_LE(memory_.stack_used_bytes(), 256U);
}

}  // namespace
}  // namespace plait::sim
