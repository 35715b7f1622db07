// The kernels of one instruction set. Contract: immutable, any thread; used by reduce.cc and by the
// tests that hold the instruction sets against each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace nezha::reduce {

using ReduceKernel = void (*)(std::byte* out, const std::byte* a, const std::byte* b,
                              uint64_t count);
using ReduceManyKernel = void (*)(std::byte* out, const void* const* in, size_t inputs, uint64_t count);
using ScaleKernel = void (*)(std::byte* out, const std::byte* in, uint64_t count, double factor);
using AverageKernel = void (*)(std::byte* out, const void* const* in, size_t inputs, uint64_t count,
                               double weight, double divisor);

struct KernelTable {
  const char* instruction_set;
  // [dtype][op]; null where reduce_supported() says no.
  std::array<std::array<ReduceKernel, kReduceOpCount>, kDtypeCount> reduce;
  std::array<std::array<ReduceManyKernel, kReduceOpCount>, kDtypeCount> reduce_many;
  std::array<ScaleKernel, kDtypeCount> scale;
  std::array<AverageKernel, kDtypeCount> average;  // null for integers
};

// 16-byte vectors: what every processor of this architecture has.
const KernelTable& baseline_kernels();
// Null when this build or this processor lacks AVX2 or F16C.
const KernelTable* avx2_kernels();

}  // namespace nezha::reduce
