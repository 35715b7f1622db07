// MessageRequest: one send or receive between two ranks of a group.
//
// Contract: plain values. `buffer` is borrowed until the Work completes.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/types.h"
#include "wire/message_header.h"

namespace nezha::engine {

inline constexpr int kAnySource = -1;
inline constexpr uint32_t kAnyTag = 0xFFFFFFFF;  // of a receive; no message has this tag

struct MessageRequest {
  bool is_send = true;
  void* buffer = nullptr;  // read by a send, written by a receive
  uint64_t count = 0;
  Dtype dtype = Dtype::uint8;
  int peer = kAnySource;   // rank in the communicator
  uint32_t tag = 0;
  Nanoseconds deadline = kNever;
  bool stands = false;     // a receive for what may come at any time: it makes no rank awaited
};

// The description that the message's frames have.
inline wire::OpDescriptor op_of(const MessageRequest& request) {
  return wire::describe_message(request.dtype, request.count, request.tag);
}
inline uint64_t bytes_of(const wire::OpDescriptor& op) { return op.count * dtype_size(op.dtype); }
// A message that waits for its receive.
struct WaitingMessage {
  int source = kAnySource;  // rank in the communicator
  wire::OpDescriptor op;
};

// "100 x float32 with tag 7"
inline std::string describe(const wire::OpDescriptor& op) {
  const uint32_t tag = wire::tag_of(op);
  return std::to_string(op.count) + " x " + std::string(name_of(op.dtype)) + " with " +
         (tag == kAnyTag ? "any tag" : "tag " + std::to_string(tag));
}

}  // namespace nezha::engine
