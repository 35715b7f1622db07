// Rehearsal: a model of the engine that walks the schedules of all ranks through one operation with
// everything that may go wrong going wrong: messages overtake each other, are sent again from the
// live buffer after a rail died, arrive twice, arrive before their round or their chunk began, and
// find the credit used up. A seed decides what happens next. The verifier proves; the rehearsal
// tries to disprove the verifier, and the rules that the engine has to keep.
//
// Contract: pure, any thread; the same arguments give the same outcome. Schedules as for `verify`,
// which should have accepted them; a broken one still ends in a Status, never in a hang.
//
// The model: every rank opens chunks in order, at most `window` unfinished ones at a time. A round
// starts its steps together, takes private copies, and queues its sends; a send leaves when the
// pair has credit for it. Memory is that of an operation in place where that is allowed, the
// harder case, and a workspace per chunk. A chunk is finished when its rounds are over and its
// messages are delivered: then somebody else gets its workspace. When all are, the caller gets the
// memory back. Both scribble over it.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "schedule/schedule.h"

namespace nezha::schedule {

// What the engine promises. Tests switch one off at a time to see that the rehearsal notices.
struct EngineRules {
  // A message that was received before is dropped, not applied.
  bool drops_duplicates = true;
  // Credit comes back when a message was reduced or has landed in place, not when it arrived.
  bool credits_on_use = true;
  // A chunk, and with it the operation, is finished only when its messages have been delivered.
  bool retains_until_delivered = true;
  // Chunks are opened in order.
  bool admits_in_order = true;
};

struct RehearsalOptions {
  uint64_t seed = 0;
  uint32_t chunks_per_slice = 2;
  uint32_t window = 1;
  double credit = 1;          // per pair of ranks, in chunks
  double resend_chance = 0.1;  // of a message on its way to be sent once more
  EngineRules rules;
};

// `internal` with the reason when the ranks get stuck, a result is wrong, or a pair's scratch grows
// beyond its credit.
Status rehearse(std::span<const Schedule> ranks, const RehearsalOptions& options);

}  // namespace nezha::schedule
