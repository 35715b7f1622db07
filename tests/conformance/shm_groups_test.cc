// Groups in the memory of their host: whatever `split`, `create` and `shrink` make of ranks of one host
// carries out its operations there, groups that overlap and groups at the same time; and groups across
// hosts do there what they do inside one.
#include <gtest/gtest.h>

#include <thread>

#include "base/json.h"
#include "memory/area_table.h"
#include "support/block_case.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

using context::Communicator;

const char* const kShared = "shm=on\n";

void expect_all_ok(const std::vector<Status>& outcomes) {
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

Status expect_sum(Communicator& comm, int64_t mine, int64_t want, uint64_t count) {
  std::vector<int64_t> data(count, mine);
  NEZHA_RETURN_IF_ERROR(comm.all_reduce(data.data(), data.data(), count, Dtype::int64, ReduceOp::sum, {},
                                        nullptr));
  if (data == std::vector<int64_t>(count, want)) return Status::ok();
  return error(Code::internal, "rank %d: %lld instead of %lld", comm.rank(),
               static_cast<long long>(data[0]), static_cast<long long>(want));
}

int64_t bytes_in_memory(Communicator& comm) {
  return json_number(comm.context().stats_json(), "memory_bytes_sent");
}

// A sum over the group that passes through memory, or none of it does.
Status expect_sum_where(Communicator& comm, bool in_memory, int64_t mine, int64_t want) {
  constexpr uint64_t kCount = 1000;
  const int64_t before = bytes_in_memory(comm);
  NEZHA_RETURN_IF_ERROR(expect_sum(comm, mine, want, kCount));
  const auto bytes = static_cast<int64_t>(kCount * sizeof(int64_t));
  EXPECT_EQ(bytes_in_memory(comm) - before, in_memory ? bytes : 0) << "rank " << comm.rank();
  return Status::ok();
}

TEST(ShmGroups, PartsOfAWorldInOrdersOfTheirOwn) {
  World world({.ranks = 5, .rails = 2, .config = kShared});
  expect_all_ok(world.run([](Member& self) {
    auto part = self.comm->split(self.rank % 2, -self.rank);
    if (!part) return part.status();
    NEZHA_RETURN_IF_ERROR(expect_sum_where(**part, true, self.rank, self.rank % 2 == 0 ? 6 : 4));
    int64_t value = self.rank;
    NEZHA_RETURN_IF_ERROR((*part)->broadcast(&value, 1, Dtype::int64, 0, {}, nullptr));
    EXPECT_EQ(value, self.rank % 2 == 0 ? 4 : 3);
    auto pair = (*part)->split((*part)->rank() / 2, 0);
    if (!pair) return pair.status();
    const int64_t sums[] = {0, 1 + 3, 2 + 4, 1 + 3, 2 + 4};
    return expect_sum_where(**pair, self.rank != 0, self.rank, sums[self.rank]);  // 0 is alone
  }));
}

TEST(ShmGroups, SetsThatOverlap) {
  World world({.ranks = 4, .config = kShared});
  expect_all_ok(world.run([](Member& self) {
    const std::vector<std::vector<int>> sets = {{0, 1}, {1, 2, 3}, {3, 0}, {2, 1, 0, 3}, {3, 1, 2}};
    std::vector<std::unique_ptr<Communicator>> parts;
    for (const std::vector<int>& set : sets) {
      const bool is_member = std::find(set.begin(), set.end(), self.rank) != set.end();
      if (!is_member) continue;
      auto part = self.comm->create(set, "set");
      if (!part) return part.status();
      parts.push_back(std::move(*part));
      int64_t sum = 0;
      for (const int rank : set) sum += rank;
      NEZHA_RETURN_IF_ERROR(expect_sum_where(*parts.back(), true, self.rank, sum));
    }
    return Status::ok();
  }));
}

// One thread for each of them, so that operations of several groups run in a rank at a time, short and
// long, and a rank is asleep in one while another one moves.
TEST(ShmGroups, AtTheSameTimeFromThreads) {
  World world({.ranks = 4, .rails = 2, .config = kShared});
  expect_all_ok(world.run([](Member& self) {
    const std::vector<std::vector<int>> orders = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}};
    std::vector<std::unique_ptr<Communicator>> parts;
    for (const std::vector<int>& order : orders) {
      auto part = self.comm->create(order, "");
      if (!part) return part.status();
      parts.push_back(std::move(*part));
    }
    std::vector<Status> outcomes(parts.size());
    std::vector<std::thread> threads;
    const int64_t before = bytes_in_memory(*self.comm);
    for (size_t i = 0; i < parts.size(); ++i) {
      threads.emplace_back([&, i] {
        for (uint64_t repeat = 0; repeat < 40 && outcomes[i].is_ok(); ++repeat) {
          outcomes[i] = expect_sum(*parts[i], self.rank, 6, 1 + (repeat * 997 + i * 5000) % 40'000);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Status& outcome : outcomes) NEZHA_RETURN_IF_ERROR(outcome);
    EXPECT_GT(bytes_in_memory(*self.comm), before + 40 * 3 * 8);
    return Status::ok();
  }));
}

// Neither waits for the other: rank 0 is in both, and calls them in the order in which they cannot end.
TEST(ShmGroups, OneThatWaitsHoldsUpNoOther) {
  World world({.ranks = 3, .config = kShared});
  expect_all_ok(world.run([](Member& self) {
    const std::vector<int> low = {0, 1};
    const std::vector<int> high = {0, 2};
    std::unique_ptr<Communicator> first, second;
    if (self.rank != 2) first = std::move(*self.comm->create(low, ""));
    if (self.rank != 1) second = std::move(*self.comm->create(high, ""));
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::vector<int64_t> a(20'000, 1), b(20'000, 1);
      engine::Work works[2];
      const auto sum = [](Communicator& comm, std::vector<int64_t>& data, engine::Work* work) {
        return comm.all_reduce(data.data(), data.data(), data.size(), Dtype::int64, ReduceOp::sum, {},
                               work);
      };
      if (self.rank == 0) {
        NEZHA_RETURN_IF_ERROR(sum(*first, a, &works[0]));
        NEZHA_RETURN_IF_ERROR(sum(*second, b, &works[1]));
        second->wait(works[1], kNever);
        NEZHA_RETURN_IF_ERROR(works[1].status());
        NEZHA_RETURN_IF_ERROR(second->barrier({}, nullptr));  // now rank 1 is let go
        int64_t go = 0;
        NEZHA_RETURN_IF_ERROR(self.comm->send(&go, 1, Dtype::int64, 1, 0, {}, nullptr));
        first->wait(works[0], kNever);
        NEZHA_RETURN_IF_ERROR(works[0].status());
        EXPECT_EQ(a, std::vector<int64_t>(a.size(), 2));
        EXPECT_EQ(b, std::vector<int64_t>(b.size(), 2));
      } else if (self.rank == 1) {
        int64_t go = 0;
        NEZHA_RETURN_IF_ERROR(self.comm->receive(&go, 1, Dtype::int64, 0, 0, {}, nullptr));
        NEZHA_RETURN_IF_ERROR(sum(*first, a, nullptr));
      } else {
        NEZHA_RETURN_IF_ERROR(sum(*second, b, nullptr));
        NEZHA_RETURN_IF_ERROR(second->barrier({}, nullptr));
      }
    }
    return Status::ok();
  }));
}

// More groups one after the other than there are areas, and more at a time: the rest works over
// connections.
TEST(ShmGroups, WithoutAFreeAreaOverConnections) {
  World world({.ranks = 2, .config = kShared});
  expect_all_ok(world.run([](Member& self) {
    for (size_t i = 0; i < memory::AreaTable::kAreas + 6; ++i) {
      auto part = self.comm->split(0, 0);
      if (!part) return part.status();
      NEZHA_RETURN_IF_ERROR(expect_sum_where(**part, true, 1, 2));
      NEZHA_RETURN_IF_ERROR(self.comm->barrier({}, nullptr));
      part->reset();
      NEZHA_RETURN_IF_ERROR(self.comm->barrier({}, nullptr));
    }
    // The world has one, too. Of the last free one a rank may have taken its part when another, which
    // found none, was quicker to write that: the next communicator gets it then, or does not.
    constexpr size_t kFree = memory::AreaTable::kAreas - 2;
    std::vector<std::unique_ptr<Communicator>> parts;
    size_t in_memory = 0;
    for (size_t i = 0; i < memory::AreaTable::kAreas + 6; ++i) {
      auto part = self.comm->split(0, 0);
      if (!part) return part.status();
      parts.push_back(std::move(*part));
      const int64_t before = bytes_in_memory(*parts.back());
      NEZHA_RETURN_IF_ERROR(i < kFree ? expect_sum_where(*parts.back(), true, 1, 2)
                                      : expect_sum(*parts.back(), 1, 2, 1000));
      in_memory += bytes_in_memory(*parts.back()) > before ? 1 : 0;
    }
    EXPECT_GE(in_memory, kFree);
    EXPECT_LE(in_memory, memory::AreaTable::kAreas - 1);
    for (size_t i = 0; i < parts.size(); i += 9) NEZHA_RETURN_IF_ERROR(expect_sum(*parts[i], 1, 2, 10));
    return Status::ok();
  }));
}

TEST(ShmGroups, GroupsInsideAHostOfSeveral) {
  World world({.ranks = 5, .config = kShared, .hosts = {0, 1, 0, 1, 0}});
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  expect_all_ok(world.run([](Member& self) {
    auto host = self.comm->split(self.rank % 2, 0);
    if (!host) return host.status();
    NEZHA_RETURN_IF_ERROR(expect_sum_where(**host, true, self.rank, self.rank % 2 == 0 ? 6 : 4));
    auto across = self.comm->split(self.rank / 2, 0);
    if (!across) return across.status();
    const int64_t sums[] = {1, 5, 4};
    NEZHA_RETURN_IF_ERROR(expect_sum_where(**across, false, self.rank, sums[self.rank / 2]));
    return expect_sum_where(*self.comm, true, self.rank, 10);
  }));
}

}  // namespace
}  // namespace nezha::testing
