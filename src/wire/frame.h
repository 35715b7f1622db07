// The frame header: 64 bytes, little-endian, in front of every payload on every host rail.
//
// Contract: plain value plus encode/decode; pure; any thread. `decode` trusts nobody: it gives a
// reason for every header that it refuses, whoever sent it, and never reads past 64 bytes.
//
// A transfer is identified by (comm, op_seq, chunk, stage, slot) between two ranks. The identity
// names no rail: any authenticated connection between the two may carry it, any number of times.
// Every frame carries the operation's description, so that ranks whose programs disagree notice
// before one byte is added to another.
//
//   offset size field                offset size field
//   0      4    magic                16     8    comm
//   4      1    type                 24     6    op_seq
//   5      1    flags                30     6    count (elements of the operation)
//   6      2    stage                36     4    chunk
//   8      2    slot                 40     4    length (payload bytes)
//   10     1    collective           44     4    ack (frames landed on this connection, mod 2^32)
//   11     1    dtype                48     8    credit (bytes consumed for this comm, cumulative)
//   12     1    op                   56     4    plan (fingerprint of the agreed plan)
//   13     1    algorithm            60     4    CRC-32C of bytes 0..59
//   14     2    root, or rails
//
// Data frames of all_reduce, all_gather, reduce_scatter and barrier, which have no root, hold
// `rails` at offset 14: how the next operation like this one is divided among the rails, as rank 0
// of `comm` has decided; 0: it says nothing (rails/policies/share_tuner.h). 0xFFFF there is the
// root of a split.
//
// These are the names in the data frames of collectives. In other frames the fields have other meanings,
// and names: wire/message_header.h, wire/control_headers.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/types.h"

namespace nezha::wire {

inline constexpr uint32_t kMagic = 0x335A4E7F;  // 0x7F 'N' 'Z' '3': the digit is the wire version
inline constexpr size_t kHeaderBytes = 64;
// With payload checksums (on all ranks or none), a CRC-32C follows every payload that is not empty.
inline constexpr size_t kTrailerBytes = 4;
// No correct sender makes a longer payload: a chunk is at most this long, however configured.
inline constexpr uint32_t kPayloadBytesMax = 64 * 1024 * 1024;
// The sender of a failure frame cuts its text to this; a rail's address (`rail`) takes less.
inline constexpr uint32_t kFailureBytesMax = 1024;
// The longest payload of an agreement: one bit for each of 65 535 ranks, and what names the round.
inline constexpr uint32_t kAgreeBytesMax = 8 * 1024 + 64;

enum class FrameType : uint8_t {
  data = 1,     // payload of one transfer
  ack = 2,      // no payload; `ack` and `credit` are the message
  failure = 3,
  goodbye = 4,  // the sender closes this connection in order; nothing follows
  heartbeat = 5,
  reconcile = 6,
  landed = 7,
  agree = 8,
  reserve = 9,
  rail = 10,
};
inline constexpr FrameType kFrameTypeLast = FrameType::rail;
inline constexpr uint16_t kReserveKinds = 4;

// flags
inline constexpr uint8_t kFlagAckNow = 1;      // the sender waits for this acknowledgement
inline constexpr uint8_t kFlagTimed = 2;       // data: acknowledged once landed; sender times it
inline constexpr uint8_t kFlagBusy = 1;        // heartbeat: I have work with you, beat as often as I do
inline constexpr uint8_t kFlagDeaf = 2;        // heartbeat: I have not heard you on this connection
// data: how often this transfer was posted before, on connections that died or fell silent. Of two
// copies that arrive at the same time the later one counts: only its acknowledgement is believed.
inline constexpr int kGenerationShift = 2;
inline constexpr uint8_t kGenerationMax = 63;
inline constexpr uint8_t generation_of(uint8_t flags) {
  return static_cast<uint8_t>(flags >> kGenerationShift);
}
inline constexpr uint8_t next_generation(uint8_t flags) {
  const uint8_t before = generation_of(flags);
  const uint8_t next = before < kGenerationMax ? static_cast<uint8_t>(before + 1) : before;
  return static_cast<uint8_t>((flags & 3) | (next << kGenerationShift));
}

// The root of the all_reduce in which the ranks split a communicator: no rank has that number, so it
// differs from a program's own all_reduce.
inline constexpr uint16_t kSplitRoot = 0xFFFF;

// The description of an operation. If it is not equal on all ranks, the program is wrong.
struct OpDescriptor {
  Collective collective = Collective::all_reduce;
  Dtype dtype = Dtype::float32;
  ReduceOp op = ReduceOp::sum;
  Algorithm algorithm = Algorithm::ring;
  uint16_t root = 0;
  uint64_t count = 0;
  uint32_t plan = 0;

  bool operator==(const OpDescriptor&) const = default;
};

// The name of the call that the program made: "all_reduce", "split".
std::string_view name_of(const OpDescriptor& op);

struct FrameHeader {
  FrameType type = FrameType::data;
  uint8_t flags = 0;
  uint16_t stage = 0;
  uint16_t slot = 0;
  uint64_t comm = 0;
  uint32_t chunk = 0;
  uint64_t op_seq = 0;
  uint32_t length = 0;
  uint32_t ack = 0;
  uint64_t credit = 0;
  uint16_t rails = 0;  // data
  OpDescriptor op;

  bool operator==(const FrameHeader&) const = default;
};

using HeaderBytes = std::span<std::byte, kHeaderBytes>;
using ConstHeaderBytes = std::span<const std::byte, kHeaderBytes>;

void encode(const FrameHeader& header, HeaderBytes out);

// Why a header was refused; `none` means it was accepted.
enum class HeaderError : uint8_t {
  none,
  bad_magic,
  bad_crc,
  bad_type,
  bad_flags,
  bad_enum,
  too_long,
};
std::string_view name_of(HeaderError error);

// `out` is written only when the header is accepted.
HeaderError decode(ConstHeaderBytes in, FrameHeader* out);

}  // namespace nezha::wire
