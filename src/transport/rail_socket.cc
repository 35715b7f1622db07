#include "transport/rail_socket.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/bind_device.h"
#include "base/ip_prefix.h"
#include "base/log.h"
#include "base/socket_address.h"

namespace nezha::transport {
namespace {

Result<SocketAddress> parse(const std::string& address, uint16_t port, const std::string& device) {
  if (const auto parsed = parse_socket_address(address, port, device)) return *parsed;
  return error(Code::invalid_argument, "'%s' is not a numeric IPv4 or IPv6 address",
               address.c_str());
}

Result<Descriptor> open_socket(const SocketAddress& address, const SocketPlace& place) {
  Descriptor fd(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) {
    return error(Code::exhausted, "cannot open a socket for %s: %s; raise the descriptor limit "
                 "(ulimit -n)", place.address.c_str(), std::strerror(errno)).with_errno(errno);
  }
  if (place.device.empty()) return fd;
  if (const Status bound = bind_to_device(fd.get(), place.device); !bound) {
    log::warn_once("rails", bound.message());  // on tidy hosts the rail still works
  }
  return fd;
}

}  // namespace

Result<Descriptor> listen_on(const SocketPlace& place, uint16_t low, uint16_t high,
                             uint16_t* port) {
  int last_errno = 0;
  for (uint32_t candidate = low; candidate <= std::max(low, high); ++candidate) {
    auto address = parse(place.address, static_cast<uint16_t>(candidate), place.device);
    if (!address) return address.status();
    auto fd = open_socket(*address, place);
    if (!fd) return fd.status();
    // The last connections of a program that had this port may still be ending (TIME_WAIT). A port
    // on which somebody listens is refused all the same. With SO_REUSEADDR, two sockets for which
    // the kernel chooses the port could get the same one.
    const int on = candidate != 0 ? 1 : 0;
    setsockopt(fd->get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    constexpr int kBacklog = 1024;
    if (bind(fd->get(), address->get(), address->length) != 0 || listen(fd->get(), kBacklog) != 0) {
      last_errno = errno;
      continue;
    }
    *port = local_address(fd->get()).port();
    return fd;
  }
  return error(Code::exhausted, "cannot listen on %s, ports %u-%u: %s; choose another port or a wider "
               "range", place.address.c_str(), low, high, std::strerror(last_errno))
      .with_errno(last_errno);
}

Result<Descriptor> dial(const SocketPlace& from, const std::string& address, uint16_t port) {
  auto target = parse(address, port, from.device);
  if (!target) return target.status();
  auto source = parse(from.address, 0, from.device);
  if (!source) return source.status();
  if (source->family() != target->family()) {
    return error(Code::unsupported, "%s and %s are of different address families",
                 from.address.c_str(), address.c_str());
  }
  auto fd = open_socket(*target, from);
  if (!fd) return fd.status();
  const int on = 1;
  setsockopt(fd->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd->get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
  if (bind(fd->get(), source->get(), source->length) != 0 ||
      (connect(fd->get(), target->get(), target->length) != 0 && errno != EINPROGRESS)) {
    return error(Code::peer_lost, "%s", std::strerror(errno)).with_errno(errno);
  }
  return fd;
}

void tune(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof(value));
}

int dial_error(int fd) {
  int number = 0;
  socklen_t length = sizeof(number);
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &length) != 0) return errno;
  return number;
}

std::string device_with(const std::string& address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string device;
  for (const ifaddrs* each = all; each != nullptr && device.empty(); each = each->ifa_next) {
    auto parsed = parse(address, 0, each->ifa_name);
    if (!parsed) break;
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != parsed->family()) continue;
    if (numeric_host(each->ifa_addr) == numeric_host(parsed->get())) device = each->ifa_name;
  }
  freeifaddrs(all);
  return device;
}

std::vector<DeviceAddress> addresses_of_device(const std::string& device) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  std::vector<DeviceAddress> found;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != family) continue;
      if ((each->ifa_flags & IFF_LOOPBACK) != 0 || (each->ifa_flags & IFF_UP) == 0) continue;
      if (!device.empty() && device != each->ifa_name) continue;
      const std::string numeric = numeric_host(each->ifa_addr);
      if (numeric.starts_with("169.254.") || numeric.starts_with("fe80:")) continue;
      found.push_back({numeric, static_cast<uint8_t>(prefix_bits(each->ifa_netmask))});
      break;
    }
  }
  freeifaddrs(all);
  return found;
}

std::string address_of_device(const std::string& device) {
  const auto found = addresses_of_device(device);
  return found.empty() ? "" : found.front().address;
}

std::string describe_connection(int fd) {
  return host_with_port(local_address(fd)) + " -> " + host_with_port(peer_address(fd));
}

}  // namespace nezha::transport
