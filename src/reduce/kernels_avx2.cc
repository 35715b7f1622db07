// The kernels with 32-byte vectors and the float16 conversions of F16C. The target is an attribute
// of each kernel and not of the file, so that nothing shared with other files (inline functions of
// standard headers) is compiled for AVX2 and then picked by the linker for everybody.
#include "reduce/kernel_table.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define NEZHA_KERNEL_ISA avx2
#define NEZHA_KERNEL_TARGET __attribute__((target("avx2,f16c")))
#define NEZHA_KERNEL_VECTOR_BYTES 32
#define NEZHA_KERNEL_F16C
#include "reduce/kernels.inc"

namespace nezha::reduce {

const KernelTable* avx2_kernels() {
  static constexpr KernelTable kTable = avx2::make_table("avx2");
  __builtin_cpu_init();
  const bool present = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return present ? &kTable : nullptr;
}

}  // namespace nezha::reduce

#else

namespace nezha::reduce {

const KernelTable* avx2_kernels() { return nullptr; }

}  // namespace nezha::reduce

#endif
