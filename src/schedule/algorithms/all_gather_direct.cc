// Direct all-gather: everybody sends its block to everybody. One message's delay, but P-1 messages
// arrive at every rank at once: for short blocks and few ranks. Every rank begins with the one after
// it, so that nobody is everybody's first.
#include "schedule/algorithms/algorithms.h"
#include "schedule/builder.h"

namespace nezha::schedule::algorithms {
namespace {

constexpr Parts kWhole{0, 1};
constexpr Tag kGive{0, 0};

Program block_program(int rank, int world_size, int block) {
  Builder builder(1);
  if (rank != block) return builder.recv(block, kWhole, kGive).finish();
  for (int distance = 1; distance < world_size; ++distance) {
    builder.send((rank + distance) % world_size, kWhole, kGive);
  }
  return builder.copy(kWhole).finish();
}

}  // namespace

Schedule all_gather_direct(int rank, int world_size, int root) {
  Schedule schedule{Collective::all_gather, Algorithm::direct, rank, world_size, root, {}};
  for (int block = 0; block < world_size; ++block) {
    schedule.programs.push_back(block_program(rank, world_size, block));
  }
  return schedule;
}

CostTerms all_gather_direct_cost(int world_size) {
  return {burst_steps(world_size), all_but_own(world_size), 0, kBurstLinkUse};
}

}  // namespace nezha::schedule::algorithms
