// Ranks whose programs disagree: every rank learns it, with both ranks and both values, before a
// byte is added to another; afterwards the communicator keeps saying so.
#include <gtest/gtest.h>

#include "support/world.h"

namespace nezha::testing {
namespace {

// What one rank calls.
struct Call {
  Collective collective = Collective::all_reduce;
  uint64_t count = 0;
  Dtype dtype = Dtype::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  Algorithm algorithm = Algorithm::automatic;
};

struct Disagreement {
  const char* name;
  uint64_t count;
  void (*change)(Call&);
  const char* field;
  const char* usual;
  const char* odd;
};

const Disagreement kDisagreements[] = {
    {"count", 10, [](Call& at) { at.count += 1; }, "count", "10", "11"},
    {"count_none", 10, [](Call& at) { at.count = 0; }, "count", "10", "0"},
    {"count_large", 500'000, [](Call& at) { at.count -= 1; }, "count", "500000", "499999"},
    {"count_small_and_large", 500'000, [](Call& at) { at.count = 1; }, "count", "500000", "1"},
    {"dtype", 10, [](Call& at) { at.dtype = Dtype::int32; }, "dtype", "float32", "int32"},
    {"dtype_large", 500'000, [](Call& at) { at.dtype = Dtype::float64; }, "dtype", "float32",
     "float64"},
    {"op", 10, [](Call& at) { at.op = ReduceOp::max; }, "op", "sum", "max"},
    {"op_large", 500'000, [](Call& at) { at.op = ReduceOp::avg; }, "op", "sum", "avg"},
    {"algorithm", 10, [](Call& at) { at.algorithm = Algorithm::ring; }, "algorithm",
     "recursive_doubling", "ring"},
    {"collective", 10, [](Call& at) { at.collective = Collective::barrier; }, "collective",
     "all_reduce", "barrier"},
    {"collective_large", 500'000, [](Call& at) { at.collective = Collective::broadcast; },
     "collective", "all_reduce", "broadcast"},
};

Status make(const Call& at, context::Communicator& comm, std::vector<double>& data) {
  context::CallOptions options;
  options.algorithm = at.algorithm;
  switch (at.collective) {
    case Collective::all_reduce:
      return comm.all_reduce(data.data(), data.data(), at.count, at.dtype, at.op, options, nullptr);
    case Collective::broadcast:
      return comm.broadcast(data.data(), at.count, at.dtype, at.root, {}, nullptr);
    default:
      return comm.barrier({}, nullptr);
  }
}

bool contains(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

class MismatchSuite
    : public ::testing::TestWithParam<std::tuple<int, Disagreement>> {};

TEST_P(MismatchSuite, IsNamedOnEveryRank) {
  const auto [ranks, at] = GetParam();
  for (int odd = 0; odd < ranks; odd += ranks - 1) {
    World world({.ranks = ranks, .rails = 2});
    const auto outcomes = world.run([&, odd = odd](Member& self) {
      std::vector<double> data(at.count + 1);
      Call mine;
      mine.count = at.count;
      if (std::string(at.name) == "algorithm") mine.algorithm = Algorithm::recursive_doubling;
      if (self.rank == odd) at.change(mine);
      const Status first = make(mine, *self.comm, data);
      // It stays failed, with the same words.
      const Status second = self.comm->barrier({}, nullptr);
      EXPECT_EQ(second.code(), Code::mismatch);
      EXPECT_TRUE(first.is_ok() || first.message() == second.message()) << second.message();
      return second;
    });
    for (const Status& outcome : outcomes) {
      EXPECT_EQ(outcome.code(), Code::mismatch) << outcome.to_string();
      EXPECT_TRUE(contains(outcome, std::string(at.field) + " is ")) << outcome.to_string();
      EXPECT_TRUE(contains(outcome, std::string(at.odd) + " on rank " + std::to_string(odd)))
          << outcome.to_string();
      EXPECT_TRUE(contains(outcome, std::string(at.usual) + " on rank ")) << outcome.to_string();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Matrix, MismatchSuite,
                         ::testing::Combine(::testing::Values(2, 3, 4),
                                            ::testing::ValuesIn(kDisagreements)),
                         [](const auto& matrix) {
                           return std::to_string(std::get<0>(matrix.param)) + "_" +
                                  std::get<1>(matrix.param).name;
                         });

// A broadcast's leaf may be served before the others disagree: then the next call says so.
TEST(Mismatch, RootOfABroadcast) {
  for (const uint64_t count : {1, 300'000}) {
    World world({.ranks = 4});
    const auto outcomes = world.run([&](Member& self) {
      std::vector<float> data(count);
      const int root = self.rank == 3 ? 1 : 0;
      const Status first = self.comm->broadcast(data.data(), count, Dtype::float32, root, {}, nullptr);
      return first.is_ok() ? self.comm->barrier({}, nullptr) : first;
    });
    for (const Status& outcome : outcomes) {
      EXPECT_EQ(outcome.code(), Code::mismatch) << outcome.to_string();
      EXPECT_TRUE(contains(outcome, "root is ")) << outcome.to_string();
      EXPECT_TRUE(contains(outcome, "on rank 3")) << outcome.to_string();
    }
  }
}

TEST(Mismatch, OrderOfTwoOperations) {
  World world({.ranks = 3});
  const auto outcomes = world.run([](Member& self) {
    std::vector<float> data(64);
    auto reduce = [&] {
      return self.comm->all_reduce(data.data(), data.data(), 64, Dtype::float32, ReduceOp::sum, {},
                                   nullptr);
    };
    auto share = [&] { return self.comm->broadcast(data.data(), 64, Dtype::float32, 0, {}, nullptr); };
    const Status first = self.rank == 1 ? share() : reduce();
    if (!first.is_ok()) return first;
    return self.rank == 1 ? reduce() : share();
  });
  for (const Status& outcome : outcomes) {
    EXPECT_EQ(outcome.code(), Code::mismatch) << outcome.to_string();
    EXPECT_TRUE(contains(outcome, "collective is ")) << outcome.to_string();
  }
}

// A split exchanges numbers in an all_reduce: it is none of the program's, however alike the two are.
TEST(Mismatch, ASplitIsNoAllReduce) {
  World world({.ranks = 2});
  const auto outcomes = world.run([](Member& self) {
    if (self.rank == 0) return self.comm->split(0, 0).status();
    std::vector<int64_t> data(4);
    return self.comm->all_reduce(data.data(), data.data(), data.size(), Dtype::int64, ReduceOp::sum, {},
                                 nullptr);
  });
  for (const Status& outcome : outcomes) {
    EXPECT_EQ(outcome.code(), Code::mismatch) << outcome.to_string();
    EXPECT_TRUE(contains(outcome, "split on rank 0")) << outcome.to_string();
    EXPECT_TRUE(contains(outcome, "all_reduce on rank 1")) << outcome.to_string();
  }
}

// Only the communicator in which it happened fails; its parent works on.
TEST(Mismatch, StaysInsideItsCommunicator) {
  World world({.ranks = 3});
  const auto outcomes = world.run([](Member& self) {
    auto part = self.comm->split(0, 0);
    if (!part) return part.status();
    std::vector<float> data(70'000, 1.0F);
    const uint64_t count = self.rank == 2 ? 69'999 : 70'000;
    const Status failed = (*part)->all_reduce(data.data(), data.data(), count, Dtype::float32,
                                              ReduceOp::sum, {}, nullptr);
    EXPECT_EQ(failed.code(), Code::mismatch) << failed.to_string();
    for (int repeat = 0; repeat < 5; ++repeat) {
      std::vector<float> mine(70'000, 1.0F);
      NEZHA_RETURN_IF_ERROR(self.comm->all_reduce(mine.data(), mine.data(), mine.size(),
                                                  Dtype::float32, ReduceOp::sum, {}, nullptr));
      EXPECT_EQ(mine, std::vector<float>(mine.size(), 3.0F));
    }
    return Status::ok();
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

}  // namespace
}  // namespace nezha::testing
