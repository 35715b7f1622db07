// Hierarchy: the schedules for hosts with several ranks, on hosts made at random, before the verifier.
//
// Contract: one function; pure.
#pragma once

#include <cstdint>
#include <string>

namespace nezha::simulation {

// "" or what is wrong.
std::string run_hierarchy(uint64_t seed);

}  // namespace nezha::simulation
