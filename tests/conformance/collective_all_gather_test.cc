// all_gather: every algorithm, blocks of equal and unequal length, in place and not.
#include <gtest/gtest.h>

#include "support/block_case.h"

namespace nezha::testing {
namespace {

class AllGather : public BlockSuite {};

TEST_P(AllGather, EveryAlgorithmAndLength) {
  std::vector<BlockCase> cases;
  uint64_t turn = 0;
  for (const Algorithm algorithm : algorithms_of(Collective::all_gather)) {
    for (const uint64_t count : {0, 1, 3, 1000, 20'011, 150'007}) {
      for (const bool in_place : {false, true}) {
        BlockCase at;
        at.algorithm = algorithm;
        at.dtype = static_cast<Dtype>(turn % kDtypeCount);
        at.counts = equal_counts(ranks(), count);
        at.in_place = in_place;
        at.offset = turn++ % 3 == 0 ? 1 : 0;
        cases.push_back(at);
      }
    }
  }
  run(cases);
}

TEST_P(AllGather, BlocksOfUnequalLength) {
  std::vector<BlockCase> cases;
  for (const Algorithm algorithm : algorithms_of(Collective::all_gather)) {
    for (uint64_t turn = 0; turn < 7; ++turn) {
      BlockCase at;
      at.algorithm = algorithm;
      at.dtype = turn % 2 == 0 ? Dtype::int32 : Dtype::int8;
      at.with_counts = true;
      at.counts = unequal_counts(ranks(), turn);
      at.in_place = turn % 3 == 1;
      at.offset = turn % 2;
      cases.push_back(at);
    }
  }
  run(cases);
}

INSTANTIATE_TEST_SUITE_P(Ranks, AllGather, ::testing::Values(1, 2, 3, 4, 5));

}  // namespace
}  // namespace nezha::testing
