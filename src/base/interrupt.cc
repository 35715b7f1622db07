#include "base/interrupt.h"

#include <algorithm>

namespace nezha {
namespace {

struct State {
  InterruptCheck check = nullptr;
  bool interrupted = false;
  Nanoseconds next_look = 0;
};
thread_local State state;
constinit Interrupts elsewhere{};  // null: here

}  // namespace

void set_interrupt_check(InterruptCheck check) { state = {check, false, 0}; }

void set_interrupts(const Interrupts& host) { elsewhere = host; }

bool interrupted() {
  if (elsewhere.interrupted != nullptr) return elsewhere.interrupted();
  if (state.check == nullptr || state.interrupted) return state.interrupted;
  const Nanoseconds now = system_clock().now();
  // The check may be dear, and whoever waits asks before every look at its store.
  if (now < state.next_look) return false;
  state.next_look = now + kInterruptLook / 2;
  state.interrupted = state.check() != 0;
  return state.interrupted;
}

Nanoseconds end_of_piece(const Clock& clock, Nanoseconds deadline) {
  if (elsewhere.end_of_piece != nullptr) return elsewhere.end_of_piece(clock, deadline);
  if (state.check == nullptr) return deadline;
  return std::min(deadline, clock.now() + (state.interrupted ? 0 : kInterruptLook));
}

}  // namespace nezha
