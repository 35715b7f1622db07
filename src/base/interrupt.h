// Interrupt: how a thread that waits for other ranks can be called back before its deadline.
//
// Contract: a check belongs to the thread that sets it and is asked by that thread alone, a few times a
// second wherever it waits for others: for a job to form (stores, Bootstrap, connections), for operations
// (Communicator), for the end of a job (Context). Once it says yes, the thread's deadlines count as
// passed until another check, or none, is set. Without a check nothing is ever interrupted. No lock that
// other threads of the program may wait for is held while it is asked.
#pragma once

#include "base/clock.h"

namespace nezha {

using InterruptCheck = int (*)();  // non-zero: yes

// Waits of an interruptible thread are cut into pieces of this length.
inline constexpr Nanoseconds kInterruptLook = 100 * kMillisecond;

// nullptr: none.
void set_interrupt_check(InterruptCheck check);
bool interrupted();
// Where a wait until `deadline` has to end for the next look: at the deadline itself without a check, and
// now for a thread that was interrupted.
Nanoseconds end_of_piece(const Clock& clock, Nanoseconds deadline);

// In a module, whose threads set their checks in its host (base/module.h): who answers in place of the
// two functions above. Before any thread asks.
struct Interrupts {
  bool (*interrupted)();
  Nanoseconds (*end_of_piece)(const Clock& clock, Nanoseconds deadline);
};
void set_interrupts(const Interrupts& host);

}  // namespace nezha
