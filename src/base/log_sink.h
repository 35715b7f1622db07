// Log lines for a program that has a log of its own.
//
// Contract: process-wide. The sink is called by whichever thread has something to say, the library's own
// included, with locks of the library held: it returns at once and calls nothing of the library. A line
// that is under way when the sink is replaced may still come to the old one.
#pragma once

#include "base/log.h"

namespace nezha::log {

// `rank` is -1 where a line belongs to none; `text` is without control characters, one line.
using Sink = void (*)(Level level, int rank, const char* subsystem, const char* text);

// While there is a sink, lines go to it instead of stderr; a log file that was named gets them,
// too. Null: lines go to stderr again.
void set_sink(Sink sink);

// Sets the function that warn_once calls in place of its own code: in a module the one of its host
// (base/module.h), so that a process warns once.
using WarnOnce = void (*)(const char* subsystem, const std::string& text);
void set_warn_once(WarnOnce host);

}  // namespace nezha::log
