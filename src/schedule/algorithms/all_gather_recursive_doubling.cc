// Recursive doubling all-gather: in stage k partners at distance 2^k swap all blocks that they have.
// log2(P) messages one after the other, every one of them a single run of blocks: for short blocks
// where P is a power of two (Thakur, Rabenseifner, Gropp 2005).
//
// Neighbours fold together, so a group of core ranks speaks for a run of ranks. Stage 0 folds the
// ranks beyond a power of two in, the last stage hands them the result.
#include "schedule/algorithms/algorithms.h"
#include "schedule/algorithms/block_runs.h"
#include "schedule/algorithms/folding.h"

namespace nezha::schedule::algorithms {
namespace {

Program exchange_program(const Folding& fold) {
  const Tag give{0};
  const int result = fold.stages() + 1;
  const Parts own = block_part(fold.rank);
  // A folded rank gets all blocks except its own: those behind it, round to those before it.
  const auto all_but = [&](int rank) {
    return block_run(rank + 1, fold.world_size - 1, fold.world_size);
  };
  Builder builder(static_cast<uint32_t>(fold.world_size));
  if (fold.folded()) {
    builder.send(fold.partner(), own, give);
    recv_run(builder, fold.partner(), result, all_but(fold.rank));
    return builder.copy(own).finish();
  }
  if (fold.paired()) builder.recv(fold.partner(), block_part(fold.partner()), give).copy(own);
  for (int stage = 0; stage < fold.stages(); ++stage) {
    const int distance = 1 << stage;
    const int first = fold.core_rank() & ~(distance - 1);
    const int peer = fold.rank_of(fold.core_rank() ^ distance);
    const int peer_first = first ^ distance;
    builder.next_round().send(peer, fold.ranks_of(first, first + distance), {stage + 1});
    builder.recv(peer, fold.ranks_of(peer_first, peer_first + distance), {stage + 1});
    if (stage == 0 && !fold.paired()) builder.copy(own);
  }
  builder.next_round();
  if (fold.paired()) send_run(builder, fold.partner(), result, all_but(fold.partner()));
  return builder.finish();
}

}  // namespace

Schedule all_gather_recursive_doubling(int rank, int world_size, int root) {
  Schedule schedule{Collective::all_gather, Algorithm::recursive_doubling, rank, world_size, root,
                    {}};
  schedule.programs.push_back(world_size == 1 ? lone_rank_program(block_part(0))
                                              : exchange_program({rank, world_size}));
  return schedule;
}

CostTerms all_gather_recursive_doubling_cost(int world_size) {
  const Folding fold{0, world_size};
  const double folds = fold.extra() > 0 ? 1 : 0;
  return {fold.stages() + (2 + kFurtherMessage) * folds, all_but_own(world_size) * (1 + folds), 0,
          kExchangeLinkUse};
}

}  // namespace nezha::schedule::algorithms
