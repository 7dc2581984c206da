// The two clocks, and DeviceLink to a simulated device. Each test runs one SystemC simulation: ctest gives it
// a process.
#include <gtest/gtest.h>

#include <plait/sim/bridge/kernel.hpp>
#include <plait/sim/bridge/sim_link.hpp>

#include "scripted_firmware.hpp"

namespace plait::sim::testing {
namespace {

constexpr uint64_t ns = 1000;

struct Simulation {
    ScriptedCluster cluster{small_cluster()};
    Kernel kernel{"kernel", cluster.queue()};
    HostPrograms programs{"programs", kernel};

    void run() { sc_core::sc_start(); }
};

struct Ticker {
    EventQueue& queue;
    Kernel& kernel;
    uint64_t period_ps;
    uint64_t ticks = 0;
    sc_core::sc_event* every_tenth = nullptr;
    std::vector<uint64_t> notified_ps = {};

    static void tick(void* object, uint64_t) {
        auto& self = *static_cast<Ticker*>(object);
        if (++self.ticks % 10 == 0 && self.every_tenth != nullptr) {
            self.notified_ps.push_back(self.queue.now_ps());
            self.kernel.notify(*self.every_tenth);
        }
        if (self.ticks < 1000)
            self.queue.schedule(self.queue.now_ps() + self.period_ps, 0, &Ticker::tick, object, 0);
    }
};

TEST(Kernel, BothClocksAgreeWheneverAProcessRuns) {
    Simulation simulation;
    Ticker ticker{simulation.cluster.queue(), simulation.kernel, 7 * ns};
    simulation.cluster.queue().schedule(0, 0, &Ticker::tick, &ticker, 0);
    int checks = 0;
    for (const uint64_t period_ns : {3U, 5U, 70U}) {
        simulation.programs.spawn("sleeper", [&, period_ns] {
            for (int i = 0; i < 200; ++i) {
                Kernel::sleep(period_ns);
                EXPECT_EQ(simulation.cluster.queue().now_ps(), Kernel::now_ps());
                // Every tick up to this time, this one included, has been.
                EXPECT_EQ(ticker.ticks, std::min<uint64_t>(1000, Kernel::now_ps() / ticker.period_ps + 1));
                ++checks;
            }
        });
    }
    simulation.run();
    EXPECT_EQ(checks, 600);
    EXPECT_EQ(simulation.programs.running(), 0U);
    EXPECT_EQ(Kernel::now_ps(), 200 * 70 * ns) << "the last program's end is the simulation's";
}

TEST(Kernel, ANotifiedProcessRunsAtTheTimeOfTheHandler) {
    Simulation simulation;
    sc_core::sc_event event;
    Ticker ticker{simulation.cluster.queue(), simulation.kernel, 7 * ns, 0, &event, {}};
    simulation.cluster.queue().schedule(0, 0, &Ticker::tick, &ticker, 0);
    std::vector<uint64_t> woken_ps;
    simulation.programs.spawn("waiter", [&] {
        for (int i = 0; i < 100; ++i) {
            sc_core::wait(event);
            woken_ps.push_back(Kernel::now_ps());
            EXPECT_EQ(simulation.cluster.queue().now_ps(), Kernel::now_ps());
        }
    });
    simulation.run();
    EXPECT_EQ(woken_ps, ticker.notified_ps);
    EXPECT_EQ(woken_ps.size(), 100U);
}

TEST(Kernel, AProcessMaySendWorkToTheQueueAtAnyTime) {
    Simulation simulation;
    struct Pong {
        Kernel& kernel;
        sc_core::sc_event event;
        static void reply(void* object, uint64_t) {
            auto& self = *static_cast<Pong*>(object);
            self.kernel.notify(self.event);
        }
    } pong{simulation.kernel, {}};
    simulation.programs.spawn("ping", [&] {
        for (uint64_t i = 0; i < 50; ++i) {
            const uint64_t start_ps = Kernel::now_ps();
            simulation.cluster.queue().schedule(start_ps + i * 3, 0, &Pong::reply, &pong, 0);
            sc_core::wait(pong.event);
            EXPECT_EQ(Kernel::now_ps(), start_ps + i * 3);
        }
    });
    simulation.run();
    EXPECT_EQ(simulation.programs.running(), 0U);
}

TEST(Kernel, EndsWhenNothingIsLeftToHappenAndUnwindsWhoStillWaits) {
    Simulation simulation;
    sc_core::sc_event never;
    bool unwound = false;
    struct Guard {
        bool& flag;
        ~Guard() { flag = true; }
    };
    simulation.programs.spawn("forsaken", [&] {
        const Guard guard{unwound};
        sc_core::wait(never);
    });
    simulation.run();
    EXPECT_TRUE(unwound);
    EXPECT_EQ(simulation.programs.running(), 1U) << "it did not return";
}

TEST(Kernel, BackgroundProgramsAreNotWaitedFor) {
    Simulation simulation;
    uint64_t beats = 0;
    simulation.programs.spawn_background("progress", [&] {
        while (true) {
            Kernel::sleep(10);
            ++beats;
        }
    });
    simulation.programs.spawn("program", [&] { Kernel::sleep(95); });
    simulation.run();
    EXPECT_EQ(beats, 9U);
}

TEST(Kernel, StopEndsARunThatWouldGoOn) {
    Simulation simulation;
    Ticker ticker{simulation.cluster.queue(), simulation.kernel, 7 * ns};
    simulation.cluster.queue().schedule(0, 0, &Ticker::tick, &ticker, 0);
    simulation.programs.spawn("endless", [&] {
        while (true) Kernel::sleep(1000);
    });
    simulation.programs.spawn_background("signal", [&] {
        Kernel::sleep(500);
        simulation.kernel.stop();
    });
    simulation.run();
    EXPECT_EQ(Kernel::now_ps(), 500 * ns);
}

TEST(SimLink, WritesTakeOneWayReadsBothAndStayInOrder) {
    Simulation simulation;
    simulation.programs.spawn("host", [&] {
        SimLink link(simulation.kernel, simulation.cluster.device(0));
        Kernel::sleep(123);
        const uint64_t start_ps = Kernel::now_ps();
        link.write_register(0x1000, 7);
        link.write_register(0x1000, 8);
        EXPECT_EQ(Kernel::now_ps(), start_ps) << "a write is posted";
        auto& writes = simulation.cluster.firmware(0).register_writes;
        EXPECT_TRUE(writes.empty());
        EXPECT_EQ(link.read_register(0x20), 0x21U);
        EXPECT_EQ(Kernel::now_ps(), start_ps + 800 * ns);
        EXPECT_EQ(link.now_ns(), 923U);
        ASSERT_EQ(writes.size(), 2U);
        EXPECT_EQ(writes[0].value, 7U);
        EXPECT_EQ(writes[1].value, 8U);
        EXPECT_EQ(writes[1].time_ps, start_ps + 400 * ns);
    });
    simulation.run();
    EXPECT_EQ(simulation.programs.running(), 0U);
}

TEST(SimLink, AnInterruptComesAfterWhatWasWrittenBeforeIt) {
    Simulation simulation;
    simulation.programs.spawn("host", [&] {
        SimLink link(simulation.kernel, simulation.cluster.device(0));
        const auto memory = link.allocate(64);
        ASSERT_TRUE(memory);
        simulation.cluster.firmware(0).doorbell = [&](uint32_t, uint32_t value) {
            const std::array<uint8_t, 1> byte{static_cast<uint8_t>(value)};
            simulation.cluster.device(0).write(memory->device_address, byte);
            simulation.cluster.device(0).interrupt(1);
        };
        link.write_register(0x1000, 42);
        const uint64_t start_ps = Kernel::now_ps();
        EXPECT_TRUE(link.wait_interrupt(1'000'000));
        EXPECT_EQ(memory->host[0], std::byte{42});
        // doorbell 400, handler 100, 16 bytes at 200 GB/s, back 400; the byte before them fits into the
        // handler's time
        EXPECT_EQ(Kernel::now_ps() - start_ps, 900 * ns + 80);
        EXPECT_FALSE(link.wait_interrupt(500)) << "it was consumed";
        EXPECT_EQ(Kernel::now_ps() - start_ps, 900 * ns + 80 + 500 * ns);
        link.write_register(0x1000, 43);
        Kernel::sleep(2000);
        EXPECT_TRUE(link.wait_interrupt(0)) << "it came while nobody waited";
        EXPECT_FALSE(link.wait_interrupt(0));
        link.free(*memory);
        EXPECT_FALSE(simulation.cluster.device(0).host_memory().unmap(memory->device_address));
    });
    simulation.run();
    EXPECT_EQ(simulation.programs.running(), 0U);
}

TEST(SimLink, RemovalWakesWhoWaits) {
    Simulation simulation;
    simulation.programs.spawn("host", [&] {
        SimLink link(simulation.kernel, simulation.cluster.device(2));
        EXPECT_FALSE(link.wait_interrupt(~uint64_t{0}));
        EXPECT_EQ(Kernel::now_ps(), 5000 * ns);
        EXPECT_EQ(link.read_register(0), UINT32_MAX);
        EXPECT_FALSE(link.wait_interrupt(1000)) << "does not wait for a device that is gone";
        EXPECT_EQ(Kernel::now_ps(), 5800 * ns);
    });
    simulation.programs.spawn_background("fault", [&] {
        Kernel::sleep(5000);
        simulation.cluster.device(2).kill();
    });
    simulation.run();
    EXPECT_EQ(simulation.programs.running(), 0U);
}

}  // namespace
}  // namespace plait::sim::testing
