// Phases: ranks of one host that carry out phases of operations in its memory, with messages between
// hosts that come when they come, in random orders of their steps.
//
// Contract: as of run_memory (memory.h).
#pragma once

#include <cstdint>
#include <string>

namespace nezha::simulation {

// "" or what is wrong.
std::string run_phases(uint64_t seed);

}  // namespace nezha::simulation
