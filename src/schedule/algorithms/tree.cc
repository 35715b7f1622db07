// Binomial tree broadcast: whoever has the data passes it to the rank 2^k after it (counted from
// the root), largest distance first, so the number of ranks that know doubles. ceil(log2 P)
// messages one after the other: for short messages.
#include <bit>

#include "schedule/algorithms/algorithms.h"
#include "schedule/builder.h"

namespace nezha::schedule::algorithms {
namespace {

constexpr Parts kWhole{0, 1};

int stage_count(int world_size) { return std::bit_width(static_cast<unsigned>(world_size - 1)); }

Program tree_program(int rank, int world_size, int root) {
  const int position = (rank - root + world_size) % world_size;
  const auto rank_at = [&](int other) { return (other + root) % world_size; };
  // The parent is at the distance of the lowest bit; the children are nearer.
  const int own_stage = position == 0 ? stage_count(world_size)
                                      : std::countr_zero(static_cast<unsigned>(position));
  Builder builder(1);
  if (position != 0) {
    builder.recv(rank_at(position - (1 << own_stage)), kWhole, {own_stage});
    builder.next_round();
  }
  for (int stage = own_stage - 1; stage >= 0; --stage) {
    const int child = position + (1 << stage);
    if (child < world_size) builder.send(rank_at(child), kWhole, {stage});
  }
  return builder.finish();
}

}  // namespace

Schedule tree(int rank, int world_size, int root) {
  Schedule schedule{Collective::broadcast, Algorithm::tree, rank, world_size, root, {}};
  schedule.programs.push_back(world_size == 1 ? lone_rank_program(kWhole)
                                              : tree_program(rank, world_size, root));
  return schedule;
}

Shape tree_shape(int) {
  return {1, 1, false};
}

CostTerms tree_cost(int world_size) {
  const double stages = stage_count(world_size);
  return {stages, stages, 0};
}

}  // namespace nezha::schedule::algorithms
