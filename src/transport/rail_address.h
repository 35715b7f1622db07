// RailAddress: a rail as its owner publishes it to the other ranks, and as bytes in what they say to each
// other.
//
// Contract: plain values; pure; any thread. The bytes may come from anybody: they are refused
// unless they are the address of a rail with every number in the range of its meaning.
#pragma once

#include <cstdint>
#include <string>

#include "base/blob.h"

namespace nezha::transport {

inline constexpr size_t kRailBlobBytesMax = 512;

struct RailAddress {
  std::string name;           // device, "eth0"
  std::string address;        // numeric
  uint8_t prefix_length = 0;
  uint32_t mtu = 0;
  double speed_bits_per_s = 0;  // 0: unknown
  std::string transport = "tcp";  // its name in the table of transports (context/rail_transports.cc)
  std::string variant = "";   // of the transport: libfabric's provider, "net"; "": it has none
  std::string blob = "";      // for the rail's transport at other ranks: where the rail answers

  // Whether the rail's device has no address yet. (Rails of a transport with variants need none.)
  bool is_missing() const { return address.empty() && variant.empty(); }
};

void write(BlobWriter<>& writer, const RailAddress& rail);
bool read(BlobReader& reader, RailAddress* rail);

}  // namespace nezha::transport
