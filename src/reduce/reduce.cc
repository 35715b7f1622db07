#include "reduce/reduce.h"

#include <bit>
#include <cmath>

#include "base/check.h"
#include "base/copy.h"
#include "base/float_mode.h"
#include "reduce/kernel_table.h"

namespace nezha::reduce {
namespace {

const KernelTable& kernels() {
  static const KernelTable& best =
      avx2_kernels() != nullptr ? *avx2_kernels() : baseline_kernels();
  return best;
}

}  // namespace

void reduce(void* out, const void* a, const void* b, uint64_t count, Dtype dtype, ReduceOp op) {
  NEZHA_CHECK(reduce_supported(dtype, op));
  const auto& row = kernels().reduce[static_cast<size_t>(dtype)];
  const FloatMode mode;
  row[static_cast<size_t>(op)](static_cast<std::byte*>(out), static_cast<const std::byte*>(a),
                               static_cast<const std::byte*>(b), count);
}

void reduce_many(void* out, std::span<const void* const> in, uint64_t count, Dtype dtype, ReduceOp op) {
  NEZHA_CHECK(reduce_supported(dtype, op) && !in.empty());
  const auto& row = kernels().reduce_many[static_cast<size_t>(dtype)];
  const FloatMode mode;
  row[static_cast<size_t>(op)](static_cast<std::byte*>(out), in.data(), in.size(), count);
}

void scale(void* out, const void* in, uint64_t count, Dtype dtype, double factor) {
  const size_t index = static_cast<size_t>(dtype);
  NEZHA_CHECK(index < kDtypeCount);
  if (factor == 1.0) {
    if (out != in) copy_bytes(out, in, count * dtype_size(dtype));
    return;
  }
  const FloatMode mode;
  kernels().scale[index](static_cast<std::byte*>(out), static_cast<const std::byte*>(in), count,
                         factor);
}

double average_weight(uint64_t ranks) {
  return std::ldexp(1.0, -static_cast<int>(std::bit_width(ranks - 1)));
}

void average(void* out, std::span<const void* const> in, uint64_t count, Dtype dtype, double weight,
             double divisor) {
  NEZHA_CHECK(reduce_supported(dtype, ReduceOp::avg) && !in.empty() && divisor > 0);
  const FloatMode mode;
  kernels().average[static_cast<size_t>(dtype)](static_cast<std::byte*>(out), in.data(), in.size(), count,
                                                weight, divisor);
}

const char* instruction_set() { return kernels().instruction_set; }

}  // namespace nezha::reduce
