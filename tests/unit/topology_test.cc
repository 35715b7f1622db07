// Topologies of aggregation nodes: read, refused with a sentence, written again, and made into the trees
// of communicators.
#include <gtest/gtest.h>

#include <random>

#include "aggregation/topology.h"
#include "support/flat_tree.h"

namespace nezha::aggregation {
namespace {

constexpr const char* kTwoByThree = R"({"nodes": [
  {"name": "root", "address": "10.1.0.254:7700"},
  {"name": "a", "address": "10.1.0.250:7700", "parent": "root",
   "serves": ["10.1.0.0/25", "10.1.0.200"]},
  {"name": "b", "address": "10.1.0.251:7701", "parent": "root",
   "serves": ["10.1.0.0/24", "fd00::/8"]}]})";

Topology two_by_three() {
  auto topology = parse_topology(kTwoByThree);
  EXPECT_TRUE(topology) << topology.status().to_string();
  return topology ? *topology : Topology();
}

TEST(Topology, SaysWhoServesWhom) {
  const Topology topology = two_by_three();
  EXPECT_EQ(topology.find("b"), 2);
  EXPECT_EQ(topology.find("c"), -1);
  EXPECT_EQ(topology.leaf_of("10.1.0.7"), 1);    // the longer prefix
  EXPECT_EQ(topology.leaf_of("10.1.0.199"), 2);
  EXPECT_EQ(topology.leaf_of("10.1.0.200"), 1);
  EXPECT_EQ(topology.leaf_of("fd00::7"), 2);
  EXPECT_EQ(topology.leaf_of("10.2.0.7"), -1);
  EXPECT_EQ(topology.leaf_of("nonsense"), -1);
  EXPECT_TRUE(topology.is_above(0, 2));
  EXPECT_FALSE(topology.is_above(2, 2));
  EXPECT_FALSE(topology.is_above(1, 2));
  EXPECT_FALSE(topology.is_above(1, 0));
  EXPECT_EQ(flat_topology("10.1.0.254", 7700).leaf_of("192.168.7.7"), 0);
}

TEST(Topology, IsWrittenAsItWasRead) {
  for (const Topology& topology : {two_by_three(), flat_topology("fd00::1", 7700)}) {
    const std::string json = to_json(topology);
    auto again = parse_topology(json);
    ASSERT_TRUE(again) << again.status().to_string();
    EXPECT_EQ(to_json(*again), json);
    EXPECT_EQ(again->leaf_of("10.1.0.199"), topology.leaf_of("10.1.0.199"));
  }
}

TEST(Topology, NamesTheNodeThatIsWrong) {
  struct Case {
    const char* nodes;
    const char* says;
  };
  const Case cases[] = {
      {R"([])", "no list \"nodes\""},
      {R"([{"address": "10.1.0.1:1"}])", "node 0 has no \"name\""},
      {R"([{"name": "a", "address": "10.1.0.1"}])", "\"a\": its address"},
      {R"([{"name": "a", "address": "10.1.0.1/24:5"}])", "\"a\": its address"},
      {R"([{"name": "a", "address": "10.1.0.1:70000"}])", "\"a\": its address"},
      {R"([{"name": "a", "address": "fd00::1:7700"}])", "\"a\": its address"},
      {R"([{"name": "a", "address": "10.1.0.1:1", "perent": "b"}])", "\"a\": \"perent\" is nothing"},
      {R"([{"name": "a", "address": "10.1.0.1:1"}, {"name": "a", "address": "10.1.0.1:2"}])",
       "two nodes have that name"},
      {R"([{"name": "a", "address": "10.1.0.1:1"},
           {"name": "b", "address": "10.1.0.1:1", "parent": "a"}])",
       "\"b\": node \"a\" has the same address"},
      {R"([{"name": "a", "address": "10.1.0.1:1"},
           {"name": "b", "address": "10.1.0.1:2", "parent": "c"}])",
       "\"b\": its parent \"c\""},
      {R"([{"name": "a", "address": "10.1.0.1:1"}, {"name": "b", "address": "10.1.0.1:2"}])",
       "2 nodes have no parent"},
      {R"([{"name": "r", "address": "10.1.0.1:3"},
           {"name": "a", "address": "10.1.0.1:1", "parent": "b"},
           {"name": "b", "address": "10.1.0.1:2", "parent": "a"}])", "\"a\": its parents form a cycle"},
      {R"([{"name": "r", "address": "10.1.0.1:3"},
           {"name": "a", "address": "10.1.0.1:1", "parent": "r", "serves": ["10.1.0.0/24"]},
           {"name": "b", "address": "10.1.0.1:2", "parent": "r", "serves": ["10.1.0.9/24"]}])",
       "\"b\": it serves 10.1.0.9/24, and so does node \"a\""},
      {R"([{"name": "r", "address": "10.1.0.1:3"},
           {"name": "a", "address": "10.1.0.1:1", "parent": "r"},
           {"name": "b", "address": "10.1.0.1:2", "parent": "r"}])",
       "\"b\": it has no \"serves\" and so serves everybody, as node \"a\""},
      {R"([{"name": "a", "address": "10.1.0.1:1", "serves": ["10.1.0.0/33"]}])", "\"a\": it serves"},
      {R"([{"name": "a", "address": "10.1.0.1:1", "serves": "10.1.0.0/3"}])", "\"serves\" is no list"},
      {R"([7])", "node 0 has no \"name\""},
  };
  for (const Case& at : cases) {
    auto topology = parse_topology(std::string("{\"nodes\": ") + at.nodes + "}");
    ASSERT_FALSE(topology) << at.nodes;
    EXPECT_EQ(topology.status().code(), Code::invalid_argument);
    EXPECT_NE(topology.status().message().find(at.says), std::string::npos)
        << topology.status().message();
  }
  EXPECT_FALSE(parse_topology("[]"));
  EXPECT_FALSE(parse_topology("{\"nodes\": "));
  EXPECT_FALSE(parse_topology(std::string(kTopologyBytesMax + 1, ' ')));
}

