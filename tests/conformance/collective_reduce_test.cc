// reduce: every algorithm, dtype, op and root; the other ranks' inputs stay as they are.
#include <gtest/gtest.h>

#include "support/block_case.h"

namespace nezha::testing {
namespace {

class Reduce : public BlockSuite {};

TEST_P(Reduce, EveryKindToEveryRoot) {
  std::vector<BlockCase> cases;
  constexpr uint64_t kCounts[] = {0, 1, 41, 3000, 2};
  uint64_t turn = 0;
  for (const Algorithm algorithm : algorithms_of(Collective::reduce)) {
    for (size_t kind = 0; kind < kDtypeCount * kReduceOpCount; ++kind) {
      BlockCase at;
      at.collective = Collective::reduce;
      at.algorithm = algorithm;
      at.dtype = static_cast<Dtype>(kind % kDtypeCount);
      at.op = static_cast<ReduceOp>(kind / kDtypeCount);
      if (!reduce_supported(at.dtype, at.op)) continue;
      for (int root = 0; root < ranks(); ++root) {
        at.root = root;
        at.counts = {kCounts[++turn % std::size(kCounts)]};
        at.in_place = turn % 2 == 0;
        at.offset = turn % 3 == 0 ? 1 : 0;
        cases.push_back(at);
      }
    }
  }
  run(cases);
}

TEST_P(Reduce, LargeBuffers) {
  std::vector<BlockCase> cases;
  for (const Algorithm algorithm : algorithms_of(Collective::reduce)) {
    for (int root = 0; root < ranks(); ++root) {
      BlockCase at;
      at.collective = Collective::reduce;
      at.algorithm = algorithm;
      at.dtype = root % 2 == 0 ? Dtype::float32 : Dtype::float16;
      at.op = root % 2 == 0 ? ReduceOp::premul_sum : ReduceOp::avg;
      at.root = root;
      at.counts = {200'003};
      at.in_place = root % 2 == 1;
      cases.push_back(at);
    }
  }
  run(cases);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Reduce, ::testing::Values(1, 2, 3, 4, 5));

}  // namespace
}  // namespace nezha::testing
