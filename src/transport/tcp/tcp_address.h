// TcpPorts, TcpPlace: what a TCP rail publishes of itself (RailAddress::blob): where its listeners are,
// at the rail's address and, where its device has one of the other family, at that one.
//
// Contract: plain values; pure; any thread. A blob of a wrong size means port 0: nobody listens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace nezha::transport {

struct TcpPorts {
  uint16_t device = 0;  // for other hosts: answers only on the rail's own device
  uint16_t local = 0;   // for ranks of this host
};

struct TcpPlace {
  std::string address;  // numeric
  uint8_t prefix_length = 0;
  TcpPorts ports;
};

// The blob of a rail that listens at its own address alone.
std::string encode(const TcpPorts& ports);
// The blob of a rail that listens at one or two places, the first of them at its own address.
std::string encode(const std::vector<TcpPlace>& places);
TcpPorts ports_of(const RailAddress& rail);
std::vector<TcpPlace> places_of(const RailAddress& rail);

// Places of two rails between which a connection can be: in one network, else of one address family,
// IPv4 first. Nothing where they have no family in common.
struct TcpRoute {
  TcpPlace from;
  TcpPlace to;
  bool near = false;  // in one network
};
std::optional<TcpRoute> route_between(const RailAddress& mine, const RailAddress& theirs);

}  // namespace nezha::transport
