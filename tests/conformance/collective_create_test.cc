// Communicators without a message, groups of operations, messages between two ranks, and many of all in
// flight at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "support/world.h"

namespace nezha::testing {
namespace {

using context::Batch;
using context::Communicator;

void expect_all_ok(const std::vector<Status>& outcomes) {
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

Status expect_sum(Communicator& comm, int64_t mine, int64_t want, uint64_t count) {
  std::vector<int64_t> data(count, mine);
  NEZHA_RETURN_IF_ERROR(comm.all_reduce(data.data(), data.data(), count, Dtype::int64,
                                        ReduceOp::sum, {}, nullptr));
  if (data == std::vector<int64_t>(count, want)) return Status::ok();
  return error(Code::internal, "rank %d: %lld instead of %lld", comm.rank(),
               static_cast<long long>(data[0]), static_cast<long long>(want));
}

TEST(Create, DisjointAndOverlappingSets) {
  World world({.ranks = 5, .rails = 2});
  expect_all_ok(world.run([](Member& self) {
    const std::vector<std::vector<int>> sets = {{0, 1}, {4, 2, 3}, {3, 1, 4}, {0, 1, 2, 3, 4}, {2}};
    for (const std::vector<int>& set : sets) {
      const auto place = std::find(set.begin(), set.end(), self.rank);
      if (place == set.end()) continue;
      auto part = self.comm->create(set, "set");
      if (!part) return part.status();
      EXPECT_EQ((*part)->rank(), place - set.begin());
      EXPECT_EQ((*part)->world_size(), static_cast<int>(set.size()));
      int64_t sum = 0;
      for (const int rank : set) sum += rank;
      NEZHA_RETURN_IF_ERROR(expect_sum(**part, self.rank, sum, 3000));
    }
    return Status::ok();
  }));
}

// The frames of the quick members arrive before the slow one knows the communicator.
TEST(Create, QuickAndSlowMembers) {
  World world({.ranks = 3});
  expect_all_ok(world.run([](Member& self) {
    for (int repeat = 0; repeat < 10; ++repeat) {
      self.doing("repeat " + std::to_string(repeat));
      if (self.rank == repeat % 3) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const std::vector<int> all = {2, 0, 1};
      auto part = self.comm->create(all, "again");  // the same name: another one each time
      if (!part) return part.status();
      int64_t value = (*part)->rank() == repeat % 3 ? repeat : -1;
      NEZHA_RETURN_IF_ERROR((*part)->broadcast(&value, 1, Dtype::int64, repeat % 3, {}, nullptr));
      EXPECT_EQ(value, repeat);
      NEZHA_RETURN_IF_ERROR(expect_sum(**part, 1, 3, 20'000));
    }
    return Status::ok();
  }));
}

TEST(Create, NonsenseIsRefused) {
  World world({.ranks = 2});
  expect_all_ok(world.run([](Member& self) {
    auto code = [&](std::vector<int> ranks) { return self.comm->create(ranks, "").status().code(); };
    EXPECT_EQ(code({1 - self.rank}), Code::invalid_argument);
    EXPECT_EQ(code({self.rank, self.rank}), Code::invalid_argument);
    EXPECT_EQ(code({self.rank, 2}), Code::invalid_argument);
    EXPECT_EQ(code({self.rank, -1}), Code::invalid_argument);
    EXPECT_EQ(code({}), Code::invalid_argument);
    return expect_sum(*self.comm, 1, 2, 10);
  }));
}

TEST(Groups, StartTogetherAndEndTogether) {
  World world({.ranks = 4, .rails = 2});
  expect_all_ok(world.run([](Member& self) {
    constexpr size_t kCount = 20;
    std::vector<std::vector<int32_t>> sums, blocks;
    NEZHA_RETURN_IF_ERROR(self.comm->group_begin());
    for (size_t i = 0; i < kCount; ++i) {
      sums.emplace_back(1 + i * 500, static_cast<int32_t>(i));
      blocks.emplace_back(10);
      std::vector<uint64_t> counts = {1, 2, 3, 4};  // gone before the group starts
      const std::vector<int32_t>& mine = sums.back();
      blocks.back().assign(10, self.rank);
      NEZHA_RETURN_IF_ERROR(self.comm->all_gather_v(
          blocks.back().data() + self.rank * (self.rank + 1) / 2, blocks.back().data(), counts.data(),
          Dtype::int32, {}, nullptr));
      NEZHA_RETURN_IF_ERROR(self.comm->all_reduce(mine.data(), sums.back().data(), mine.size(),
                                                  Dtype::int32, ReduceOp::sum, {}, nullptr));
    }
    std::unique_ptr<Batch> batch;
    NEZHA_RETURN_IF_ERROR(self.comm->group_end({}, &batch));
    self.comm->wait(*batch, kNever);
    NEZHA_RETURN_IF_ERROR(batch->status());
    for (size_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(sums[i], std::vector<int32_t>(sums[i].size(), static_cast<int32_t>(4 * i)));
      EXPECT_EQ(blocks[i], (std::vector<int32_t>{0, 1, 1, 2, 2, 2, 3, 3, 3, 3}));
    }
    return Status::ok();
  }));
}

TEST(Groups, RulesAreKept) {
  World world({.ranks = 2});
  expect_all_ok(world.run([](Member& self) {
    engine::Work work;
    EXPECT_EQ(self.comm->group_end({}, nullptr).code(), Code::invalid_argument);
    EXPECT_EQ(self.comm->group_cancel().code(), Code::invalid_argument);
    NEZHA_RETURN_IF_ERROR(self.comm->group_begin());
    EXPECT_EQ(self.comm->group_begin().code(), Code::invalid_argument);
    EXPECT_EQ(self.comm->barrier({}, &work).code(), Code::invalid_argument);
    EXPECT_EQ(self.comm->split(0, 0).status().code(), Code::invalid_argument);
    EXPECT_EQ(self.comm->broadcast(nullptr, 1, Dtype::int8, 0, {}, nullptr).code(),
              Code::invalid_argument);
    Status elsewhere;  // another thread has no group
    std::thread([&] { elsewhere = self.comm->group_end({}, nullptr); }).join();
    EXPECT_EQ(elsewhere.code(), Code::invalid_argument);
    // Noted on rank 0 only, and forgotten: nobody may wait for it.
    if (self.rank == 0) NEZHA_RETURN_IF_ERROR(self.comm->barrier({}, nullptr));
    NEZHA_RETURN_IF_ERROR(self.comm->group_cancel());
    NEZHA_RETURN_IF_ERROR(self.comm->group_begin());
    NEZHA_RETURN_IF_ERROR(self.comm->group_end({}, nullptr));  // nothing is done at once
    return expect_sum(*self.comm, 1, 2, 10);
  }));
}

TEST(Groups, TheFirstErrorSpeaks) {
  World world({.ranks = 2});
  expect_all_ok(world.run([](Member& self) {
    int64_t value = 1;
    context::CallOptions wrong;
    wrong.algorithm = Algorithm::dissemination;
    NEZHA_RETURN_IF_ERROR(self.comm->group_begin());
    NEZHA_RETURN_IF_ERROR(self.comm->barrier({}, nullptr));
    NEZHA_RETURN_IF_ERROR(self.comm->all_reduce(&value, &value, 1, Dtype::int64, ReduceOp::sum, wrong,
                                                nullptr));
    NEZHA_RETURN_IF_ERROR(self.comm->barrier({}, nullptr));
    EXPECT_EQ(self.comm->group_end({}, nullptr).code(), Code::unsupported);
    return expect_sum(*self.comm, 1, 2, 10);
  }));
}

TEST(Messages, AroundARingAndFromAnyone) {
  World world({.ranks = 3, .rails = 2});
  expect_all_ok(world.run([](Member& self) {
    const int next = (self.rank + 1) % 3;
    for (const uint64_t count : {0, 1, 1000, 400'000}) {
      std::vector<int32_t> mine(count, self.rank), theirs(count, -1);
      engine::Work work;
      NEZHA_RETURN_IF_ERROR(self.comm->receive(theirs.data(), count, Dtype::int32, -1, 7, {}, &work));
      NEZHA_RETURN_IF_ERROR(self.comm->send(mine.data(), count, Dtype::int32, next, 7, {}, nullptr));
      self.comm->wait(work, kNever);
      NEZHA_RETURN_IF_ERROR(work.status());
      EXPECT_EQ(work.source, (self.rank + 2) % 3);
      EXPECT_EQ(theirs, std::vector<int32_t>(count, work.source));
      NEZHA_RETURN_IF_ERROR(self.comm->barrier({}, nullptr));
    }
    EXPECT_EQ(self.comm->send(nullptr, 1, Dtype::int8, 0, 0, {}, nullptr).code(),
              Code::invalid_argument);
    EXPECT_EQ(self.comm->send(nullptr, 0, Dtype::int8, 3, 0, {}, nullptr).code(),
              Code::invalid_argument);
    EXPECT_EQ(self.comm->receive(nullptr, 0, Dtype::int8, -2, 0, {}, nullptr).code(),
              Code::invalid_argument);
    return Status::ok();
  }));
}

// Three threads in three communicators, each with several operations of several kinds in flight.
TEST(ManyAtOnce, ThreadsCommunicatorsAndKinds) {
  World world({.ranks = 4, .rails = 2});
  expect_all_ok(world.run([](Member& self) {
    const std::vector<int> orders[] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}};
    std::vector<Status> outcomes(std::size(orders));
    std::vector<std::thread> threads;
    for (size_t t = 0; t < std::size(orders); ++t) {
      threads.emplace_back([&, t] {
        outcomes[t] = [&]() -> Status {
          auto part = self.comm->create(orders[t], "");
          if (!part) return part.status();
          for (int repeat = 0; repeat < 15; ++repeat) {
            std::vector<int32_t> sum(5000 + t, 1), all(400), blocks(40, (*part)->rank()), got(40);
            std::vector<int32_t> mine(100, (*part)->rank());
            engine::Work works[3];
            NEZHA_RETURN_IF_ERROR((*part)->all_reduce(sum.data(), sum.data(), sum.size(), Dtype::int32,
                                                      ReduceOp::sum, {}, &works[0]));
            NEZHA_RETURN_IF_ERROR((*part)->all_gather(mine.data(), all.data(), 100, Dtype::int32, {},
                                                      &works[1]));
            NEZHA_RETURN_IF_ERROR((*part)->all_to_all(blocks.data(), got.data(), 10, Dtype::int32, {},
                                                      &works[2]));
            for (const engine::Work& work : works) (*part)->wait(work, kNever);
            for (const engine::Work& work : works) NEZHA_RETURN_IF_ERROR(work.status());
            EXPECT_EQ(sum, std::vector<int32_t>(sum.size(), 4));
            for (int i = 0; i < 4; ++i) {
              EXPECT_EQ(all[static_cast<size_t>(100 * i + 99)], i);
              EXPECT_EQ(got[static_cast<size_t>(10 * i + 9)], i);
            }
          }
          return Status::ok();
        }();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Status& outcome : outcomes) NEZHA_RETURN_IF_ERROR(outcome);
    return Status::ok();
  }));
}

}  // namespace
}  // namespace nezha::testing
