// RailSelector: the filter's syntax and every reason, on invented devices; one look at the real lo.
#include "rails/rail_selector.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>

namespace nezha::rails {
namespace {

Device device(const std::string& name, const std::string& address, int prefix_length = 24) {
  Device made;
  made.name = name;
  made.address = address;
  made.family = address.find(':') == std::string::npos ? AF_INET : AF_INET6;
  made.prefix_length = prefix_length;
  made.mtu = 1500;
  made.up = true;
  return made;
}

Device loopback(const std::string& address = "127.0.0.1") {
  Device made = device("lo", address, 8);
  made.loopback = true;
  return made;
}

Device named(const std::string& name, const std::string& address, const std::string& driver = "",
             const std::string& type = "") {
  Device made = device(name, address);
  made.driver = driver;
  made.kind = kind_of_device(name, driver, type);
  return made;
}

Device bridge(const std::string& name, const std::string& address) { return named(name, address); }

std::vector<RailChoice> select(const std::vector<Device>& devices, std::string_view filter) {
  auto choices = select_rails(devices, filter);
  EXPECT_TRUE(choices.is_ok()) << choices.status().to_string();
  return choices ? *choices : std::vector<RailChoice>{};
}

std::vector<std::string> used(const std::vector<Device>& devices, std::string_view filter) {
  std::vector<std::string> names;
  for (const RailChoice& choice : select(devices, filter)) {
    EXPECT_EQ(choice.usable, choice.reason.empty()) << choice.device.name << choice.reason;
    if (choice.usable) names.push_back(choice.device.name + " " + choice.device.address);
  }
  return names;
}

std::string reason(const std::vector<Device>& devices, std::string_view filter,
                   std::string_view address) {
  for (const RailChoice& choice : select(devices, filter)) {
    if (choice.device.address == address) return choice.reason;
  }
  return "no such device";
}

using Names = std::vector<std::string>;

std::vector<Device> host() {
  return {loopback(), device("eth0", "10.1.0.1"), device("eth1", "10.2.0.1"),
          bridge("docker0", "172.17.0.1")};
}

TEST(RailSelector, EmptyFilterTakesRealDevices) {
  EXPECT_EQ(used(host(), ""), (Names{"eth0 10.1.0.1", "eth1 10.2.0.1"}));
  EXPECT_EQ(used(host(), "  "), (Names{"eth0 10.1.0.1", "eth1 10.2.0.1"}));
  EXPECT_EQ(reason(host(), "", "127.0.0.1"),
            "loopback: used only when nothing else is usable or when named");
  EXPECT_EQ(reason(host(), "", "172.17.0.1"),
            "bridge of a container or machine manager: used only when named");
}

TEST(RailSelector, KindsOfDevices) {
  const struct {
    const char* name;
    const char* driver;
    const char* type;
    DeviceKind kind;
  } devices[] = {
      {"eth0", "mlx5_core", "", DeviceKind::network},
      {"enp65s0f0np0", "ice", "", DeviceKind::network},
      {"ib0", "ib_ipoib", "", DeviceKind::network},
      {"bond0", "bonding", "bond", DeviceKind::network},
      {"br0", "bridge", "bridge", DeviceKind::network},
      {"eth0", "veth", "", DeviceKind::network},
      {"eno1.100", "", "vlan", DeviceKind::network},
      {"docker0", "bridge", "bridge", DeviceKind::bridge},
      {"br-4f2a", "bridge", "", DeviceKind::bridge},
      {"cali12ab", "veth", "", DeviceKind::overlay},
      {"flannel.1", "", "vxlan", DeviceKind::overlay},
      {"net7", "", "vxlan", DeviceKind::network},
      {"wg0", "", "wireguard", DeviceKind::tunnel},
      {"home", "", "wireguard", DeviceKind::tunnel},
      {"tailscale0", "tun", "", DeviceKind::tunnel},
      {"tun3", "tun", "", DeviceKind::tunnel},
      {"office", "tun", "", DeviceKind::tunnel},
      {"wlp3s0", "", "wlan", DeviceKind::wireless},
      {"wlan0", "", "", DeviceKind::wireless},
      {"radio", "", "wlan", DeviceKind::wireless},
      {"idrac", "", "", DeviceKind::management},
      {"usb0", "cdc_ether", "", DeviceKind::management},
  };
  for (const auto& device : devices) {
    EXPECT_EQ(kind_of_device(device.name, device.driver, device.type), device.kind) << device.name;
  }
}

TEST(RailSelector, WhatOthersUseIsNoRailUnlessNamedOrAlone) {
  std::vector<Device> devices = {loopback(), named("wlan0", "192.168.1.2"), named("wg0", "10.9.0.2"),
                                 named("cali1", "10.8.0.1"), device("eth0", "10.1.0.1")};
  EXPECT_EQ(used(devices, ""), Names{"eth0 10.1.0.1"});
  EXPECT_EQ(reason(devices, "", "10.9.0.2"),
            "VPN or other tunnel: used only when nothing else is usable or when named");
  EXPECT_EQ(reason(devices, "", "10.8.0.1"), "part of a container network: used only when named");
  EXPECT_EQ(used(devices, "eth,wg"), (Names{"wg0 10.9.0.2", "eth0 10.1.0.1"}));
  EXPECT_EQ(used(devices, "=cali1"), Names{"cali1 10.8.0.1"});
  devices.back().up = false;
  EXPECT_EQ(used(devices, ""), (Names{"wlan0 192.168.1.2", "wg0 10.9.0.2"}))
      << "a laptop, or a host that others reach by its VPN only";
  EXPECT_EQ(used(devices, "^wlan,wg"), Names{"lo 127.0.0.1"}) << "the container network stays out";
  devices[1].address = "fe80::1%wlan0";
  devices[1].family = AF_INET6;
  EXPECT_EQ(used(devices, "^wg"), Names{"lo 127.0.0.1"}) << "a link-local address is no reserve";
}

TEST(RailSelector, Prefixes) {
  EXPECT_EQ(used(host(), "eth"), (Names{"eth0 10.1.0.1", "eth1 10.2.0.1"}));
  EXPECT_EQ(used(host(), "eth1, docker"), (Names{"eth1 10.2.0.1", "docker0 172.17.0.1"}));
  EXPECT_EQ(reason(host(), "eth1", "10.1.0.1"), "not selected by the filter");
  EXPECT_EQ(used(host(), "ib"), Names{});
}

TEST(RailSelector, ExactNames) {
  const std::vector<Device> devices = {device("eth1", "10.1.0.1"), device("eth10", "10.2.0.1"),
                                       device("eth2", "10.3.0.1")};
  EXPECT_EQ(used(devices, "eth1"), (Names{"eth1 10.1.0.1", "eth10 10.2.0.1"}));
  EXPECT_EQ(used(devices, "=eth1"), Names{"eth1 10.1.0.1"});
  EXPECT_EQ(used(devices, "=eth1,eth2"), (Names{"eth1 10.1.0.1", "eth2 10.3.0.1"}));
  EXPECT_EQ(used(devices, "=eth1,eth"), Names{"eth1 10.1.0.1"}) << "a leading '=' holds for all";
  EXPECT_EQ(used(devices, "^=eth1"), (Names{"eth10 10.2.0.1", "eth2 10.3.0.1"}));
}

TEST(RailSelector, Exclusion) {
  EXPECT_EQ(used(host(), "^eth0"), Names{"eth1 10.2.0.1"});
  EXPECT_EQ(used(host(), "^docker,eth0"), Names{"eth1 10.2.0.1"}) << "a leading '^' holds for all";
  EXPECT_EQ(used(host(), "eth,^eth1"), Names{"eth0 10.1.0.1"});
  EXPECT_EQ(used(host(), "^10.2.0.0/16"), Names{"eth0 10.1.0.1"});
  EXPECT_EQ(reason(host(), "^docker", "172.17.0.1"), "excluded by filter '^docker'");
  EXPECT_EQ(used(host(), "^eth"), Names{"lo 127.0.0.1"}) << "nothing else is left";
  EXPECT_EQ(used(host(), "^eth,lo"), Names{}) << "an excluded loopback stays out";
}

TEST(RailSelector, Cidr) {
  EXPECT_EQ(used(host(), "10.2.0.0/16"), Names{"eth1 10.2.0.1"});
  EXPECT_EQ(used(host(), "10.0.0.0/8"), (Names{"eth0 10.1.0.1", "eth1 10.2.0.1"}));
  EXPECT_EQ(used(host(), "10.2.0.1"), Names{"eth1 10.2.0.1"});
  EXPECT_EQ(used(host(), "10.1.0.0/16,=eth1"), (Names{"eth0 10.1.0.1", "eth1 10.2.0.1"}));
  EXPECT_EQ(used(host(), "10.1.0.0/23"), Names{"eth0 10.1.0.1"}) << "a length inside a byte";
  EXPECT_EQ(used(host(), "10.1.2.0/23"), Names{});
  const std::vector<Device> v6 = {device("eth0", "fd00:1::1", 64), device("eth1", "fd00:2::1", 64)};
  EXPECT_EQ(used(v6, "fd00:2::/32"), Names{"eth1 fd00:2::1"});
}

TEST(RailSelector, OneAddressPerDevice) {
  const std::vector<Device> devices = {device("eth0", "fe80::1%eth0", 64),
                                       device("eth0", "fd00::1", 64), device("eth0", "10.1.0.1"),
                                       device("eth0", "10.9.0.1")};
  EXPECT_EQ(used(devices, ""), Names{"eth0 10.1.0.1"});
  for (const char* other : {"fe80::1%eth0", "10.9.0.1"}) {
    EXPECT_EQ(reason(devices, "", other),
              "second address of eth0, which is used with 10.1.0.1");
  }
  EXPECT_EQ(reason(devices, "", "fd00::1"),
            "second address of eth0, which is used with 10.1.0.1; for hosts without IPv4");
  auto choices = select_rails(devices, "");
  for (const RailChoice& choice : *choices) {
    EXPECT_EQ(choice.second, choice.device.address == "fd00::1");
    EXPECT_EQ(choice.other_address, choice.usable ? "fd00::1" : "");
    EXPECT_EQ(choice.other_prefix_length, choice.usable ? 64 : 0);
  }
  // The filter is of addresses: what it does not name is not offered.
  auto named = select_rails(devices, "10.9.0.0/24");
  for (const RailChoice& choice : *named) {
    EXPECT_FALSE(choice.second || !choice.other_address.empty());
  }
  EXPECT_EQ(used(devices, "10.9.0.0/24"), Names{"eth0 10.9.0.1"});
  EXPECT_EQ(used(devices, "fd00::/8"), Names{"eth0 fd00::1"});
}

TEST(RailSelector, LinkLocalOnlyWhenNamed) {
  const std::vector<Device> devices = {device("eth0", "fe80::1%eth0", 64),
                                       device("usb0", "169.254.3.1", 16),
                                       device("eth1", "10.1.0.1")};
  EXPECT_EQ(used(devices, ""), Names{"eth1 10.1.0.1"});
  EXPECT_EQ(reason(devices, "", "169.254.3.1"), "only a link-local address: used only when named");
  EXPECT_EQ(used(devices, "eth0"), Names{"eth0 fe80::1%eth0"});
  EXPECT_EQ(used(devices, "169.254.0.0/16"), Names{"usb0 169.254.3.1"});
}

TEST(RailSelector, DownAndWithoutAddress) {
  Device down = device("eth1", "10.2.0.1");
  down.up = false;
  Device bare = device("eth2", "");
  bare.family = 0;
  const std::vector<Device> devices = {device("eth0", "10.1.0.1"), down, bare};
  EXPECT_EQ(used(devices, "eth"), Names{"eth0 10.1.0.1"});
  EXPECT_EQ(reason(devices, "", "10.2.0.1"), "down or no carrier");
  EXPECT_EQ(reason(devices, "", ""), "no IP address");
  EXPECT_EQ(used({loopback(), down, bare}, ""), Names{"lo 127.0.0.1"});
}

TEST(RailSelector, LoopbackIsTheLastResort) {
  const std::vector<Device> devices = {loopback("::1"), loopback()};
  EXPECT_EQ(used(devices, ""), Names{"lo 127.0.0.1"});
  EXPECT_EQ(used(host(), "lo,eth0"), (Names{"lo 127.0.0.1", "eth0 10.1.0.1"}));
}

TEST(RailSelector, InventedLoopbackNetworksAreSeparateRails) {
  const auto choices = select(host(), "127.1.0.1/32,127.2.0.1");
  std::vector<Device> rails;
  for (const RailChoice& choice : choices) {
    if (choice.usable) rails.push_back(choice.device);
  }
  ASSERT_EQ(rails.size(), 2u);
  EXPECT_EQ(rails[0].name, "lo");
  EXPECT_EQ(rails[0].address, "127.1.0.1");
  EXPECT_EQ(rails[1].address, "127.2.0.1");
  EXPECT_TRUE(rails[0].loopback);
  EXPECT_EQ(used(host(), "127.0.0.1/32,127.1.0.1/32"), (Names{"lo 127.0.0.1", "lo 127.1.0.1"}));
  EXPECT_EQ(used(host(), "127.1.0.1/32,127.1.0.1/32"), Names{"lo 127.1.0.1"}) << "named twice";
  EXPECT_EQ(used({device("eth0", "10.1.0.1")}, "127.1.0.1/32"), Names{}) << "no loopback at all";
}

TEST(RailSelector, AtMostSixteenRails) {
  std::vector<Device> devices;
  for (int i = 0; i < 20; ++i) {
    devices.push_back(device("eth" + std::to_string(i), "10." + std::to_string(i) + ".0.1"));
  }
  EXPECT_EQ(used(devices, "").size(), 16u);
  EXPECT_EQ(reason(devices, "", "10.16.0.1"), "more than 16 rails: name the ones to use");
}

TEST(RailSelector, BadFiltersAreRefusedWithTheText) {
  for (const char* filter : {",", "eth0,", "^", "=", "^=", "eth0,,eth1", "10.1.0.0/33", "10.1/8",
                             "10.1.0.0/", "10.1.0.0/8x", "10.1.0.0/-1", "fd00::/129", "eth/0",
                             "a-name-beyond-fifteen"}) {
    auto choices = select_rails(host(), filter);
    ASSERT_FALSE(choices.is_ok()) << filter;
    EXPECT_EQ(choices.status().code(), Code::invalid_argument) << filter;
    EXPECT_NE(choices.status().message().find(filter), std::string::npos);
  }
}

TEST(RailSelector, DevicesWithAbsurdAddressesAreLeftOut) {
  Device odd = device("eth0", "not an address");
  odd.prefix_length = 9999;
  EXPECT_EQ(reason({odd}, "", "not an address"), "no IP address");
}

TEST(RailSelector, ListDevicesFindsTheLoopback) {
  auto devices = list_devices();
  ASSERT_TRUE(devices.is_ok()) << devices.status().to_string();
  const auto lo = std::find_if(devices->begin(), devices->end(),
                               [](const Device& each) { return each.name == "lo"; });
  ASSERT_NE(lo, devices->end());
  EXPECT_TRUE(lo->loopback);
  EXPECT_GT(lo->mtu, 0u);
  EXPECT_EQ(lo->numa_node, -1);
}

// A rail when it has an address.
Names missing(const std::vector<Device>& devices, std::string_view filter) {
  Names names;
  for (const RailChoice& choice : select(devices, filter)) {
    EXPECT_FALSE(choice.missing && choice.usable);
    if (choice.missing) names.push_back(choice.device.name);
  }
  return names;
}

TEST(RailSelector, ADeviceThatIsNamedAndHasNoAddressIsMissing) {
  const std::vector<Device> devices = {device("eth0", "10.1.0.1"), device("eth1", "")};
  EXPECT_EQ(missing(devices, ""), Names{}) << "nobody asks for it";
  EXPECT_EQ(missing(devices, "eth"), Names{"eth1"});
  EXPECT_EQ(missing(devices, "eth1"), Names{"eth1"});
  EXPECT_EQ(missing(devices, "eth,^eth1"), Names{});
  EXPECT_EQ(missing(devices, "^eth0"), Names{});
  EXPECT_EQ(missing(devices, "10.0.0.0/8"), Names{});
  EXPECT_EQ(missing(devices, "=eth0,=eth2"), Names{"eth2"}) << "it is not there at all";
  EXPECT_EQ(missing(devices, "eth0,eth2"), Names{}) << "a prefix names no device";
  EXPECT_EQ(used(devices, "eth"), Names{"eth0 10.1.0.1"});
}

TEST(RailSelector, WhatIsMissingIsCountedAmongTheRails) {
  std::vector<Device> devices;
  for (int i = 10; i < 30; ++i) {
    devices.push_back(device("eth" + std::to_string(i), i < 15 ? "" : "10.0.0.1"));
  }
  EXPECT_EQ(used(devices, "eth").size() + missing(devices, "eth").size(), 16U);
}

}  // namespace
}  // namespace nezha::rails
