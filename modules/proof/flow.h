// Flow: one slice of all ranks, run to its end in any possible order (all give the same), noting
// for every round what it causally follows and for every part what it holds. The evidence that
// verifier.h draws its conclusions from.
//
// Contract: one owner, one thread. `run` once; the rest is meaningful when it returned ok. Links,
// contract and table must outlive it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "proof/contract.h"
#include "proof/expression.h"
#include "proof/links.h"

namespace nezha::schedule {

// A vector clock: per rank, how much of its rounds has surely happened.
using Moment = std::vector<uint16_t>;

class Flow {
 public:
  Flow(const SliceLinks& links, const Contract& contract, ExpressionTable& table);

  // Runs every rank to its end, or says which rank cannot go on, or which step reads what is not
  // there.
  Status run();

  // The moment when a round has just started its steps, and the moment when a rank has done all its
  // rounds.
  const Moment& start_of(int rank, uint32_t round) const { return starts_[rank][round]; }
  const Moment& end_of(int rank) const { return now_[rank]; }
  static bool has_started(const Moment& moment, int rank, uint32_t round) {
    return moment[rank] >= 2 * round + 1;
  }
  static bool has_ended(const Moment& moment, int rank, uint32_t round) {
    return moment[rank] >= 2 * round + 2;
  }

  // The content of `part` of the output of `rank` in the end. If the part was never written, it is
  // `kNothing`, or the input where there is one buffer.
  Expression value(int rank, uint32_t part) const;
  // The step that wrote that part last; nowhere if none did.
  const Place& writer(int rank, uint32_t part) const { return writer_[rank][part]; }

 private:
  bool advance(int rank);
  void start_round(int rank);
  // The first receiving step of the round in progress whose sender has not come so far; nowhere: none.
  Place awaited(int rank) const;
  void end_round(int rank);
  void apply(const Place& place);
  void copy(const Place& place, uint32_t part);
  Expression operand(const Place& place, uint32_t part);
  Expression input(const Place& place, uint32_t part);
  // Where the step works: the output or the workspace.
  Expression& memory(const Place& place, uint32_t part);
  void fail(const Place& place, const char* sentence);

  const SliceLinks& links_;
  const Contract& contract_;
  ExpressionTable& table_;
  std::vector<std::vector<Moment>> starts_;                       // [rank][round]
  std::vector<Moment> now_;                                       // [rank]
  std::vector<uint32_t> round_;                                   // [rank] in progress
  std::vector<std::vector<Expression>> output_;                   // [rank][part]
  std::vector<std::vector<Expression>> workspace_;                // [rank][part]
  std::vector<std::vector<Place>> writer_;                        // [rank][part] of the output
  std::vector<std::vector<std::vector<Expression>>> payloads_;    // [rank][step]
  Status failure_;
};

}  // namespace nezha::schedule
