// Recursive halving and doubling all-reduce: partners at distance P/2, P/4 ... 1 each give the half
// of the range that the other keeps, until every rank owns one reduced part; the same exchanges in
// reverse order gather the result. As few bytes as a ring in 2 log2(P) messages: for middle sizes
// (Rabenseifner; Thakur, Rabenseifner, Gropp 2005, section 4.4).
//
// Only the owner of a part reduces it, so all ranks get the same bits. A part that a rank gave
// away comes back only as the result that includes it, so no private copies are needed. The first
// and the last stage fold in the ranks beyond a power of two.
#include <vector>

#include "schedule/algorithms/algorithms.h"
#include "schedule/algorithms/folding.h"
#include "schedule/builder.h"

namespace nezha::schedule::algorithms {
namespace {

Program exchange_program(const Folding& fold) {
  const auto parts = static_cast<uint32_t>(fold.core_size());
  const Parts whole{0, parts};
  const int stages = fold.stages();
  const Tag give{0};
  const Tag result{2 * stages + 1};
  Builder builder(parts);
  if (fold.folded()) {
    builder.send(fold.partner(), whole, give).recv(fold.partner(), whole, result);
    return builder.finish();
  }
  if (fold.paired()) {
    builder.recv_reduce(fold.partner(), whole, give, Completes::no, Operands::peer_first);
  }
  const std::vector<Halving> exchanges = halvings(fold);
  for (int stage = 0; stage < stages; ++stage) {
    const Halving& exchange = exchanges[stage];
    const Completes completes = stage + 1 == stages ? Completes::yes : Completes::no;
    builder.next_round().send(exchange.peer, exchange.give, {stage + 1});
    builder.recv_reduce(exchange.peer, exchange.keep, {stage + 1}, completes);
  }
  for (int stage = stages - 1; stage >= 0; --stage) {
    const Halving& exchange = exchanges[stage];
    const Tag tag{2 * stages - stage};
    builder.next_round().send(exchange.peer, exchange.keep, tag);
    builder.recv(exchange.peer, exchange.give, tag);
  }
  if (fold.paired()) builder.next_round().send(fold.partner(), whole, result);
  return builder.finish();
}

}  // namespace

Schedule halving_doubling(int rank, int world_size, int root) {
  Schedule schedule{Collective::all_reduce, Algorithm::halving_doubling, rank, world_size, root,
                    {}};
  schedule.programs.push_back(world_size == 1 ? lone_rank_program({0, 1})
                                              : exchange_program({rank, world_size}));
  return schedule;
}

Shape halving_doubling_shape(int world_size) {
  return {1, static_cast<uint32_t>(Folding{0, world_size}.core_size()), true};
}

CostTerms halving_doubling_cost(int world_size) {
  const Folding fold{0, world_size};
  const double core = fold.core_size();
  const double folds = fold.extra() > 0 ? 1 : 0;
  const double gathered = (core - 1) / core;
  return {2 * fold.stages() + 2 * folds, 2 * gathered + folds, gathered + folds, kExchangeLinkUse};
}

}  // namespace nezha::schedule::algorithms
