// Aggregation: all_reduce and barrier through aggregation nodes, members of the group that add what ranks
// send them and have no data of their own (docs/adr/0015-an-aggregation-node-is-a-rank-without-data.md).
//
// Contract: pure, any thread. Members 0 .. ranks - 1 are ranks, the others nodes. A node adds its
// children in the order of their numbers, so ranks come before nodes.
//
//   up        every contribution goes to the node of its rank, sums go on to that node's parent
//   down      the whole result comes back the same way
//   have      with `held`: behind the last chunk, members tell their parents that all below have it
//   all have  with `held`: the root tells all members; until then no rank forgets input or result
#pragma once

#include <vector>

#include "base/status.h"
#include "schedule/schedule.h"

namespace nezha::schedule {

struct AggregationTree {
  int ranks = 1;
  std::vector<int> parent;  // by member; -1 for the one root

  int members() const { return static_cast<int>(parent.size()); }
  int nodes() const { return members() - ranks; }
  std::vector<int> children_of(int member) const;
  bool operator==(const AggregationTree&) const = default;
};

// The error is `internal`, for a member that has no way to the root, a node as a child of a rank,
// or a node with fewer than two children. (A rank may be alone at its node, whose parent then adds:
// it has no other way into the tree.)
Status check_tree(const AggregationTree& tree);

// `tree` has passed check_tree; `unsupported` for other collectives, which gain nothing from nodes.
Result<Schedule> build_aggregation(Collective collective, const AggregationTree& tree, int member,
                                   bool held);

}  // namespace nezha::schedule
