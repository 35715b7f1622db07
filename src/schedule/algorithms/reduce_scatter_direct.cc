// Direct reduce-scatter: everybody sends its piece of block b to rank b, which adds them. One
// message's delay, but P-1 messages arrive at every rank at once: for short blocks and few ranks.
//
// The order of additions is fixed: the owner's piece first, then that of the rank before it, the one
// before that, and so on; every contributor has a round of its own, and pieces that come early wait.
#include "schedule/algorithms/algorithms.h"
#include "schedule/builder.h"

namespace nezha::schedule::algorithms {
namespace {

constexpr Parts kWhole{0, 1};
constexpr Tag kGive{0, 0};

Program owner_program(int rank, int world_size) {
  Builder builder(1);
  for (int distance = 1; distance < world_size; ++distance) {
    builder.next_round().recv_reduce((rank - distance + world_size) % world_size, kWhole, kGive,
                                     distance + 1 == world_size ? Completes::yes : Completes::no);
  }
  return builder.finish();
}

}  // namespace

Schedule reduce_scatter_direct(int rank, int world_size, int root) {
  Schedule schedule{Collective::reduce_scatter, Algorithm::direct, rank, world_size, root, {}};
  if (world_size == 1) schedule.programs.push_back(lone_rank_program(kWhole));
  for (int block = 0; world_size > 1 && block < world_size; ++block) {
    schedule.programs.push_back(block == rank ? owner_program(rank, world_size)
                                              : Builder(1).send(block, kWhole, kGive).finish());
  }
  return schedule;
}

Shape reduce_scatter_direct_shape(int world_size) {
  Shape shape = block_slices(world_size);
  shape.exchanges = world_size > 2;
  return shape;
}

CostTerms reduce_scatter_direct_cost(int world_size) {
  return {burst_steps(world_size), all_but_own(world_size), all_but_own(world_size),
          kBurstLinkUse};
}

}  // namespace nezha::schedule::algorithms
