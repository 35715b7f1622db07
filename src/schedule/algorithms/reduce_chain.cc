// Chain reduction: the rank after the root sends its input to the next, every rank adds its own and
// passes the sum on, and the root, the last, completes it. A chunk is passed on while the next one
// comes in, so a long vector crosses every link only once.
#include "schedule/algorithms/algorithms.h"
#include "schedule/builder.h"

namespace nezha::schedule::algorithms {
namespace {

constexpr Parts kWhole{0, 1};
constexpr Tag kPass{0, 0};

Program chain_program(int rank, int world_size, int root) {
  const int left = (rank + world_size - 1) % world_size;
  if (rank == root) {
    return Builder(1).recv_reduce(left, kWhole, kPass, Completes::yes).finish();
  }
  Builder builder(1, Memory::workspace);
  if (left != root) builder.recv_reduce(left, kWhole, kPass).next_round();
  return builder.send((rank + 1) % world_size, kWhole, kPass).finish();
}

}  // namespace

Schedule reduce_chain(int rank, int world_size, int root) {
  Schedule schedule{Collective::reduce, Algorithm::chain, rank, world_size, root, {}};
  schedule.programs.push_back(world_size == 1 ? lone_rank_program(kWhole)
                                              : chain_program(rank, world_size, root));
  return schedule;
}

CostTerms reduce_chain_cost(int world_size) {
  const double passes = world_size > 1 ? 1 : 0;
  return {world_size - 1.0, passes, passes};
}

}  // namespace nezha::schedule::algorithms
