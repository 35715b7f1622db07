// Ring reduce-scatter as tokens: slice b is the block of rank b. It starts at the rank after b,
// collects every rank's contribution on one lap, and ends at b, which completes it: the first half
// of the ring all-reduce (Patarasuk and Yuan 2009). A rank may not keep the blocks that it passes
// on, so it adds in a workspace.
#include "schedule/algorithms/algorithms.h"
#include "schedule/builder.h"

namespace nezha::schedule::algorithms {
namespace {

constexpr Parts kWhole{0, 1};
constexpr Tag kCollect{0, 0};

Program token_program(int rank, int world_size, int slice) {
  const int left = (rank + world_size - 1) % world_size;
  const int right = (rank + 1) % world_size;
  if (rank == slice) {
    return Builder(1).recv_reduce(left, kWhole, kCollect, Completes::yes).finish();
  }
  Builder builder(1, Memory::workspace);
  const bool starts = left == slice;
  if (!starts) builder.recv_reduce(left, kWhole, kCollect).next_round();
  return builder.send(right, kWhole, kCollect).finish();
}

}  // namespace

Schedule reduce_scatter_ring(int rank, int world_size, int root) {
  Schedule schedule{Collective::reduce_scatter, Algorithm::ring, rank, world_size, root, {}};
  if (world_size == 1) schedule.programs.push_back(lone_rank_program(kWhole));
  for (int slice = 0; world_size > 1 && slice < world_size; ++slice) {
    schedule.programs.push_back(token_program(rank, world_size, slice));
  }
  return schedule;
}

CostTerms reduce_scatter_ring_cost(int world_size) {
  return {world_size - 1.0, all_but_own(world_size), all_but_own(world_size)};
}

}  // namespace nezha::schedule::algorithms
