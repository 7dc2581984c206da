#include <algorithm>
#include <plait/engines/icrc.hpp>
#include <plait/firmware/wire.hpp>

namespace plait::firmware {
namespace {

using namespace regmap;

constexpr std::uint16_t ethertype_ipv4 = 0x0800;
constexpr std::uint16_t ethertype_ipv6 = 0x86dd;
constexpr std::uint8_t protocol_udp = 17;
constexpr std::size_t icrc_bytes = 4;
constexpr std::size_t shortest_frame_bytes = 60;  // IEEE 802.3, without the frame check sequence

/// RFC 1071: the one's complement sum of the header's 16-bit words; 0 for a header whose checksum is right.
std::uint16_t ipv4_checksum(const std::uint8_t* header) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < Ipv4::size_bytes; i += 2)
        sum += std::uint32_t{header[i]} << 8 | header[i + 1];
    sum = (sum & 0xffffU) + (sum >> 16);
    sum = (sum & 0xffffU) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
}

void encode_ipv4(const Envelope& envelope, std::size_t udp_bytes, std::uint8_t* out) {
    Ipv4 ip;
    ip.dscp = envelope.dscp;
    ip.ecn = envelope.ecn;
    ip.total_length = static_cast<std::uint16_t>(Ipv4::size_bytes + udp_bytes);
    ip.identification = envelope.identification;
    ip.dont_fragment = true;
    ip.source = static_cast<std::uint32_t>(envelope.addresses.source.low);
    ip.destination = static_cast<std::uint32_t>(envelope.addresses.destination.low);
    ip.encode(out);
    ip.checksum = ipv4_checksum(out);
    ip.encode(out);
}

void encode_ipv6(const Envelope& envelope, std::size_t udp_bytes, std::uint8_t* out) {
    Ipv6 ip;
    ip.dscp = envelope.dscp;
    ip.ecn = envelope.ecn;
    ip.flow_label = envelope.source_port;  // switches that hash the flow label spray as well
    ip.payload_length = static_cast<std::uint16_t>(udp_bytes);
    ip.source_high = envelope.addresses.source.high;
    ip.source_low = envelope.addresses.source.low;
    ip.destination_high = envelope.addresses.destination.high;
    ip.destination_low = envelope.addresses.destination.low;
    ip.encode(out);
}

bool fits(const Envelope& envelope) {
    const FrameAddresses& addresses = envelope.addresses;
    constexpr std::uint64_t mac_limit = 1ULL << 48;
    const bool is_ipv6 = addresses.source.is_ipv6;
    const auto fits_ipv4 = [](const IpAddress& ip) { return ip.high == 0 && ip.low <= 0xffffffffU; };
    return addresses.source_mac < mac_limit && addresses.destination_mac < mac_limit &&
           addresses.destination.is_ipv6 == is_ipv6 &&
           (is_ipv6 || (fits_ipv4(addresses.source) && fits_ipv4(addresses.destination))) &&
           envelope.dscp < 64 && envelope.ecn < 4;
}

/// Cuts `bytes` to the datagram of `length` bytes behind the IP header. Less of it is there when a switch has
/// trimmed the packet: it leaves the lengths as they were sent.
DropReason cut_to_datagram(std::span<const std::uint8_t>& bytes, std::size_t header_bytes, std::size_t length,
                           RoceFrame& result) {
    bytes = bytes.subspan(header_bytes);
    if (length <= bytes.size()) {
        bytes = bytes.first(length);
        return DropReason::none;
    }
    result.trimmed = result.envelope.dscp == dscp_trimmed;
    return result.trimmed ? DropReason::none : DropReason::truncated;
}

