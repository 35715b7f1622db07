// Topology: the aggregation nodes of a cluster as a tree, which of them serves which rank, and the tree
// that a communicator's operations take through them.
//
// Contract: pure, any thread; checks everything that it reads. A node is numbered by its place in the
// list. As a file and on the wire:
//
//   {"nodes": [{"name": "root", "address": "10.1.0.254:7700"},
//              {"name": "leaf", "address": "10.1.0.250:7700", "parent": "root",
//               "serves": ["10.1.0.0/24"]}]}
//
// Exactly one node has no parent. A node without "serves" and without children serves everybody else. Of
// several prefixes that contain an address the longest counts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_prefix.h"
#include "base/status.h"
#include "schedule/aggregation.h"

namespace nezha::aggregation {

inline constexpr size_t kTopologyBytesMax = 64 * 1024;
inline constexpr size_t kTopologyNodesMax = 1024;
inline constexpr size_t kTopologyNameMax = 64;

struct TopologyNode {
  std::string name;
  std::string address;  // numeric
  uint16_t port = 0;
  int parent = -1;      // of the root
  bool serves_everybody = false;
  std::vector<std::string> serves;  // as written; valid prefixes
};

struct Topology {
  std::vector<TopologyNode> nodes;

  int size() const { return static_cast<int>(nodes.size()); }
  // -1: no node has that name.
  int find(std::string_view name) const;
  // The node that serves a rank with this address; -1: none does.
  int leaf_of(std::string_view address) const;
  // Whether `upper` is on the way from `lower` to the root, and not `lower` itself.
  bool is_above(int upper, int lower) const;
};

// One node for everybody.
Topology flat_topology(std::string_view address, uint16_t port);
// `invalid_argument` naming the node and what is wrong with it.
Result<Topology> parse_topology(std::string_view json);
std::string to_json(const Topology& topology);

// The members of a communicator with their nodes, and the tree of them.
struct TreePlan {
  std::vector<int> members;  // global: the communicator's ranks in its order, then `world` + node
  schedule::AggregationTree tree;
};
// `ranks` are global ranks of a job of `world`, `leaves` the nodes that serve them. Nodes that serve
// none of them are left out, and so are those that would only hand on what one other node adds up.
// `unsupported` for fewer than two ranks or for one that no node serves.
Result<TreePlan> plan_tree(const Topology& topology, int world, std::span<const int> ranks,
                          std::span<const int> leaves);

// Which child registers a communicator at a node, on behalf of all its children: the lowest of them.
int registrar_of(const schedule::AggregationTree& tree, int node);

}  // namespace nezha::aggregation
