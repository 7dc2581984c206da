// Rows in other formats than BF16: encoded as they are read, decoded and encoded again in sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include <plait/engines/quantise.hpp>
#include <plait/sim/models/firmware_error.hpp>

#include "scripted_firmware.hpp"

namespace plait::sim::testing {
namespace {

using regmap::RowFormat;

constexpr uint64_t ns = 1000;

ClusterParameters two_devices() {
    ClusterParameters parameters;
    parameters.fabric.devices = 2;
    parameters.fabric.devices_per_node = 2;
    parameters.fabric.leaf_down_ports = 2;
    return parameters;
}

std::vector<uint16_t> some_row(uint32_t elements) {
    std::vector<uint16_t> row(elements);
    for (uint32_t i = 0; i < elements; ++i)
        row[i] = static_cast<uint16_t>(0x3f80 + i % 300 * 3 + (i % 7 << 15));
    return row;
}

struct Row {
    std::vector<std::byte> bytes;
    uint32_t non_finite = 0;
};

template <class Element>
Row encoded(RowFormat format, const std::vector<Element>& values) {
    const size_t codes = engines::code_bytes(format, values.size());
    Row row{std::vector<std::byte>(codes + engines::scale_bytes(format, values.size())), 0};
    const std::span all(row.bytes);
    row.non_finite =
        engines::encode_row(format, std::span<const Element>(values), all.first(codes), all.subspan(codes))
            .value();
    return row;
}

class Encoding : public ::testing::Test {
  protected:
    Encoding() : cluster_(two_devices()) {
        cluster_.firmware(1).scale_up = [this](const firmware::ScaleUpEvent& event) {
            const PayloadSlice& slice = device(1).packet_memory().slice(event.buffer);
            const uint8_t* const bytes = cluster_->pools().payload.bytes(slice);
            arrived_.assign(bytes, bytes + slice.length);
            device(1).release(event.buffer);
        };
    }
    DeviceModel& device(uint32_t number) { return cluster_.device(number); }

    /// Bytes [offset, offset + length) of the encoded row as they come to device 1.
    std::vector<uint8_t> send(const std::vector<uint16_t>& row, RowFormat format, uint32_t offset,
                              uint32_t length) {
        const auto memory = device(0).host_memory().allocate(row.size() * 2);
        std::memcpy(memory->host, row.data(), row.size() * 2);
        firmware::ScaleUpHeader header;
        header.kind = regmap::ScaleUpKind::row;
        header.length = length;
        firmware::Payload payload;
        payload.segments[0] = {memory->device_address, static_cast<uint32_t>(row.size() * 2)};
        payload.segment_count = 1;
        payload.encoding = {format, offset, counter};
        device(0).scale_up(0b10, header, {}, payload, false);
        cluster_.run_out();
        return arrived_;
    }