/// Fills the envelope from the IPv4 header at the start of `bytes` and cuts `bytes` to the UDP datagram.
DropReason decode_ipv4(std::span<const std::uint8_t>& bytes, RoceFrame& result) {
    Envelope& envelope = result.envelope;
    if (bytes.size() < Ipv4::size_bytes) return DropReason::truncated;
    const Ipv4 ip = Ipv4::decode(bytes.data());
    if (ip.version != 4 || ip.header_words != 5 || ipv4_checksum(bytes.data()) != 0 || ip.more_fragments ||
        ip.fragment_offset != 0 || ip.total_length < Ipv4::size_bytes) {
        return DropReason::ip_header;
    }
    if (ip.protocol != protocol_udp) return DropReason::not_udp;
    envelope.addresses.source = {.is_ipv6 = false, .high = 0, .low = ip.source};
    envelope.addresses.destination = {.is_ipv6 = false, .high = 0, .low = ip.destination};
    envelope.identification = ip.identification;
    envelope.dscp = ip.dscp;
    envelope.ecn = ip.ecn;
    return cut_to_datagram(bytes, Ipv4::size_bytes, ip.total_length - Ipv4::size_bytes, result);
}

DropReason decode_ipv6(std::span<const std::uint8_t>& bytes, RoceFrame& result) {
    Envelope& envelope = result.envelope;
    if (bytes.size() < Ipv6::size_bytes) return DropReason::truncated;
    const Ipv6 ip = Ipv6::decode(bytes.data());
    if (ip.version != 6) return DropReason::ip_header;
    if (ip.next_header != protocol_udp) return DropReason::not_udp;
    envelope.addresses.source = {.is_ipv6 = true, .high = ip.source_high, .low = ip.source_low};
    envelope.addresses.destination = {
        .is_ipv6 = true, .high = ip.destination_high, .low = ip.destination_low};
    envelope.dscp = ip.dscp;
    envelope.ecn = ip.ecn;
    return cut_to_datagram(bytes, Ipv6::size_bytes, ip.payload_length, result);
}

/// Checks the datagram's lengths and ports and finds BTH and body; the ICRC is the caller's.
DropReason decode_udp(std::span<const std::uint8_t> datagram, RoceFrame& result) {
    if (datagram.size() < Udp::size_bytes) return DropReason::truncated;
    const Udp udp = Udp::decode(datagram.data());
    if (udp.destination_port != udp_port) return DropReason::not_udp;
    if (!result.trimmed && udp.length != datagram.size()) return DropReason::length;
    constexpr std::size_t overhead = Udp::size_bytes + Bth::size_bytes + icrc_bytes;
    if (datagram.size() < overhead) return DropReason::truncated;
    result.envelope.source_port = udp.source_port;
    result.bth = Bth::decode(datagram.data() + Udp::size_bytes);
    if (result.trimmed) return DropReason::none;
    const std::size_t padded = datagram.size() - overhead;
    if (padded % 4 != 0 || result.bth.pad_count > padded) return DropReason::length;
    result.body = datagram.subspan(Udp::size_bytes + Bth::size_bytes, padded - result.bth.pad_count);
    return DropReason::none;
}

std::uint32_t load_little_endian(const std::uint8_t* in) {
    return std::uint32_t{in[0]} | std::uint32_t{in[1]} << 8 | std::uint32_t{in[2]} << 16 |
           std::uint32_t{in[3]} << 24;
}

DropReason check_icrc(std::span<const std::uint8_t> frame, std::size_t ip_bytes) {
    const std::size_t end = Ethernet::size_bytes + ip_bytes;
    if (frame.size() > std::max(end, shortest_frame_bytes)) return DropReason::length;
    const std::uint32_t expected = engines::icrc(frame.subspan(Ethernet::size_bytes, ip_bytes - icrc_bytes));
    return load_little_endian(frame.data() + end - icrc_bytes) == expected ? DropReason::none
                                                                           : DropReason::icrc;
}

DropReason decode_layers(std::span<const std::uint8_t> frame, RoceFrame& result) {
    if (frame.size() < Ethernet::size_bytes) return DropReason::truncated;
    const Ethernet ethernet = Ethernet::decode(frame.data());
    result.envelope.addresses.source_mac = ethernet.source;
    result.envelope.addresses.destination_mac = ethernet.destination;
    const bool is_ipv6 = ethernet.ethertype == ethertype_ipv6;
    if (!is_ipv6 && ethernet.ethertype != ethertype_ipv4) return DropReason::ethertype;

    std::span<const std::uint8_t> datagram = frame.subspan(Ethernet::size_bytes);
    DropReason reason = is_ipv6 ? decode_ipv6(datagram, result) : decode_ipv4(datagram, result);
    if (reason == DropReason::none) reason = decode_udp(datagram, result);
    if (reason == DropReason::none && !result.trimmed)
        reason = check_icrc(frame, (is_ipv6 ? Ipv6::size_bytes : Ipv4::size_bytes) + datagram.size());
    if (reason != DropReason::none) return reason;

    const auto opcode = static_cast<Opcode>(result.bth.opcode);
    if (!is_known(opcode)) return DropReason::opcode;
    // There is one partition, the default one; the top bit is the membership and either is welcome.
    if (result.bth.version != 0 || (result.bth.partition_key & 0x7fffU) != 0x7fffU)
        return DropReason::malformed;
    if (!result.trimmed && result.body.size() < rc_extension_bytes(opcode).value_or(0))
        return DropReason::truncated;
    return DropReason::none;
}

}  // namespace

