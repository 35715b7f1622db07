// OpRequest: one collective, as its caller asks for it.
//
// Contract: a plain record; the buffers and counts that it names are borrowed until the operation is
// over.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/types.h"
#include "schedule/chunk_map.h"

namespace nezha::engine {

struct OpRequest {
  Collective collective = Collective::all_reduce;
  const void* in = nullptr;
  void* out = nullptr;
  uint64_t count = 0;  // elements of the whole vector: of all blocks together where there are blocks
  // Elements of each block, by rank; empty: even blocks of count / world_size. They differ for
  // all_to_all_v only.
  std::span<const uint64_t> input_counts;
  std::span<const uint64_t> output_counts;
  Dtype dtype = Dtype::float32;
  ReduceOp op = ReduceOp::sum;
  double factor = 1.0;                         // premul_sum
  int root = 0;
  bool is_split = false;  // an all_reduce in which a communicator is split
  Algorithm algorithm = Algorithm::automatic;
  Nanoseconds deadline = kNever;
  // For a member of a group with nodes: here the engine notes the elements whose result is in
  // `out`; borrowed as the buffers are.
  std::vector<schedule::Range>* landed = nullptr;
  uint32_t avoid_rails = 0;  // rails::OpClass::avoid
  bool attended = false;     // its caller waits for it at once
  bool is_part = false;      // of an operation that its owner counts as a whole: GroupCalls::count
};

}  // namespace nezha::engine
