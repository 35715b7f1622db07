// Aggregation: collectives through nodes, members of the group that add up what ranks send them and have
// no data of their own (docs/adr/0015-an-aggregation-node-is-a-rank-without-data.md).
//
// Contract: pure, any thread. Members 0 .. ranks - 1 are ranks, the others nodes. A node adds its children
// in the order of their numbers, so ranks come before nodes.
//
//   up        every contribution goes to the node of its rank, sums go on to that node's parent
//   down      the whole result comes back the same way to those who want it
//   have      with `held`: whoever wanted something has it, told up the tree; behind the last chunk where
//             all ranks contribute, else behind every chunk
//   all have  and down again: until then no rank forgets its input or its result
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "schedule/schedule.h"

namespace nezha::schedule {

struct AggregationTree {
  int ranks = 1;
  std::vector<int> parent;  // by member; of the one root -1

  int members() const { return static_cast<int>(parent.size()); }
  int nodes() const { return members() - ranks; }
  bool operator==(const AggregationTree&) const = default;
};

// One node for all.
AggregationTree flat_tree(int ranks);
// `internal` naming the member that has no way to the root, a node as a child of a rank, or a node with
// fewer than two children. (A rank may be alone at its node, whose parent then adds up: it has no other
// way into the tree.)
Status check_tree(const AggregationTree& tree);

// What nodes can do; the rest of the collectives gains nothing from them.
bool can_aggregate(Collective collective);

// `tree` has passed check_tree; `unsupported` for collectives that nodes do not do. The geometry is that
// of whole vectors, or one slice per rank's block. `root`: of those that have one.
Result<Schedule> build_aggregation(Collective collective, const AggregationTree& tree, int member,
                                   int root, bool held);

}  // namespace nezha::schedule
