// RailSelector: which network devices of this host become rails, and why the others do not.
//
// Contract: `list_devices` reads the operating system (getifaddrs, ioctl, sysfs) once and returns
// values; what the system does not say stays at its default. `select_rails` is pure. Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "rails/device_kind.h"

namespace nezha::rails {

// One address of one network device.
struct Device {
  std::string name;          // "eth0"
  std::string address;       // numeric, "10.1.0.1" or "fe80::1%eth0"; "" when it has none
  int family = 0;            // AF_INET or AF_INET6; 0 without an address
  int prefix_length = 0;     // 24
  uint32_t mtu = 0;          // bytes
  double speed_bits_per_s = 0;  // 0 when the driver does not say
  int numa_node = -1;        // -1 when unknown
  std::string driver;        // "virtio_net", "veth", "" when unknown
  bool up = false;           // administratively up and with carrier
  bool loopback = false;
  DeviceKind kind = DeviceKind::network;
};

// A device that became a rail, or did not, with the reason.
struct RailChoice {
  Device device;
  bool usable = false;
  bool missing = false;      // named, and without an address: a rail when it has one
  std::string reason;        // why not; empty when usable
  bool second = false;       // not usable: its device's rail is offered with this address, too
  std::string other_address = {};  // of a usable rail: its `second` address, of the other family
  int other_prefix_length = 0;
};

Result<std::vector<Device>> list_devices();

// The user's filter, in the field's syntax (NCCL_SOCKET_IFNAME): comma-separated entries, each a
// prefix of a device name, a numeric address or a CIDR block ("10.1.0.0/16"). '^' before an entry
// excludes what it matches, '=' asks for the exact name. A marker at the very start holds for the
// whole list ("^docker,virbr", "=eth0,eth1", "^=eth3"); later entries may carry their own
// ("eth,^eth1").
//
// Without an including entry every device of kind `network` is selected, unless it only has a link-local
// address (management controllers, unconfigured ports). Where there is none, those of kinds in reserve
// are, and where there is none of them either, the loopback. Naming a device overrides all of this.
// One rail per device: IPv4 before IPv6, global before link-local. If both are global, an address
// of the other family is the rail's second one, for hosts that have only that family (except on the
// loopback); further addresses are listed with the reason. At most kRailsMax rails.
//
// Several 127.x addresses named by address or CIDR are separate rails (the unprivileged lab), also
// when the interface only lists 127.0.0.1/8: Linux lets any 127.x be bound. Such an invented device
// is called after the loopback and has prefix length 16, so that 127.1.* and 127.2.* are two
// networks.
//
// A device that the filter names (not by an address or a block) and that has no address is
// `missing`, and so is one that the filter names exactly and that this host does not have.
//
// `invalid_argument` when the filter cannot be parsed; an empty selection is not an error here, the
// caller names what was left out.
Result<std::vector<RailChoice>> select_rails(std::span<const Device> devices,
                                             std::string_view filter);

}  // namespace nezha::rails
