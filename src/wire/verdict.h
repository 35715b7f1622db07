// Verdict: the last message of a new connection before its frames: the dialer has tried all rails of the
// pair, and says whether this connection is used.
//
// Contract: plain value; pure; any thread.
//
//   offset size field                    offset size field
//   0      4    magic 'N' 'Z' 'V' '1'    5      2    connections of the pair that are used
//   4      1    1: it is used, 0: not    7      1    zero
//                                        8      8    latency that the test has shown, nanoseconds
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "wire/little_endian.h"

namespace nezha::wire {

inline constexpr size_t kVerdictBytes = 16;
inline constexpr uint32_t kVerdictMagic = 0x31565A4E;

struct Verdict {
  bool use = false;
  uint16_t total = 0;
  uint64_t latency_ns = 0;

  bool operator==(const Verdict&) const = default;
};

inline std::array<std::byte, kVerdictBytes> encode(const Verdict& verdict) {
  std::array<std::byte, kVerdictBytes> bytes{};
  store_le(&bytes[0], kVerdictMagic);
  bytes[4] = static_cast<std::byte>(verdict.use);
  store_le(&bytes[5], verdict.total);
  store_le(&bytes[8], verdict.latency_ns);
  return bytes;
}

// False for what is no verdict. `at` has kVerdictBytes.
inline bool decode(const std::byte* at, Verdict* verdict) {
  if (load_le<uint32_t>(at) != kVerdictMagic) return false;
  *verdict = {at[4] == std::byte{1}, load_le<uint16_t>(at + 5), load_le<uint64_t>(at + 8)};
  return true;
}

}  // namespace nezha::wire
