// How many seeds the simulation runs, and where it writes traces, from the command line of its binary.
//
// Contract: written by main before any test runs, read by tests.
#pragma once

#include <cstdint>
#include <string>

#include "support/form.h"

namespace nezha::simulation {

struct SeedRange {
  uint64_t first = 1;
  uint64_t count = testing::cases(150, 400);
};
SeedRange& seed_range();
std::string& trace_folder();  // "": none are written

}  // namespace nezha::simulation
