// MessageHeader: the header of a data frame about a message between two ranks (docs/wire_format.md,
// "Messages"): the fields of wire/frame.h under the names that they have there.
//
// Contract: a view of a header that lives longer; pure; any thread.
#pragma once

#include <cstdint>

#include "wire/frame.h"

namespace nezha::wire {

// The description in all frames of a message.
inline OpDescriptor describe_message(Dtype dtype, uint64_t count, uint32_t tag) {
  OpDescriptor op;
  op.collective = Collective::send_recv;
  op.dtype = dtype;
  op.count = count;
  op.plan = tag;
  return op;
}
inline uint32_t tag_of(const OpDescriptor& message) { return message.plan; }

class MessageHeader {
 public:
  enum class Stage : uint16_t { offer = 0, accept = 1, payload = 2, drained = 3 };

  explicit MessageHeader(const FrameHeader& frame) : frame_(frame) {}

  Stage stage() const { return static_cast<Stage>(frame_.stage); }
  const OpDescriptor& op() const { return frame_.op; }
  uint32_t length() const { return frame_.length; }
  uint8_t generation() const { return generation_of(frame_.flags); }
  // The message's place among those of its sender to its receiver.
  uint64_t number() const { return frame_.op_seq; }
  // An offer has the whole message for payload, or announces it with the length of its chunks.
  bool is_whole() const { return frame_.slot == kWhole && frame_.chunk == 0; }
  bool is_announced() const { return frame_.slot == kAnnounced; }
  uint32_t chunk_bytes() const { return frame_.chunk; }
  // A payload frame has this chunk of the message; unless `is_chunk`, it breaks the protocol.
  uint32_t chunk() const { return frame_.chunk; }
  bool is_chunk() const { return frame_.slot == 0; }
  // Cost of the whole messages that the sender of a drained frame has consumed, cumulative.
  uint64_t drained() const { return frame_.op_seq; }

  static FrameHeader offer(uint64_t comm, uint64_t number, const OpDescriptor& op, uint32_t length) {
    FrameHeader frame = make(Stage::offer, comm, number, op);
    frame.slot = kWhole;
    frame.length = length;
    return frame;
  }
  static FrameHeader announce(uint64_t comm, uint64_t number, const OpDescriptor& op,
                              uint32_t chunk_bytes) {
    FrameHeader frame = make(Stage::offer, comm, number, op);
    frame.slot = kAnnounced;
    frame.chunk = chunk_bytes;
    return frame;
  }
  static FrameHeader accept(uint64_t comm, uint64_t number, const OpDescriptor& op) {
    return make(Stage::accept, comm, number, op);
  }
  static FrameHeader payload(uint64_t comm, uint64_t number, const OpDescriptor& op, uint32_t chunk,
                             uint32_t length) {
    FrameHeader frame = make(Stage::payload, comm, number, op);
    frame.chunk = chunk;
    frame.length = length;
    return frame;
  }
  static FrameHeader drained(uint64_t comm, uint64_t bytes, const OpDescriptor& op) {
    return make(Stage::drained, comm, bytes, op);
  }

 private:
  static constexpr uint16_t kWhole = 0;
  static constexpr uint16_t kAnnounced = 1;

  static FrameHeader make(Stage stage, uint64_t comm, uint64_t op_seq, const OpDescriptor& op) {
    FrameHeader frame;
    frame.comm = comm;
    frame.op_seq = op_seq;
    frame.stage = static_cast<uint16_t>(stage);
    frame.op = op;
    return frame;
  }

  const FrameHeader& frame_;
};

}  // namespace nezha::wire
