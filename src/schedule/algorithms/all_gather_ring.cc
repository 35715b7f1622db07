// Ring all-gather as tokens: slice b is the block of rank b, which starts there and travels once
// around the ring, ending at the rank before. With one slice per rank all links are busy all the
// time: every rank sends and receives what it must, and no more (Chan et al. 2007).
#include "schedule/algorithms/algorithms.h"
#include "schedule/builder.h"

namespace nezha::schedule::algorithms {
namespace {

constexpr Parts kWhole{0, 1};
constexpr Tag kPass{0, 0};

Program token_program(int rank, int world_size, int slice) {
  const int left = (rank + world_size - 1) % world_size;
  const int right = (rank + 1) % world_size;
  const int distance = (rank - slice + world_size) % world_size;
  Builder builder(1);
  if (distance == 0) return builder.send(right, kWhole, kPass).copy(kWhole).finish();
  builder.recv(left, kWhole, kPass);
  if (distance != world_size - 1) builder.next_round().send(right, kWhole, kPass);
  return builder.finish();
}

}  // namespace

Schedule all_gather_ring(int rank, int world_size, int root) {
  Schedule schedule{Collective::all_gather, Algorithm::ring, rank, world_size, root, {}};
  if (world_size == 1) schedule.programs.push_back(lone_rank_program(kWhole));
  for (int slice = 0; world_size > 1 && slice < world_size; ++slice) {
    schedule.programs.push_back(token_program(rank, world_size, slice));
  }
  return schedule;
}

CostTerms all_gather_ring_cost(int world_size) {
  return {world_size - 1.0, all_but_own(world_size), 0};
}

}  // namespace nezha::schedule::algorithms
