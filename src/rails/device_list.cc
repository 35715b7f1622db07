// list_devices: what the operating system knows of this host's network devices.
//
// The ioctls are answered by the network namespace of the calling process. sysfs may be absent or
// show another namespace's devices, so it is believed only for a device of the same name, index
// and hardware address.
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <new>

#include "base/descriptor.h"
#include "base/file.h"
#include "base/ip_prefix.h"
#include "base/socket_address.h"
#include "rails/rail_selector.h"

namespace nezha::rails {
namespace {

class ControlSocket {
 public:
  ControlSocket() : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    // A host without IPv4 still answers on an IPv6 socket.
    if (!fd_) fd_ = Descriptor(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  }

  bool ask(const std::string& device, unsigned long request, ifreq& answer) const {
    device.copy(answer.ifr_name, IFNAMSIZ - 1);
    return fd_ && ::ioctl(fd_.get(), request, &answer) == 0;
  }

 private:
  Descriptor fd_;
};

uint32_t mtu_of(const ControlSocket& socket, const std::string& device) {
  ifreq request{};
  if (!socket.ask(device, SIOCGIFMTU, request) || request.ifr_mtu < 0) return 0;
  return static_cast<uint32_t>(request.ifr_mtu);
}

// The kernel first answers with the length of its link mode masks (negated), then with the data.
double speed_of(const ControlSocket& socket, const std::string& device) {
  constexpr size_t kMaskWords = 3 * 127;
  alignas(ethtool_link_settings)
      std::array<std::byte, sizeof(ethtool_link_settings) + kMaskWords * sizeof(uint32_t)> memory{};
  auto* settings = new (memory.data()) ethtool_link_settings{};
  settings->cmd = ETHTOOL_GLINKSETTINGS;
  ifreq request{};
  request.ifr_data = reinterpret_cast<char*>(memory.data());
  if (!socket.ask(device, SIOCETHTOOL, request)) return 0;
  const int words = -settings->link_mode_masks_nwords;
  if (words <= 0) return 0;
  *settings = {};
  settings->cmd = ETHTOOL_GLINKSETTINGS;
  settings->link_mode_masks_nwords = static_cast<int8_t>(words);
  if (!socket.ask(device, SIOCETHTOOL, request)) return 0;
  const uint32_t megabits = settings->speed;
  if (megabits > INT_MAX) return 0;  // SPEED_UNKNOWN is -1
  return megabits * 1e6;
}

std::string driver_of(const ControlSocket& socket, const std::string& device) {
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  ifreq request{};
  request.ifr_data = reinterpret_cast<char*>(&info);
  if (!socket.ask(device, SIOCETHTOOL, request)) return {};
  return {info.driver, ::strnlen(info.driver, sizeof(info.driver))};
}

// The speed that these drivers report says nothing about the path: it is a constant of the driver,
// or a number set by whoever created the device.
bool invents_its_speed(std::string_view driver) { return driver == "veth" || driver == "tun"; }

std::string sysfs_line(const std::string& device, const char* file) {
  constexpr size_t kBytesMax = 256;
  const auto text = read_file("/sys/class/net/" + device + "/" + file, kBytesMax);
  return text ? text.value().substr(0, text.value().find('\n')) : std::string();
}

std::string hardware_address(const ControlSocket& socket, const std::string& device) {
  ifreq request{};
  if (!socket.ask(device, SIOCGIFHWADDR, request)) return {};
  std::array<char, 18> text{};
  const auto* bytes = reinterpret_cast<const unsigned char*>(request.ifr_hwaddr.sa_data);
  std::snprintf(text.data(), text.size(), "%02x:%02x:%02x:%02x:%02x:%02x", bytes[0], bytes[1],
                bytes[2], bytes[3], bytes[4], bytes[5]);
  return text.data();
}

bool sysfs_describes(const ControlSocket& socket, const std::string& device) {
  const unsigned index = ::if_nametoindex(device.c_str());
  if (index == 0 || sysfs_line(device, "ifindex") != std::to_string(index)) return false;
  // Longer link addresses (InfiniBand) are compared as far as the ioctl reports them.
  const std::string address = hardware_address(socket, device);
  return !address.empty() && sysfs_line(device, "address").starts_with(address);
}

int number_or(const std::string& text, int otherwise) {
  int value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void add_sysfs(const std::string& name, Device& device) {
  device.numa_node = number_or(sysfs_line(name, "device/numa_node"), -1);
  if (device.speed_bits_per_s == 0) {
    const int megabits = number_or(sysfs_line(name, "speed"), -1);
    if (megabits > 0) device.speed_bits_per_s = megabits * 1e6;
  }
  if (!device.driver.empty()) return;
  std::array<char, PATH_MAX> target{};
  const std::string link = "/sys/class/net/" + name + "/device/driver";
  const ssize_t length = ::readlink(link.c_str(), target.data(), target.size() - 1);
  if (length <= 0) return;
  const std::string path(target.data(), static_cast<size_t>(length));
  device.driver = path.substr(path.rfind('/') + 1);
}

// The kernel's word for the kind of device, from a first line "DEVTYPE=wlan".
std::string sysfs_type(const std::string& name) {
  constexpr std::string_view kKey = "DEVTYPE=";
  const std::string line = sysfs_line(name, "uevent");
  return line.starts_with(kKey) ? line.substr(kKey.size()) : std::string();
}

Device describe(const ControlSocket& socket, const std::string& name, unsigned flags) {
  Device device;
  device.name = name;
  device.up = (flags & IFF_UP) != 0 && (flags & IFF_RUNNING) != 0;
  device.loopback = (flags & IFF_LOOPBACK) != 0;
  device.mtu = mtu_of(socket, name);
  device.speed_bits_per_s = speed_of(socket, name);
  device.driver = driver_of(socket, name);
  std::string type;
  if (sysfs_describes(socket, name)) {
    add_sysfs(name, device);
    type = sysfs_type(name);
  }
  device.kind = kind_of_device(name, device.driver, type);
  if (invents_its_speed(device.driver)) device.speed_bits_per_s = 0;
  return device;
}

// IPv4 labels ("eth0:1") are addresses of the device before the colon.
std::string device_name(const ifaddrs& entry) {
  const std::string_view label(entry.ifa_name);
  return std::string(label.substr(0, label.find(':')));
}

}  // namespace

Result<std::vector<Device>> list_devices() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) {
    const int number = errno;
    return error(number == ENOMEM || number == EMFILE || number == ENFILE ? Code::exhausted
                                                                         : Code::internal,
                 "listing this host's network devices failed: %s", std::strerror(number))
        .with_errno(number);
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(found, &::freeifaddrs);
  const ControlSocket socket;
  std::map<std::string, Device> described;
  std::map<std::string, bool> has_address;
  std::vector<Device> devices;
  std::vector<std::string> order;
  for (const ifaddrs* entry = list.get(); entry; entry = entry->ifa_next) {
    const std::string name = device_name(*entry);
    if (!described.contains(name)) {
      described[name] = describe(socket, name, entry->ifa_flags);
      order.push_back(name);
    }
    if (!entry->ifa_addr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Device device = described[name];
    device.family = family;
    device.address = numeric_host(entry->ifa_addr);
    device.prefix_length = prefix_bits(entry->ifa_netmask);
    has_address[name] = true;
    devices.push_back(std::move(device));
  }
  for (const std::string& name : order) {
    if (!has_address[name]) devices.push_back(described[name]);
  }
  return devices;
}

}  // namespace nezha::rails
