// The names of ports that two ranks tell each other once both have proved themselves, and the
// address at which they do so: plain values.
//
// Contract: pure; any thread. `decode` checks all that it reads. A name comes from the rank that
// has proved itself if the MAC verifies, which covers both sides' nonces and the names that were
// told until then.
//
//   PortName       offset size field
//                  0      4    magic
//                  4      2    length of the name, 1 to kPortNameMax
//                  6      512  name, followed by zeros
//                  518    32   MAC
//   ControlAddress port (2), numeric address: RailAddress::blob
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "transport/connect/rail_test.h"
#include "wire/handshake.h"

namespace nezha::transport {

inline constexpr size_t kPortNameMax = 512;
inline constexpr size_t kPortNameBytes = 4 + 2 + kPortNameMax + kMacBytes;

struct PortName {
  std::string name;
  wire::Mac mac{};
};

std::array<std::byte, kPortNameBytes> encode(const PortName& message);
// False: the bytes are malformed.
bool decode(std::span<const std::byte> bytes, PortName* message);

// HMAC over `purpose`, the Hello, both nonces and both names; the acceptor's name is "" while it is
// not known.
wire::Mac mac_of_names(const Proved& proved, std::string_view purpose, std::string_view dialer,
                       std::string_view acceptor);

struct ControlAddress {
  uint16_t port = 0;  // 0: none
  std::string address;
};
std::string encode(const ControlAddress& address);
ControlAddress control_address_of(std::string_view blob);

}  // namespace nezha::transport
