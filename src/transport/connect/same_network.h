// Whether the addresses of two rails are in one network, by the wider of their prefixes' lengths.
//
// Contract: pure; any thread. What is no address is in no network.
#pragma once

#include "base/ip_prefix.h"
#include "transport/transport.h"

namespace nezha::transport {

inline bool same_network(const RailAddress& a, const RailAddress& b) {
  auto first = parse_ip_prefix(a.address);
  auto second = parse_ip_prefix(b.address);
  if (!first || !second) return false;
  first->length = a.prefix_length;
  second->length = b.prefix_length;
  return first->length >= second->length ? first->contains(*second) : second->contains(*first);
}

}  // namespace nezha::transport
