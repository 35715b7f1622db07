// Verifier: proves that the schedules of all ranks together do what the collective promises, and
// says in a sentence which rank, round and step is wrong when they do not.
//
// Contract: pure, any thread. `ranks[i]` is rank i's schedule, up to 64 ranks. Nothing is assumed
// about the schedules; a broken one gives a Status of code `internal`. Where the schedules were
// read from a text (parser.h), `lines` has the lines of their steps, and every message about a step
// begins with its line.
//
// The proof covers buffers in place and out of place, any chunking, any rails. It shows:
//   matching    every send has exactly one receive with the same ranks, stage, slot and parts
//   progress    the rounds of all ranks can be ordered (no cycle), whatever the timing
//   result      every output that the collective promises (contract.h) holds the right rank's
//               block, or each contribution once, scaled by `avg` exactly once; an all-reduce adds
//               in the same order on every rank; barrier: every rank has heard from every rank
//   memory      no rank uses an input or output that its caller did not give, or reads an output or
//               workspace before it was written
//   re-send     a live source is overwritten only by an effect of its own delivery, so that it can
//               be sent again at any time until then
//   landing     a `recv` that lands as soon as its message arrives, before its round begins, finds
//               no earlier use of the range
//   credit      see Proof
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "proof/parser.h"
#include "schedule/schedule.h"

namespace nezha::schedule {

// The resources that the engine must provide for the schedules to finish. Amounts are fractions of
// a chunk.
struct Proof {
  // Every reduction can be applied when its message arrives, without waiting for another message:
  // then a credit always comes back and one message's worth of credit per pair is enough. Otherwise
  // a window of W chunks needs credit for W x `pair_load` per pair.
  bool consumes_on_arrival = true;
  // The most that one rank sends to one other within one chunk.
  double pair_load = 0;
  // The most that one rank sends to one other over a chunk of every slice, of which there are
  // `slices`.
  double pair_turn = 0;
  uint32_t slices = 1;
  // The most that one rank receives from one other into scratch within one chunk: with a window of
  // W the scratch of a pair holds at most W times this, and never more than its credit.
  double pair_scratch = 0;
  // The largest message.
  double largest_message = 0;
  uint32_t rounds = 0;  // of the longest program
};

Result<Proof> verify(std::span<const Schedule> ranks, const StepLines* lines = nullptr);

// The credit a pair needs, in chunks, for `window`: a rank opens chunk c when all its chunks up to
// c - window are finished, that is, their rounds are over and their messages delivered.
//
// Why it is enough: take the lowest chunk g that some rank has not finished. Every rank has opened
// it, and a rank that still owes a message of g has open only chunks below g + window, which its
// peers have open, too. If all reductions can be applied on arrival, everything it sent drains and
// the credit comes back. If not, all it may send fits into the credit: the window's chunks, of which
// those of one slice are `slices` apart. So every message of g is sent, and g finishes because its rounds
// have no cycle.
double credit_needed(const Proof& proof, uint32_t window);

}  // namespace nezha::schedule
