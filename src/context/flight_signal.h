// FlightSignal: the signal at which the contexts of a process write their flight dumps.
//
// Contract: process-wide, any thread. Once watched, a signal stays caught until the process ends, so that
// a late one does not kill it. The handler only marks a descriptor; a handler that was installed before
// is called, too. A forked child is not affected by its parent's contexts, and does not affect them.
#pragma once

#include <string_view>

#include "base/status.h"

namespace nezha::context {

// "SIGUSR1" or "SIGUSR2"; 0 for anything else.
int flight_signal_number(std::string_view name);

// A descriptor that becomes readable with every signal; never read and never closed, so it is to be
// watched edge-triggered. Errors: `exhausted`.
Result<int> watch_flight_signal(int number);

}  // namespace nezha::context
