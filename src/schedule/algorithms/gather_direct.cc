// Direct gather and scatter: every block goes straight between its rank and the root, whose link is
// the limit either way. A rank has nothing to do with the blocks of others.
#include "schedule/algorithms/algorithms.h"
#include "schedule/builder.h"

namespace nezha::schedule::algorithms {
namespace {

constexpr Parts kWhole{0, 1};
constexpr Tag kGive{0, 0};

// The program of `rank` for a block that moves from `source` to `target`.
Program move_program(int rank, int source, int target) {
  Builder builder(1);
  if (source == target && rank == source) builder.copy(kWhole);
  if (source != target && rank == source) builder.send(target, kWhole, kGive);
  if (source != target && rank == target) builder.recv(source, kWhole, kGive);
  return builder.finish();
}

}  // namespace

Schedule gather_direct(int rank, int world_size, int root) {
  Schedule schedule{Collective::gather, Algorithm::direct, rank, world_size, root, {}};
  for (int block = 0; block < world_size; ++block) {
    schedule.programs.push_back(move_program(rank, block, root));
  }
  return schedule;
}

Schedule scatter_direct(int rank, int world_size, int root) {
  Schedule schedule{Collective::scatter, Algorithm::direct, rank, world_size, root, {}};
  for (int block = 0; block < world_size; ++block) {
    schedule.programs.push_back(move_program(rank, root, block));
  }
  return schedule;
}

CostTerms gather_direct_cost(int world_size) {
  return {burst_steps(world_size), all_but_own(world_size), 0};
}

}  // namespace nezha::schedule::algorithms