TEST(Topology, PlansTheTreeOfACommunicator) {
  const Topology topology = two_by_three();
  const std::vector<int> ranks = {5, 1, 2, 4};
  auto plan = plan_tree(topology, 6, ranks, std::vector<int>{1, 2, 1, 2});
  ASSERT_TRUE(plan) << plan.status().to_string();
  EXPECT_EQ(plan->members, (std::vector<int>{5, 1, 2, 4, 6, 7, 8}));
  EXPECT_EQ(plan->tree.parent, (std::vector<int>{5, 6, 5, 6, -1, 4, 4}));
  EXPECT_EQ(registrar_of(plan->tree, 4), 5);
  EXPECT_EQ(registrar_of(plan->tree, 5), 0);
  EXPECT_EQ(registrar_of(plan->tree, 6), 1);

  // All behind one node: it is the root.
  plan = plan_tree(topology, 6, ranks, std::vector<int>{2, 2, 2, 2});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->members, (std::vector<int>{5, 1, 2, 4, 8}));
  EXPECT_EQ(plan->tree, testing::flat_tree(4));

  // One rank alone at its node: there is no other way into the tree.
  plan = plan_tree(topology, 6, ranks, std::vector<int>{1, 2, 2, 2});
  ASSERT_TRUE(plan) << plan.status().to_string();
  EXPECT_EQ(plan->tree.parent, (std::vector<int>{5, 6, 6, 6, -1, 4, 4}));

  EXPECT_FALSE(plan_tree(topology, 6, ranks, std::vector<int>{1, 2, 2, -1}));
  EXPECT_FALSE(plan_tree(topology, 6, std::vector<int>{1}, std::vector<int>{1}));
}

// Chains are collapsed, nobody is left without a way to the root, ranks stay with their nodes.
TEST(Topology, PlansOfAllShapesAreTrees) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 500; ++round) {
    Topology topology;
    const int nodes = 1 + static_cast<int>(random() % 9);
    for (int node = 0; node < nodes; ++node) {
      // The root comes last, parents behind their children.
      const auto above = static_cast<uint64_t>(nodes - node - 1);
      const int parent = above == 0 ? -1 : node + 1 + static_cast<int>(random() % above);
      topology.nodes.push_back({"n" + std::to_string(node), "10.0.0.1", static_cast<uint16_t>(1 + node),
                                parent, false, {}});
    }
    const int count = 2 + static_cast<int>(random() % 6);
    std::vector<int> ranks;
    std::vector<int> leaves;
    for (int rank = 0; rank < count; ++rank) {
      ranks.push_back(rank);
      leaves.push_back(static_cast<int>(random() % static_cast<uint64_t>(nodes)));
    }
    auto plan = plan_tree(topology, count, ranks, leaves);
    ASSERT_TRUE(plan) << plan.status().to_string();
    ASSERT_TRUE(check_tree(plan->tree).is_ok());
    for (int rank = 0; rank < count; ++rank) {
      const int node = plan->tree.parent[static_cast<size_t>(rank)];
      EXPECT_EQ(plan->members[static_cast<size_t>(node)], count + leaves[static_cast<size_t>(rank)]);
    }
    for (int member = count; member < plan->tree.members(); ++member) {
      const int parent = plan->tree.parent[static_cast<size_t>(member)];
      if (parent < 0) continue;
      EXPECT_TRUE(topology.is_above(plan->members[static_cast<size_t>(parent)] - count,
                                    plan->members[static_cast<size_t>(member)] - count));
    }
  }
}

}  // namespace
}  // namespace nezha::aggregation
