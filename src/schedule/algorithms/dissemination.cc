// Dissemination barrier: in stage k every rank tells the rank 2^k after it and hears from the rank
// 2^k before it. After ceil(log2 P) stages everybody has heard, through others, from everybody
// (Hensgen, Finkel, Manber 1988). The messages carry no elements.
#include <bit>

#include "schedule/algorithms/algorithms.h"
#include "schedule/builder.h"

namespace nezha::schedule::algorithms {
namespace {

constexpr Parts kNothing{0, 0};

int stage_count(int world_size) { return std::bit_width(static_cast<unsigned>(world_size - 1)); }

}  // namespace

Schedule dissemination(int rank, int world_size, int root) {
  Schedule schedule{Collective::barrier, Algorithm::dissemination, rank, world_size, root, {}};
  if (world_size == 1) {
    schedule.programs.push_back(lone_rank_program(kNothing));
    return schedule;
  }
  Builder builder(1);
  for (int stage = 0; stage < stage_count(world_size); ++stage) {
    const int distance = 1 << stage;
    builder.next_round();
    builder.send((rank + distance) % world_size, kNothing, {stage});
    builder.recv((rank - distance + world_size) % world_size, kNothing, {stage});
  }
  schedule.programs.push_back(builder.finish());
  return schedule;
}

CostTerms dissemination_cost(int world_size) {
  return {static_cast<double>(stage_count(world_size)), 0, 0};
}

}  // namespace nezha::schedule::algorithms
