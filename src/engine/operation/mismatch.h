// Mismatch: the error for two ranks whose programs disagree about the same operation.
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

// `other` with the fields of `mine` where the two cannot be compared: in an all_to_all_v each rank
// has its own counts. Both describe the operation as a whole.
wire::OpDescriptor comparable(const wire::OpDescriptor& mine, wire::OpDescriptor other);

Status describe_mismatch(uint64_t comm, uint64_t op_seq, const RankedDescriptor& mine,
                         const RankedDescriptor& other);

}  // namespace nezha::engine
