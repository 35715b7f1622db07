// Binomial tree broadcast: whoever has the data passes it to the rank 2^k after it (counted from
// the root), largest distance first, so the number of ranks that know doubles. ceil(log2 P)
// messages one after the other: for short messages.
#include "schedule/algorithms/algorithms.h"
#include "schedule/algorithms/binomial.h"
#include "schedule/builder.h"

namespace nezha::schedule::algorithms {
namespace {

constexpr Parts kWhole{0, 1};

Program tree_program(const Binomial& tree) {
  Builder builder(1);
  if (tree.position() != 0) builder.recv(tree.parent(), kWhole, {tree.own_stage()}).next_round();
  for (int stage = tree.own_stage() - 1; stage >= 0; --stage) {
    if (tree.has_child(stage)) builder.send(tree.rank_at(tree.child(stage)), kWhole, {stage});
  }
  return builder.finish();
}

}  // namespace

Schedule tree(int rank, int world_size, int root) {
  Schedule schedule{Collective::broadcast, Algorithm::tree, rank, world_size, root, {}};
  schedule.programs.push_back(world_size == 1 ? lone_rank_program(kWhole)
                                              : tree_program({rank, world_size, root}));
  return schedule;
}

CostTerms tree_cost(int world_size) {
  const double stages = Binomial::stage_count(world_size);
  return {stages, stages, 0};
}

}  // namespace nezha::schedule::algorithms
