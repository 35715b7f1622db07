// Trees of aggregation nodes over loopback: what the topology is, operations over two levels, several
// jobs at once, nodes that go in the middle, and the sessions that follow.
#include <gtest/gtest.h>

#include <array>

#include "aggregation/client/topology_client.h"
#include "aggregation/server/aggregator.h"
#include "support/aggregation_rank.h"
#include "support/sockets.h"

namespace nezha::testing {
namespace {

using aggregation::NodeSession;
using engine::OpRequest;

constexpr uint64_t kComm = engine::CommNumber::kFirstParked + 1;
constexpr int kNodes = 3;
constexpr int kRanks = 6;

// A root and two leaves; of the job's ranks the even ones belong to the first.
class Tree {
 public:
  explicit Tree(aggregation::JobSessionOptions job = {}) : job_(job) {
    const char* names[kNodes] = {"root", "leaf0", "leaf1"};
    for (int index = 0; index < kNodes; ++index) {
      const std::string host = fresh_host();
      topology_.nodes.push_back({names[index], host, free_port_of(host), index == 0 ? -1 : 0, false, {}});
    }
    for (int index = 0; index < kNodes; ++index) start(index);
  }

  void start(int index) { start(index, job_); }
  void start(int index, const aggregation::JobSessionOptions& job) {
    const aggregation::TopologyNode& own = topology_.nodes[static_cast<size_t>(index)];
    aggregation::AggregatorOptions options;
    options.address = own.address;
    options.port = own.port;
    options.key = node_key();
    options.topology = topology_;
    options.name = own.name;
    options.job = job;
    options.threads = 2;
    auto node = aggregation::Aggregator::start(options);
    ASSERT_TRUE(node) << node.status().to_string();
    nodes_[static_cast<size_t>(index)] = std::move(*node);
  }
  void stop(int index) { nodes_[static_cast<size_t>(index)].reset(); }
  aggregation::Aggregator& node(int index) { return *nodes_[static_cast<size_t>(index)]; }
  const aggregation::Topology& topology() const { return topology_; }

  NodePlace place(int rank, uint64_t job, uint32_t session = 0, int ranks = kRanks) const {
    const int index = leaf_of(rank);
    const aggregation::TopologyNode& node = topology_.nodes[static_cast<size_t>(index)];
    return {rank, ranks, job, node.port, kNodes, index, session, node.address};
  }
  static int leaf_of(int rank) { return 1 + rank % 2; }
  aggregation::TreePlan plan(const std::vector<int>& ranks, int world = kRanks) const {
    std::vector<int> leaves;
    for (const int rank : ranks) leaves.push_back(leaf_of(rank));
    auto plan = aggregation::plan_tree(topology_, world, ranks, leaves);
    EXPECT_TRUE(plan) << plan.status().to_string();
    return plan ? *plan : aggregation::TreePlan();
  }

