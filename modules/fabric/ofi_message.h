// Messages between the two ends of a connection on an `ofi` rail; each begins with a preamble. Long
// payloads are in no message: they are written straight into the receiver's memory. Messages up to
// kShortBytes are short, others long; both sizes have buffers of their own.
//
// Contract: plain values; pure; any thread. `decode` checks all that it reads: a port takes
// messages from anybody who finds its address, so a message without the connection's token comes
// from a stranger. Providers that use connections renew a broken one by themselves, and what was
// under way is lost without an error: gaps in `number` and `writes` show that.
//
//   frames    one or more frames of wire/frame.h, each followed by its payload and trailer
//   announce  header and trailer of a data frame, whose payload is written after the receiver
//             grants memory
//   grant     `number` of an announced frame, and where its payload goes; `wanted` = 0: nowhere,
//             the frame counts as landed without being written
//   credit    only the preamble
//
//   offset size field
//   0      8    token (of this direction of this connection)
//   8      4    credits: frames and announcements that the sender has taken in, mod 2^32
//   12     4    landed: data frames that landed at the sender, mod 2^32
//   16     1    kind
//   17     1    grant: wanted
//   18     2    number of this message, in this direction
//   20     2    writes that were begun before this message, in this direction
//   22     2    long messages that the sender has taken in, mod 2^16
//   24     8    when the message left, nanoseconds of the sender's clock
//   32     4    how long before that the latest of `landed` had landed, microseconds
//   36     8    the least time that a message took from the receiver, by its clock, to the sender,
//               by the sender's clock, nanoseconds
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
// A payload goes with its header if it belongs to a control frame, or is not longer than
// FabricRail::eager_bytes(), which is at least this.
inline constexpr size_t kEagerBytesMin = wire::kAgreeBytesMax;
static_assert(kShortBytes >= kGrantBytes && kShortBytes >= kFrameHeadBytes);

void encode(const OfiPreamble& preamble, std::byte* out);
void encode(const OfiGrant& grant, std::byte* behind_preamble);
// False: the message is not of this connection, or malformed.
bool decode(std::span<const std::byte> message, uint64_t token, OfiPreamble* preamble);
bool decode(std::span<const std::byte> behind_preamble, OfiGrant* grant);

}  // namespace nezha::transport
