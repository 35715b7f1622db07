// Several operations in flight: waited for in any order, looked at with test(), left running by a
// wait that times out.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>

#include "support/all_reduce_case.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

constexpr int kRanks = 4;

std::vector<AllReduceCase> several(int number) {
  std::vector<AllReduceCase> cases;
  const uint64_t counts[] = {1, 4096, 0, 70'000, 3, 200'000};
  for (int i = 0; i < number; ++i) {
    AllReduceCase at;
    at.count = counts[static_cast<size_t>(i) % std::size(counts)];
    at.op = i % 2 == 0 ? ReduceOp::sum : ReduceOp::max;
    at.in_place = i % 3 == 0;
    fill(at, kRanks, static_cast<uint64_t>(i));
    cases.push_back(std::move(at));
  }
  return cases;
}

class AsyncSuite : public ::testing::Test {
 protected:
  AsyncSuite() : world_({.ranks = kRanks, .rails = 2}) {}
  void SetUp() override { ASSERT_TRUE(world_.status().is_ok()) << world_.status().to_string(); }
  void run(const std::vector<AllReduceCase>& cases, const std::function<Status(Member&)>& body) {
    for (const Status& outcome : world_.run(body)) ASSERT_TRUE(outcome.is_ok()) << outcome.to_string();
    for (const AllReduceCase& at : cases) {
      for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(check(at, rank), "");
    }
  }

  World world_;
};

TEST_F(AsyncSuite, WaitsInAnyOrder) {
  std::vector<AllReduceCase> cases = several(24);
  run(cases, [&](Member& self) {
    std::vector<engine::Work> works(cases.size());
    for (size_t i = 0; i < cases.size(); ++i) {
      NEZHA_RETURN_IF_ERROR(call(cases[i], *self.comm, self.rank, &works[i]));
    }
    std::vector<size_t> order(cases.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::mt19937 generator(static_cast<unsigned>(self.rank));
    std::shuffle(order.begin(), order.end(), generator);
    for (const size_t i : order) {
      self.doing("wait for work " + std::to_string(i));
      EXPECT_TRUE(self.comm->wait(works[i], kNever));
      NEZHA_RETURN_IF_ERROR(works[i].status());
    }
    return Status::ok();
  });
}

TEST_F(AsyncSuite, TestAloneDrivesToTheEnd) {
  std::vector<AllReduceCase> cases = several(6);
  run(cases, [&](Member& self) {
    std::vector<engine::Work> works(cases.size());
    for (size_t i = 0; i < cases.size(); ++i) {
      NEZHA_RETURN_IF_ERROR(call(cases[i], *self.comm, self.rank, &works[i]));
    }
    for (size_t i = 0; i < cases.size(); ++i) {
      self.doing("test work " + std::to_string(i));
      while (!self.comm->test(works[i])) std::this_thread::yield();
      NEZHA_RETURN_IF_ERROR(works[i].status());
    }
    return Status::ok();
  });
}

// Nobody calls into the library after the start: its own threads finish the work.
TEST_F(AsyncSuite, FinishesInTheBackground) {
  std::vector<AllReduceCase> cases = several(6);
  run(cases, [&](Member& self) {
    std::vector<engine::Work> works(cases.size());
    for (size_t i = 0; i < cases.size(); ++i) {
      NEZHA_RETURN_IF_ERROR(call(cases[i], *self.comm, self.rank, &works[i]));
    }
    self.doing("watch");
    for (const engine::Work& work : works) {
      while (!work.is_done()) std::this_thread::yield();
      NEZHA_RETURN_IF_ERROR(work.status());
    }
    return Status::ok();
  });
}

TEST_F(AsyncSuite, AWaitThatTimesOutLeavesTheOperationRunning) {
  std::vector<AllReduceCase> cases = several(1);
  std::atomic<int> looked{0};
  run(cases, [&](Member& self) {
    if (self.rank == 0) {
      while (looked.load() < kRanks - 1) std::this_thread::yield();
    }
    engine::Work work;
    NEZHA_RETURN_IF_ERROR(call(cases[0], *self.comm, self.rank, &work));
    if (self.rank != 0) {
      // Rank 0 has not called yet, so this cannot be complete.
      EXPECT_FALSE(self.comm->wait(work, system_clock().now() + 20 * kMillisecond));
      EXPECT_FALSE(work.is_done());
      looked.fetch_add(1);
    }
    self.doing("wait again");
    EXPECT_TRUE(self.comm->wait(work, kNever));
    return work.status();
  });
}

TEST_F(AsyncSuite, WaitersOnSeveralThreadsOfOneRank) {
  std::vector<AllReduceCase> cases = several(12);
  run(cases, [&](Member& self) {
    std::vector<engine::Work> works(cases.size());
    for (size_t i = 0; i < cases.size(); ++i) {
      NEZHA_RETURN_IF_ERROR(call(cases[i], *self.comm, self.rank, &works[i]));
    }
    self.doing("wait on three threads");
    std::vector<std::thread> threads;
    for (size_t lane = 0; lane < 3; ++lane) {
      threads.emplace_back([&, lane] {
        for (size_t i = lane; i < works.size(); i += 3) self.comm->wait(works[i], kNever);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const engine::Work& work : works) NEZHA_RETURN_IF_ERROR(work.status());
    return Status::ok();
  });
}

// The buffers of an operation are the caller's again as soon as it is done: whatever the caller
// writes there must not reach anybody.
TEST_F(AsyncSuite, BuffersAreFreeOnceDone) {
  const auto outcomes = world_.run([&](Member& self) {
    std::vector<int64_t> data(150'000);
    for (int repeat = 0; repeat < 12; ++repeat) {
      self.doing("repeat " + std::to_string(repeat));
      std::fill(data.begin(), data.end(), self.rank + repeat);
      engine::Work work;
      NEZHA_RETURN_IF_ERROR(self.comm->all_reduce(data.data(), data.data(), data.size(),
                                                  Dtype::int64, ReduceOp::sum, {}, &work));
      self.comm->wait(work, kNever);
      NEZHA_RETURN_IF_ERROR(work.status());
      const int64_t want = kRanks * (kRanks - 1) / 2 + kRanks * repeat;
      const bool right = std::all_of(data.begin(), data.end(), [&](int64_t x) { return x == want; });
      EXPECT_TRUE(right) << "rank " << self.rank << " repeat " << repeat;
      std::fill(data.begin(), data.end(), -777);
    }
    return Status::ok();
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

}  // namespace
}  // namespace nezha::testing
