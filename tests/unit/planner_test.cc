// Plans and schedules that a group keeps: those of calls in turn are found again, and no group grows with
// the roots and sizes that a program goes through.
#include "engine/operation/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace nezha::engine {
namespace {

struct Planned {
  explicit Planned(int ranks) {
    options.world_size = ranks;
    group.members.resize(static_cast<size_t>(ranks));
  }
  const Choice* choose(const OpRequest& request) {
    auto choice = planner.choose(group, plans, request, fresh);
    EXPECT_TRUE(choice) << choice.status().to_string();
    ++group.next_op_seq;
    return choice ? *choice : nullptr;
  }

  EngineOptions options;
  BufferPool pool;
  Planner planner{options, pool};
  Group group;
  KeptPlans plans;
  Choice fresh;
};

OpRequest all_reduce_of(uint64_t count, Dtype dtype = Dtype::float32, int root = 0) {
  OpRequest request;
  request.count = count;
  request.dtype = dtype;
  request.root = root;
  return request;
}

// Buckets and layers have sizes that are multiples of 16, and often powers of two.
TEST(Planner, KeepsThePlansOfSizesInTurn) {
  std::vector<OpRequest> calls;
  for (uint64_t count = 16; count <= (1 << 24); count *= 4) {
    calls.push_back(all_reduce_of(count));
    calls.push_back(all_reduce_of(count + 16 * 1000, Dtype::bfloat16));
  }
  Planned planned(4);
  std::vector<const Choice*> first;
  for (const OpRequest& call : calls) first.push_back(planned.choose(call));
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), calls.size());
  for (int turn = 0; turn < 3; ++turn) {
    for (size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(planned.choose(calls[i]), first[i]) << i;
  }
}

// One of them runs all the time, and one is used again and again.
TEST(Planner, KeepsABoundedNumberOfSchedules) {
  constexpr int kRanks = 4096;
  constexpr size_t kKeptMax = 16;
  Planned planned(kRanks);
  std::vector<std::weak_ptr<const schedule::Schedule>> made;
  const auto build = [&](int root) {
    OpRequest request = all_reduce_of(1 << 20, Dtype::float32, root);
    request.algorithm = Algorithm::ring;
    const Choice* const choice = planned.choose(request);
    return choice == nullptr ? nullptr : choice->share();
  };
  const auto running = build(0);
  const auto often = std::weak_ptr(build(1));
  const uint64_t bytes = planned.pool.bytes_held();
  for (int root = 2; root < 40; ++root) {
    made.emplace_back(build(root));
    build(1);
  }
  EXPECT_EQ(running->programs.size(), static_cast<size_t>(kRanks));
  EXPECT_FALSE(often.expired());
  EXPECT_FALSE(made.back().expired());
  const auto is_alive = [](const auto& each) { return !each.expired(); };
  const auto alive = std::count_if(made.begin(), made.end(), is_alive);
  EXPECT_LE(static_cast<size_t>(alive), kKeptMax);
  EXPECT_LE(planned.pool.bytes_held(), (kKeptMax + 1) * bytes / 2);
  EXPECT_EQ(build(0), running);  // which nothing evicts while it runs
}

}  // namespace
}  // namespace nezha::engine
