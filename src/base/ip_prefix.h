// IpPrefix: a numeric IPv4 or IPv6 address with a prefix length, parsed and compared.
//
// Contract: plain values, no name resolution, any thread.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nezha {

struct IpPrefix {
  int family = 0;  // AF_INET or AF_INET6
  std::array<uint8_t, 16> bytes{};
  int length = 0;  // bits

  int bits() const;  // 32 or 128
  // True when `other` is in the same family and agrees on the first `length` bits.
  bool contains(const IpPrefix& other) const;
  bool is_link_local() const;  // 169.254/16, fe80::/10
  bool is_loopback_v4() const;  // 127/8
};

// "10.1.0.0/16", "10.1.0.1", "fd00::/8", "fe80::1%eth0" (the scope is ignored). An address without
// a length is a prefix of all its bits. nullopt when it is none of these.
std::optional<IpPrefix> parse_ip_prefix(std::string_view text);

// The prefix length of a network mask as the system gives it; 0 for null.
int prefix_bits(const sockaddr* mask);

}  // namespace nezha
