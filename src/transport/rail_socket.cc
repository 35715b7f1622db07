#include "transport/rail_socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/bind_device.h"
#include "base/ip_prefix.h"
#include "base/log.h"

namespace nezha::transport {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// Link-local addresses need the device through which they are meant.
Result<SocketAddress> parse(const std::string& address, uint16_t port, const std::string& device) {
  SocketAddress parsed;
  const std::string bare = address.substr(0, address.find('%'));
  if (auto* v4 = reinterpret_cast<sockaddr_in*>(&parsed.storage);
      inet_pton(AF_INET, bare.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    parsed.length = sizeof(*v4);
    return parsed;
  }
  if (auto* v6 = reinterpret_cast<sockaddr_in6*>(&parsed.storage);
      inet_pton(AF_INET6, bare.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) v6->sin6_scope_id = if_nametoindex(device.c_str());
    parsed.length = sizeof(*v6);
    return parsed;
  }
  return error(Code::invalid_argument, "'%s' is not a numeric IPv4 or IPv6 address",
               address.c_str());
}

Result<Descriptor> open_socket(const SocketAddress& address, const SocketPlace& place) {
  Descriptor fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
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

std::string name_of_address(const sockaddr_storage& storage, socklen_t length) {
  char host[NI_MAXHOST] = "?";
  char port[NI_MAXSERV] = "?";
  getnameinfo(reinterpret_cast<const sockaddr*>(&storage), length, host, sizeof(host), port,
              sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
  std::string name(host);
  if (storage.ss_family == AF_INET6) name.insert(0, 1, '[').append("]");
  return name.append(":").append(port);
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
    // The one port that it may be: the last connections of the program that had it may still be ending.
    const int on = low == high && low != 0 ? 1 : 0;
    setsockopt(fd->get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    constexpr int kBacklog = 1024;
    if (bind(fd->get(), address->get(), address->length) != 0 || listen(fd->get(), kBacklog) != 0) {
      last_errno = errno;
      continue;
    }
    sockaddr_storage bound{};
    socklen_t length = sizeof(bound);
    getsockname(fd->get(), reinterpret_cast<sockaddr*>(&bound), &length);
    *port = ntohs(bound.ss_family == AF_INET6
                      ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                      : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
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
  if (source->storage.ss_family != target->storage.ss_family) {
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
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != parsed->storage.ss_family) continue;
    sockaddr_storage listed{};
    std::memcpy(&listed, each->ifa_addr, parsed->length);
    if (name_of_address(listed, parsed->length) == name_of_address(parsed->storage, parsed->length)) {
      device = each->ifa_name;
    }
  }
  freeifaddrs(all);
  return device;
}

bool find_address(const std::string& device, std::string* address, uint8_t* prefix_length) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return false;
  address->clear();
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* each = all; each != nullptr && address->empty(); each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != family) continue;
      if ((each->ifa_flags & IFF_LOOPBACK) != 0 || (each->ifa_flags & IFF_UP) == 0) continue;
      if (!device.empty() && device != each->ifa_name) continue;
      const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      char text[NI_MAXHOST] = "";
      getnameinfo(each->ifa_addr, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
      const std::string_view numeric(text);
      if (numeric.starts_with("169.254.") || numeric.starts_with("fe80:")) continue;
      *address = numeric;
      *prefix_length = static_cast<uint8_t>(prefix_bits(each->ifa_netmask));
    }
  }
  freeifaddrs(all);
  return !address->empty();
}

std::string address_of_device(const std::string& device) {
  std::string address;
  uint8_t prefix_length = 0;
  find_address(device, &address, &prefix_length);
  return address;
}

std::string describe_connection(int fd) {
  sockaddr_storage here{};
  sockaddr_storage there{};
  socklen_t here_length = sizeof(here);
  socklen_t there_length = sizeof(there);
  getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_length);
  getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_length);
  return name_of_address(here, here_length) + " -> " + name_of_address(there, there_length);
}

}  // namespace nezha::transport
