// A scenario: everything that a run depends on. The defaults are the reference device and fabric.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <plait/regmap.hpp>
#include <plait/sim/models/engine_blocks.hpp>
#include <plait/sim/models/work.hpp>

namespace plait::sim {

/// Bad input from the user. what() is one line: file, line where there is one, key, what was found, what was
/// expected.
class InputError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

enum class PayloadMode : uint8_t {
    real,     ///< Every byte is moved and checked.
    virtual_  ///< Sizes only: nothing is checked but counts.
};
enum class FirmwarePlace : uint8_t {
    native,  ///< Compiled into the simulator.
    riscv    ///< An image on an instruction-set simulator.
};
enum class EnginePlace : uint8_t {
    cpp,  ///< The C++ engines alone.
    rtl   ///< Verilated blocks beside them, in some devices.
};
enum class InstructionCounts : uint8_t {
    declared,  ///< As the table says.
    measured   ///< As the image executes them.
};
enum class WorkloadKind : uint8_t { ep, permutation, alltoall, incast };
enum class FlowOperation : uint8_t { write, write_immediate, send };
enum class RoutingKind : uint8_t {
    file,     ///< Recorded: an .npy file.
    uniform,  ///< topk distinct experts, uniformly of all.
    grouped,  ///< topk distinct experts of 4 of 8 groups of experts, groups chosen uniformly.
    skewed,   ///< The first ten tokens of a rank uniformly, the others all to the same experts.
};

std::string_view name_of(PayloadMode mode);
std::string_view name_of(FirmwarePlace place);
std::string_view name_of(EnginePlace place);
std::string_view name_of(InstructionCounts counts);
std::string_view name_of(WorkloadKind kind);
std::string_view name_of(RoutingKind kind);
std::string_view name_of(regmap::EntryPolicy policy);
std::string_view name_of(regmap::EpMode mode);
std::string_view name_of(regmap::RowFormat format);
std::string_view name_of(regmap::SprayPolicy policy);

struct TopologyOptions {
    uint32_t nodes = 2;
    uint32_t gpus_per_node = 8;
    uint32_t planes = 4;
};

struct ScaleOutOptions {
    double rate_gbps = 100;  ///< Of each plane's port and of every link between switches.
    uint32_t mtu_bytes = 4096;
    uint32_t leaf_down_ports = 16;
    uint32_t leaf_up_ports = 16;
    uint32_t spine_ports = 128;
    uint64_t switch_latency_ns = 400;
    uint64_t cable_ns = 50;
    uint32_t buffer_bytes = 256 * 1024;
    uint32_t ecn_threshold_bytes = 64 * 1024;
    bool trimming = false;  ///< Switches cut what does not fit, instead of losing it.
    double loss = 0;        ///< Probabilities for each packet, end to end.
    double corruption = 0;
    double duplication = 0;
    double reordering = 0;             ///< Fraction of packets that are delayed.
    uint64_t reordering_delay_ns = 0;  ///< A delayed packet waits up to this long more.
};

struct ScaleUpOptions {
    double rate_gbytes_per_s = 160;  ///< Of a device, each way.
    uint64_t latency_ns = 300;
    uint32_t credit_bytes = 128 * 1024;  ///< On the way from one device to one other.
};

struct HostInterfaceOptions {
    double rate_gbytes_per_s = 200;  ///< Each way.
    uint64_t latency_ns = 400;       ///< One way.
};

struct DeviceOptions {
    uint32_t firmware_cores = 16;
    double clock_ghz = 1;   ///< Of cores and engines.
    uint32_t core_mhz = 0;  ///< Of cores; 0: as clock_ghz says.
    double cycles_per_instruction = 1;
    InstructionCounts instruction_counts = InstructionCounts::declared;
    bool engines = true;  ///< riscv: spray selectors and receive windows cost firmware nothing.
    uint64_t watchdog_instructions = 50'000'000;  ///< Firmware that takes more for an event hangs.
    HandlerCosts instructions;      ///< What is aimed at, or what `plait calibrate` has measured.
    uint32_t bytes_per_cycle = 64;  ///< Of each packet pipe and reduce unit.
    uint32_t scale_out_pipes = 2;
    uint32_t scale_up_pipes = 3;
    uint32_t reduce_units = 4;
    uint32_t encode_units = 4;       ///< Of rows that are read as BF16.
    uint64_t transmit_pipe_ns = 80;  ///< Fixed latency of a packet pipe.
    uint64_t receive_pipe_ns = 80;
    uint32_t packet_memory_bytes = 8 * 1024 * 1024;
    uint32_t scale_up_reserve_bytes =
        2 * 1024 * 1024;  ///< Of the packet memory: kept free of packets from the planes.
    uint32_t accumulators = 256;
    uint32_t accumulator_elements = 2048;
    uint32_t transmit_ahead_bytes = 28U << 10;  ///< Of data packets that a plane takes ahead of the wire.
};

struct TransportOptions {
    uint32_t window_packets = 512;
    uint32_t entropy_values = 128;
    regmap::SprayPolicy spray = regmap::SprayPolicy::spray;
    uint32_t qp_time_limit_us = 4000;
    uint32_t base_rtt_ns = 5500;  ///< What the congestion window takes for the round trip of an idle path.
};

struct EpWorkload {
    regmap::EpMode mode = regmap::EpMode::normal;
    bool weights_at_combine = false;  ///< Low latency: the weights come with combine, not with dispatch.
    uint32_t biases = 0;              ///< That combine adds to the tokens' rows.
    uint32_t tokens = 256;            ///< Of each rank.
    uint32_t hidden = 7168;
    uint32_t experts = 256;
    uint32_t topk = 8;
    regmap::RowFormat dispatch_format = regmap::RowFormat::e4m3_f32;
    regmap::RowFormat combine_format = regmap::RowFormat::bf16;
    regmap::RowFormat partial_format = regmap::RowFormat::bf16;
    bool encode_dispatch = false;  ///< Ranks give BF16, and the device encodes it.
    bool encode_combine = false;
    regmap::EntryPolicy entry_policy = regmap::EntryPolicy::balanced;
    RoutingKind routing = RoutingKind::uniform;
    std::filesystem::path routing_file;  ///< RoutingKind::file.
    std::filesystem::path weights_file;  ///< Empty: weights fall evenly with the choice and add up to 2.5.
    uint32_t first_token = 0;            ///< Of the file: where each rank's tokens begin.
    std::vector<uint32_t> idle_ranks;    ///< Ranks that bring no token, and take part.
    std::vector<uint32_t> absent_ranks;  ///< Ranks that create the group and then make no call.
    uint32_t repeat = 1;                 ///< Dispatch and combine this often, one after the other.
    bool cached = false;                 ///< From the second time on dispatch uses the first one's handle.
    uint32_t micro_batches = 1;          ///< 2: the tokens are halved, and both halves are in flight at once.
    uint32_t timeout_us = 100'000;       ///< Of each call.
};

struct VictimFlow {
    uint32_t source = 0;
    uint32_t destination = 0;
    uint64_t bytes = 0;
};

struct FlowWorkload {
    uint64_t bytes_per_flow = 16ULL * 1024 * 1024;
    uint64_t message_bytes = 1024 * 1024;
    uint32_t qps_per_flow = 8;  ///< Messages take them in turn: a queue pair stays on one firmware core.
    FlowOperation operation = FlowOperation::write;
    uint32_t shift = 0;     ///< permutation: device d sends to d + shift; 0: a seeded one between nodes.
    uint32_t senders = 0;   ///< incast.
    uint32_t receiver = 0;  ///< incast.
    std::optional<VictimFlow> victim;  ///< incast: a flow that shares no link with the hot one but a switch.
};

enum class FaultKind : uint8_t {
    link_down,
    link_up,    ///< device and plane, or leaf, spine and plane.
    link_flap,  ///< In files only: becomes link_down and link_up, several times.
    leaf_down,
    leaf_up,
    spine_down,
    spine_up,
    plane_down,
    plane_up,
    loss,
    corruption,
    duplication,
    reordering,   ///< From now on, end to end or on one link.
    lose_nth,     ///< The nth packet from source to destination from now on.
    device_down,  ///< Surprise removal.
    host_stops,   ///< The device's host does nothing for a while.
};

/// One entry of the schedule. Fields that the kind does not name are 0.
struct Fault {
    uint64_t at_ns = 0;
    FaultKind what = FaultKind::plane_down;
    bool silent = false;            ///< Nobody is told: packets just disappear.
    bool on_link = false;           ///< Rates: of one link, not end to end.
    bool between_switches = false;  ///< Of a link: leaf and spine, not device.
    uint8_t plane = 0;
    uint32_t device = 0;
    uint32_t leaf = 0;
    uint32_t spine = 0;
    double rate = 0;
    uint64_t delay_ns = 0;
    uint64_t for_ns = 0;  ///< host_stops; 0: for ever.
    uint32_t source = 0;
    uint32_t destination = 0;
    uint64_t nth = 0;
};

struct Limits {
    uint64_t simulated_time_us = 1'000'000;  ///< The run stops there and is incomplete.
    double memory_gib = 0;                   ///< 0: what the machine has available.
};

struct Scenario {
    std::string name;     ///< Of the file, without extension.
    std::string variant;  ///< Empty when the file has none.
    std::string description;
    std::filesystem::path file;
    uint64_t seed = 1;
    PayloadMode payload = PayloadMode::real;
    FirmwarePlace firmware = FirmwarePlace::native;
    std::string firmware_image = "riscv-O2";  ///< Name, or path: of FirmwarePlace::riscv.
    EnginePlace engines = EnginePlace::cpp;
    std::vector<uint32_t> rtl_devices;              ///< EnginePlace::rtl: which have blocks, ascending,
    EngineBlockSet rtl_blocks = all_engine_blocks;  ///< and which ones.
    TopologyOptions topology;
    ScaleOutOptions scale_out;
    ScaleUpOptions scale_up;
    HostInterfaceOptions host_interface;
    DeviceOptions device;
    TransportOptions transport;
    WorkloadKind workload = WorkloadKind::permutation;
    EpWorkload ep;              ///< workload == ep.
    FlowWorkload flows;         ///< Otherwise.
    std::vector<Fault> faults;  ///< In order of time.
    Limits limits;

    uint32_t ranks() const { return topology.nodes * topology.gpus_per_node; }
};

/// Moves the firmware; its instructions are then counted as is usual there.
void set_firmware(Scenario& scenario, FirmwarePlace place);

/// Reads a scenario file: one Scenario a `[[variant]]`, or one alone. Throws InputError; then nothing was
/// done.
std::vector<Scenario> load_scenario(const std::filesystem::path& file);

/// The same from text; `file` is the name for messages and the place relative paths start from.
std::vector<Scenario> parse_scenario(std::string_view text, const std::filesystem::path& file);

}  // namespace plait::sim
