// The calibration check of the reference device: a 64-byte inline write between two hosts, through driver,
// firmware and fabric, takes the published times.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include <plait/driver.hpp>
#include <plait/firmware/firmware.hpp>
#include <plait/sim/bridge/kernel.hpp>
#include <plait/sim/bridge/sim_link.hpp>
#include <plait/sim/models/cluster.hpp>
#include <plait/sim/models/native_firmware.hpp>

namespace plait::sim {
namespace {

// Time from the doorbell at one host to the data in the other's memory, idle fabric; 0 when it never came.
class WriteLatency {
  public:
    explicit WriteLatency(uint64_t switch_latency_ns)
        : cluster_("cluster", parameters(switch_latency_ns), make_native_firmware<firmware::Firmware>) {}

    // `peer` 1 is under the same leaf, 16 across.
    double measure_us(uint32_t peer) {
        uint64_t taken_ps = 0;
        programs_.spawn("hosts", [&, peer] { taken_ps = run(peer); });
        sc_core::sc_start();
        return static_cast<double>(taken_ps) * 1e-6;
    }

  private:
    struct Host {
        Host(Kernel& kernel, DeviceModel& device)
            : link(kernel, device), driver(std::move(Driver::open(link).value())) {
            completions = driver->create_completion_queue().value();
            QpOptions options;
            options.send_queue = driver->create_send_queue(completions).value();
            send_queue = options.send_queue;
            qp = driver->create_qp(options).value();
        }
        SimLink link;
        std::unique_ptr<Driver> driver;
        uint32_t completions = 0;
        uint32_t send_queue = 0;
        Qp qp;
    };

    static ClusterParameters parameters(uint64_t switch_latency_ns) {
        ClusterParameters parameters;
        parameters.fabric.devices = 32;
        parameters.fabric.devices_per_node = 1;
        parameters.fabric.switch_latency_ns = switch_latency_ns;
        parameters.device.firmware.max_groups = 1;
        parameters.device.firmware.max_qps = 16;
        return parameters;
    }

    uint64_t run(uint32_t peer) {
        Host near(kernel_, cluster_.device(0));
        Host far(kernel_, cluster_.device(peer));
        EXPECT_TRUE(near.driver->connect_qp(near.qp.qpn, {peer, far.qp.qpn, far.qp.first_psn}).ok());
        EXPECT_TRUE(far.driver->connect_qp(far.qp.qpn, {0, near.qp.qpn, near.qp.first_psn}).ok());
        const SharedMemory target = far.link.allocate(4096).value();
        const uint32_t key = far.driver->register_memory(target.device_address, 4096, 2).value();
        Kernel::sleep(100'000);

        regmap::WorkRequest request{};
        request.opcode = regmap::WorkOpcode::write;
        request.flags = 3;  // signalled, inline
        request.length = 64;
        request.inline_length = 64;
        request.remote_address = target.device_address;
        request.remote_key = key;
        std::memset(request.inline_data, 0x5a, sizeof(request.inline_data));
        const uint64_t start_ps = Kernel::now_ps();
        EXPECT_TRUE(near.driver->post_send(near.send_queue, request).ok());
        regmap::Completion completion{};
        EXPECT_TRUE(near.driver->wait(near.completions, {&completion, 1}, 1'000'000).ok());
        EXPECT_EQ(completion.status, regmap::Status::ok);
        EXPECT_EQ(std::memcmp(target.host, request.inline_data, 64), 0);
        const uint64_t placed_ps = cluster_.device(peer).statistics().last_placement_ps;
        return placed_ps > start_ps ? placed_ps - start_ps : 0;
    }

    Cluster cluster_;
    Kernel kernel_{"kernel", cluster_.queue()};
    HostPrograms programs_{"programs", kernel_};
};

void expect_within(double measured_us, double published_us, double tolerance) {
    ::testing::Test::RecordProperty("measured_us", std::to_string(measured_us));
    EXPECT_NEAR(measured_us, published_us, tolerance * published_us);
}

TEST(Calibration, AWriteUnderOneLeafTakes2800Nanoseconds) {
    expect_within(WriteLatency(400).measure_us(1), 2.8, 0.03);
}
TEST(Calibration, AWriteAcrossLeavesTakes3700Nanoseconds) {
    expect_within(WriteLatency(400).measure_us(16), 3.7, 0.03);
}

// RoCE's published times with its slower switches and all else alike.
TEST(Calibration, With950NanosecondsASwitchUnderOneLeaf) {
    expect_within(WriteLatency(950).measure_us(1), 3.6, 0.06);
}
TEST(Calibration, With950NanosecondsASwitchAcrossLeaves) {
    expect_within(WriteLatency(950).measure_us(16), 5.6, 0.06);
}

}  // namespace
}  // namespace plait::sim
