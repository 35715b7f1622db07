// Engines of ranks and nodes, without a network: operations through members that have no data of their
// own and take part in what others have begun.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "reduce/reduce.h"
#include "support/fake_world.h"
#include "support/flat_tree.h"

namespace nezha::engine {
namespace {

using nezha::testing::FakeWorld;
using nezha::testing::FakeWorldOptions;

// Rank 0 and 1 under one node, 2 and 3 under another, both under a third.
const schedule::AggregationTree kTwoLevels{4, {4, 4, 5, 5, 6, 6, -1}};

// Ranks by the node that adds them, in the order of adding.
using Order = std::vector<std::vector<int>>;

FakeWorldOptions options_for(const schedule::AggregationTree& tree) {
  FakeWorldOptions options;
  options.ranks = tree.members();
  options.tree = tree;
  return options;
}

// Whole vectors or even blocks of the floats 0.1, 0.2, ...: sums depend on the order of additions.
class Call {
 public:
  Call(FakeWorld& world, const schedule::AggregationTree& tree, OpRequest request, bool in_place)
      : world_(world), tree_(tree), request_(request), work_(static_cast<size_t>(tree.ranks)) {
    const auto ranks = static_cast<size_t>(tree.ranks);
    in_.resize(ranks);
    out_.resize(ranks);
    for (size_t rank = 0; rank < ranks; ++rank) {
      in_[rank].resize(request.count);
      for (size_t i = 0; i < request.count; ++i) {
        in_[rank][i] = 0.1F * static_cast<float>((i * 7 + rank * 13) % 97 + 1);
      }
      out_[rank].assign(request.count, -1);
    }
    original_ = in_;
    if (in_place) out_ = in_;
    in_place_ = in_place;
  }
  ~Call() {
    for (int rank = 0; rank < tree_.ranks && !done(); ++rank) {
      world_.engine(rank).failures().fail(world_.group(rank), error(Code::aborted, "the test ended"),
                                          false);
    }
    world_.run_engines();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void begin() {
    for (int rank = 0; rank < tree_.ranks; ++rank) {
      OpRequest request = request_;
      const auto index = static_cast<size_t>(rank);
      request.out = out_[index].data();
      request.in = in_place_ ? out_[index].data() : in_[index].data();
      ASSERT_TRUE(world_.engine(rank).submit(world_.group(rank), request, work_[index]).is_ok());
    }
  }
  bool done() const {
    for (const Work& work : work_) {
      if (!work.is_done()) return false;
    }
    return true;
  }
  const Work& work(int rank) const { return work_[static_cast<size_t>(rank)]; }
  const std::vector<float>& out(int rank) const { return out_[static_cast<size_t>(rank)]; }
  const std::vector<float>& in(int rank) const { return original_[static_cast<size_t>(rank)]; }
  void expect_ok() const {
    for (const Work& work : work_) EXPECT_TRUE(work.status().is_ok()) << work.status().to_string();
  }
  void expect_everywhere(const std::vector<float>& expected) const {
    expect_ok();
    for (size_t rank = 0; rank < out_.size(); ++rank) {
      EXPECT_EQ(std::memcmp(out_[rank].data(), expected.data(), expected.size() * sizeof(float)), 0)
          << "rank " << rank;
    }
  }

 private:
  FakeWorld& world_;
  const schedule::AggregationTree tree_;
  const OpRequest request_;
  bool in_place_ = false;
  std::vector<std::vector<float>> in_;
  std::vector<std::vector<float>> original_;
  std::vector<std::vector<float>> out_;
  std::vector<Work> work_;
};

// What the program of an aggregation node does: joins whatever its children have begun.
class Nodes {
 public:
  Nodes(FakeWorld& world, const schedule::AggregationTree& tree) : world_(world), tree_(tree) {}
  ~Nodes() {  // engines outlive the works that they would still look at
    for (int node = tree_.ranks; node < tree_.members() && !done(); ++node) {
      world_.engine(node).failures().fail(world_.group(node), error(Code::aborted, "the test ended"),
                                          false);
    }
    world_.run_engines();
  }
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  void join_calls() {
    for (int node = tree_.ranks; node < tree_.members(); ++node) {
      while (const auto call = world_.engine(node).next_call(world_.group(node))) {
        OpRequest request;
        request.collective = call->collective;
        request.dtype = call->dtype;
        request.op = call->op;
        request.root = call->root;
        request.count = call->count;
        Work& work = works_.emplace_back();
        ASSERT_TRUE(world_.engine(node).submit(world_.group(node), request, work).is_ok());
      }
    }
  }
  // Nodes finish later than ranks: their last frames are still to be acknowledged.
  template <class Done>
  bool run_until(Done ranks_done, uint64_t seed) {
    return world_.run_until([&] { join_calls(); return ranks_done() && done(); }, seed);
  }

 private:
  bool done() const {
    return std::all_of(works_.begin(), works_.end(), [](const Work& work) { return work.is_done(); });
  }

