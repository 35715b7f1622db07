// Ranks whose programs disagree about a collective of blocks: each of them learns it, then or with its
// next call, and what differs is named.
#include <gtest/gtest.h>

#include <numeric>

#include "support/world.h"

namespace nezha::testing {
namespace {

using Counts = std::vector<uint64_t>;
constexpr int kRanks = 3;

struct Data {
  std::vector<float> in = std::vector<float>(4096, 1.0F);
  std::vector<float> out = std::vector<float>(4096);
};

using Call = std::function<Status(context::Communicator&, Data&)>;

// Rank 1 calls `odd`, the others `usual`; everybody ends with a mismatch that has `word` in it.
void expect_mismatch(const Call& usual, const Call& odd, const std::string& word) {
  World world({.ranks = kRanks, .rails = 2});
  const auto outcomes = world.run([&](Member& self) {
    Data data;
    const Status first = self.rank == 1 ? odd(*self.comm, data) : usual(*self.comm, data);
    return first.is_ok() ? self.comm->barrier({}, nullptr) : first;
  });
  for (const Status& outcome : outcomes) {
    EXPECT_EQ(outcome.code(), Code::mismatch) << outcome.to_string();
    EXPECT_NE(outcome.message().find(word), std::string::npos) << outcome.to_string();
  }
}

Call all_gather(uint64_t count) {
  return [count](context::Communicator& comm, Data& data) {
    return comm.all_gather(data.in.data(), data.out.data(), count, Dtype::float32, {}, nullptr);
  };
}

Call all_gather_v(Counts counts) {
  return [counts](context::Communicator& comm, Data& data) {
    return comm.all_gather_v(data.in.data(), data.out.data(), counts.data(), Dtype::float32, {},
                             nullptr);
  };
}

Call reduce_scatter(uint64_t count, ReduceOp op) {
  return [count, op](context::Communicator& comm, Data& data) {
    return comm.reduce_scatter(data.in.data(), data.out.data(), count, Dtype::float32, op, {},
                               nullptr);
  };
}

Call gather(int root) {
  return [root](context::Communicator& comm, Data& data) {
    return comm.gather(data.in.data(), data.out.data(), 8, Dtype::float32, root, {}, nullptr);
  };
}

Call all_to_all_v(Counts send, Counts receive) {
  return [send, receive](context::Communicator& comm, Data& data) {
    return comm.all_to_all_v(data.in.data(), send.data(), data.out.data(), receive.data(),
                             Dtype::float32, {}, nullptr);
  };
}

TEST(MismatchBlocks, DifferentCollectives) {
  expect_mismatch(all_gather(16), reduce_scatter(16, ReduceOp::sum), "collective is ");
}

TEST(MismatchBlocks, DifferentCounts) {
  expect_mismatch(all_gather(16), all_gather(17), "count is ");
  expect_mismatch(reduce_scatter(1000, ReduceOp::sum), reduce_scatter(0, ReduceOp::sum), "count is ");
}

TEST(MismatchBlocks, DifferentOperators) {
  expect_mismatch(reduce_scatter(8, ReduceOp::sum), reduce_scatter(8, ReduceOp::max), "op is ");
}

TEST(MismatchBlocks, DifferentRoots) { expect_mismatch(gather(0), gather(2), "root is "); }

// The sum is the same, the lengths are not.
TEST(MismatchBlocks, DifferentLengths) {
  expect_mismatch(all_gather_v({1, 2, 3}), all_gather_v({3, 2, 1}), "plan is ");
}

// A pair's counts are known to the two alone.
TEST(MismatchBlocks, CountsOfAPairThatDisagree) {
  expect_mismatch(all_to_all_v({4, 4, 4}, {4, 4, 4}), all_to_all_v({5, 4, 4}, {4, 4, 4}), "count is ");
  expect_mismatch(all_to_all_v({4, 4, 4}, {4, 4, 4}), all_to_all_v({4, 4, 4}, {4, 4, 0}), "count is ");
}

TEST(MismatchBlocks, ItsOwnCountsAreCheckedBeforeAnythingIsSent) {
  World world({.ranks = 2});
  const auto outcomes = world.run([](Member& self) {
    Data data;
    const Counts send = {3, 3};
    const Counts receive = {self.rank == 0 ? 2U : 3U, self.rank == 1 ? 2U : 3U};
    EXPECT_EQ(self.comm->all_to_all_v(data.in.data(), send.data(), data.out.data(), receive.data(),
                                      Dtype::float32, {}, nullptr).code(), Code::invalid_argument);
    return self.comm->barrier({}, nullptr);
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

}  // namespace
}  // namespace nezha::testing
