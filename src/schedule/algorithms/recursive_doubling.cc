// Recursive doubling all-reduce: in stage k every rank exchanges everything it has with the rank at
// distance 2^k and both reduce. log2(P) messages one after the other, the fewest possible, but
// every one carries the whole operation: for short messages (Thakur, Rabenseifner, Gropp 2005).
//
// Both sides of an exchange compute lower group (op) higher group, so that all end with the same
// bits. A rank overwrites what it is still sending as soon as the peer's half arrives, hence the
// private copies. Stage 0 folds the ranks beyond a power of two in, the last stage hands them the
// result.
#include "schedule/algorithms/algorithms.h"
#include "schedule/algorithms/folding.h"
#include "schedule/builder.h"

namespace nezha::schedule::algorithms {
namespace {

constexpr Parts kWhole{0, 1};

Program exchange_program(const Folding& fold) {
  const int stages = fold.stages();
  const Tag give{0};
  const Tag result{stages + 1};
  Builder builder(1);
  if (fold.folded()) {
    builder.send(fold.partner(), kWhole, give).recv(fold.partner(), kWhole, result);
    return builder.finish();
  }
  if (fold.paired()) {
    builder.recv_reduce(fold.partner(), kWhole, give, Completes::no, Operands::peer_first);
  }
  for (int stage = 0; stage < stages; ++stage) {
    const int other = fold.core_rank() ^ (1 << stage);
    const int peer = fold.rank_of(other);
    const Tag tag{stage + 1};
    builder.next_round();
    builder.send(peer, kWhole, tag, Source::copied);
    builder.recv_reduce(peer, kWhole, tag, stage + 1 == stages ? Completes::yes : Completes::no,
                        other < fold.core_rank() ? Operands::peer_first : Operands::own_first);
  }
  if (fold.paired()) builder.next_round().send(fold.partner(), kWhole, result);
  return builder.finish();
}

}  // namespace

Schedule recursive_doubling(int rank, int world_size, int root) {
  Schedule schedule{Collective::all_reduce, Algorithm::recursive_doubling, rank, world_size, root,
                    {}};
  schedule.programs.push_back(world_size == 1 ? lone_rank_program(kWhole)
                                              : exchange_program({rank, world_size}));
  return schedule;
}

Shape recursive_doubling_shape(int) {
  return {1, 1, true};
}

CostTerms recursive_doubling_cost(int world_size) {
  const Folding fold{0, world_size};
  const double stages = fold.stages();
  const double folds = fold.extra() > 0 ? 1 : 0;
  return {stages + 2 * folds, stages + folds, stages + folds, kExchangeLinkUse};
}

}  // namespace nezha::schedule::algorithms
