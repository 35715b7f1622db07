// Communicators made by split: who is in them, in what order, and that several of them work side by
// side on the same connections.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <thread>

#include "support/world.h"

namespace nezha::testing {
namespace {

using context::Communicator;

Status expect_sum(Communicator& comm, int64_t mine, int64_t want, uint64_t count) {
  std::vector<int64_t> data(count, mine);
  NEZHA_RETURN_IF_ERROR(comm.all_reduce(data.data(), data.data(), count, Dtype::int64,
                                        ReduceOp::sum, {}, nullptr));
  if (data == std::vector<int64_t>(count, want)) return Status::ok();
  return error(Code::internal, "sum is %lld instead of %lld", static_cast<long long>(data[0]),
               static_cast<long long>(want));
}

void expect_all_ok(const std::vector<Status>& outcomes) {
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

TEST(Split, ColorsKeysAndThoseLeftOut) {
  World world({.ranks = 6, .rails = 2});
  expect_all_ok(world.run([](Member& self) {
    // Colors 0 and 1 alternate, rank 5 stays out; keys turn the order round.
    const int color = self.rank == 5 ? -3 : self.rank % 2;
    auto part = self.comm->split(color, -self.rank);
    if (!part) return part.status();
    EXPECT_EQ(*part == nullptr, color < 0);
    if (*part == nullptr) return Status::ok();
    const int members = color == 0 ? 3 : 2;
    EXPECT_EQ((*part)->world_size(), members);
    EXPECT_EQ((*part)->rank(), members - 1 - self.rank / 2);
    const int64_t want = color == 0 ? 0 + 2 + 4 : 1 + 3;
    NEZHA_RETURN_IF_ERROR(expect_sum(**part, self.rank, want, 5000));
    // Roots are ranks of the part.
    int64_t value = self.rank;
    NEZHA_RETURN_IF_ERROR((*part)->broadcast(&value, 1, Dtype::int64, 0, {}, nullptr));
    EXPECT_EQ(value, color == 0 ? 4 : 3);
    return (*part)->barrier({}, nullptr);
  }));
}

TEST(Split, EqualKeysKeepTheOrderOfRanks) {
  World world({.ranks = 5});
  expect_all_ok(world.run([](Member& self) {
    auto all = self.comm->split(7, 0);
    if (!all) return all.status();
    EXPECT_EQ((*all)->rank(), self.rank);
    auto alone = self.comm->split(self.rank, 0);
    if (!alone) return alone.status();
    EXPECT_EQ((*alone)->world_size(), 1);
    NEZHA_RETURN_IF_ERROR(expect_sum(**alone, self.rank, self.rank, 100));
    return expect_sum(**all, 1, 5, 100);
  }));
}

// The quicker ranks use the part before the slower ones know its members.
TEST(Split, TheFirstFramesMayBeEarly) {
  World world({.ranks = 4});
  expect_all_ok(world.run([](Member& self) {
    for (int repeat = 0; repeat < 40; ++repeat) {
      self.doing("split " + std::to_string(repeat));
      auto part = self.comm->split(0, 0);
      if (!part) return part.status();
      int64_t value = self.rank == repeat % 4 ? repeat : -1;
      NEZHA_RETURN_IF_ERROR((*part)->broadcast(&value, 1, Dtype::int64, repeat % 4, {}, nullptr));
      EXPECT_EQ(value, repeat);
    }
    return Status::ok();
  }));
}

TEST(Split, PartsOfPartsAndTheParentInTurns) {
  World world({.ranks = 8, .rails = 2});
  expect_all_ok(world.run([](Member& self) {
    auto half = self.comm->split(self.rank / 4, 0);
    if (!half) return half.status();
    auto quarter = (*half)->split((*half)->rank() / 2, 0);
    if (!quarter) return quarter.status();
    const int64_t first_of_half = self.rank / 4 * 4;
    const int64_t first_of_quarter = self.rank / 2 * 2;
    for (uint64_t repeat = 0; repeat < 20; ++repeat) {
      self.doing("round " + std::to_string(repeat));
      const uint64_t count = 1 + repeat * 701;
      NEZHA_RETURN_IF_ERROR(expect_sum(**quarter, self.rank, 2 * first_of_quarter + 1, count));
      NEZHA_RETURN_IF_ERROR(expect_sum(*self.comm, self.rank, 28, count));
      NEZHA_RETURN_IF_ERROR(expect_sum(**half, self.rank, 4 * first_of_half + 6, count));
    }
    return Status::ok();
  }));
}

// Each thread has its own communicator; between threads there is no order at all.
TEST(Split, OneThreadPerCommunicator) {
  constexpr int kThreads = 3;
  World world({.ranks = 4, .rails = 2});
  expect_all_ok(world.run([](Member& self) {
    std::vector<std::unique_ptr<Communicator>> parts;
    for (int i = 0; i < kThreads - 1; ++i) {
      auto part = self.comm->split(0, i == 0 ? self.rank : -self.rank);
      if (!part) return part.status();
      parts.push_back(std::move(*part));
    }
    std::vector<Status> outcomes(kThreads);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      Communicator& comm = i == 0 ? *self.comm : *parts[i - 1];
      threads.emplace_back([&comm, &outcomes, &self, i] {
        for (uint64_t repeat = 0; repeat < 60 && outcomes[i].is_ok(); ++repeat) {
          outcomes[i] = expect_sum(comm, self.rank, 6, 1 + (repeat * 997 + i * 5000) % 40'000);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Status& outcome : outcomes) NEZHA_RETURN_IF_ERROR(outcome);
    return Status::ok();
  }));
}

// Calls on one communicator from two threads take the order of the calls: when the operations are all
// alike, any order fits.
TEST(Split, TwoThreadsOnOneCommunicator) {
  World world({.ranks = 3});
  expect_all_ok(world.run([](Member& self) {
    Status other;
    std::thread thread([&] {
      for (int i = 0; i < 100 && other.is_ok(); ++i) other = expect_sum(*self.comm, 1, 3, 2000);
    });
    Status mine;
    for (int i = 0; i < 100 && mine.is_ok(); ++i) mine = expect_sum(*self.comm, 1, 3, 2000);
    thread.join();
    return mine.is_ok() ? other : mine;
  }));
}

// A part may go before its parent, and a part may outlive it.
TEST(Split, EndsInAnyOrder) {
  World world({.ranks = 3});
  std::vector<std::unique_ptr<Communicator>> parts(3);
  expect_all_ok(world.run([&](Member& self) {
    {
      auto gone = self.comm->split(0, 0);
      if (!gone) return gone.status();
      NEZHA_RETURN_IF_ERROR(expect_sum(**gone, 1, 3, 10));
    }
    auto part = self.comm->split(0, 0);
    if (!part) return part.status();
    parts[static_cast<size_t>(self.rank)] = std::move(*part);
    return expect_sum(*self.comm, 2, 6, 10);
  }));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      world.leave(rank);
      auto& part = parts[static_cast<size_t>(rank)];
      const Status outcome = expect_sum(*part, 1, 3, 1000);
      EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
      part.reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Of as many in a row two once had the same number, whether the first had ended or not.
TEST(Split, HundredsInARowKeepApart) {
  World world({.ranks = 2});
  expect_all_ok(world.run([](Member& self) {
    std::vector<std::unique_ptr<Communicator>> kept;
    for (int made = 0; made < 600; ++made) {
      self.doing("split " + std::to_string(made));
      auto part = self.comm->split(0, 0);
      if (!part) return part.status();
      NEZHA_RETURN_IF_ERROR(expect_sum(**part, made, 2 * made, 10));
      if (made % 2 == 0) kept.push_back(std::move(*part));
    }
    for (const auto& part : kept) NEZHA_RETURN_IF_ERROR(expect_sum(*part, 1, 2, 10));
    return Status::ok();
  }));
}

}  // namespace
}  // namespace nezha::testing
