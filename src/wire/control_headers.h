// The headers of the frames that are about connections, rails and failures: the fields of wire/frame.h
// under the names that they have there. The comment behind a field is its place in FrameHeader.
//
// Contract: plain values; pure; any thread. `from` takes a header of the type that was decoded, whatever
// its sender wrote.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/status.h"
#include "wire/frame.h"

namespace nezha::wire {

// An error that concerns every rank of `comm`. Payload: its text.
struct FailureHeader {
  struct Operation {
    Collective collective = Collective::all_reduce;  // op.collective
    uint64_t number = 0;                             // op_seq - 1
    uint64_t bytes = 0;                              // op.count

    bool operator==(const Operation&) const = default;
  };

  uint64_t comm = 0;                    // comm
  Code code = Code::internal;           // slot
  int peer = -1;                        // chunk - 1: the rank that the error is about; -1: none
  std::array<int, 2> ranks = {-1, -1};  // stage - 1, op.root - 1: ranks it is about; -1: none, or more
  std::optional<Operation> operation{};  // op_seq 0: none was running

  static FailureHeader from(const FrameHeader& frame);
  FrameHeader to_frame() const;
  bool operator==(const FailureHeader&) const = default;
};

// The sender lives, and says how far one of its communicators is.
struct HeartbeatHeader {
  // `open`: the operation is the oldest that is under way; `done`: it is the last one that is over.
  enum class Progress : uint16_t { none = 0, open = 1, done = 2 };

  bool busy = false;                   // kFlagBusy
  bool deaf = false;                   // kFlagDeaf
  Progress progress = Progress::none;  // slot
  int waits_for = -1;                  // stage - 1: global rank; -1: it waits for none
  uint64_t comm = 0;                   // comm, op_seq, op: the operation
  uint64_t op_seq = 0;
  OpDescriptor op;

  static HeartbeatHeader from(const FrameHeader& frame);
  FrameHeader to_frame() const;
  bool operator==(const HeartbeatHeader&) const = default;
};

// How both ends call a connection of theirs.
struct ConnectionName {
  uint16_t rail = 0;   // stage: of the pair's lower rank
  uint16_t lane = 0;   // slot
  uint32_t epoch = 0;  // chunk

  bool operator==(const ConnectionName&) const = default;
};

// The sender gave that connection up and asks what landed on it.
struct ReconcileHeader {
  ConnectionName connection;
  bool for_good = false;  // op_seq 1; otherwise for now

  static ReconcileHeader from(const FrameHeader& frame);
  FrameHeader to_frame() const;
  bool operator==(const ReconcileHeader&) const = default;
};

// The answer.
struct LandedHeader {
  ConnectionName connection;
  uint32_t frames = 0;  // op_seq: data frames that landed on that connection, mod 2^32

  static LandedHeader from(const FrameHeader& frame);
  FrameHeader to_frame() const;
  bool operator==(const LandedHeader&) const = default;
};

// A part of the sender's statement about who goes on. Payload: the part, a bit for each member.
struct AgreeHeader {
  // `answer`: the sender wants the receiver's statement; `abort`: no rank may have that generation.
  enum class Wish : uint16_t { none = 0, answer = 1, abort = 2 };
  // The set of the dead is sent last; other sets are not sent when they are empty.
  enum class Part : uint16_t { dead = 0, exited = 1, base = 2, row = 3, unheard = 4 };

  uint64_t comm = 0;        // comm: the communicator that was never shrunk
  uint64_t generation = 0;  // op_seq: that is wanted, or aborted
  uint32_t stage = 0;       // chunk: how far the sender has come (engine/membership/agreement.h)
  Wish wish = Wish::none;   // stage
  Part part = Part::dead;   // slot

  static AgreeHeader from(const FrameHeader& frame);
  FrameHeader to_frame() const;
  bool operator==(const AgreeHeader&) const = default;
};

// About the port at the other end of this connection's rail.
struct ReserveHeader {
  enum class Kind : uint16_t { request = 1, grant = 2, nack = 3, cancel = 4 };

  Kind kind = Kind::request;  // stage
  uint64_t number = 0;        // op_seq: of the request
  uint64_t ticket = 0;        // op.count: of the message

  static ReserveHeader from(const FrameHeader& frame);
  FrameHeader to_frame() const;
  bool operator==(const ReserveHeader&) const = default;
};

// A rail of the sender that was missing. Payload: its address (transport/rail_address.h).
struct RailHeader {
  uint16_t rail = 0;  // stage

  static RailHeader from(const FrameHeader& frame) { return {frame.stage}; }
  FrameHeader to_frame() const;
  bool operator==(const RailHeader&) const = default;
};

}  // namespace nezha::wire