std::size_t encode_roce(const Envelope& envelope, Bth bth, std::span<const std::uint8_t> extensions,
                        std::span<const std::uint8_t> payload, std::span<std::uint8_t> out) {
    constexpr std::size_t max_extension_bytes =
        1024;  // far above any header chain; keeps every length within 16 bits
    if (payload.size() > max_mtu_bytes || extensions.size() > max_extension_bytes ||
        extensions.size() % 4 != 0)
        return 0;
    bth.pad_count = static_cast<std::uint8_t>((0 - payload.size()) & 3U);
    const bool is_ipv6 = envelope.addresses.source.is_ipv6;
    const std::size_t udp_bytes =
        Udp::size_bytes + Bth::size_bytes + extensions.size() + payload.size() + bth.pad_count + icrc_bytes;
    const std::size_t ip_bytes = (is_ipv6 ? Ipv6::size_bytes : Ipv4::size_bytes) + udp_bytes;
    const std::size_t frame_size = Ethernet::size_bytes + ip_bytes;
    if (frame_size > out.size() || !fits(envelope) || !bth.fits()) return 0;

    std::uint8_t* next = out.data();
    Ethernet{.destination = envelope.addresses.destination_mac,
             .source = envelope.addresses.source_mac,
             .ethertype = is_ipv6 ? ethertype_ipv6 : ethertype_ipv4}
        .encode(next);
    next += Ethernet::size_bytes;
    is_ipv6 ? encode_ipv6(envelope, udp_bytes, next) : encode_ipv4(envelope, udp_bytes, next);
    next += is_ipv6 ? Ipv6::size_bytes : Ipv4::size_bytes;
    Udp udp;
    udp.source_port = envelope.source_port;
    udp.length = static_cast<std::uint16_t>(udp_bytes);
    udp.encode(next);
    next += Udp::size_bytes;
    bth.encode(next);
    next = std::copy(extensions.begin(), extensions.end(), next + Bth::size_bytes);
    next = std::copy(payload.begin(), payload.end(), next);
    next = std::fill_n(next, bth.pad_count, std::uint8_t{0});
    const std::uint32_t crc = engines::icrc({out.data() + Ethernet::size_bytes, ip_bytes - icrc_bytes});
    for (unsigned shift = 0; shift < 32; shift += 8) *next++ = static_cast<std::uint8_t>(crc >> shift);
    return frame_size;
}

std::size_t trim_frame(std::span<std::uint8_t> frame) {
    if (frame.size() <= trimmed_frame_bytes) return 0;
    std::uint8_t* const ip = frame.data() + Ethernet::size_bytes;
    if (Ethernet::decode(frame.data()).ethertype == ethertype_ipv6) {
        Ipv6 header = Ipv6::decode(ip);
        header.dscp = dscp_trimmed;
        header.encode(ip);
        return trimmed_frame_bytes;
    }
    Ipv4 header = Ipv4::decode(ip);
    const bool sound = ipv4_checksum(ip) == 0;
    header.dscp = dscp_trimmed;
    header.checksum = 0;
    header.encode(ip);
    header.checksum =
        static_cast<std::uint16_t>(ipv4_checksum(ip) ^ (sound ? 0U : 1U));  // no bad one turns good
    header.encode(ip);
    return trimmed_frame_bytes;
}

RoceFrame decode_roce(std::span<const std::uint8_t> frame) {
    RoceFrame result;
    result.reason = decode_layers(frame, result);
    return result;
}

}  // namespace plait::firmware
