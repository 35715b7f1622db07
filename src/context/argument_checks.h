// ArgumentChecks: the checks of a call's arguments that are made before anything is sent.
//
// Contract: pure, any thread. `call` is the name of the operation as its caller knows it; every
// error names it, the argument, and what to do. Codes: `invalid_argument`, `unsupported`.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "base/types.h"

namespace nezha::context {

// An argument `name` that points to memory of `count` elements.
struct Argument {
  const char* name = "";
  const void* data = nullptr;
  uint64_t count = 0;
};

Status check_dtype(const char* call, Dtype dtype);
Status check_op(const char* call, Dtype dtype, ReduceOp op);
// `what` is "root", "source" or "destination".
Status check_rank(const char* call, const char* what, int rank, int world_size);
// Checks that memory is not null, unless it has no elements, and not larger than an address space.
Status check_memory(const char* call, const Argument& argument, Dtype dtype);
// Checks that the two have no byte in common, unless the operation is in place. `advice` says what
// to pass.
Status check_overlap(const char* call, const Argument& in, const Argument& out, Dtype dtype,
                     bool is_in_place, const char* advice);

// The number of elements of all blocks together; an overflow is `invalid_argument`.
Result<uint64_t> total_of(const char* call, uint64_t count, int world_size);
Result<uint64_t> total_of(const char* call, const char* name, std::span<const uint64_t> counts);

}  // namespace nezha::context
