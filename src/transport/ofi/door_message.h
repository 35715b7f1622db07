// What is said through the doors of `ofi` rails while two ranks open a connection, and from where.
//
// Contract: plain values; pure; any thread. `decode` believes nothing: whoever finds a door can send to
// it.
//
//   offset size field
//   0      4    magic
//   4      4    word
//   8      16   the dialler's nonce: names the attempt
//   24     64   block: challenge, proof, or welcome's MAC, of wire/handshake.h
//   88     64   the dialler's Hello, with hello and proof: a door keeps nothing between the two
//   152    8    number
//   160    ..   name of the sender's port, at most kDoorNameMax
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "wire/handshake.h"

namespace nezha::transport {

enum class DoorWord : uint8_t { hello = 1, challenge, proof, welcome, ping, pong, done };

struct DoorMessage {
  DoorWord word = DoorWord::hello;
  wire::Nonce nonce{};
  std::array<std::byte, 64> block{};
  std::array<std::byte, wire::kHelloBytes> hello{};
  uint64_t number = 0;  // ping: which; done: latency in ns
  std::string name;     // hello, proof: of the dialler's port; welcome: of the acceptor's
};

inline constexpr size_t kDoorFixedBytes = 4 + 4 + wire::kNonceBytes + 64 + wire::kHelloBytes + 8;
inline constexpr size_t kDoorNameMax = 512;

std::string encode(const DoorMessage& message);
// False: nonsense.
bool decode(std::string_view bytes, DoorMessage* message);

// Whether a port may belong to whoever has that door: the same address with another port number, or with
// another number behind the last colon where names are text; of other kinds of names the same length.
// Keeps strangers from having a door send wherever they like. `format`: of fi_info.
bool is_beside(uint32_t format, std::string_view name, std::string_view door);

}  // namespace nezha::transport
