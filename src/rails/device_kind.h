// DeviceKind: what a network device is for, as far as its name and the kernel tell.
//
// Contract: pure; any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace nezha::rails {

enum class DeviceKind : uint8_t {
  network,     // whatever is none of the following
  bridge,      // of a container or machine manager: docker0, virbr0
  overlay,     // of a container network: cali*, flannel.1, vxlan.calico
  tunnel,      // of a VPN: wg0, tailscale0, tun0
  wireless,    // wlan0, wwan0
  management,  // towards the host's controller: idrac, an Ethernet function over USB
};

// driver: "tun", "rndis_host", "" when unknown. type: DEVTYPE of sysfs, "wlan", "wireguard", "" when
// unknown.
DeviceKind kind_of_device(std::string_view name, std::string_view driver, std::string_view type);

// For people: "VPN or other tunnel". Empty for a network.
std::string_view name_of(DeviceKind kind);

// Whether a device of this kind may serve where no other does. Bridges and overlays lead to containers
// of this host, and to no other host that a rail could reach by them alone.
constexpr bool is_in_reserve(DeviceKind kind) {
  return kind == DeviceKind::tunnel || kind == DeviceKind::wireless || kind == DeviceKind::management;
}

}  // namespace nezha::rails
