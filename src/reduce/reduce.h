// Reduction kernels: dtype x op on contiguous arrays, dispatched once to the best instruction set.
//
// Contract: pure functions, any thread, no allocation. Pointers need no alignment beyond 1 byte.
// `out` may equal `a` or `b` exactly; partial overlap is undefined. Semantics: float16 and
// bfloat16 compute in float32 and round to nearest even once per call; integer sum/prod wrap (two's
// complement); min/max propagate NaN (IEEE 754-2019 minimum/maximum); `avg` and `premul_sum` reduce
// as `sum`, their scaling is `scale()`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace nezha::reduce {

// out[i] = a[i] (op) b[i], i in [0, count), operands in this order. reduce_supported(dtype, op) must hold.
void reduce(void* out, const void* a, const void* b, uint64_t count, Dtype dtype, ReduceOp op);

// out[i] = in[i] * factor. Integers: computed in float64 and truncated toward zero for general
// factors; see `divide` for avg. out may equal in.
void scale(void* out, const void* in, uint64_t count, Dtype dtype, double factor);

// data[i] = data[i] / divisor: true division for floats, truncation toward zero for integers.
void divide(void* data, uint64_t count, Dtype dtype, uint64_t divisor);

// The instruction set in use ("avx2", "avx512", "baseline"), for `nezha info`.
const char* instruction_set();

}  // namespace nezha::reduce
