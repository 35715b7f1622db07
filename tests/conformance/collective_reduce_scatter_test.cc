// reduce_scatter: every algorithm, dtype and op, equal and unequal blocks; the same bits over any rails.
#include <gtest/gtest.h>

#include "support/block_case.h"

namespace nezha::testing {
namespace {

class ReduceScatter : public BlockSuite {
 protected:
  std::vector<BlockCase> every_kind(uint64_t count) {
    std::vector<BlockCase> cases;
    uint64_t turn = static_cast<uint64_t>(ranks());
    for (const Algorithm algorithm : algorithms_of(Collective::reduce_scatter)) {
      for (size_t kind = 0; kind < kDtypeCount * kReduceOpCount; ++kind) {
        BlockCase at;
        at.collective = Collective::reduce_scatter;
        at.algorithm = algorithm;
        at.dtype = static_cast<Dtype>(kind % kDtypeCount);
        at.op = static_cast<ReduceOp>(kind / kDtypeCount);
        if (!reduce_supported(at.dtype, at.op)) continue;
        at.counts = equal_counts(ranks(), count);
        at.in_place = ++turn % 2 == 0;
        at.offset = turn % 3 == 0 ? 1 : 0;
        cases.push_back(at);
      }
    }
    return cases;
  }
};

TEST_P(ReduceScatter, EveryKindAtSmallCounts) {
  for (const uint64_t count : {0, 1, 37}) {
    std::vector<BlockCase> cases = every_kind(count);
    run(cases);
  }
}

TEST_P(ReduceScatter, EveryKindInSeveralChunks) {
  std::vector<BlockCase> cases = every_kind(5003);
  std::vector<BlockCase> some;
  for (size_t i = 0; i < cases.size(); i += 3) some.push_back(cases[i]);
  run(some);
}

TEST_P(ReduceScatter, LargeBlocksAndUnequalOnes) {
  std::vector<BlockCase> cases;
  for (const Algorithm algorithm : algorithms_of(Collective::reduce_scatter)) {
    for (uint64_t turn = 0; turn < 8; ++turn) {
      BlockCase at;
      at.collective = Collective::reduce_scatter;
      at.algorithm = algorithm;
      at.dtype = turn % 2 == 0 ? Dtype::float32 : Dtype::bfloat16;
      at.op = turn % 3 == 0 ? ReduceOp::avg : turn % 3 == 1 ? ReduceOp::premul_sum : ReduceOp::max;
      at.with_counts = turn > 0;
      at.counts = turn == 0 ? equal_counts(ranks(), 90'001) : unequal_counts(ranks(), turn);
      at.in_place = turn % 2 == 1;
      cases.push_back(at);
    }
  }
  run(cases);
}

// The order of additions belongs to the schedule: rails and streams change no bit.
TEST(ReduceScatterBits, DoNotDependOnRails) {
  constexpr int kRanks = 4;
  constexpr uint64_t kCount = 30'011;
  for (const Algorithm algorithm : algorithms_of(Collective::reduce_scatter)) {
    if (algorithm == Algorithm::automatic) continue;  // it may choose by the number of rails
    std::vector<std::vector<float>> first;
    for (const int rails : {1, 2, 3}) {
      World world({.ranks = kRanks, .rails = rails});
      std::vector<std::vector<float>> results(kRanks, std::vector<float>(kCount));
      const auto outcomes = world.run([&](Member& self) {
        std::mt19937 generator(static_cast<unsigned>(self.rank));
        std::normal_distribution<float> normal;
        std::vector<float> input(kCount * kRanks);
        for (float& value : input) value = normal(generator);
        context::CallOptions options;
        options.algorithm = algorithm;
        return self.comm->reduce_scatter(input.data(),
                                         results[static_cast<size_t>(self.rank)].data(), kCount,
                                         Dtype::float32, ReduceOp::sum, options, nullptr);
      });
      for (const Status& outcome : outcomes) ASSERT_TRUE(outcome.is_ok()) << outcome.to_string();
      if (first.empty()) first = results;
      EXPECT_EQ(results, first) << name_of(algorithm) << " over " << rails << " rails";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ReduceScatter, ::testing::Values(1, 2, 3, 4, 5));

}  // namespace
}  // namespace nezha::testing