    static constexpr uint32_t counter = 5;
    ScriptedCluster cluster_;
    std::vector<uint8_t> arrived_;
};

TEST_F(Encoding, GivesThePacketsOfARow) {
    std::vector<uint16_t> row = some_row(7168);
    row[5000] = 0x7f80;
    row[5001] = 0xffff;
    for (const RowFormat format : {RowFormat::e4m3_f32, RowFormat::e5m2_ue8m0, RowFormat::logfmt10}) {
        const Row expected = encoded(format, row);
        const auto row_bytes = static_cast<uint32_t>(expected.bytes.size());
        std::vector<uint8_t> whole;
        for (uint32_t offset = 0; offset < row_bytes; offset += 4096) {
            const auto part = send(row, format, offset, std::min(4096U, row_bytes - offset));
            whole.insert(whole.end(), part.begin(), part.end());
        }
        ASSERT_EQ(whole.size(), row_bytes);
        EXPECT_EQ(std::memcmp(whole.data(), expected.bytes.data(), row_bytes), 0) << regmap::name(format);
        EXPECT_EQ(device(0).take_non_finite(counter), 2U);
        EXPECT_EQ(device(0).take_non_finite(counter), 0U);
    }
    EXPECT_EQ(cluster_->live_objects(), 0U);
}

TEST_F(Encoding, ReadsWhatItNeedsAndTakesACycleFor64BytesOfBf16) {
    const std::vector<uint16_t> row = some_row(7168);
    send(row, RowFormat::e4m3_f32, 0, 4096);
    EXPECT_EQ(device(0).statistics().host_read_bytes, 2 * 4096U) << "codes alone: their own elements";
    const uint64_t before_ps = cluster_.queue().now_ps();
    send(row, RowFormat::e4m3_f32, 4096, 3072 + 224);
    EXPECT_EQ(device(0).statistics().host_read_bytes, 2 * 4096U + 2 * 7168U) << "scales of all blocks";
    // Host interface there and back, encoder, transmit pipe, link, switch, link.
    const uint64_t size = 32 + 3072 + 224;
    const uint64_t link = RateClock(160 * 8).time_ps(size);
    const uint64_t pipe = (size + 63) / 64 * ns + 80 * ns;
    EXPECT_EQ(cluster_.firmware(1).frames.back().time_ps - before_ps,
              800 * ns + RateClock(200 * 8).time_ps(14336) + (14336 / 64 + 50) * ns + pipe + link + 300 * ns +
                  link);
}

/// Device 1 gives a row to a position of a sum in device 0.
void contribute(ScriptedCluster& cluster, uint32_t sum, uint8_t position, std::span<const std::byte> row) {
    const auto memory = cluster.device(1).host_memory().allocate(row.size());
    std::memcpy(memory->host, row.data(), row.size());
    firmware::ScaleUpHeader header;
    header.kind = regmap::ScaleUpKind::contribution;
    header.length = static_cast<uint32_t>(row.size());
    header.tag = firmware::SumName::tag(sum, position);
    cluster.device(1).scale_up(0b01, header, {}, from_host(memory->device_address, header.length), false);
}

/// Copies what device 0 sums up, and gives it back.
void keep_result(ScriptedCluster& cluster, std::vector<std::byte>& result) {
    cluster.firmware(0).reduced = [&](uint32_t, firmware::BufferId buffer) {
        const PayloadSlice& slice = cluster.device(0).packet_memory().slice(buffer);
        const auto bytes = std::as_bytes(std::span(cluster->pools().payload.bytes(slice), slice.length));
        result.assign(bytes.begin(), bytes.end());
        cluster.device(0).release(buffer);
    };
}

/// A row of BF16 and one of E4M3, added in this order and rounded to BF16.
std::vector<std::byte> bf16_and_e4m3(const std::vector<uint16_t>& bf16, const Row& e4m3) {
    std::vector<float> total(bf16.size());
    for (size_t e = 0; e < bf16.size(); ++e) total[e] = std::bit_cast<float>(uint32_t{bf16[e]} << 16);
    const std::span bytes(e4m3.bytes);
    EXPECT_TRUE(engines::accumulate_row(
        {RowFormat::e4m3_f32, bytes.first(bf16.size()), bytes.subspan(bf16.size())}, std::span(total)));
    return encoded(RowFormat::bf16, total).bytes;
}

/// A sum of `rows` in `from`, which goes as `to`.
struct Sum {
    RowFormat from;
    RowFormat to;
    uint32_t elements;
};

void expect_sum(const Sum& sum) {
    SCOPED_TRACE(std::string(regmap::name(sum.from)) + " to " + regmap::name(sum.to));
    ScriptedCluster cluster(two_devices());
    DeviceModel& device = cluster.device(0);
    std::vector<std::byte> result;
    cluster.firmware(0).reduced = [&](uint32_t, firmware::BufferId buffer) {
        const PayloadSlice& slice = device.packet_memory().slice(buffer);
        EXPECT_EQ(device.packet_memory().used_bytes(), (slice.length + 63) / 64 * 64)
            << "what the result takes";
        const auto bytes = std::as_bytes(std::span(cluster->pools().payload.bytes(slice), slice.length));
        result.assign(bytes.begin(), bytes.end());
        device.release(buffer);
    };
    std::vector<float> total;
    device.reduce_open(
        3, {.contributions = 3, .elements = sum.elements, .from = sum.from, .to = sum.to, .counter = 2});
    for (uint32_t i = 0; i < 3; ++i) {
        std::vector<uint16_t> values = some_row(sum.elements);
        std::rotate(values.begin(), values.begin() + 100 * i, values.end());
        const Row row = encoded(sum.from, values);
        contribute(cluster, 3, static_cast<uint8_t>(i), row.bytes);
        cluster.run_out();
        const std::span bytes(row.bytes);
        const size_t codes = engines::code_bytes(sum.from, sum.elements);
        const engines::EncodedRow view{sum.from, bytes.first(codes), bytes.subspan(codes)};
        total.resize(sum.elements);
        ASSERT_TRUE(i == 0 ? engines::decode_row(view, std::span(total))
                           : engines::accumulate_row(view, total));
    }
    EXPECT_EQ(result, encoded(sum.to, total).bytes);
    EXPECT_EQ(device.take_non_finite(2), 0U);
    EXPECT_EQ(cluster->live_objects(), 0U);
}

TEST(SumsOfFormats, AreDecodedAddedAndEncodedOnce) {
    expect_sum({RowFormat::e4m3_f32, RowFormat::e4m3_f32, 3584});
    expect_sum({RowFormat::e5m2_ue8m0, RowFormat::bf16, 3968});  // longer than a packet, and no packet's
    expect_sum({RowFormat::logfmt10, RowFormat::f32, 1024});
    expect_sum({RowFormat::f32, RowFormat::logfmt8, 960});
    expect_sum({RowFormat::bf16, RowFormat::e5m2_f32, 2048});
}

// The device's own memory gives the first position, BF16 and twice a packet long, a frame the second.
TEST(SumsOfFormats, TakeRowsOfHostMemoryBesideOthers) {
    constexpr uint32_t elements = 3584;
    ScriptedCluster cluster(two_devices());
    DeviceModel& device = cluster.device(0);
    const std::vector<uint16_t> own = some_row(elements);
    const auto memory = device.host_memory().allocate(elements * 2);
    std::memcpy(memory->host, own.data(), elements * 2);
    std::vector<uint16_t> values = own;
    std::rotate(values.begin(), values.begin() + 100, values.end());
    const Row row = encoded(RowFormat::e4m3_f32, values);
    std::vector<std::byte> result;
    keep_result(cluster, result);
    device.reduce_open(3, {.contributions = 2, .elements = elements, .from = RowFormat::e4m3_f32});
    contribute(cluster, 3, 1, row.bytes);
    device.reduce_read(3, 0, {memory->device_address, elements * 2});
    device.reduce_read(4, 0, {memory->device_address, elements * 2});  // a sum that is over
    device.fetch({}, {memory->device_address, 8});
    EXPECT_EQ(device.packet_memory().live(), 2U) << "room is taken when the read is ordered";
    cluster.run_out();
    EXPECT_EQ(result, bf16_and_e4m3(own, row));
    ASSERT_EQ(cluster.firmware(0).fetched.size(), 1U);
    const uint64_t read_ps = 800 * ns + RateClock(200 * 8).time_ps(elements * 2);
    EXPECT_GE(cluster.firmware(0).fetched[0].time_ps, read_ps) << "after what was asked for before it";
    EXPECT_EQ(device.statistics().reduce_refused, 1U);
    EXPECT_EQ(device.statistics().host_read_bytes, 2 * 2 * elements + 8);
    EXPECT_EQ(cluster->live_objects(), 0U);
}

// A second row of a position is refused, and the first one, which waits, keeps its format.
TEST(SumsOfFormats, ARefusedRowOfBf16ChangesNoFormat) {
    constexpr uint32_t elements = 512;
    ScriptedCluster cluster(two_devices());
    DeviceModel& device = cluster.device(0);
    const std::vector<uint16_t> own = some_row(elements);
    const auto memory = device.host_memory().allocate(elements * 2);
    std::memcpy(memory->host, own.data(), elements * 2);
    const Row row = encoded(RowFormat::e4m3_f32, own);
    std::vector<std::byte> result;
    keep_result(cluster, result);
    device.reduce_open(3, {.contributions = 2, .elements = elements, .from = RowFormat::e4m3_f32});
    contribute(cluster, 3, 1, row.bytes);
    cluster.run_out();
    for (const uint8_t position : std::array<uint8_t, 2>{1, 0}) {
        device.reduce_read(3, position, {memory->device_address, elements * 2});
        cluster.run_out();
    }
    EXPECT_EQ(device.statistics().reduce_refused, 1U);
    EXPECT_EQ(result, bf16_and_e4m3(own, row));
}

TEST(SumsOfFormats, CountInfinitiesThoughNobodyHasLookedYet) {
    ScriptedCluster cluster(two_devices());
    DeviceModel& device = cluster.device(0);
    std::vector<firmware::BufferId> results;
    cluster.firmware(0).reduced = [&](uint32_t, firmware::BufferId buffer) { results.push_back(buffer); };
    std::vector<uint16_t> values = some_row(512);
    values[7] = values[300] = 0x7f80;
    for (uint32_t accumulator = 0; accumulator < 3; ++accumulator) {
        device.reduce_open(accumulator,
                           {.contributions = 1, .elements = 512, .counter = accumulator == 2 ? 1U : 0U});
        contribute(cluster, accumulator, 0, std::as_bytes(std::span(values)));
    }
    cluster.run_out();
    ASSERT_EQ(results.size(), 3U);
    EXPECT_EQ(device.take_non_finite(0), 4U);
    EXPECT_EQ(device.take_non_finite(0), 0U);
    EXPECT_EQ(device.take_non_finite(1), 2U);
    for (const firmware::BufferId buffer : results) device.release(buffer);
    EXPECT_EQ(cluster->live_objects(), 0U);
}

TEST(SumsOfFormats, TakeQuartersOfTheAccumulatorsRoom) {
    ClusterParameters parameters = two_devices();
    parameters.device.firmware.accumulators = 4;
    parameters.device.firmware.accumulator_elements = 2048;
    ScriptedCluster cluster(parameters);
    DeviceModel& device = cluster.device(0);
    const auto open = [&](uint32_t accumulator, uint32_t elements) {
        device.reduce_open(accumulator,
                           {.contributions = 1, .elements = elements, .from = RowFormat::e4m3_f32});
    };
    open(0, 3968);
    open(1, 3584);
    EXPECT_THROW(open(2, 1024), FirmwareError) << "of 16 quarters one is left";
    open(2, 512);
    device.reduce_close(1);
    open(1, 3584);
    EXPECT_THROW(open(1, 1), FirmwareError) << "in use";
    for (uint32_t accumulator = 0; accumulator < 3; ++accumulator) device.reduce_close(accumulator);
    EXPECT_EQ(device.reduce_engine().in_use(), 0U);
}

}  // namespace
}  // namespace plait::sim::testing
