// The tree of one aggregation node for all ranks.
#pragma once

#include <vector>

#include "schedule/aggregation.h"

namespace nezha::testing {

inline schedule::AggregationTree flat_tree(int ranks) {
  schedule::AggregationTree tree{ranks, std::vector<int>(static_cast<size_t>(ranks), ranks)};
  tree.parent.push_back(-1);
  return tree;
}

}  // namespace nezha::testing
