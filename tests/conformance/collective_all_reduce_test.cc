// all_reduce against an independent reference: algorithm x dtype x op x count x world size, in place
// and out of place, aligned and not.
#include <gtest/gtest.h>

#include <array>

#include "schedule/catalog.h"
#include "support/all_reduce_case.h"
#include "support/cases.h"

namespace nezha::testing {
namespace {

constexpr std::array kAlgorithms = {Algorithm::ring, Algorithm::halving_doubling,
                                    Algorithm::recursive_doubling, Algorithm::bcube,
                                    Algorithm::automatic};

class AllReduceSuite : public ::testing::TestWithParam<int> {
 protected:
  // Rails and streams vary with the world, so that each number meets several worlds over the suite.
  AllReduceSuite()
      : world_({.ranks = GetParam(),
                .rails = 1 + GetParam() % 2,
                .config = GetParam() % 3 == 0 ? "streams_per_rail=2\n" : "",
                .timeout_s = kPatience_s / 2}) {}

  void SetUp() override { ASSERT_TRUE(world_.status().is_ok()) << world_.status().to_string(); }

  // Every rank makes the calls in the same order.
  void run(std::vector<AllReduceCase>& cases) {
    for (size_t i = 0; i < cases.size(); ++i) fill(cases[i], GetParam(), i);
    ASSERT_EQ(run_cases(world_, cases), "");
    for (const AllReduceCase& at : cases) ASSERT_EQ(check_equal(at), "");
  }

  World world_;
};

template <class Visit>
void for_each_kind(Visit visit) {
  for (const Algorithm algorithm : kAlgorithms) {
    for (size_t dtype = 0; dtype < kDtypeCount; ++dtype) {
      for (size_t op = 0; op < kReduceOpCount; ++op) {
        if (!reduce_supported(static_cast<Dtype>(dtype), static_cast<ReduceOp>(op))) continue;
        AllReduceCase at;
        at.algorithm = algorithm;
        at.dtype = static_cast<Dtype>(dtype);
        at.op = static_cast<ReduceOp>(op);
        visit(at);
      }
    }
  }
}

// All kinds at small counts: every kind meets two of the six counts, and every count every dtype.
TEST_P(AllReduceSuite, EveryKindAtSmallCounts) {
  const auto ranks = static_cast<uint64_t>(GetParam());
  const std::array<uint64_t, 6> counts = {0, 1, 2, ranks - 1, ranks, 1000};
  std::vector<AllReduceCase> cases;
  uint64_t turn = ranks;
  for_each_kind([&](AllReduceCase at) {
    for (int i = 0; i < 2; ++i, ++turn) {
      at.count = counts[(turn * 7 + turn / 6) % counts.size()];
      at.in_place = turn % 2 == 0;
      at.offset = turn % 3 == 0 ? 1 : 0;
      cases.push_back(at);
    }
  });
  run(cases);
}

TEST_P(AllReduceSuite, EveryKindInSeveralChunks) {
  std::vector<AllReduceCase> cases;
  uint64_t turn = static_cast<uint64_t>(GetParam());
  for_each_kind([&](AllReduceCase at) {
    if (++turn % 4 != 0) return;
    at.count = 10007;
    at.in_place = turn % 8 < 4;
    at.offset = turn % 3 == 0 ? 1 : 0;
    cases.push_back(at);
  });
  run(cases);
}

TEST_P(AllReduceSuite, LargeBuffers) {
  std::vector<AllReduceCase> cases;
  uint64_t turn = 0;
  for (const Algorithm algorithm : kAlgorithms) {
    AllReduceCase at;
    at.algorithm = algorithm;
    at.count = 300'000 + static_cast<uint64_t>(GetParam());
    at.dtype = turn % 2 == 0 ? Dtype::float32 : Dtype::bfloat16;
    at.op = turn % 2 == 0 ? ReduceOp::sum : ReduceOp::avg;
    at.in_place = (turn + static_cast<uint64_t>(GetParam())) % 2 == 0;
    at.offset = turn % 3 == 2 ? 1 : 0;
    cases.push_back(at);
    ++turn;
  }
  run(cases);
}

TEST_P(AllReduceSuite, NanAndInfinityAndSignedZeroInMinAndMax) {
  std::vector<AllReduceCase> cases;
  for (const Algorithm algorithm : kAlgorithms) {
    for (const Dtype dtype : reference::kFloats) {
      for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
        AllReduceCase at;
        at.algorithm = algorithm;
        at.dtype = dtype;
        at.op = op;
        at.count = 777;
        at.special = GetParam() > 1;  // a world of one copies, whatever the bits
        at.in_place = op == ReduceOp::min;
        cases.push_back(at);
      }
    }
  }
  run(cases);
}

INSTANTIATE_TEST_SUITE_P(Ranks, AllReduceSuite, ::testing::Values(1, 2, 3, 4, 5, 6, 7));

TEST(AllReduceArguments, AreCheckedBeforeAnythingIsSent) {
  World world({.ranks = 2});
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  const auto outcomes = world.run([&](Member& self) {
    std::vector<float> data(64, 1.0F);
    auto code = [&](const void* in, void* out, uint64_t count, Dtype dtype, ReduceOp op) {
      return self.comm->all_reduce(in, out, count, dtype, op, {}, nullptr).code();
    };
    if (self.rank == 0) {  // only here: nothing may have left for the other rank
      EXPECT_EQ(code(nullptr, data.data(), 1, Dtype::float32, ReduceOp::sum),
                Code::invalid_argument);
      EXPECT_EQ(code(data.data(), nullptr, 1, Dtype::float32, ReduceOp::sum),
                Code::invalid_argument);
      EXPECT_EQ(code(data.data(), data.data() + 1, 8, Dtype::float32, ReduceOp::sum),
                Code::invalid_argument);
      EXPECT_EQ(code(data.data(), data.data(), 8, static_cast<Dtype>(99), ReduceOp::sum),
                Code::invalid_argument);
      EXPECT_EQ(code(data.data(), data.data(), 8, Dtype::float32, static_cast<ReduceOp>(99)),
                Code::invalid_argument);
      EXPECT_EQ(code(data.data(), data.data(), 8, Dtype::float32, ReduceOp::bxor),
                Code::unsupported);
      EXPECT_EQ(code(data.data(), data.data(), UINT64_MAX / 2, Dtype::float32, ReduceOp::sum),
                Code::invalid_argument);
      context::CallOptions options;
      options.algorithm = Algorithm::dissemination;
      EXPECT_EQ(self.comm->all_reduce(data.data(), data.data(), 8, Dtype::float32, ReduceOp::sum,
                                      options, nullptr).code(), Code::unsupported);
      EXPECT_EQ(self.comm->broadcast(data.data(), 8, Dtype::float32, 2, {}, nullptr).code(),
                Code::invalid_argument);
      EXPECT_EQ(self.comm->broadcast(data.data(), 8, Dtype::float32, -1, {}, nullptr).code(),
                Code::invalid_argument);
    }
    return self.comm->all_reduce(data.data(), data.data(), 64, Dtype::float32, ReduceOp::sum, {},
                                 nullptr);
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

}  // namespace
}  // namespace nezha::testing
