// How raw_fabric ends when it cannot go on. A thread of its own looks whether anything has completed, so
// that a wait in the side channel or inside libfabric ends as surely as a wait in our own loops.
#pragma once

#include <cstdint>
#include <string>

namespace nezha::bench {

// Once per process, after fork. `who` names side, provider and address in every message.
void start_watch(double timeout_s, const std::string& who);

// What is being done now, for the message: `total` things of the name `phase` (a literal).
void enter_phase(const char* phase, uint64_t total);

// Something completed: the clock of the watch begins anew.
void moved(uint64_t things = 1);

// Prints "raw_fabric: <who>: <message>" and ends the process with status 1. Runs no destructors: a
// provider whose peer is gone may wait for it while closing.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace nezha::bench
