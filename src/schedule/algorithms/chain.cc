// Chain broadcast: every rank passes on to the next, counted from the root, and the last only keeps
// it. A chunk is passed on while the next one comes in, so a long message crosses every link only
// once: P-1 short delays, but the fewest bytes.
#include "schedule/algorithms/algorithms.h"
#include "schedule/builder.h"

namespace nezha::schedule::algorithms {
namespace {

constexpr Parts kWhole{0, 1};
constexpr Tag kPass{0, 0};

Program chain_program(int rank, int world_size, int root) {
  const int position = (rank - root + world_size) % world_size;
  Builder builder(1);
  if (position != 0) {
    builder.recv((rank + world_size - 1) % world_size, kWhole, kPass).next_round();
  }
  if (position != world_size - 1) builder.send((rank + 1) % world_size, kWhole, kPass);
  return builder.finish();
}

}  // namespace

Schedule chain(int rank, int world_size, int root) {
  Schedule schedule{Collective::broadcast, Algorithm::chain, rank, world_size, root, {}};
  schedule.programs.push_back(world_size == 1 ? lone_rank_program(kWhole)
                                              : chain_program(rank, world_size, root));
  return schedule;
}

CostTerms chain_cost(int world_size) {
  return {static_cast<double>(world_size - 1), world_size > 1 ? 1.0 : 0.0, 0};
}

}  // namespace nezha::schedule::algorithms
