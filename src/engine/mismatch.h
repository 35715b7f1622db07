// What to say when two ranks' programs disagree about the same operation.
//
// Contract: pure. The sentence names both ranks, the communicator, the operation's number, the
// field and both values.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "wire/frame.h"

namespace nezha::engine {

struct RankedDescriptor {
  int rank = 0;  // in the communicator
  const wire::OpDescriptor& op;
};

Status describe_mismatch(uint32_t comm, uint64_t op_seq, const RankedDescriptor& mine,
                         const RankedDescriptor& other);

}  // namespace nezha::engine
