// Nemesis: faults that are aimed, each at one moment that random ones seldom meet, in a world in which
// missing it costs most.
//
// Contract: one thread; the same shape and seed are the same history.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace nezha::simulation {

struct NemesisReport {
  std::string wrong;  // "" when the run was as it must be
  bool struck = false;
};

struct Nemesis {
  const char* name;
  NemesisReport (*run)(uint64_t seed);
};
std::span<const Nemesis> nemeses();

}  // namespace nezha::simulation
