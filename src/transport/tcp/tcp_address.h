// TcpPorts: what a TCP rail publishes of itself (RailAddress::blob): where its listeners are.
//
// Contract: plain values; pure; any thread. Who publishes nonsense listens nowhere: port 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "transport/transport.h"
#include "wire/little_endian.h"

namespace nezha::transport {

struct TcpPorts {
  uint16_t device = 0;  // for other hosts: answers only on the rail's own device
  uint16_t local = 0;   // for ranks of this host
};

inline std::string encode(const TcpPorts& ports) {
  std::string blob(2 * sizeof(uint16_t), '\0');
  auto* const bytes = reinterpret_cast<std::byte*>(blob.data());
  wire::store_le(bytes, ports.device);
  wire::store_le(bytes + sizeof(uint16_t), ports.local);
  return blob;
}

inline TcpPorts ports_of(const RailAddress& rail) {
  if (rail.blob.size() != 2 * sizeof(uint16_t)) return {};
  const auto* const bytes = reinterpret_cast<const std::byte*>(rail.blob.data());
  return {wire::load_le<uint16_t>(bytes), wire::load_le<uint16_t>(bytes + sizeof(uint16_t))};
}

}  // namespace nezha::transport
