// How many seeds the simulation runs, from the command line of its binary.
//
// Contract: written by main before any test runs, read by tests.
#pragma once

#include <cstdint>

namespace nezha::simulation {

struct SeedRange {
  uint64_t first = 1;
  uint64_t count = 400;
};
SeedRange& seed_range();

}  // namespace nezha::simulation
