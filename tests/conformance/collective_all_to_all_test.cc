// all_to_all: every algorithm, and counts that only the two ranks concerned know.
#include <gtest/gtest.h>

#include "support/block_case.h"

namespace nezha::testing {
namespace {

class AllToAll : public BlockSuite {};

TEST_P(AllToAll, EveryAlgorithmAndLength) {
  std::vector<BlockCase> cases;
  uint64_t turn = 0;
  for (const Algorithm algorithm : algorithms_of(Collective::all_to_all)) {
    for (const uint64_t count : {0, 1, 3, 1000, 20'011, 150'001}) {
      BlockCase at;
      at.collective = Collective::all_to_all;
      at.algorithm = algorithm;
      at.dtype = static_cast<Dtype>(turn % kDtypeCount);
      at.matrix.assign(static_cast<size_t>(ranks()), equal_counts(ranks(), count));
      at.offset = turn++ % 3 == 0 ? 1 : 0;
      cases.push_back(at);
    }
  }
  run(cases);
}

TEST_P(AllToAll, BlocksOfUnequalLength) {
  std::vector<BlockCase> cases;
  for (const Algorithm algorithm : algorithms_of(Collective::all_to_all_v)) {
    for (uint64_t turn = 0; turn < 7; ++turn) {
      BlockCase at;
      at.collective = Collective::all_to_all_v;
      at.algorithm = algorithm;
      at.dtype = turn % 2 == 0 ? Dtype::int64 : Dtype::uint8;
      for (uint64_t row = 0; row < static_cast<uint64_t>(ranks()); ++row) {
        at.matrix.push_back(unequal_counts(ranks(), turn + 3 * row));
      }
      at.offset = turn % 2;
      cases.push_back(at);
    }
    // Nothing at all, and from one rank to one other only.
    BlockCase none;
    none.collective = Collective::all_to_all_v;
    none.algorithm = algorithm;
    none.matrix.assign(static_cast<size_t>(ranks()), equal_counts(ranks(), 0));
    cases.push_back(none);
    none.matrix.front().back() = 400'001;
    cases.push_back(none);
  }
  run(cases);
}

INSTANTIATE_TEST_SUITE_P(Ranks, AllToAll, ::testing::Values(1, 2, 3, 4, 5));

}  // namespace
}  // namespace nezha::testing
