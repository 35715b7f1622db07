// Interrupt: how a thread that waits for other ranks can be called back before its deadline.
//
// Contract: a check belongs to the thread that sets it and is asked by that thread alone, a few times a
// second while it waits for a job to form (stores, Bootstrap). Once it says yes, the thread's deadlines
// count as passed until another check, or none, is set. Without a check nothing is ever interrupted.
#pragma once

#include "base/clock.h"

namespace nezha {

using InterruptCheck = int (*)();  // non-zero: yes

// Waits of an interruptible thread are cut into pieces of this length.
inline constexpr Nanoseconds kInterruptLook = 100 * kMillisecond;

// nullptr: none.
void set_interrupt_check(InterruptCheck check);
bool interrupted();

}  // namespace nezha
