#include "wire/control_headers.h"

namespace nezha::wire {
namespace {

FrameHeader of_type(FrameType type) {
  FrameHeader frame;
  frame.type = type;
  return frame;
}

ConnectionName name_in(const FrameHeader& frame) { return {frame.stage, frame.slot, frame.chunk}; }

FrameHeader frame_about(FrameType type, const ConnectionName& connection) {
  FrameHeader frame = of_type(type);
  frame.stage = connection.rail;
  frame.slot = connection.lane;
  frame.chunk = connection.epoch;
  return frame;
}

}  // namespace

FailureHeader FailureHeader::from(const FrameHeader& frame) {
  FailureHeader failure;
  failure.comm = frame.comm;
  const bool known = frame.slot > 0 && frame.slot <= static_cast<uint16_t>(Code::internal);
  if (known) failure.code = static_cast<Code>(frame.slot);
  failure.peer = static_cast<int>(frame.chunk - 1);
  failure.ranks = {frame.stage - 1, frame.op.root - 1};
  if (frame.op_seq > 0) {
    failure.operation = Operation{frame.op.collective, frame.op_seq - 1, frame.op.count};
  }
  return failure;
}

FrameHeader FailureHeader::to_frame() const {
  FrameHeader frame = of_type(FrameType::failure);
  frame.comm = comm;
  frame.slot = static_cast<uint16_t>(code);
  frame.chunk = static_cast<uint32_t>(peer + 1);
  frame.stage = static_cast<uint16_t>(ranks[0] + 1);
  frame.op.root = static_cast<uint16_t>(ranks[1] + 1);
  if (operation) {
    frame.op_seq = operation->number + 1;
    frame.op.collective = operation->collective;
    frame.op.count = operation->bytes;
  }
  return frame;
}

HeartbeatHeader HeartbeatHeader::from(const FrameHeader& frame) {
  HeartbeatHeader beat;
  beat.busy = (frame.flags & kFlagBusy) != 0;
  beat.deaf = (frame.flags & kFlagDeaf) != 0;
  beat.progress = static_cast<Progress>(frame.slot);
  beat.waits_for = frame.stage - 1;
  beat.comm = frame.comm;
  beat.op_seq = frame.op_seq;
  beat.op = frame.op;
  return beat;
}

FrameHeader HeartbeatHeader::to_frame() const {
  FrameHeader frame = of_type(FrameType::heartbeat);
  frame.flags = static_cast<uint8_t>((busy ? kFlagBusy : 0) | (deaf ? kFlagDeaf : 0));
  frame.slot = static_cast<uint16_t>(progress);
  frame.stage = static_cast<uint16_t>(waits_for + 1);
  frame.comm = comm;
  frame.op_seq = op_seq;
  frame.op = op;
  return frame;
}

ReconcileHeader ReconcileHeader::from(const FrameHeader& frame) {
  return {name_in(frame), frame.op_seq == 1};
}

FrameHeader ReconcileHeader::to_frame() const {
  FrameHeader frame = frame_about(FrameType::reconcile, connection);
  frame.op_seq = for_good ? 1 : 0;
  return frame;
}

LandedHeader LandedHeader::from(const FrameHeader& frame) {
  return {name_in(frame), static_cast<uint32_t>(frame.op_seq)};
}

FrameHeader LandedHeader::to_frame() const {
  FrameHeader frame = frame_about(FrameType::landed, connection);
  frame.op_seq = frames;
  return frame;
}

AgreeHeader AgreeHeader::from(const FrameHeader& frame) {
  return {frame.comm, frame.op_seq, frame.chunk, static_cast<Wish>(frame.stage),
          static_cast<Part>(frame.slot)};
}

FrameHeader AgreeHeader::to_frame() const {
  FrameHeader frame = of_type(FrameType::agree);
  frame.comm = comm;
  frame.op_seq = generation;
  frame.chunk = stage;
  frame.stage = static_cast<uint16_t>(wish);
  frame.slot = static_cast<uint16_t>(part);
  return frame;
}

ReserveHeader ReserveHeader::from(const FrameHeader& frame) {
  return {static_cast<Kind>(frame.stage), frame.op_seq, frame.op.count};
}

FrameHeader ReserveHeader::to_frame() const {
  FrameHeader frame = of_type(FrameType::reserve);
  frame.stage = static_cast<uint16_t>(kind);
  frame.op_seq = number;
  frame.op.count = ticket;
  return frame;
}

FrameHeader RailHeader::to_frame() const {
  FrameHeader frame = of_type(FrameType::rail);
  frame.stage = rail;
  return frame;
}

}  // namespace nezha::wire
