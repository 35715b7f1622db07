#include "rails/device_kind.h"

#include <algorithm>
#include <array>

namespace nezha::rails {
namespace {

struct DeviceSign {
  std::string_view text;
  DeviceKind kind;
};

// Beginnings of the names that managers and VPNs give their devices by default. systemd's names of
// wireless devices begin with "wl" and "ww" (systemd.net-naming-scheme(7)).
constexpr std::array kDeviceNames = {
    DeviceSign{"docker", DeviceKind::bridge},
    DeviceSign{"virbr", DeviceKind::bridge},
    DeviceSign{"br-", DeviceKind::bridge},
    DeviceSign{"cni", DeviceKind::bridge},
    DeviceSign{"lxcbr", DeviceKind::bridge},
    DeviceSign{"lxdbr", DeviceKind::bridge},
    DeviceSign{"podman", DeviceKind::bridge},
    DeviceSign{"cali", DeviceKind::overlay},
    DeviceSign{"flannel", DeviceKind::overlay},
    DeviceSign{"vxlan", DeviceKind::overlay},
    DeviceSign{"cilium", DeviceKind::overlay},
    DeviceSign{"weave", DeviceKind::overlay},
    DeviceSign{"kube-", DeviceKind::overlay},
    DeviceSign{"nodelocaldns", DeviceKind::overlay},
    DeviceSign{"ovn-k8s", DeviceKind::overlay},
    DeviceSign{"tunl", DeviceKind::overlay},
    DeviceSign{"wg", DeviceKind::tunnel},
    DeviceSign{"tailscale", DeviceKind::tunnel},
    DeviceSign{"tun", DeviceKind::tunnel},
    DeviceSign{"zt", DeviceKind::tunnel},
    DeviceSign{"nebula", DeviceKind::tunnel},
    DeviceSign{"ppp", DeviceKind::tunnel},
    DeviceSign{"wl", DeviceKind::wireless},
    DeviceSign{"ww", DeviceKind::wireless},
    DeviceSign{"idrac", DeviceKind::management},
    DeviceSign{"bmc", DeviceKind::management},
    DeviceSign{"ipmi", DeviceKind::management},
    DeviceSign{"mgmt", DeviceKind::management},
};
constexpr std::array kDeviceDrivers = {
    DeviceSign{"tun", DeviceKind::tunnel},
    DeviceSign{"wireguard", DeviceKind::tunnel},
    // How controllers of hosts show themselves on USB.
    DeviceSign{"rndis_host", DeviceKind::management},
    DeviceSign{"cdc_ether", DeviceKind::management},
};
constexpr std::array kDeviceTypes = {
    DeviceSign{"wlan", DeviceKind::wireless},
    DeviceSign{"wwan", DeviceKind::wireless},
    DeviceSign{"wireguard", DeviceKind::tunnel},
};

template <class Signs, class Fits>
DeviceKind first(const Signs& signs, Fits fits) {
  const auto found = std::find_if(signs.begin(), signs.end(), fits);
  return found == signs.end() ? DeviceKind::network : found->kind;
}

}  // namespace

DeviceKind kind_of_device(std::string_view name, std::string_view driver, std::string_view type) {
  DeviceKind kind =
      first(kDeviceNames, [&](const DeviceSign& sign) { return name.starts_with(sign.text); });
  if (kind == DeviceKind::network) {
    kind = first(kDeviceTypes, [&](const DeviceSign& sign) { return type == sign.text; });
  }
  if (kind == DeviceKind::network) {
    kind = first(kDeviceDrivers, [&](const DeviceSign& sign) { return driver == sign.text; });
  }
  return kind;
}

std::string_view name_of(DeviceKind kind) {
  constexpr std::array<std::string_view, 6> kWords = {
      "", "bridge of a container or machine manager", "part of a container network",
      "VPN or other tunnel", "wireless", "management of the host"};
  return kWords[static_cast<size_t>(kind)];
}

}  // namespace nezha::rails
