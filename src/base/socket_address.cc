#include "base/socket_address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

namespace nezha {

uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                                    : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

std::optional<SocketAddress> parse_socket_address(const std::string& address, uint16_t port,
                                                  const std::string& device) {
  SocketAddress parsed;
  const std::string bare = address.substr(0, address.find('%'));
  if (auto* v4 = reinterpret_cast<sockaddr_in*>(&parsed.storage);
      inet_pton(AF_INET, bare.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    parsed.length = sizeof(*v4);
    return parsed;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&parsed.storage);
  if (inet_pton(AF_INET6, bare.c_str(), &v6->sin6_addr) != 1) return std::nullopt;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(port);
  if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) v6->sin6_scope_id = if_nametoindex(device.c_str());
  parsed.length = sizeof(*v6);
  return parsed;
}

SocketAddress local_address(int fd) {
  SocketAddress address;
  getsockname(fd, address.get(), &address.length);
  return address;
}

SocketAddress peer_address(int fd) {
  SocketAddress address;
  getpeername(fd, address.get(), &address.length);
  return address;
}

std::string numeric_host(const sockaddr* address) {
  char host[NI_MAXHOST] = "?";
  const socklen_t length = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  getnameinfo(address, length, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  return host;
}

std::string host_with_port(const SocketAddress& address) {
  std::string name = numeric_host(address.get());
  if (address.family() == AF_INET6) name.insert(0, 1, '[').append("]");
  return name.append(":").append(std::to_string(address.port()));
}

}  // namespace nezha
