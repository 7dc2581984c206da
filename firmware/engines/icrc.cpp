#include <algorithm>
#include <array>
#include <cstddef>
#include <plait/engines/icrc.hpp>
#include <plait/regmap.hpp>

namespace plait::engines {
namespace {

constexpr std::uint32_t polynomial = 0xedb88320U;
constexpr std::size_t slices = 8;

/// tables[k][b]: the state after byte b and k zero bytes, so that eight bytes are looked up independently of
/// each other.
using Tables = std::array<std::array<std::uint32_t, 256>, slices>;

constexpr Tables make_tables() {
    Tables tables{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t state = byte;
        for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1U) != 0 ? polynomial : 0U);
        tables[0][byte] = state;
    }
    for (std::size_t slice = 1; slice < slices; ++slice) {
        for (std::size_t byte = 0; byte < 256; ++byte) {
            const std::uint32_t before = tables[slice - 1][byte];
            tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xffU];
        }
    }
    return tables;
}

constexpr Tables tables = make_tables();

std::uint32_t load_little_endian(const std::uint8_t* bytes) {
    return std::uint32_t{bytes[0]} | std::uint32_t{bytes[1]} << 8 | std::uint32_t{bytes[2]} << 16 |
           std::uint32_t{bytes[3]} << 24;
}

/// The state after eight 0xff bytes (the masked local route header), from the all-ones start.
constexpr std::uint32_t icrc_start = 0xdebb20e3U;

constexpr std::size_t ipv4_bytes = regmap::Ipv4::size_bytes;
constexpr std::size_t ipv6_bytes = regmap::Ipv6::size_bytes;
constexpr std::size_t after_ip_bytes = regmap::Udp::size_bytes + regmap::Bth::size_bytes;

}  // namespace

std::uint32_t crc32_update(std::uint32_t state, std::span<const std::uint8_t> bytes) {
    const std::uint8_t* next = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= 8; left -= 8, next += 8) {
        const std::uint32_t low = state ^ load_little_endian(next);
        const std::uint32_t high = load_little_endian(next + 4);
        state = tables[7][low & 0xffU] ^ tables[6][(low >> 8) & 0xffU] ^ tables[5][(low >> 16) & 0xffU] ^
                tables[4][low >> 24] ^ tables[3][high & 0xffU] ^ tables[2][(high >> 8) & 0xffU] ^
                tables[1][(high >> 16) & 0xffU] ^ tables[0][high >> 24];
    }
    for (; left > 0; --left, ++next) state = (state >> 8) ^ tables[0][(state ^ *next) & 0xffU];
    return state;
}

std::uint32_t icrc(std::span<const std::uint8_t> packet) {
    const bool is_ipv6 = !packet.empty() && (packet[0] >> 4) == 6;
    const std::size_t ip_bytes = is_ipv6 ? ipv6_bytes : ipv4_bytes;
    std::array<std::uint8_t, ipv6_bytes + after_ip_bytes> headers{};
    const std::size_t header_bytes = std::min(packet.size(), ip_bytes + after_ip_bytes);
    std::copy_n(packet.data(), header_bytes, headers.data());

    if (is_ipv6) {
        headers[0] |= 0x0fU;  // traffic class, flow label
        headers[1] = headers[2] = headers[3] = 0xff;
        headers[7] = 0xff;  // hop limit
    } else {
        headers[1] = 0xff;                 // type of service
        headers[8] = 0xff;                 // time to live
        headers[10] = headers[11] = 0xff;  // header checksum
    }
    headers[ip_bytes + 6] = headers[ip_bytes + 7] = 0xff;    // UDP checksum
    headers[ip_bytes + regmap::Udp::size_bytes + 4] = 0xff;  // FECN, BECN and the reserved bits beside them

    const std::uint32_t state = crc32_update(icrc_start, {headers.data(), header_bytes});
    return ~crc32_update(state, packet.subspan(header_bytes));
}

}  // namespace plait::engines
