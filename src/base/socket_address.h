// SocketAddress: an IPv4 or IPv6 address with a port, as the system's calls take and give it.
//
// Contract: a value; any thread; nothing is resolved.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

namespace nezha {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  uint16_t port() const;
};

// Nothing for what is no number of an address. A link-local one is that of `device`, whatever stands
// behind its '%'.
std::optional<SocketAddress> parse_socket_address(const std::string& address, uint16_t port,
                                                  const std::string& device = "");
// The two ends of a socket.
SocketAddress local_address(int fd);
SocketAddress peer_address(int fd);

// "10.1.0.1", "fe80::1%eth0"; "?" where there is none.
std::string numeric_host(const sockaddr* address);
// "10.1.0.1:40001", "[fd00::1]:40001"
std::string host_with_port(const SocketAddress& address);

}  // namespace nezha
