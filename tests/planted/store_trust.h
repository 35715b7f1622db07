// What ranks believe of a store, and whom a store believes, with somebody in between.
//
// Contract: one thread, which starts others and waits for them; the same seed is the same case.
#pragma once

#include <cstdint>
#include <string>

namespace nezha::simulation {

// "" or what is wrong.
std::string run_store_trust(uint64_t seed);

}  // namespace nezha::simulation
