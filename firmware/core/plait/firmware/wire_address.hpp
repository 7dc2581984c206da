#pragma once
// The addresses that devices have in a fabric of our own (the simulator's captures; a lab without an address
// plan).

#include <optional>
#include <plait/firmware/wire.hpp>

namespace plait::firmware {

/// A device's port on a plane.
struct FabricPort {
    std::uint32_t device = 0;
    std::uint8_t plane = 0;
    friend constexpr bool operator==(const FabricPort&, const FabricPort&) = default;
};

/// IPv4: 10.plane.device / 256.device % 256, for devices below 65536. IPv6: fd70:6c61:6974:plane::device.
/// nullopt when the port has no such address.
constexpr std::optional<IpAddress> fabric_address(FabricPort port, bool is_ipv6 = false) {
    if (port.plane >= regmap::max_planes) return std::nullopt;
    if (is_ipv6)
        return IpAddress{.is_ipv6 = true, .high = 0xfd70'6c61'6974'0000U | port.plane, .low = port.device};
    if (port.device >= 65536) return std::nullopt;
    return IpAddress{
        .is_ipv6 = false, .high = 0, .low = 10U << 24 | std::uint32_t{port.plane} << 16 | port.device};
}

/// The port that has this address; nullopt for an address that fabric_address never gives.
constexpr std::optional<FabricPort> fabric_port(const IpAddress& address) {
    const FabricPort port = address.is_ipv6 ? FabricPort{static_cast<std::uint32_t>(address.low),
                                                         static_cast<std::uint8_t>(address.high)}
                                            : FabricPort{static_cast<std::uint32_t>(address.low & 0xffffU),
                                                         static_cast<std::uint8_t>(address.low >> 16)};
    if (fabric_address(port, address.is_ipv6) != address) return std::nullopt;
    return port;
}

/// The addresses of a frame from one device to another on a plane; MAC addresses are locally administered,
/// 02:plane:device.
constexpr std::optional<FrameAddresses> fabric_addresses(std::uint32_t source_device,
                                                         std::uint32_t destination_device, std::uint8_t plane,
                                                         bool is_ipv6 = false) {
    const std::optional<IpAddress> source = fabric_address({source_device, plane}, is_ipv6);
    const std::optional<IpAddress> destination = fabric_address({destination_device, plane}, is_ipv6);
    if (!source || !destination) return std::nullopt;
    const std::uint64_t mac = 0x0200'0000'0000U | std::uint64_t{plane} << 32;
    return FrameAddresses{.source_mac = mac | source_device,
                          .destination_mac = mac | destination_device,
                          .source = *source,
                          .destination = *destination};
}

}  // namespace plait::firmware
