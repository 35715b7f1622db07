// What the ends of a connection on an `ofi` rail say to each other: messages, each with a preamble, and
// payloads that are written straight into memory. Messages up to kShortBytes are short, others long; each
// kind has buffers of its own.
//
// Contract: plain values; pure; any thread. `decode` believes nothing: a port takes messages from
// whoever finds its address, so one without the connection's token is a stranger's. Providers that stand
// on connections make a broken one again by themselves, and what was on its way is lost without a word:
// both numbers tell.
//
//   frames    one or more frames of wire/frame.h, each with its payload and trailer behind it
//   announce  header and trailer of a data frame: the payload is written when the receiver says where
//   grant     `number` of an announced frame, and where its payload goes; `wanted` = 0: nowhere, it
//             counts as landed without being written
//   credit    nothing but the preamble
//
//   offset size field
//   0      8    token (of this direction of this connection)
//   8      4    credits: frames and announcements that the sender has taken in, mod 2^32
//   12     4    landed: data frames that landed at the sender, mod 2^32
//   16     1    kind
//   17     1    grant: wanted
//   18     2    number of this message, of this direction
//   20     2    writes that were begun before it, in this direction
//   22     2    long messages that the sender has taken in, mod 2^16
//   24     8    when it left, nanoseconds of the sender's clock
//   32     4    how long before that the latest of `landed` had landed, microseconds
//   36     8    the least that a message took from the receiver, by its clock, to the sender, by the
//               sender's, nanoseconds
//   44     ..   frames: header, payload, trailer, and so on; announce: header, trailer; grant: number
//               (4), 0 (4), address (8), key (8)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "wire/frame.h"

namespace nezha::transport {

enum class OfiMessageKind : uint8_t { frames = 1, announce = 2, grant = 3, credit = 4 };

struct OfiPreamble {
  uint64_t token = 0;
  uint32_t credits = 0;
  uint32_t landed = 0;
  OfiMessageKind kind = OfiMessageKind::credit;
  bool wanted = false;
  uint16_t number = 0;
  uint16_t writes = 0;
  uint16_t longs = 0;
  Nanoseconds sent_at = 0;
  uint32_t landed_before_us = 0;
  Nanoseconds least = 0;
};

struct OfiGrant {
  uint32_t number = 0;
  uint64_t address = 0;
  uint64_t key = 0;
};

inline constexpr size_t kPreambleBytes = 44;
inline constexpr size_t kGrantBytes = kPreambleBytes + 24;
inline constexpr size_t kFrameHeadBytes = kPreambleBytes + wire::kHeaderBytes;
inline constexpr size_t kShortBytes = 1024;
// Payloads up to FabricRail::eager_bytes(), at least these, and all of control frames go with their
// header.
inline constexpr size_t kEagerBytesMin = wire::kAgreeBytesMax;
static_assert(kShortBytes >= kGrantBytes && kShortBytes >= kFrameHeadBytes);

void encode(const OfiPreamble& preamble, std::byte* out);
void encode(const OfiGrant& grant, std::byte* behind_preamble);
// False: not of this connection, or nonsense.
bool decode(std::span<const std::byte> message, uint64_t token, OfiPreamble* preamble);
bool decode(std::span<const std::byte> behind_preamble, OfiGrant* grant);

}  // namespace nezha::transport
