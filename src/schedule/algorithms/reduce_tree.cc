// Binomial tree reduction: every rank adds what its children send, nearest child first, and sends
// the sum to its parent; the root completes it. ceil(log2 P) messages one after the other, each of
// them the whole vector: for short messages (Thakur, Rabenseifner, Gropp 2005).
//
// Children's subtrees follow the parent's position, so contributions are added in the order of
// positions. The ranks between keep nothing and add in a workspace.
#include "schedule/algorithms/algorithms.h"
#include "schedule/algorithms/binomial.h"
#include "schedule/builder.h"

namespace nezha::schedule::algorithms {
namespace {

constexpr Parts kWhole{0, 1};

Program tree_program(const Binomial& tree) {
  const bool is_root = tree.position() == 0;
  Builder builder(1, is_root ? Memory::output : Memory::workspace);
  for (int stage = 0; tree.has_child(stage); ++stage) {
    const bool completes = is_root && !tree.has_child(stage + 1);
    builder.next_round().recv_reduce(tree.rank_at(tree.child(stage)), kWhole, {stage},
                                     completes ? Completes::yes : Completes::no);
  }
  if (!is_root) builder.next_round().send(tree.parent(), kWhole, {tree.own_stage()});
  return builder.finish();
}

}  // namespace

Schedule reduce_tree(int rank, int world_size, int root) {
  Schedule schedule{Collective::reduce, Algorithm::tree, rank, world_size, root, {}};
  schedule.programs.push_back(world_size == 1 ? lone_rank_program(kWhole)
                                              : tree_program({rank, world_size, root}));
  return schedule;
}

Shape reduce_tree_shape(int world_size) {
  return {1, 1, world_size > 2};
}

CostTerms reduce_tree_cost(int world_size) {
  const double stages = Binomial::stage_count(world_size);
  return {stages, stages, stages};
}

}  // namespace nezha::schedule::algorithms
