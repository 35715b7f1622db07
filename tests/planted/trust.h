// Trust: somebody who holds no key, or no right, tries what the handshake and the tickets of aggregation
// nodes have to refuse.
//
// Contract: one function; pure except for the system's random numbers, which decide nothing.
#pragma once

#include <cstdint>
#include <string>

namespace nezha::simulation {

// "" or what was let through, or refused though it is honest.
std::string run_trust(uint64_t seed);

}  // namespace nezha::simulation
