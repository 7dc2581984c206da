#pragma once
// CRC-32 and the invariant CRC of RoCEv2 (InfiniBand Architecture Specification, section 7.8 and annex
// A17.3.3).

#include <cstdint>
#include <span>

namespace plait::engines {

/// Continues a CRC-32 (IEEE 802.3, reflected, polynomial 0xedb88320) over `bytes`. `state` is the shift
/// register itself: start with all ones and invert the last state to get the CRC that zlib and Ethernet use.
std::uint32_t crc32_update(std::uint32_t state, std::span<const std::uint8_t> bytes);

/// The usual CRC-32 of `bytes`.
inline std::uint32_t crc32(std::span<const std::uint8_t> bytes) { return ~crc32_update(0xffffffffU, bytes); }

/// Invariant CRC of a packet; it is stored behind the pad with its least significant byte first.
/// `packet` runs from the first byte of the IP header (IPv4 without options or IPv6 without extension
/// headers, told apart by the version) to the last pad byte. Fields that may change on the way are taken as
/// ones. Of a packet shorter than its headers only what is there is read.
std::uint32_t icrc(std::span<const std::uint8_t> packet);

}  // namespace plait::engines
