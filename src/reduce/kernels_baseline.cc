// The kernels with 16-byte vectors (SSE2, NEON, or whatever the compiler makes of them).
#define NEZHA_KERNEL_ISA baseline
#define NEZHA_KERNEL_TARGET
#define NEZHA_KERNEL_VECTOR_BYTES 16
#include "reduce/kernels.inc"

namespace nezha::reduce {

const KernelTable& baseline_kernels() {
  static constexpr KernelTable kTable = baseline::make_table("baseline");
  return kTable;
}

}  // namespace nezha::reduce
