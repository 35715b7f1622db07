// Memory: ranks of one host that carry out operations in its memory, and groups that share and leave it,
// in random orders of their steps.
//
// Contract: one function; pure except the memory itself. The same seed is the same history: ranks take
// turns in one thread, and one that another wakes goes on inside the step that woke it.
#pragma once

#include <cstdint>
#include <string>

namespace nezha::simulation {

// "" or what is wrong.
std::string run_memory(uint64_t seed);

}  // namespace nezha::simulation