  FakeWorld& world_;
  const schedule::AggregationTree tree_;
  std::deque<Work> works_;
};

OpRequest request_of(Collective collective, uint64_t count, int root = 0) {
  OpRequest request;
  request.collective = collective;
  request.count = count;
  request.root = root;
  return request;
}

// ((0 + 1) + 2) + 3 by the reduction kernels, and as the two-level tree has it: (0 + 1) + (2 + 3).
std::vector<float> sum_of(const Call& call, const Order& order) {
  std::vector<float> total;
  for (const std::vector<int>& group : order) {
    std::vector<float> part = call.in(group[0]);
    for (size_t i = 1; i < group.size(); ++i) {
      reduce::reduce(part.data(), part.data(), call.in(group[i]).data(), part.size(), Dtype::float32,
                     ReduceOp::sum);
    }
    if (total.empty()) {
      total = part;
    } else {
      reduce::reduce(total.data(), total.data(), part.data(), part.size(), Dtype::float32, ReduceOp::sum);
    }
  }
  return total;
}

TEST(EngineAggregation, AllReduceAddsInTheOrderOfTheTree) {
  struct Case {
    schedule::AggregationTree tree;
    Order order;
  };
  const Case cases[] = {{testing::flat_tree(4), {{0, 1, 2, 3}}}, {kTwoLevels, {{0, 1}, {2, 3}}},
                        {testing::flat_tree(2), {{0, 1}}}};
  for (const Case& at : cases) {
    FakeWorld world(options_for(at.tree));
    Nodes nodes(world, at.tree);
    uint64_t seed = 1;
    for (const uint64_t count : {1UL, 1000UL, 30'001UL, 100'000UL}) {
      for (const bool in_place : {false, true}) {
        Call call(world, at.tree, request_of(Collective::all_reduce, count), in_place);
        call.begin();
        ASSERT_TRUE(nodes.run_until([&] { return call.done(); }, ++seed)) << count;
        call.expect_everywhere(sum_of(call, at.order));
      }
    }
  }
}

TEST(EngineAggregation, AverageDividesByTheRanksAlone) {
  const auto tree = testing::flat_tree(4);
  FakeWorld world(options_for(tree));
  Nodes nodes(world, tree);
  OpRequest request = request_of(Collective::all_reduce, 5000);
  request.op = ReduceOp::avg;
  Call call(world, tree, request, false);
  call.begin();
  ASSERT_TRUE(nodes.run_until([&] { return call.done(); }, 3));
  std::vector<float> expected = sum_of(call, {{0, 1, 2, 3}});
  for (float& value : expected) value /= 4;
  call.expect_everywhere(expected);
}

TEST(EngineAggregation, BarrierEndsEverywhere) {
  for (const auto& tree : {testing::flat_tree(4), kTwoLevels}) {
    FakeWorld world(options_for(tree));
    Nodes nodes(world, tree);
    Call call(world, tree, request_of(Collective::barrier, 0), false);
    call.begin();
    ASSERT_TRUE(nodes.run_until([&] { return call.done(); }, 11));
    call.expect_ok();
  }
}

TEST(EngineAggregation, OtherCollectivesAreRefused) {
  const auto tree = testing::flat_tree(4);
  FakeWorld world(options_for(tree));
  std::vector<float> buffer(1000);
  OpRequest request = request_of(Collective::broadcast, buffer.size());
  request.in = request.out = buffer.data();
  Work work;
  EXPECT_EQ(world.engine(0).submit(world.group(0), request, work).code(), Code::unsupported);
}

// One of the two connections between a rank and its node is cut after every possible number of arrivals.
TEST(EngineAggregation, ARailToTheNodeLostAtAnyFrameChangesNothing) {
  const auto tree = testing::flat_tree(3);
  uint64_t retransmitted = 0;
  size_t cuts = 0;
  for (bool in_operation = true; in_operation; ++cuts) {
    FakeWorld world(options_for(tree));
    Nodes nodes(world, tree);
    Call call(world, tree, request_of(Collective::all_reduce, 8000), true);
    call.begin();
    std::mt19937_64 generator(cuts);
    for (size_t arrivals = 0; arrivals < cuts && !call.done();) {
      nodes.join_calls();
      arrivals += world.step(generator());
    }
    in_operation = !call.done();
    world.link(1, 3, 0).cut();
    ASSERT_TRUE(nodes.run_until([&] { return call.done(); }, cuts)) << "cut " << cuts;
    call.expect_everywhere(sum_of(call, {{0, 1, 2}}));
    retransmitted += world.engine(1).counters().retransmitted + world.engine(3).counters().retransmitted;
  }
  EXPECT_GT(cuts, 40U);
  EXPECT_GT(retransmitted, 0U);
}

// In place, and no result has wholly arrived: what the ranks gave is still there when the node dies, so
// that host rails can do it again.
TEST(EngineAggregation, InputsOutliveTheNode) {
  const auto tree = testing::flat_tree(2);
  FakeWorld world(options_for(tree));
  Nodes nodes(world, tree);
  Call call(world, tree, request_of(Collective::all_reduce, 1000), true);
  call.begin();
  while (world.link(0, 2, 0).under_way(0) + world.link(0, 2, 1).under_way(0) == 0) {
    nodes.join_calls();
    world.link(0, 2, 0).deliver(1);
    world.link(0, 2, 1).deliver(1);
    world.link(1, 2, 0).deliver(1);
    world.link(1, 2, 1).deliver(1);
    world.run_engines();
    if (world.link(0, 2, 0).under_way(0) + world.link(0, 2, 1).under_way(0) == 0) {
      world.clock().advance(10 * kMillisecond);
    }
  }
  for (const int rail : {0, 1}) {
    world.link(0, 2, rail).deliver_half(0);
    world.link(0, 2, rail).cut();
    world.link(1, 2, rail).cut();
  }
  ASSERT_TRUE(world.run_until([&] { return call.done(); }));
  for (const int rank : {0, 1}) {
    EXPECT_EQ(call.work(rank).status().code(), Code::peer_lost);
    EXPECT_EQ(call.out(rank), call.in(rank)) << "rank " << rank;
  }
}

}  // namespace
}  // namespace nezha::engine
