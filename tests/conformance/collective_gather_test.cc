// gather and scatter: every algorithm and root, in place and not.
#include <gtest/gtest.h>

#include "support/block_case.h"

namespace nezha::testing {
namespace {

class GatherAndScatter : public BlockSuite {};

TEST_P(GatherAndScatter, EveryAlgorithmRootAndLength) {
  uint64_t turn = 0;
  for (const Collective collective : {Collective::gather, Collective::scatter}) {
    std::vector<BlockCase> cases;
    for (const Algorithm algorithm : algorithms_of(collective)) {
      for (int root = 0; root < ranks(); ++root) {
        for (const uint64_t count : {0, 1, 5, 3001, 120'007}) {
          BlockCase at;
          at.collective = collective;
          at.algorithm = algorithm;
          at.dtype = static_cast<Dtype>(turn % kDtypeCount);
          at.root = root;
          at.counts = equal_counts(ranks(), count);
          at.in_place = ++turn % 2 == 0;
          at.offset = turn % 3 == 0 ? 1 : 0;
          cases.push_back(at);
        }
      }
    }
    run(cases);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, GatherAndScatter, ::testing::Values(1, 2, 3, 4, 5));

}  // namespace
}  // namespace nezha::testing
