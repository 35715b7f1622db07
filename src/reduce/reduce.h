// Reduction kernels: dtype x op on contiguous arrays, dispatched once to the best instruction set.
//
// Contract: pure functions, any thread, no allocation. Pointers need no alignment beyond 1 byte.
// `out` may equal `a` or `b` exactly; partial overlap is undefined. Semantics: floats of 16 and
// 8 bits compute in float32 and round to nearest even once per call, float8_e4m3fn beyond 448 to NaN,
// which it has instead of infinity (arXiv 2209.05433); integer sum/prod wrap (two's complement); min/max
// are IEEE 754-2019 minimum/maximum (NaN wins, -0 < +0); `avg`, of floats only, and `premul_sum` reduce
// as `sum`, their scaling is `average` and `scale`.
//
// Same bits on every instruction set and every machine: a floating point result that is NaN is the
// one positive quiet NaN with an empty payload, whatever the operands' NaNs were (which operand's
// payload survives an addition is the compiler's choice otherwise), and nothing is contracted into
// fused multiply-adds. The thread's own rounding mode, flush-to-zero flags and exception traps do not
// matter (base/float_mode.h), and its exception flags stay as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/types.h"

namespace nezha::reduce {

// out[i] = a[i] (op) b[i], i in [0, count), operands in this order. reduce_supported(dtype, op)
// must hold.
void reduce(void* out, const void* a, const void* b, uint64_t count, Dtype dtype, ReduceOp op);

// out[i] = ((in[0][i] (op) in[1][i]) (op) in[2][i]) ..., one pass over all of them; at least one. The
// same bits as one `reduce` after the other, except that floats of 16 and 8 bits are rounded once, at
// the end. `out` may be any of `in`.
void reduce_many(void* out, std::span<const void* const> in, uint64_t count, Dtype dtype, ReduceOp op);

// out[i] = in[i] * factor. float64 multiplies in float64; shorter floats in float32
// with the factor rounded to float32. Integers are converted to float64 (int64 beyond 2^53 rounds),
// multiplied, truncated toward zero and saturated to the dtype's range; NaN becomes 0. A factor of
// exactly 1 copies. out may equal in.
void scale(void* out, const void* in, uint64_t count, Dtype dtype, double factor);

// An average of n ranks adds up x * average_weight(n), and divides the sum by n * average_weight(n),
// which is above 1/2 and at most 1. The weight is a power of two, 1/n or the next below, so that
// scaling changes no bit of a number that stays normal, and no partial sum of n numbers that the dtype
// holds overflows.
double average_weight(uint64_t ranks);

// out[i] = (in[0][i] * weight + in[1][i] * weight + ...) / divisor, in this order, in one pass, rounded
// once for floats of 16 and 8 bits, which compute in float32. For floats only. `out` may be any of `in`.
void average(void* out, std::span<const void* const> in, uint64_t count, Dtype dtype, double weight,
             double divisor);

// The instruction set in use ("avx2" or "baseline"), for `nezha info`.
const char* instruction_set();

}  // namespace nezha::reduce
