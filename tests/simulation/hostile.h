// Hostile: one authenticated rank whose frames are changed, doubled, dropped, mixed up and invented.
//
// Contract: plain values and one function; one thread. The checker asks that no honest rank ever hangs,
// touches memory it must not, or takes a result for right that is wrong. Frames that are sound in every
// field but carry another transfer's payload cannot be told from honest ones; a session in which such
// frames may occur (`moves_identity`) is not asked for right results.
#pragma once

#include "simulation/scenario.h"

namespace nezha::simulation {

struct HostileReport {
  std::string wrong;
  uint64_t tampered = 0;      // frames
  uint64_t results = 0;       // that were right although
  uint64_t errors = 0;
  bool moves_identity = false;
};

HostileReport run_hostile(uint64_t seed);

}  // namespace nezha::simulation