 private:
  const aggregation::JobSessionOptions job_;
  aggregation::Topology topology_;
  std::array<std::unique_ptr<aggregation::Aggregator>, kNodes> nodes_;
};

std::vector<int> all_of(int ranks) {
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
  return all;
}

// The lowest child of each leaf registers it; then everybody joins.
Status begin(AggregationRank& self, const NodePlace& place, const aggregation::TreePlan& plan,
             Vote& vote, uint64_t comm = kComm) {
  Status mine = self.connect();
  const int node = plan.tree.parent[static_cast<size_t>(place.rank)];
  if (!vote.agree(mine.is_ok())) return mine.is_ok() ? error(Code::internal, "others fail") : mine;
  if (aggregation::registrar_of(plan.tree, node) == place.rank) mine = self.register_group(comm, plan);
  if (!vote.agree(mine.is_ok())) return mine.is_ok() ? error(Code::internal, "others fail") : mine;
  return self.join(comm, plan);
}

Status run_rank(const Tree& tree, const NodePlace& place, Vote& vote) {
  AggregationRank self(place);
  NEZHA_RETURN_IF_ERROR(begin(self, place, tree.plan(all_of(place.ranks), place.ranks), vote));
  for (const size_t count : {1UL, 1000UL, 100'000UL, 700'001UL}) {
    NEZHA_RETURN_IF_ERROR(check_all_reduce(self, place, count));
  }
  OpRequest barrier;
  barrier.collective = Collective::barrier;
  const Status outcome = self.run(barrier);
  vote.agree(true);  // nobody leaves in the middle of another's last operation
  return outcome;
}

void run_job(const Tree& tree, uint64_t job, uint32_t session = 0) {
  Vote vote(kRanks);
  for (const Status& outcome : run_ranks(kRanks, [&](int rank) {
         return run_rank(tree, tree.place(rank, job, session), vote);
       })) {
    EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  }
}

TEST(AggregatorTree, AddsUpOverTwoLevels) {
  Tree tree;
  run_job(tree, 7);
}

TEST(AggregatorTree, ServesTwoJobsAtOnce) {
  Tree tree;
  std::thread other([&] { run_job(tree, 8); });
  run_job(tree, 9);
  other.join();
}

TEST(AggregatorTree, AnswersWhatTheTopologyIs) {
  Tree tree;
  const aggregation::TopologyNode& asked = tree.topology().nodes[2];
  aggregation::TopologyRequest request{asked.address, asked.port, "",
                                       {7, aggregation::job_key_of(node_key(), 7)}};
  std::string mine;
  auto answer = aggregation::fetch_topology(request, &mine);
  ASSERT_TRUE(answer) << answer.status().to_string();
  EXPECT_EQ(aggregation::to_json(*answer), aggregation::to_json(tree.topology()));
  EXPECT_EQ(mine.substr(0, 4), "127.");

  request.job.job = 8;  // with the key of 7
  const auto refused = aggregation::fetch_topology(request);
  EXPECT_EQ(refused.status().code(), Code::peer_lost);
  EXPECT_NE(refused.status().message().find("different secrets"), std::string::npos)
      << refused.status().message();
}

TEST(AggregatorTree, RefusesATreeOfAnotherSize) {
  Tree tree;
  NodePlace place = tree.place(0, 7);
  place.nodes = 2;
  AggregationRank rank(place);
  EXPECT_FALSE(rank.connect().is_ok());
  EXPECT_NE(rank.session().reason().find("another number of nodes"), std::string::npos)
      << rank.session().reason();
}

// A communicator of which one rank is alone at its node, and one behind a single node.
TEST(AggregatorTree, ServesCommunicatorsOfEveryShape) {
  Tree tree;
  uint32_t session = 0;  // each its own, as ranks have it: nodes may still be ending the one before
  for (const std::vector<int>& ranks : {std::vector<int>{0, 1, 2}, {0, 2, 4}, {1, 2}}) {
    ++session;
    Vote vote(static_cast<int>(ranks.size()));
    const aggregation::TreePlan plan = tree.plan(ranks);
    const auto outcomes = run_ranks(static_cast<int>(ranks.size()), [&](int index) {
      AggregationRank self(tree.place(ranks[static_cast<size_t>(index)], 7, session));
      const NodePlace within{index, static_cast<int>(ranks.size()), 7};
      NEZHA_RETURN_IF_ERROR(begin(self, within, plan, vote));
      const Status outcome = check_all_reduce(self, within, 300'000);
      vote.agree(true);
      return outcome;
    });
    for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  }
}

// Ends in all operations' errors, at every rank; with the node back, the next session is as good as new.
void kill_in_the_middle(int index) {
  Tree tree;
  Vote vote(kRanks);
  std::thread killer;
  const auto outcomes = run_ranks(kRanks, [&](int rank) {
    const NodePlace place = tree.place(rank, 7);
    AggregationRank self(place);
    NEZHA_RETURN_IF_ERROR(begin(self, place, tree.plan(all_of(kRanks)), vote));
    Status outcome;
    for (int round = 0; outcome.is_ok(); ++round) {
      if (round == 3 && rank == 0) killer = std::thread([&] { tree.stop(index); });
      outcome = check_all_reduce(self, place, 700'001);
    }
    return outcome;
  });
  killer.join();
  for (const Status& outcome : outcomes) {
    EXPECT_EQ(outcome.code(), Code::peer_lost) << outcome.to_string();
  }
  tree.start(index);
  run_job(tree, 7, 1);
}

TEST(AggregatorTree, LosesItsRootAndBeginsAgain) { kill_in_the_middle(0); }
TEST(AggregatorTree, LosesALeafAndBeginsAgain) { kill_in_the_middle(2); }

TEST(AggregatorTree, SaysThatANodeAboveDoesNotAnswer) {
  Tree tree;
  tree.stop(0);
  AggregationRank rank(tree.place(0, 7));
  ASSERT_TRUE(rank.connect().is_ok());
  const Status refused = rank.register_group(kComm, tree.plan(all_of(kRanks)));
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_NE(refused.message().find("leaf0 cannot reach aggregation node root"), std::string::npos)
      << refused.message();
  // Nothing is kept of it.
  EXPECT_TRUE(comes_to_say(tree.node(1), "\"groups\":0")) << tree.node(1).stats_json();
}

TEST(AggregatorTree, PassesOnWhyTheNodeAboveRefuses) {
  Tree tree;
  aggregation::JobSessionOptions none;
  none.groups_max = 0;
  tree.stop(0);
  tree.start(0, none);
  AggregationRank rank(tree.place(0, 7));
  ASSERT_TRUE(rank.connect().is_ok());
  const Status refused = rank.register_group(kComm, tree.plan(all_of(kRanks)));
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_NE(refused.message().find("0 communicators"), std::string::npos) << refused.message();
}

// A communicator is destroyed on all ranks: its slots are free on all nodes, and the job goes on.
TEST(AggregatorTree, ForgetsCommunicatorsThatAllHaveLeft) {
  aggregation::JobSessionOptions options;
  options.groups_max = 3;
  Tree tree(options);
  Vote vote(kRanks);
  const auto outcomes = run_ranks(kRanks, [&](int rank) {
    const NodePlace place = tree.place(rank, 7);
    AggregationRank self(place);
    // Leaving takes a moment at the nodes.
    for (uint64_t comm = kComm; comm < kComm + 8; ++comm) {
      NEZHA_RETURN_IF_ERROR(begin(self, place, tree.plan(all_of(kRanks)), vote, comm));
      NEZHA_RETURN_IF_ERROR(check_all_reduce(self, place, 5000));
      vote.agree(true);
      self.leave(comm);
    }
    vote.agree(true);
    return Status::ok();
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

}  // namespace
}  // namespace nezha::testing
