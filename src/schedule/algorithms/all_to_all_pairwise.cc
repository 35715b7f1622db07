// Pairwise all-to-all: slice d goes to the d-th rank after this one while that of the d-th rank
// before it comes in, so that in every slice each rank sends to one and hears from one. Slice 0 stays
// here. Every block crosses the network once, straight to its owner (Thakur, Rabenseifner, Gropp
// 2005).
//
// Slices do not wait for each other: within the plan's window all partners are served in turn, chunk by
// chunk, so that a slow one holds nobody up.
#include "schedule/algorithms/algorithms.h"
#include "schedule/builder.h"

namespace nezha::schedule::algorithms {
namespace {

constexpr Parts kWhole{0, 1};
constexpr Tag kGive{0, 0};

Schedule pairwise(Collective collective, int rank, int world_size, int root) {
  Schedule schedule{collective, Algorithm::pairwise, rank, world_size, root, {}};
  schedule.programs.push_back(lone_rank_program(kWhole));
  for (int distance = 1; distance < world_size; ++distance) {
    Builder builder(1);
    builder.send((rank + distance) % world_size, kWhole, kGive);
    builder.recv((rank - distance + world_size) % world_size, kWhole, kGive);
    schedule.programs.push_back(builder.finish());
  }
  return schedule;
}

}  // namespace

Schedule all_to_all_pairwise(int rank, int world_size, int root) {
  return pairwise(Collective::all_to_all, rank, world_size, root);
}

Schedule all_to_all_v_pairwise(int rank, int world_size, int root) {
  return pairwise(Collective::all_to_all_v, rank, world_size, root);
}

Shape all_to_all_pairwise_shape(int world_size) {
  return {static_cast<uint32_t>(world_size), 1, false, false, Geometry::pair_slices};
}

CostTerms all_to_all_pairwise_cost(int world_size) {
  return {burst_steps(world_size), all_but_own(world_size), 0};
}

}  // namespace nezha::schedule::algorithms
