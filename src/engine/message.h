// MessageRequest: one send or receive between two ranks of a group.
//
// Contract: plain values. `buffer` is borrowed until the Work completes.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/types.h"

namespace nezha::engine {

struct MessageRequest {
  bool is_send = true;
  void* buffer = nullptr;  // read by a send, written by a receive
  uint64_t count = 0;
  Dtype dtype = Dtype::uint8;
  int peer = -1;           // rank in the communicator; -1: any source
  uint32_t tag = 0;
  Nanoseconds deadline = kNever;
  bool stands = false;     // a receive for what may come at any time: it hurries nobody
};

}  // namespace nezha::engine
