// RailSelector: which network devices of this host become rails, and why the others do not.
//
// Contract: `list_devices` reads the operating system (getifaddrs, sysfs) once and returns values;
// `select_rails` is pure. Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace nezha::control {

// One address of one network device.
struct Device {
  std::string name;          // "eth0"
  std::string address;       // numeric, "10.1.0.1" or "fe80::1%eth0"
  int family = 0;            // AF_INET or AF_INET6
  int prefix_length = 0;     // 24
  uint32_t mtu = 0;          // bytes
  double speed_bits_per_s = 0;  // 0 when the driver does not say
  int numa_node = -1;        // -1 when unknown
  std::string driver;        // "virtio_net", "veth", "" when unknown
  bool up = false;           // administratively up and with carrier
  bool loopback = false;
  bool virtual_bridge = false;  // docker*, virbr*, br-*: never chosen unless named
};

// A device that became a rail, or did not, with the reason.
struct RailChoice {
  Device device;
  bool usable = false;
  std::string reason;        // why not; empty when usable
};

Result<std::vector<Device>> list_devices();

// The user's filter, in the field's syntax (NCCL_SOCKET_IFNAME): comma-separated prefixes of device
// names; a leading '^' excludes, a leading '=' asks for exact names; an entry that parses as CIDR
// ("10.1.0.0/16") selects by address. Empty selects every real device; loopback only when there is
// nothing else or when it is named. One address per device: IPv4 before IPv6, global before
// link-local; further addresses are listed with the reason. Several 127.x addresses named by CIDR
// are separate rails (the unprivileged lab). `invalid_argument` when the filter cannot be parsed;
// an empty selection is not an error here, the caller names what was left out.
Result<std::vector<RailChoice>> select_rails(std::span<const Device> devices,
                                             std::string_view filter);

// Devices in the same subnet can hear each other without a router.
bool same_subnet(const Device& a, const Device& b);

}  // namespace nezha::control
