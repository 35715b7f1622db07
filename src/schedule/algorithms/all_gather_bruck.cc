// Bruck's all-gather: in stage k every rank sends the 2^k blocks that it has to the rank 2^k before
// it, and gets the next 2^k from the rank 2^k after it; the last stage moves what is missing.
// ceil(log2 P) messages one after the other for any P: for short blocks (Bruck et al. 1997).
//
// Blocks go straight to their place, so nothing is rotated at the end; a run of blocks that goes
// round the end of the world is two messages.
#include <algorithm>

#include "schedule/algorithms/algorithms.h"
#include "schedule/algorithms/binomial.h"
#include "schedule/algorithms/block_runs.h"

namespace nezha::schedule::algorithms {
namespace {

Program bruck_program(int rank, int world_size) {
  Builder builder(static_cast<uint32_t>(world_size));
  for (int stage = 0; 1 << stage < world_size; ++stage) {
    const int distance = 1 << stage;
    const int count = std::min(distance, world_size - distance);
    const int before = (rank - distance + world_size) % world_size;
    const int after = (rank + distance) % world_size;
    builder.next_round();
    send_run(builder, before, stage, block_run(rank, count, world_size));
    recv_run(builder, after, stage, block_run(after, count, world_size));
    if (stage == 0) builder.copy(block_part(rank));
  }
  return builder.finish();
}

}  // namespace

Schedule all_gather_bruck(int rank, int world_size, int root) {
  Schedule schedule{Collective::all_gather, Algorithm::bruck, rank, world_size, root, {}};
  schedule.programs.push_back(world_size == 1 ? lone_rank_program(block_part(0))
                                              : bruck_program(rank, world_size));
  return schedule;
}

CostTerms all_gather_bruck_cost(int world_size) {
  // From the second stage on somebody's run goes round the end.
  const double stages = Binomial::stage_count(world_size);
  return {stages + kFurtherMessage * std::max(0.0, stages - 1), all_but_own(world_size), 0,
          kExchangeLinkUse};
}

}  // namespace nezha::schedule::algorithms
