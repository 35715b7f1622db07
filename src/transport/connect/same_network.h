// Whether the addresses of two rails are in one network, by the longer of their prefixes.
//
// Contract: pure; any thread. A text that is no address is in no network.
#pragma once

#include <string>

#include "base/ip_prefix.h"
#include "transport/transport.h"

namespace nezha::transport {

inline bool same_network(const std::string& a, int a_length, const std::string& b, int b_length) {
  auto first = parse_ip_prefix(a);
  auto second = parse_ip_prefix(b);
  if (!first || !second) return false;
  first->length = a_length;
  second->length = b_length;
  return first->length >= second->length ? first->contains(*second) : second->contains(*first);
}

inline bool same_network(const RailAddress& a, const RailAddress& b) {
  return same_network(a.address, a.prefix_length, b.address, b.prefix_length);
}

}  // namespace nezha::transport
