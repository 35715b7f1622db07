// Binomial tree gather and scatter: blocks pass through the tree in the runs that its subtrees are.
// ceil(log2 P) messages one after the other, so the root handles fewer of them: for short blocks and
// many ranks (Chan et al. 2007).
//
// The ranks between the root and the leaves hold their subtree's blocks in a workspace. Where a run
// goes round the end of the world it is two messages.
#include <algorithm>

#include "schedule/algorithms/algorithms.h"
#include "schedule/algorithms/binomial.h"
#include "schedule/algorithms/block_runs.h"

namespace nezha::schedule::algorithms {
namespace {

// The blocks of the subtree that hangs at `position` by a message of `stage`.
std::vector<Parts> subtree(const Binomial& tree, int position, int stage) {
  return block_run(tree.rank_at(position), tree.subtree_size(position, stage), tree.world_size);
}

Memory memory_of(const Binomial& tree) {
  const bool is_inner = tree.position() != 0 && tree.has_child(0);
  return is_inner ? Memory::workspace : Memory::output;
}

Program gather_program(const Binomial& tree) {
  const int own_stage = tree.own_stage();
  Builder builder(static_cast<uint32_t>(tree.world_size), memory_of(tree));
  for (int stage = 0; tree.has_child(stage); ++stage) {
    const int child = tree.child(stage);
    recv_run(builder, tree.rank_at(child), stage, subtree(tree, child, stage));
  }
  if (tree.position() == 0 || tree.has_child(0)) builder.copy(block_part(tree.rank));
  if (tree.position() != 0) {
    builder.next_round();
    send_run(builder, tree.parent(), own_stage, subtree(tree, tree.position(), own_stage));
  }
  return builder.finish();
}

Program scatter_program(const Binomial& tree) {
  const int own_stage = tree.own_stage();
  Builder builder(static_cast<uint32_t>(tree.world_size), memory_of(tree));
  if (tree.position() != 0) {
    recv_run(builder, tree.parent(), own_stage, subtree(tree, tree.position(), own_stage));
    builder.next_round();
  }
  // The largest subtree first: it has the longest way to go.
  for (int stage = own_stage - 1; stage >= 0; --stage) {
    if (!tree.has_child(stage)) continue;
    const int child = tree.child(stage);
    send_run(builder, tree.rank_at(child), stage, subtree(tree, child, stage));
  }
  if (tree.position() == 0) return builder.copy(block_part(tree.rank)).finish();
  if (tree.has_child(0)) builder.keep(block_part(tree.rank));
  return builder.finish();
}

}  // namespace

Schedule gather_tree(int rank, int world_size, int root) {
  Schedule schedule{Collective::gather, Algorithm::tree, rank, world_size, root, {}};
  schedule.programs.push_back(gather_program({rank, world_size, root}));
  return schedule;
}

Schedule scatter_tree(int rank, int world_size, int root) {
  Schedule schedule{Collective::scatter, Algorithm::tree, rank, world_size, root, {}};
  schedule.programs.push_back(scatter_program({rank, world_size, root}));
  return schedule;
}

CostTerms gather_tree_cost(int world_size) {
  return {static_cast<double>(Binomial::stage_count(world_size)), all_but_own(world_size), 0,
          kExchangeLinkUse};
}

}  // namespace nezha::schedule::algorithms
