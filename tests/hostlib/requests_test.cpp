#include <gtest/gtest.h>

#include <array>
#include <plait/requests.hpp>

namespace plait {
namespace {

using regmap::WorkOpcode;
using regmap::WorkRequest;

TEST(Requests, say_what_they_do) {
    const WorkRequest send = make_send({0x1000, 77, 3}, 9);
    WorkRequest expected;
    expected.opcode = WorkOpcode::send;
    expected.flags = 1;
    expected.user_data = 9;
    expected.local_address = 0x1000;
    expected.length = 77;
    expected.local_key = 3;
    EXPECT_EQ(send, expected);

    const WorkRequest write = make_write({0x1000, 77, 3}, {0x2000, 4}, 9);
    expected.opcode = WorkOpcode::write;
    expected.remote_address = 0x2000;
    expected.remote_key = 4;
    EXPECT_EQ(write, expected);

    expected.opcode = WorkOpcode::write_immediate;
    expected.immediate = 0xabcd;
    EXPECT_EQ(with_immediate(write, 0xabcd), expected);
    EXPECT_EQ(with_immediate(send, 1).opcode, WorkOpcode::send_immediate);
    expected.flags = 0;
    EXPECT_EQ(unsignalled(with_immediate(write, 0xabcd)), expected);

    const regmap::ReceiveRequest receive = make_receive({0x3000, 5, 6}, 7);
    EXPECT_EQ(receive.address, 0x3000U);
    EXPECT_EQ(receive.length, 5U);
    EXPECT_EQ(receive.key, 6U);
    EXPECT_EQ(receive.user_data, 7U);
}

TEST(Requests, carry_up_to_64_bytes_themselves) {
    std::array<std::byte, 65> payload;
    payload.fill(std::byte{0x5a});
    const auto full = with_inline(make_write({0x1000, 77, 3}, {0x2000, 4}, 9), std::span(payload).first(64));
    ASSERT_TRUE(full);
    EXPECT_EQ(full.value().flags, 3);
    EXPECT_EQ(full.value().inline_length, 64);
    EXPECT_EQ(full.value().length, 64U);
    EXPECT_EQ(full.value().local_address, 0U);
    EXPECT_EQ(full.value().local_key, 0U);
    for (const std::uint8_t byte : full.value().inline_data) EXPECT_EQ(byte, 0x5a);
    const auto shorter = with_inline(full.value(), std::span(payload).first(1));
    ASSERT_TRUE(shorter);
    EXPECT_EQ(shorter.value().inline_data[0], 0x5a);
    EXPECT_EQ(shorter.value().inline_data[1], 0) << "nothing of the earlier payload is left";
    EXPECT_TRUE(with_inline(make_send({}, 0), {}));
    EXPECT_EQ(with_inline(make_send({}, 0), payload).status(), Status::invalid_length);
}

}  // namespace
}  // namespace plait
