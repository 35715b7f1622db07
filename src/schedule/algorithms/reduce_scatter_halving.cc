// Recursive halving reduce-scatter: partners at distance P/2, P/4 ... 1 each give the half of the
// blocks that the other side of the world owns, until every rank has its own block reduced: the
// first half of the halving-doubling all-reduce. log2(P) messages and as few bytes as a ring, for
// short vectors (Thakur, Rabenseifner, Gropp 2005).
//
// A rank may not keep the blocks that it gives away, so it adds in a workspace and keeps its block
// at the end. The first stage folds the ranks beyond a power of two in, the last hands them their
// blocks.
#include <vector>

#include "schedule/algorithms/algorithms.h"
#include "schedule/algorithms/block_runs.h"
#include "schedule/algorithms/folding.h"

namespace nezha::schedule::algorithms {
namespace {

Parts blocks_of(const Folding& fold, Parts core) {
  return fold.ranks_of(static_cast<int>(core.begin), static_cast<int>(core.end));
}

Program halving_program(const Folding& fold) {
  const Parts whole{0, static_cast<uint32_t>(fold.world_size)};
  const Tag give{0};
  const Tag result{fold.stages() + 1};
  if (fold.folded()) {
    Builder builder(whole.end);
    builder.send(fold.partner(), whole, give);
    return builder.recv(fold.partner(), block_part(fold.rank), result).finish();
  }
  Builder builder(whole.end, Memory::workspace);
  if (fold.paired()) {
    builder.recv_reduce(fold.partner(), whole, give, Completes::no, Operands::peer_first);
  }
  const std::vector<Halving> exchanges = halvings(fold);
  for (int stage = 0; stage < fold.stages(); ++stage) {
    const Halving& exchange = exchanges[stage];
    builder.next_round().send(exchange.peer, blocks_of(fold, exchange.give), {stage + 1});
    builder.recv_reduce(exchange.peer, blocks_of(fold, exchange.keep), {stage + 1},
                        stage + 1 == fold.stages() ? Completes::yes : Completes::no);
  }
  builder.next_round();
  if (fold.paired()) builder.send(fold.partner(), block_part(fold.partner()), result);
  return builder.keep(block_part(fold.rank)).finish();
}

}  // namespace

Schedule reduce_scatter_halving(int rank, int world_size, int root) {
  Schedule schedule{Collective::reduce_scatter, Algorithm::halving_doubling, rank, world_size, root,
                    {}};
  schedule.programs.push_back(world_size == 1 ? lone_rank_program(block_part(0))
                                              : halving_program({rank, world_size}));
  return schedule;
}

Shape reduce_scatter_halving_shape(int world_size) {
  Shape shape = block_parts(world_size);
  shape.exchanges = world_size > 2;
  return shape;
}

CostTerms reduce_scatter_halving_cost(int world_size) {
  const Folding fold{0, world_size};
  const double folds = fold.extra() > 0 ? 1 : 0;
  const double halves = all_but_own(fold.core_size());
  return {fold.stages() + 2 * folds, halves + folds, halves + folds, kExchangeLinkUse};
}

}  // namespace nezha::schedule::algorithms
