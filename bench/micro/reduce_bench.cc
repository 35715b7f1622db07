// Rate of the reduction kernels, in bytes of incoming data per second, for every dtype and
// instruction set. 128 KiB stay in the cache, 64 MiB do not.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "reduce/kernel_table.h"

namespace nezha::reduce {
namespace {

void run_kernel(benchmark::State& state, ReduceKernel kernel, size_t element_bytes) {
  const auto bytes = static_cast<size_t>(state.range(0));
  std::vector<std::byte> accumulated(bytes);
  std::vector<std::byte> incoming(bytes);
  std::mt19937 generator(1);
  // Small exponents in every float dtype: no overflow, no subnormals to slow the processor down.
  for (size_t i = 0; i < bytes; ++i) {
    incoming[i] = static_cast<std::byte>(0x20 | (generator() & 0x0F));
  }
  for (auto unused : state) {
    (void)unused;
    kernel(accumulated.data(), accumulated.data(), incoming.data(), bytes / element_bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes));
}

void register_table(const KernelTable& table) {
  for (size_t d = 0; d < kDtypeCount; ++d) {
    const auto dtype = static_cast<Dtype>(d);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
      const std::string name = std::string(table.instruction_set) + "/" +
                               std::string(name_of(dtype)) + "/" + std::string(name_of(op));
      benchmark::RegisterBenchmark(name.c_str(), run_kernel,
                                   table.reduce[d][static_cast<size_t>(op)], dtype_size(dtype))
          ->Arg(128 << 10)
          ->Arg(64 << 20);
    }
  }
}

}  // namespace
}  // namespace nezha::reduce

int main(int argc, char** argv) {
  nezha::reduce::register_table(nezha::reduce::baseline_kernels());
  if (nezha::reduce::avx2_kernels() != nullptr) {
    nezha::reduce::register_table(*nezha::reduce::avx2_kernels());
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
